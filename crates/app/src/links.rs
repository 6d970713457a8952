//! Links to files of the workspace, with the application's own paths.

use domain::citation::Place;

use crate::paths;

/// The prefix of the public interface's files.
const API_FILES: &str = "/api/v1/files";

/// Returns a file's name as it is shown. The embeddings, overrides and isolates of Unicode's bidirectional algorithm are
/// replaced: with them, a name shows an extension that it does not have.
pub(crate) fn shown_name(name: &str) -> String {
    name.replace(|letter| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'), "\u{fffd}")
}

/// Returns the name of the file at a workspace path, as it is shown.
pub(crate) fn name_of(path: &str) -> String {
    shown_name(last_of(path))
}

/// Returns the names of the files at different workspace paths, as they are shown. Files of one name have their folders
/// before it.
pub(crate) fn names_of(paths: &[&str]) -> Vec<String> {
    let is_shared = |path: &str| paths.iter().any(|other| *other != path && last_of(other) == last_of(path));
    let name =
        |path: &&str| if is_shared(path) { shown_name(path.trim_start_matches('/')) } else { name_of(path) };
    paths.iter().map(name).collect()
}

fn last_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the link to a file of the workspace.
pub(crate) fn file_href(path: &str) -> String {
    let place = Place::File { path: path.to_owned(), page: None, lines: None, page_name: None };
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
    fn names_show_the_extension_that_they_have() {
        assert_eq!(name_of("/uploads/invoice\u{202e}fdp.txt"), "invoice\u{fffd}fdp.txt");
        assert_eq!(name_of("/שלום\u{200f}.txt"), "שלום\u{200f}.txt", "marks that turn nothing stay");
    }

    #[test]
    fn links_to_files_lead_to_the_application() {
        assert_eq!(file_href("/uploads/a b.pdf"), "/files/uploads/a%20b.pdf");
        assert_eq!(own_href("https://example.org/api/v1/files/x"), "https://example.org/api/v1/files/x");
    }
}
