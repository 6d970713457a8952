//! Names that come from an operator: of images, packages and suites.

use std::fmt;
use std::str::FromStr;

use crate::error::MachineImageError;

/// The longest name of an image, a package or a suite, in bytes.
const NAME_MAX_BYTES: usize = 100;
/// The length of a digest in hexadecimal digits.
pub(crate) const DIGEST_DIGITS: usize = 64;
/// The minimum number of digits that identify a version.
const DIGEST_DIGITS_MIN: usize = 6;
const DIGEST_PREFIX: &str = "sha256:";

/// The name of an image: lower-case letters, digits, `.`, `_` and `-`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageName(String);

/// A package of a Debian archive, with a version (`name=version`) or without.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackageName(String);

/// A suite of a Debian archive, such as `bookworm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite(String);

/// An image, or one version of it: `NAME` or `NAME@DIGEST`, where the digest may be shortened to six digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub name: ImageName,
    /// The first hexadecimal digits of the version's digest; `None` for the current version.
    pub digest: Option<String>,
}

impl ImageName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PackageName {
    /// Returns the name, with the version, if any.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Suite {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_valid_name(text: &str, others: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= NAME_MAX_BYTES
        && text.bytes().next().is_some_and(letter)
        && text.bytes().all(|byte| letter(byte) || others.as_bytes().contains(&byte))
}

impl FromStr for ImageName {
    type Err = MachineImageError;

    fn from_str(text: &str) -> Result<Self, MachineImageError> {
        if is_valid_name(text, "._-") {
            return Ok(Self(text.to_owned()));
        }
        Err(MachineImageError::Invalid(format!(
            "{text:?} is not the name of an image: expected lower-case letters, digits, `.`, `_` and `-`, at most \
             {NAME_MAX_BYTES}, beginning with a letter or digit"
        )))
    }
}

impl FromStr for PackageName {
    type Err = MachineImageError;

    fn from_str(text: &str) -> Result<Self, MachineImageError> {
        let (name, version) =
            text.split_once('=').map_or((text, None), |(name, version)| (name, Some(version)));
        let version_fits = version.is_none_or(|version| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b".+:~-".contains(&byte);
            !version.is_empty() && version.len() <= NAME_MAX_BYTES && version.bytes().all(known)
        });
        // A trailing `-` or `+` would tell apt to remove or install the package.
        if name.len() >= 2 && is_valid_name(name, "+.-") && !name.ends_with('-') && version_fits {
            return Ok(Self(text.to_owned()));
        }
        Err(MachineImageError::Invalid(format!(
            "{text:?} is not a Debian package: expected NAME or NAME=VERSION"
        )))
    }
}

impl FromStr for Suite {
    type Err = MachineImageError;

    fn from_str(text: &str) -> Result<Self, MachineImageError> {
        if is_valid_name(text, ".-") {
            return Ok(Self(text.to_owned()));
        }
        Err(MachineImageError::Invalid(format!(
            "{text:?} is not a Debian suite: expected a name such as bookworm"
        )))
    }
}

impl FromStr for Reference {
    type Err = MachineImageError;

    fn from_str(text: &str) -> Result<Self, MachineImageError> {
        let Some((name, digest)) = text.split_once('@') else {
            return Ok(Self { name: text.parse()?, digest: None });
        };
        let digits = digest.strip_prefix(DIGEST_PREFIX).unwrap_or(digest);
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if !(DIGEST_DIGITS_MIN..=DIGEST_DIGITS).contains(&digits.len()) || !digits.bytes().all(hexadecimal) {
            return Err(MachineImageError::Invalid(format!(
                "{digest:?} is not a digest: expected {DIGEST_DIGITS_MIN} to {DIGEST_DIGITS} hexadecimal digits"
            )));
        }
        Ok(Self { name: name.parse()?, digest: Some(digits.to_owned()) })
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.digest {
            Some(digest) => write!(f, "{}@{digest}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere() {
        for name in ["small", "full-2", "a.b_c"] {
            assert!(name.parse::<ImageName>().is_ok(), "{name}");
        }
        for name in ["", ".", "..", "../x", "a/b", "-x", ".hidden", "A", "ä", "a b", "a\n", &"x".repeat(101)]
        {
            assert!(name.parse::<ImageName>().is_err(), "{name}");
        }
    }

    #[test]
    fn packages_are_no_options() {
        for name in ["jq", "g++", "libstdc++6", "python3-lxml=4.9.2-1+b1", "a1=1:2~rc"] {
            assert!(name.parse::<PackageName>().is_ok(), "{name}");
        }
        for name in
            ["", "j", "-o", "--yes", "jq-", "jq,git", "jq git", "./x.deb", "jq=", "?essential", "~n.*"]
        {
            assert!(name.parse::<PackageName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_reference_may_name_a_version() {
        let reference: Reference = "small@sha256:0123456789ab".parse().expect("a reference");
        assert_eq!((reference.name.as_str(), reference.digest.as_deref()), ("small", Some("0123456789ab")));
        assert_eq!("small".parse::<Reference>().expect("a reference").digest, None);
        for text in ["small@", "small@01234", "small@../../x", "small@01234G", "@012345"] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
