//! Links to files of the workspace, with the application's own paths.

use domain::citation::Place;

use crate::paths;

/// The prefix of the public interface's files.
const API_FILES: &str = "/api/v1/files";

/// Returns the name of the file at a workspace path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
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
    fn links_to_files_lead_to_the_application() {
        assert_eq!(file_href("/uploads/a b.pdf"), "/files/uploads/a%20b.pdf");
        assert_eq!(own_href("https://example.org/api/v1/files/x"), "https://example.org/api/v1/files/x");
    }
}
