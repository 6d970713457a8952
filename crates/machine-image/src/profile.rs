//! The sets of packages that come with the service, and an operator's list.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{ImageErrorContext, MachineImageError, describe_action};
use crate::name::PackageName;

/// The maximum number of packages that an image is built from by name; others come as their dependencies.
pub const PACKAGES_MAX: usize = 1000;
/// The largest file of packages, in bytes.
const FILE_MAX_BYTES: u64 = 256 * 1024;

/// A set of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageProfile {
    /// The essential packages of Debian: a shell, and the usual commands for files and text.
    Base,
    /// Python and small programs for searching, JSON and archives.
    Small,
    /// Programs to read and make documents: tables, PDF, text recognition, office formats.
    Full,
}

const SMALL: &[&str] = &["bzip2", "file", "jq", "python3", "ripgrep", "unzip", "xz-utils", "zip"];
const DOCUMENTS: &[&str] = &[
    "fonts-dejavu-core",
    "fonts-liberation2",
    "git",
    "libarchive-tools",
    "libreoffice-calc-nogui",
    "libreoffice-impress-nogui",
    "libreoffice-writer-nogui",
    "pandoc",
    "poppler-utils",
    "python3-bs4",
    "python3-docx",
    "python3-lxml",
    "python3-odf",
    "python3-openpyxl",
    "python3-pandas",
    "python3-pdfminer",
    "python3-pil",
    "python3-pypdf",
    "python3-reportlab",
    "python3-xlrd",
    "python3-xlsxwriter",
    "python3-yaml",
    "qpdf",
    "tesseract-ocr",
    "tesseract-ocr-ces",
    "tesseract-ocr-deu",
    "tesseract-ocr-eng",
    "tesseract-ocr-slk",
];

impl PackageProfile {
    /// Returns the name for operators.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Small => "small",
            Self::Full => "full",
        }
    }

    /// Returns the packages except the essential ones.
    pub fn package_names(self) -> impl Iterator<Item = &'static str> {
        let (small, documents): (&[_], &[_]) = match self {
            Self::Base => (&[], &[]),
            Self::Small => (SMALL, &[]),
            Self::Full => (SMALL, DOCUMENTS),
        };
        small.iter().chain(documents).copied()
    }

    /// Returns about how large the unpacked system is, in bytes.
    #[must_use]
    pub const fn approximate_bytes(self) -> u64 {
        match self {
            Self::Base => 150 << 20,
            Self::Small => 200 << 20,
            Self::Full => 1500 << 20,
        }
    }
}

/// Reads the names of packages from a file: one a line, `#` begins a comment.
///
/// # Errors
/// [`MachineImageError::Invalid`] with the line that is not a package.
pub fn read_packages_file(path: &Path) -> Result<Vec<PackageName>, MachineImageError> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| describe_action("opening", path))?;
    let read = file
        .take(FILE_MAX_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(|| describe_action("reading", path))?;
    if read as u64 > FILE_MAX_BYTES {
        return Err(MachineImageError::Invalid(format!(
            "{} is larger than {FILE_MAX_BYTES} bytes",
            path.display()
        )));
    }
    let mut packages = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if !name.is_empty() {
            let wrong =
                |error| MachineImageError::Invalid(format!("{}:{}: {error}", path.display(), index + 1));
            packages.push(name.parse().map_err(wrong)?);
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_name_packages_once() {
        let mut all: Vec<&str> = PackageProfile::Full.package_names().collect();
        assert!(all.iter().all(|name| name.parse::<PackageName>().is_ok()));
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(PackageProfile::Small.package_names().all(|name| all.contains(&name)));
    }

    #[test]
    fn package_file_is_read_by_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("packages");
        std::fs::write(&path, "# ours\njq\n\n  git # for history\n").expect("a file");
        let names: Vec<String> = read_packages_file(&path)
            .expect("packages")
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect();
        assert_eq!(names, ["jq", "git"]);
        std::fs::write(&path, "jq\nnot a package\n").expect("a file");
        let error = read_packages_file(&path).expect_err("refused").to_string();
        assert!(error.contains("packages:2: \"not a package\""), "{error}");
        std::fs::write(&path, vec![b'#'; 300 * 1024]).expect("a file");
        assert!(read_packages_file(&path).expect_err("refused").to_string().contains("larger than"));
    }
}
