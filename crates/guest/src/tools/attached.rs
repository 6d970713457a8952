//! Presents the files attached to a question: small files as numbered passages, images as images, others by name
//! only.
//!
//! Models do not call this: the host runs it before the first step. A problem with a file never fails the call; it
//! becomes one line of the result.

use std::path::Component;
use std::time::{Duration, Instant};

use documents::ExtractBounds;
use documents::passages::{DocumentPassage, split_passages};
use domain::unread::{UnreadFile, UnreadReason};
use protocol::tool::{
    ATTACHED_MAX_BYTES, AttachedArguments, FoundUnread, IMAGES_MAX, OUTPUT_PASSAGES_MAX, ToolOutput,
};

use super::PIECE_MAX_BYTES;
use super::jail::Jail;
use super::path::{display_path, parse_path, plain_line};
use super::read::{describe_extent, found_passage};
use super::shown_image::{ShownImage, ShownImageError, shown_image};

/// The timeout of reading the pages of one document.
const READ_TIME_MAX: Duration = Duration::from_secs(10);

/// Describes each file in one line. The agent requests one file at a time.
pub(crate) fn describe_attached(jail: &Jail, arguments: &AttachedArguments) -> Result<ToolOutput, String> {
    let mut room = arguments.text_max_bytes.min(ATTACHED_MAX_BYTES);
    let mut output = ToolOutput::default();
    for path in arguments.paths.iter().take(domain::limits::ATTACHMENTS_MAX) {
        let line = describe_file(jail, path, &mut room, &mut output);
        output.text.push_str("\n- ");
        output.text.push_str(&line);
    }
    Ok(output)
}

/// Returns the attached files that no longer exist.
pub(super) fn missing_attached(jail: &Jail, attached: &[String]) -> Vec<UnreadFile> {
    let paths = attached.iter().take(domain::limits::ATTACHMENTS_MAX);
    let gone = paths.filter(|path| jail.open_file(path).is_err() && jail.open_folder(path).is_err());
    gone.filter_map(|path| gone_file(path)).collect()
}

/// Returns the missing file at a path, if the path is in the workspace.
fn gone_file(path: &str) -> Option<UnreadFile> {
    let parsed = parse_path(path).ok()?;
    let is_outside = parsed.components().any(|name| name == Component::ParentDir);
    (!is_outside).then(|| UnreadFile { path: display_path(&parsed), reason: UnreadReason::Missing })
}

