//! The description of an image, stored as JSON beside it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The layout of the tree; a service refuses images of another.
pub(crate) const FORMAT: u32 = 1;

/// The description of one version of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The layout of the tree.
    pub format: u32,
    pub name: String,
    /// `sha256:` and the digest of the tree: of all names, kinds, modes, times and contents.
    pub digest: String,
    /// The time of the build, in seconds since 1970.
    pub created: u64,
    /// The name of the system in `/etc/os-release`.
    pub system: Option<String>,
    pub origin: ImageOrigin,
    /// The sum of the sizes of all files.
    pub bytes: u64,
    /// The number of files, folders and links.
    pub entries: u64,
    /// The same tree in one file, for virtual machines.
    pub erofs: Option<ErofsFile>,
    /// The versions of the programs that built it.
    pub tools: BTreeMap<String, String>,
    /// The entries of the source that are not in the tree, with the reasons; only the first ones.
    pub left_out: Vec<String>,
    /// The number of entries left out.
    pub left_out_count: u64,
    /// The packages of the image's package database, by name.
    pub packages: Vec<InstalledPackage>,
}

/// The source of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum ImageOrigin {
    Debian {
        profile: String,
        suite: String,
        /// The mirrors in use; empty for the suite's usual ones.
        mirrors: Vec<String>,
        /// The packages asked for, without their dependencies.
        requested: Vec<String>,
        /// The mode of mmdebstrap.
        mode: String,
    },
    Archive {
        /// The name of the file.
        file: String,
        /// The SHA-256 of the archive without its compression, in hexadecimal digits.
        sha256: String,
    },
}

/// The tree as one file with the file system EROFS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErofsFile {
    pub bytes: u64,
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledPackage {
    pub name: String,
    pub version: String,
    pub architecture: String,
}

/// Reads the installed packages from dpkg's database.
pub(crate) fn packages_of_dpkg(status: &str) -> Vec<InstalledPackage> {
    let mut packages: Vec<InstalledPackage> = status.split("\n\n").filter_map(package_of_paragraph).collect();
    packages.sort();
    packages
}

fn package_of_paragraph(paragraph: &str) -> Option<InstalledPackage> {
    let field = |name: &str| {
        let mut fields = paragraph.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(key, _)| *key == name).map(|(_, value)| value.trim().to_owned())
    };
    if !field("Status")?.ends_with(" installed") {
        return None;
    }
    Some(InstalledPackage {
        name: field("Package")?,
        version: field("Version")?,
        architecture: field("Architecture")?,
    })
}

/// Reads the installed packages from the database of Alpine's apk.
pub(crate) fn packages_of_apk(installed: &str) -> Vec<InstalledPackage> {
    let mut packages: Vec<InstalledPackage> = installed
        .split("\n\n")
        .filter_map(|paragraph| {
            let field =
                |name| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(ToOwned::to_owned);
            Some(InstalledPackage { name: field("P:")?, version: field("V:")?, architecture: field("A:")? })
        })
        .collect();
    packages.sort();
    packages
}

/// Reads the system's name from `/etc/os-release`.
pub(crate) fn system_name(os_release: &str) -> Option<String> {
    let named = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let name = named.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.chars().filter(|letter| !letter.is_control()).take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_that_are_installed() {
        let status = "Package: jq\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.6-2.1\nDescription: x\n \
                      Version: 9\n\nPackage: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n\n\
                      Package: dash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 0.5\n";
        let named: Vec<_> = packages_of_dpkg(status).into_iter().map(|one| (one.name, one.version)).collect();
        assert_eq!(named, [("dash".into(), "0.5".into()), ("jq".into(), "1.6-2.1".into())]);
        let apk = packages_of_apk("C:Q1\nP:musl\nV:1.2.5-r0\nA:x86_64\n\nP:busybox\nV:1.36\nA:x86_64\n");
        assert_eq!(apk[0].name, "busybox");
        assert_eq!((apk[1].version.as_str(), apk[1].architecture.as_str()), ("1.2.5-r0", "x86_64"));
    }

    #[test]
    fn system_name_is_terminal_safe() {
        let text = "NAME=x\nPRETTY_NAME=\"Debian \u{1b}[2JGNU\"\n";
        assert_eq!(system_name(text).as_deref(), Some("Debian [2JGNU"));
        assert_eq!(system_name("ID=x\n"), None);
    }
}
