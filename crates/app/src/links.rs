//! Links to files of the workspace, with the application's own paths.

use domain::citation::PassagePlace;
pub(crate) use domain::shown_name::shown_name;

use crate::paths;

/// The prefix of the public interface's files.
const API_FILES: &str = "/api/v1/files";

/// Returns the displayed name of the file at a workspace path.
pub(crate) fn name_of(path: &str) -> String {
    shown_name(last_of(path))
}

/// Returns the displayed names of the files at different workspace paths. Files of one name are preceded by
/// their folders.
pub(crate) fn names_of(paths: &[&str]) -> Vec<String> {
    let is_shared = |path: &str| paths.iter().any(|other| *other != path && last_of(other) == last_of(path));
    let name =
        |path: &&str| if is_shared(path) { shown_name(path.trim_start_matches('/')) } else { name_of(path) };
    paths.iter().map(name).collect()
}

fn last_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The longest name that a page shows in one piece, in characters.
const UNDIVIDED_MAX_CHARS: usize = 20;
/// The shortest name that takes more than two lines on a phone, in characters.
const LONG_MIN_CHARS: usize = 64;
/// The longest extension, in bytes, without its dot.
const EXTENSION_MAX_BYTES: usize = 10;

/// A name in two parts. A page without room for both cuts the first.
pub(crate) struct DividedName<'a> {
    pub(crate) stem: &'a str,
    /// The extension with its dot. Empty if the name has none or is short.
    pub(crate) extension: &'a str,
    /// True if the name takes more than two lines on a phone.
    pub(crate) is_long: bool,
}

/// Divides a name, so that its extension is shown even if the name is cut.
pub(crate) fn divide(name: &str) -> DividedName<'_> {
    let length = name.chars().count();
    let dot = name.rfind('.').filter(|dot| {
        let extension = &name.as_bytes()[dot + 1..];
        let is_plain = extension.iter().all(u8::is_ascii_alphanumeric);
        *dot > 0 && is_plain && (1..=EXTENSION_MAX_BYTES).contains(&extension.len())
    });
    let (stem, extension) = match dot {
        Some(dot) if length > UNDIVIDED_MAX_CHARS => name.split_at(dot),
        _ => (name, ""),
    };
    DividedName { stem, extension, is_long: length >= LONG_MIN_CHARS }
}

/// Returns the link to a file of the workspace.
pub(crate) fn file_href(path: &str) -> String {
    let place = PassagePlace::File { path: path.to_owned(), page: None, lines: None, page_name: None };
    render::source_href(&place).map(|href| own_href(&href)).unwrap_or_default()
}

/// Returns the link to the page about a file.
pub(crate) fn view_href(path: &str) -> String {
    format!("{}?view", file_href(path))
}

/// Returns a link with the application's own path of files.
pub(crate) fn own_href(href: &str) -> String {
    href.strip_prefix(API_FILES).map_or_else(|| href.to_owned(), |path| format!("{}{path}", paths::FILES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_adds_distinct_folders() {
        let paths =
            ["/A/contract.pdf", "/B/contract.pdf", "/B/offer.pdf", "/A/contract.pdf", "/contract.pdf"];
        let names = ["A/contract.pdf", "B/contract.pdf", "offer.pdf", "A/contract.pdf", "contract.pdf"];
        assert_eq!(names_of(&paths), names);
        assert_eq!(names_of(&["/A/contract.pdf", "/A/contract.pdf"]), ["contract.pdf", "contract.pdf"]);
    }

    #[test]
    fn shown_name_keeps_real_extension() {
        assert_eq!(name_of("/uploads/invoice\u{202e}fdp.txt"), "invoice\u{fffd}fdp.txt");
        assert_eq!(name_of("/uploads/ \u{200b}"), "\u{2423}\u{2423}", "it can be clicked");
        assert_eq!(name_of("/uploads/a.txt "), "a.txt\u{2423}", "it is another file than a.txt");
    }

    #[test]
    fn divide_splits_long_name_at_extension() {
        let parts = |name| {
            let divided = divide(name);
            (divided.stem, divided.extension)
        };
        assert_eq!(parts("lease.pdf"), ("lease.pdf", ""), "it is short");
        assert_eq!(parts("lease of the flat, 2026.pdf"), ("lease of the flat, 2026", ".pdf"));
        assert_eq!(parts("smlouva o pronájmu bytu.tar.gz"), ("smlouva o pronájmu bytu.tar", ".gz"));
        for name in [
            "minutes of the meeting of 3. 5. 2026",
            "a name without any extension",
            ".a-hidden-file-without-extension",
            "a name that ends with a dot.",
            "a dot and then a long.specification",
            "a dot before an accent.\u{301}pdf",
        ] {
            assert_eq!(parts(name), (name, ""));
        }
        assert!(divide(&"a".repeat(64)).is_long && !divide(&"á".repeat(63)).is_long);
    }

    #[test]
    fn own_href_leads_to_application() {
        assert_eq!(file_href("/uploads/a b.pdf"), "/files/uploads/a%20b.pdf");
        assert_eq!(own_href("https://example.org/api/v1/files/x"), "https://example.org/api/v1/files/x");
    }
}
