//! The error codes that the tests assert, found in their sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Documented answers that no case meets, with the reason. An empty path matches any; a success has no code.
pub const NOT_MET: &[(&str, u16, &str, &str)] = &[
    (
        "/api/v1/chats/{chatId}/messages/{messageId}/calls/{callId}",
        200,
        "",
        "the built-in reader calls no functions; the tests of pauses in `suite` reply to a model that does",
    ),
    ("/api/v1/files", 408, "TOO_SLOW", "a minute of silence; the tests of `http-common` simulate it"),
    ("", 409, "TOO_MANY_ENTRIES", "a hundred thousand files; the tests of `workspace` make them"),
    ("", 403, "FORBIDDEN", "met where a caller can cause it, by deleting the home folder"),
];

/// Returns the sources of tests in these folders, which are relative to this package.
///
/// # Panics
/// Panics if a folder cannot be read.
#[must_use]
pub fn test_sources(folders: &[&str]) -> Vec<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(package.join(folder)).expect("a folder of the tests"))
        .map(|file| file.expect("a file").path())
        .filter(|path| path.is_file());
    files.map(|path| fs::read_to_string(path).expect("a source")).collect()
}

/// Returns the status and code of every `expect_code` in the sources.
#[must_use]
pub fn expected_codes(sources: &[String]) -> BTreeSet<(u16, String)> {
    let mut found = BTreeSet::new();
    for source in sources {
        for call in source.split("expect_code(").skip(1) {
            let mut arguments = call.splitn(3, [',', ')']);
            let (Some(status), Some(code)) = (arguments.next(), arguments.next()) else {
                continue;
            };
            if let Ok(status) = status.trim().parse() {
                found.insert((status, code.trim().trim_matches('"').to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_codes_are_found_across_lines() {
        let source = "a.expect_code(404, \"NOT_FOUND\");\nb.expect_code(\n  409,\n \"NO_MACHINE\",\n);\nexpect_code(status, code)";
        let wanted = [(404, "NOT_FOUND".to_owned()), (409, "NO_MACHINE".to_owned())];
        assert_eq!(expected_codes(&[source.to_owned()]), BTreeSet::from(wanted));
    }
}
