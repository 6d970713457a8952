//! Text recognition from the agent's side: the available languages, and the pages of a document one after another.

use std::sync::Arc;
use std::time::Duration;

use documents::PageRange;
use documents::passages::DocumentPassage;
use domain::unread::{UnreadImage, UnreadReason};
use search_index::{ExtractionProblem, PassageBatch, PendingImage};
use text_analysis::{TextLanguage, detect_language};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::ToolLimits;
use super::child::{WorkerAnswer, ask_worker};
use super::readers;
use super::recognize::{self, Recognized};
use super::request::ChildTask;

/// The languages that a text is first recognized in, if they are installed.
const PREFERRED: [&str; 4] = ["ces", "slk", "deu", "eng"];
/// The maximum number of languages at once: each takes time.
const LANGUAGES_MAX: usize = 5;
/// The part of a document's time that is reserved for the work after recognition.
const MARGIN: Duration = Duration::from_secs(1);
/// Half of the minimum time after which a page counts as unrecognizable.
const FAIR_TIME: Duration = Duration::from_millis(7_500);
/// The attempts, minutes apart, after which a page that took too long counts as unrecognizable.
const ATTEMPTS_MAX: u32 = 3;
/// No page is given less time.
const PAGE_TIME_MIN: Duration = Duration::from_secs(2);
/// The timeout of an image inside a document, enough for a scanned page on a busy host; all of them together are bounded
/// by the index.
const IMAGE_TIME_MAX: Duration = Duration::from_secs(50);
/// The timeout of listing the languages.
const LANGUAGES_TIME_MAX: Duration = Duration::from_secs(10);

/// The languages of the machine's text recognition, once known. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Recognition(Arc<OnceCell<String>>);

impl Recognition {
    /// Returns the languages in the program's format; `None` if it or its languages are missing, which is checked again each
    /// time. When they are found, the index is told, so that scans which were read without them are read again.
    pub(super) async fn chosen_languages(&self, limits: &ToolLimits) -> Option<&str> {
        let asked = async {
            let installed = recognize::is_installed()
                .then(|| ask_worker(ChildTask::Languages, limits, LANGUAGES_TIME_MAX));
            let chosen = match installed {
                Some(asked) => match asked.await {
                    Ok(WorkerAnswer::Languages(Ok(installed))) => choose_languages(&installed),
                    _ => None,
                },
                None => None,
            };
            let count = chosen.as_ref().map_or(0, |chosen| chosen.split('+').count());
            if let Some(library) = &limits.library {
                library.record_languages(u32::try_from(count).unwrap_or(u32::MAX)).await;
            }
            chosen.ok_or(())
        };
        self.0.get_or_try_init(|| asked).await.ok().map(String::as_str)
    }
}

/// Returns the languages for an unknown text.
fn choose_languages(installed: &[String]) -> Option<String> {
    let preferred = PREFERRED.into_iter().filter(|code| installed.iter().any(|one| one == code));
    let others = installed.iter().map(String::as_str).filter(|code| !PREFERRED.contains(code));
    let chosen: Vec<&str> = preferred.chain(others).take(LANGUAGES_MAX).collect();
    (!chosen.is_empty()).then(|| chosen.join("+"))
}

/// Returns the languages for further pages of a text: its own, or all if it is not known.
fn narrow_languages(all: &str, language: Option<TextLanguage>) -> &str {
    let code = match language {
        Some(TextLanguage::Czech) => "ces",
        Some(TextLanguage::Slovak) => "slk",
        Some(TextLanguage::German) => "deu",
        Some(TextLanguage::English) => "eng",
        None => return all,
    };
    all.split('+').find(|one| *one == code).unwrap_or(all)
}

/// Recognizes the text of an image inside a document. Its passages have the place of the image.
pub(super) async fn read_image(
    path: String,
    wanted: PendingImage,
    limits: &ToolLimits,
) -> Result<PassageBatch, ExtractionProblem> {
    let Some(all) = limits.recognition.chosen_languages(limits).await else {
        return Ok(PassageBatch::default());
    };
    let languages = narrow_languages(all, wanted.language).to_owned();
    let image = wanted.image;
    let is_of_inner = image.is_of_inner();
    let (following, image_of_task) = (wanted.following, image.clone());
    let task = ChildTask::RecognizeImage { path: path.clone(), image: image_of_task, following, languages };
    let answer = match is_of_inner {
        true => readers::recognize_in_reader(path, task, limits, IMAGE_TIME_MAX).await,
        false => ask_worker(task, limits, IMAGE_TIME_MAX).await,
    };
    let recognized = match answer {
        Ok(WorkerAnswer::Recognized(Ok(recognized))) => recognized,
        answer => {
            let reason = match answer.err().and_then(|error| error.reason) {
                Some(UnreadReason::TooSlow) => UnreadImage::TooSlow,
                Some(UnreadReason::TooMuchMemory) => UnreadImage::TooLarge,
                _ => UnreadImage::Failed,
            };
            return Ok(PassageBatch::of_unread_image(reason));
        }
    };
    let lines = image.line.map(|line| (line, line));
    let placed = |piece: DocumentPassage| DocumentPassage {
        page: image.page,
        lines,
        heading: image.heading.clone(),
        ..piece
    };
    Ok(PassageBatch {
        pieces: recognized.pieces.into_iter().map(placed).collect(),
        ..PassageBatch::default()
    })
}

