//! Links to files of the workspace, with the application's own paths.

use domain::citation::Place;

use crate::paths;

/// The prefix of the public interface's files.
const API_FILES: &str = "/api/v1/files";

/// Returns the name of the file at a workspace path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the names of the files at different workspace paths. Files of one name have their folders before it.
pub(crate) fn names_of<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    let is_shared = |path: &str| paths.iter().any(|other| *other != path && name_of(other) == name_of(path));
    let name = |path: &&'a str| if is_shared(path) { path.trim_start_matches('/') } else { name_of(path) };
    paths.iter().map(name).collect()
}

/// Returns the link to a file of the workspace.
pub(crate) fn file_href(path: &str) -> String {
    let place = Place::File { path: path.to_owned(), page: None, lines: None };
    render::href(&place).map(|href| own_href(&href)).unwrap_or_default()
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
    fn files_of_one_name_are_named_with_their_folders() {
        let paths =
            ["/A/contract.pdf", "/B/contract.pdf", "/B/offer.pdf", "/A/contract.pdf", "/contract.pdf"];
        let names = ["A/contract.pdf", "B/contract.pdf", "offer.pdf", "A/contract.pdf", "contract.pdf"];
        assert_eq!(names_of(&paths), names);
        assert_eq!(names_of(&["/A/contract.pdf", "/A/contract.pdf"]), ["contract.pdf", "contract.pdf"]);
    }

    #[test]
    fn links_to_files_lead_to_the_application() {
        assert_eq!(file_href("/uploads/a b.pdf"), "/files/uploads/a%20b.pdf");
        assert_eq!(own_href("https://example.org/api/v1/files/x"), "https://example.org/api/v1/files/x");
    }
}