/// Adds the content of a file if it fits, and returns its description.
fn describe_file(jail: &Jail, path: &str, room: &mut usize, output: &mut ToolOutput) -> String {
    if jail.open_folder(path).is_ok() {
        return format!("{}: a folder; look into it with list, find and search", plain_line(path));
    }
    let Ok((path, file)) = jail.open_file(path) else {
        output.unread.extend(gone_file(path).as_ref().map(FoundUnread::from));
        return format!("{}: no longer exists", plain_line(path));
    };
    let mut unread = |path: &str, reason| {
        output.unread.push(FoundUnread::from(&UnreadFile { path: path.to_owned(), reason }));
    };
    let name = display_path(&path);
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    match shown_image(&name, &file) {
        Some(Ok(ShownImage { description, .. })) if output.images.len() >= IMAGES_MAX => {
            return format!("{name}: {description}; not shown, there are too many");
        }
        Some(Ok(ShownImage { image, description })) => {
            output.images.push(image);
            return format!("{name}: {description}");
        }
        Some(Err(ShownImageError { reason, why })) => {
            unread(&name, reason);
            return format!("{name}: {why}");
        }
        None => {}
    }
    // Reads only the part that fits, within the timeout of one file.
    let bounds = ExtractBounds {
        text_max_bytes: *room + 1,
        until: Some(Instant::now() + READ_TIME_MAX),
        may_cut: true,
        ..ExtractBounds::default()
    };
    let document = match jail.extract_text(&path, file, &bounds) {
        Ok(document) => document,
        Err(error) => {
            unread(&name, error.unread_reason());
            return format!("{name}: {bytes} bytes; {}", plain_line(&error.to_string()));
        }
    };
    let extent = describe_extent(document.format, document.pages, document.lines);
    let about = format!("{name}: {}, {bytes} bytes{extent}", document.format.name());
    let pieces = split_passages(&document, PIECE_MAX_BYTES);
    let text: usize = pieces.iter().map(DocumentPassage::shown_bytes).sum();
    let is_whole = !document.truncated && document.span.is_none_or(|span| span.last >= span.of);
    if pieces.is_empty() && is_whole {
        if bytes > 0 {
            unread(&name, UnreadReason::NoText);
        }
        return format!("{about}; holds no text");
    }
    if !document.unread_files.is_empty() {
        unread(&name, UnreadReason::InnerFiles);
    }
    if !is_whole || text > *room || output.passages.len() + pieces.len() > OUTPUT_PASSAGES_MAX {
        return format!("{about}; too long to show here: use search and read");
    }
    if !document.cut_pages.is_empty() {
        unread(&name, UnreadReason::Long);
    }
    if !document.scans.is_empty() {
        unread(&name, UnreadReason::ScannedPages);
    }
    if !document.images.is_empty() {
        // The agent knows whether they were read since.
        unread(&name, UnreadReason::Indexing);
    } else if !document.unread_images.is_empty() {
        unread(&name, UnreadReason::Images(document.unread_images));
    }
    *room -= text;
    output.passages.extend(pieces.into_iter().map(|piece| found_passage(&path, piece)));
    if !document.cut_pages.is_empty() {
        let pages = document.cut_pages.len();
        return format!(
            "{about}; below, except text of {pages} of its pages, which exceed the limit for one page"
        );
    }
    match document.images.len() {
        0 => format!("{about}; whole below"),
        images => {
            format!("{about}; whole below, but for the text in its images ({images}), which search finds")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached_files(files: &[(&str, Vec<u8>)], text_max_bytes: usize) -> ToolOutput {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let jail = Jail::open_workspace(folder.path()).unwrap();
        let mut paths: Vec<String> = files.iter().map(|(name, _)| format!("/{name}")).collect();
        paths.extend(["/folder".to_owned(), "/gone".to_owned(), "/../etc/passwd".to_owned()]);
        describe_attached(&jail, &AttachedArguments { paths, text_max_bytes }).unwrap()
    }

    fn png_square(side: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend([side.to_be_bytes(), 7_u32.to_be_bytes()].concat());
        bytes
    }

    #[test]
    fn describe_attached_gives_small_files_whole() {
        let files = [
            ("small.txt", b"Rent is due on the fifth.".to_vec()),
            ("large.txt", "Nothing of note. ".repeat(400).into_bytes()),
            ("a.png", png_square(9)),
            ("wide.png", png_square(9000)),
            ("wide.gif", [&b"GIF89a"[..], &9000_u16.to_le_bytes(), &[7, 0]].concat()),
            ("odd.bin", vec![0xff, 0, 1, 2]),
            ("later.txt", b"Keys are returned on the last day.".to_vec()),
        ];
        let output = attached_files(&files, 1000);
        let texts: Vec<_> = output.passages.iter().map(|passage| (&*passage.path, &*passage.text)).collect();
        assert_eq!(
            texts,
            [
                ("/small.txt", "Rent is due on the fifth."),
                ("/later.txt", "Keys are returned on the last day.")
            ]
        );
        assert_eq!(output.images.len(), 1);
        assert_eq!((&*output.images[0].path, &*output.images[0].mime), ("/a.png", "image/png"));
        for line in [
            "/small.txt: text, 25 bytes, 1 line; whole below",
            "/large.txt: text, 6800 bytes, 1 line; too long to show here: use search and read",
            "/a.png: image/png, 9 x 7 pixels",
            "/wide.png: an image that can't be shown",
            "/wide.gif: an image that can't be shown: it is larger than models accept",
            "/odd.bin: 4 bytes; the file is binary",
            "/folder: a folder",
            "/gone: no longer exists",
            "/../etc/passwd: no longer exists",
        ] {
            assert!(output.text.contains(line), "{line}: {}", output.text);
        }
        let unread: Vec<_> =
            output.unread.iter().map(|unread| (unread.path.as_str(), unread.reason.as_str())).collect();
        let missing = [("/gone", "missing")];
        let known = [("/wide.png", "broken"), ("/wide.gif", "too_large"), ("/odd.bin", "unknown_form")];
        assert_eq!(unread, [&known[..], &missing].concat());
        assert!(attached_files(&files, 0).passages.is_empty());
    }

    #[test]
    fn describe_attached_leaves_images_to_index() {
        let content = include_bytes!("../../../documents/tests/fixtures/pictured.docx").to_vec();
        let output = attached_files(&[("pictured.docx", content)], 1000);
        assert!(output.text.contains("whole below, but for the text in its images (1)"), "{}", output.text);
        assert!(output.unread.iter().any(|file| file.path == "/pictured.docx" && file.reason == "indexing"));
        assert!(output.passages[0].text.contains("Elm Street"), "{:?}", output.passages);
    }

    #[test]
    fn describe_attached_stays_within_bounds() {
        let files: Vec<_> =
            (0..60).map(|n| (format!("{n}.txt"), "Line.\n\n".repeat(1500).into_bytes())).collect();
        let files: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), content.clone())).collect();
        let output = attached_files(&files, usize::MAX);
        let bytes: usize = output.passages.iter().map(|passage| passage.text.len()).sum();
        assert!(output.passages.len() <= OUTPUT_PASSAGES_MAX && bytes <= ATTACHED_MAX_BYTES);
        assert!(output.passages.len() > OUTPUT_PASSAGES_MAX / 2, "{}", output.passages.len());
        let frame = protocol::session::output_in(output);
        assert!(frame.is_ok(), "{frame:?}");
    }
}