/// Adds the recognized text of scanned pages, or of an image, to the extracted text within `time`. When the time runs out,
/// the remaining pages are left out, so that reading continues there. The time may not suffice because the host is busy: a
/// page counts as unrecognizable after several attempts.
pub(super) async fn add_text(
    path: &str,
    extracted: Result<PassageBatch, ExtractionProblem>,
    (began, time, attempts): (Instant, Duration, u32),
    limits: &ToolLimits,
) -> Result<PassageBatch, ExtractionProblem> {
    let is_image = matches!(&extracted, Err(problem) if problem.reason == UnreadReason::Image);
    let has_scans = matches!(&extracted, Ok(batch) if !batch.scans.is_empty());
    if matches!(&extracted, Ok(batch) if !batch.images.is_empty()) {
        // They are read later, if the index knows that they are readable.
        limits.recognition.chosen_languages(limits).await;
    }
    if !(is_image || has_scans) {
        return extracted;
    }
    let Some(all) = limits.recognition.chosen_languages(limits).await else { return extracted };
    let end = began + 2 * time - MARGIN;
    let one = async |page: Option<u32>, languages: &str| {
        let left = end.saturating_duration_since(Instant::now()).max(PAGE_TIME_MIN);
        let task = ChildTask::Recognize { path: path.to_owned(), page, languages: languages.to_owned() };
        match ask_worker(task, limits, left).await {
            Ok(WorkerAnswer::Recognized(Ok(recognized))) => Ok(recognized),
            Err(error) => Err(error.reason == Some(UnreadReason::TooSlow)),
            Ok(_) => Err(false),
        }
    };
    let mut batch = match extracted {
        Ok(batch) => batch,
        Err(problem) => {
            let Recognized { pieces, pages, .. } = match one(None, all).await {
                Ok(recognized) => recognized,
                Err(true) if time < FAIR_TIME => return std::future::pending().await,
                Err(true) if attempts < ATTEMPTS_MAX => return Err(ExtractionProblem::too_slow(2 * time)),
                Err(_) => return Err(problem),
            };
            if pieces.is_empty() {
                return Err(problem);
            }
            let span = Some(PageRange { first: 1, last: pages, of: pages });
            return Ok(PassageBatch { pieces, span, ..PassageBatch::default() });
        }
    };
    let (mut languages, mut unread) = (all, Vec::new());
    for (index, page) in std::mem::take(&mut batch.scans).into_iter().enumerate() {
        let is_over = index > 0 && began.elapsed() >= time;
        let recognized = if is_over { Err(true) } else { one(Some(page), languages).await };
        match recognized {
            // The page is the first of the next call, which has more time for it.
            Err(true) if index > 0 || batch.span.is_some_and(|span| page > span.first) => {
                let last = page - 1;
                batch.pieces.retain(|piece| piece.page.is_none_or(|page| page <= last));
                batch.span = batch.span.map(|span| PageRange { last, ..span });
                break;
            }
            // The caller ends it, and treats it as a document that is still to be read.
            Err(true) if time < FAIR_TIME => return std::future::pending().await,
            Err(true) if attempts < ATTEMPTS_MAX => return Err(ExtractionProblem::too_slow(2 * time)),
            // Its images do not show the missing text.
            Ok(recognized) if recognized.pieces.is_empty() && batch.damaged_pages.contains(&page) => {
                unread.push(page);
            }
            Ok(recognized) => {
                languages = narrow_languages(all, detect_language(&recognized.text));
                // The few letters beside the images stay.
                batch.pieces.extend(recognized.pieces);
            }
            Err(_) => unread.push(page),
        }
    }
    batch.pieces.sort_by_key(|piece| piece.page);
    batch.scans = unread;
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choose_languages_uses_installed() {
        let installed = |codes: &[&str]| codes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(choose_languages(&installed(&[])), None);
        assert_eq!(choose_languages(&installed(&["eng", "pol", "slk"])).as_deref(), Some("slk+eng+pol"));
        let all =
            choose_languages(&installed(&["afr", "ces", "deu", "eng", "fra", "slk"])).expect("languages");
        assert_eq!(all, "ces+slk+deu+eng+afr");
        let german =
            "Der Mieter hat die Miete bis zum fünften Tag eines jeden Monats zu zahlen, und zwar im Voraus.";
        assert_eq!(narrow_languages(&all, detect_language(german)), "deu");
        assert_eq!(narrow_languages("ces+eng", detect_language(german)), "ces+eng");
        assert_eq!(narrow_languages(&all, detect_language("12 34")), all);
    }
}
