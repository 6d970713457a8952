//! Says which documents a new version of the readers reads again.

/// The version of the readers: documents that failed with another version are read again.
pub const READER_VERSION: i64 = 15;
/// The versions since which files of some extensions are read in another way, in ascending order: those that an earlier version
/// has read are read again, too.
const CHANGED_READERS: &[(i64, &[&str])] = &[
    (6, &["docx", "docm", "xlsx", "xlsm", "xls", "pptx", "pptm", "odt", "ods", "odp", "mht", "mhtml"]),
    (7, &["eml", "msg", "mbox", "zip", "asice", "asics", "sce", "scs", "bdoc"]),
    (9, &["pages", "numbers", "key", "fodt", "fods", "fodp", "fodg", "vsdx", "vsdm", "xps", "oxps"]),
    (10, &["emlx"]),
    (11, &["fb2", "mobi", "azw", "azw3", "prc", "pdb", "ipynb"]),
    (12, &["pdf", "docx", "docm", "xlsx", "xlsm", "xls", "ods", "csv", "tsv"]),
    (
        13,
        &[
            "eml", "emlx", "msg", "mbox", "mht", "mhtml", "pst", "p7m", "docx", "docm", "doc", "xlsx",
            "xlsm", "xlsb", "xls", "pptx", "pptm", "rtf", "csv", "tsv", "xml", "zip",
        ],
    ),
    (
        14,
        &[
            "xlsx", "xlsm", "xlsb", "xls", "ods", "fods", "numbers", "csv", "tsv", "xml", "zip", "html",
            "htm", "xhtml", "pdf", "docx", "docm", "doc", "odt", "odg", "fodt", "rtf", "pptx", "pptm", "odp",
            "fodp", "epub", "eml", "emlx", "msg", "mbox", "mht", "mhtml",
        ],
    ),
    (
        15,
        &[
            "xlsx", "xlsm", "xlsb", "xls", "ods", "fods", "numbers", "csv", "tsv", "xml", "zip", "pdf",
            "docx", "docm", "doc", "odt", "fodt", "rtf", "html", "htm", "xhtml", "eml", "emlx", "msg",
            "mbox",
        ],
    ),
];

/// Returns the version since which a file of this name is read as it is now.
pub fn reader_of(path: &str) -> i64 {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let Some(extension) = extension else { return 0 };
    let changed = CHANGED_READERS.iter().filter(|(_, extensions)| extensions.contains(&extension.as_str()));
    changed.map(|(version, _)| *version).max().unwrap_or(0)
}
