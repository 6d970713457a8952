//! Recognizes the text of scanned pages and of images, with the machine's `tesseract`, in a process confined like a
//! command of the shell.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use documents::passages::{DocumentPassage, split_passages};
use documents::{
    EmbeddedImage, INPUT_MAX_BYTES, ImageFile, KeptFiles, recognizable_image, recognized_document,
    render_scan, without_signatures,
};
use search_index::{FileStamp, FoundFile};
use serde::{Deserialize, Serialize};

use super::jail::Jail;
use super::recognized_words;
use super::supervise::PATH;
use super::unpack;

/// The maximum number of bytes of text that are kept of a page or image.
const TEXT_MAX_BYTES: u64 = 512 * 1024;
/// The longest list of languages.
const LANGUAGES_MAX_BYTES: u64 = 16 * 1024;
/// The maximum number of pages of one image file.
const IMAGE_PAGES_MAX: usize = 500;
const TESSERACT: &str = "tesseract";

/// The recognized text of a page, or of an image.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Recognized {
    pub(crate) pieces: Vec<DocumentPassage>,
    /// The text as a whole, to detect its language.
    pub(crate) text: String,
    /// The number of pages of an image file.
    pub(crate) pages: u32,
}

/// Returns true if the machine has the program.
pub(super) fn is_installed() -> bool {
    PATH.split(':').any(|folder| Path::new(folder).join(TESSERACT).is_file())
}

/// Returns the languages that are installed, by their codes.
pub(super) fn list_languages() -> Result<Vec<String>, String> {
    let out = run_tesseract(&["--list-langs"], &[], LANGUAGES_MAX_BYTES)?;
    let is_language = |line: &&str| {
        line.len() >= 3
            && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && *line != "osd"
    };
    Ok(out.lines().map(str::trim).filter(is_language).map(str::to_owned).collect())
}

/// Recognizes the text of a page of a PDF, or of an image if no page is given.
pub(super) fn recognize_text(
    jail: &Jail,
    path: &str,
    page: Option<u32>,
    languages: &str,
) -> Result<Recognized, String> {
    let bytes = read_content(jail, path)?;
    let (image, dpi) = match page {
        Some(page) => render_scan(&bytes, page).ok_or("the page cannot be rendered")?,
        None => {
            if ImageFile::from_bytes(&bytes).is_some_and(|image| image.is_too_large()) {
                return Err("the image has too many pixels".to_owned());
            }
            (recognizable_image(bytes).ok_or("the image cannot be decoded")?, 0)
        }
    };
    let resolution = dpi.to_string();
    // Its mode 1 turns a page that is sideways or upside down.
    let mut arguments = vec!["stdin", "stdout", "-l", languages, "--psm", "1"];
    if dpi > 0 {
        arguments.extend(["--dpi", &resolution]);
    }
    let text = run_tesseract(&arguments, &image, TEXT_MAX_BYTES)?;
    drop(image);
    // A form feed follows each page of an image file.
    let text = text.trim_end_matches('\u{c}');
    let texts: Vec<&str> = match page {
        Some(_) => vec![text],
        None => text.split('\u{c}').take(IMAGE_PAGES_MAX).collect(),
    };
    let first = page.unwrap_or(1);
    let mut pieces = Vec::new();
    for (number, text) in (first..).zip(&texts) {
        if let Some(document) = recognized_document(number, text) {
            pieces.extend(split_passages(&document, search_index::PIECE_MAX_BYTES));
        }
    }
    let pages = u32::try_from(texts.len()).unwrap_or(u32::MAX);
    Ok(Recognized { pieces, text: text.to_owned(), pages })
}

/// The files that a worker caches of the document in which it last recognized an image.
#[derive(Default)]
pub(crate) struct Kept {
    /// The path and the state of the document.
    document: Option<(String, FileStamp)>,
    files: KeptFiles,
}

impl Kept {
    /// Returns the cached files of a document; none if it is another one or has changed.
    fn files_for(&mut self, found: FoundFile) -> &mut KeptFiles {
        let document = Some((found.path, found.stamp));
        if self.document != document {
            *self = Self { document, files: KeptFiles::default() };
        }
        &mut self.files
    }
}

/// Recognizes the text of an image inside a document. Its pieces have no places. `following` are the parts of the images that
/// will be requested next.
pub(super) fn recognize_image(
    jail: &Jail,
    kept: &mut Kept,
    path: &str,
    image: &EmbeddedImage,
    following: &[String],
    languages: &str,
) -> Result<Recognized, String> {
    let (is_page, is_whole) = (image.is_scanned_page(), image.is_whole_of_inner());
    let found = jail.find_file(path).ok_or("the document no longer exists")?;
    let document = || match unpack::open_foreign(jail, path) {
        Some((format, file)) => unpack::unpack_archive(format, file)
            .map(|unpacked| unpacked.tar)
            .map_err(|error| error.to_string()),
        None => read_content(jail, path),
    };
    let image = kept.files_for(found).find_image(image, following, document)?;
    let (image, dpi) = image.ok_or("the image cannot be read")?;
    let resolution = dpi.map(|dpi| dpi.to_string());
    // Its mode 3 finds the blocks of text, for images that are upright; mode 1 turns others.
    let mut arguments = vec!["stdin", "stdout", "-l", languages, "--psm", if is_whole { "1" } else { "3" }];
    arguments.extend(resolution.iter().flat_map(|resolution| ["--dpi", resolution]));
    // A scanned page has text, other images may have none.
    let text = if is_page {
        run_tesseract(&arguments, &image, TEXT_MAX_BYTES)?.trim_end_matches('\u{c}').to_owned()
    } else {
        arguments.extend(["-c", "tessedit_create_tsv=1"]);
        recognized_words::text_from_table(&run_tesseract(&arguments, &image, TEXT_MAX_BYTES)?)
    };
    let document = recognized_document(1, &text);
    let pieces = document.map(|document| split_passages(&document, search_index::PIECE_MAX_BYTES));
    Ok(Recognized { pieces: pieces.unwrap_or_default(), text, pages: 1 })
}

fn read_content(jail: &Jail, path: &str) -> Result<Vec<u8>, String> {
    let (_, file) = jail.open_file(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(INPUT_MAX_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(without_signatures(bytes))
}

/// Runs the program with this input and returns the beginning of its output.
fn run_tesseract(arguments: &[&str], input: &[u8], output_max_bytes: u64) -> Result<String, String> {
    let mut command = Command::new(TESSERACT);
    command.args(arguments).env_clear().env("PATH", PATH).env("OMP_THREAD_LIMIT", "1").current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child =
        command.spawn().map_err(|error| format!("text recognition cannot be started: {error}"))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("text recognition has no pipes".to_owned());
    };
    // It reads all of its input before it writes.
    let _ = stdin.write_all(input);
    drop(stdin);
    let mut out = Vec::new();
    let read = stdout.take(output_max_bytes).read_to_end(&mut out);
    // Output beyond the limit is not waited for.
    if out.len() as u64 >= output_max_bytes {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    read.map_err(|error| error.to_string())?;
    if !status.success() && out.is_empty() {
        return Err("text recognition failed".to_owned());
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}
