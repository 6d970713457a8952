//! The passages that answers cite: the card that a page shows beside a citation, and the place in a file that it leads to.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use control::{AnswerService, Principal, UseCaseError};
use domain::citation::{PageKind, PassagePlace};
use domain::id::{ConversationId, MessageId};
use domain::time::Timestamp;
use live::{PartKind, Snapshot, SnapshotCitation, Unproven};

use crate::cells::separate_cells;
use crate::error;
use crate::links::{file_href, names_of, own_href, shown_name};
use crate::paths;
use crate::source_numbers::SourceNumbers;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The field of a query that names a citation.
const FIELD: &str = "cited";
/// The place of the passage in the page of its file.
pub(crate) const FRAGMENT: &str = "cited";
/// The characters of a passage that a card shows.
const CARD_MAX_CHARS: usize = 420;

/// An answer that cites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CitingAnswer {
    pub(crate) conversation: ConversationId,
    pub(crate) answer: MessageId,
}

impl CitingAnswer {
    /// Returns the field of a query that names a citation, with the fragment of its passage.
    pub(crate) fn query_field(&self, number: &str) -> String {
        format!("{FIELD}={}.{}.{number}#{FRAGMENT}", self.conversation, self.answer)
    }

    /// Returns the link to a cited place: the page of the file, or the web page. `None` if the place must not
    /// be linked.
    pub(crate) fn place_href(&self, number: u32, place: &PassagePlace) -> Option<String> {
        match place {
            PassagePlace::File { path, .. } => {
                Some(format!("{}?view&{}", file_href(path), self.query_field(&number.to_string())))
            }
            PassagePlace::Web { .. } => render::source_href(place).map(|href| own_href(&href)),
        }
    }
}

/// A citation that a page of a file was opened from.
pub(crate) struct CitedPassage {
    /// Its number on the page of the answer.
    pub(crate) number: u32,
    pub(crate) place: PassagePlace,
    /// The file's name with its folders.
    pub(crate) name: String,
    /// The text of the passage, if the answer has it.
    pub(crate) text: Option<Arc<str>>,
    /// The place in words: page or lines.
    pub(crate) detail: String,
    pub(crate) proof: Option<CitationCheck>,
    /// The time of the answer.
    pub(crate) answered_at: Timestamp,
    /// The address of the answer.
    pub(crate) answer_href: String,
}

/// The result of comparing a passage with the sentences that cite it.
pub(crate) struct CitationCheck {
    pub(crate) is_proven: bool,
    pub(crate) text: String,
}

impl CitedPassage {
    /// Finds the citation that a query names, `<conversation>.<answer>.<number>`. Returns `None` if it no
    /// longer exists.
    pub(crate) async fn find_by_query(
        answers: &AnswerService,
        principal: &Principal,
        texts: Texts,
        named: &str,
    ) -> Option<Self> {
        let mut parts = named.splitn(3, '.');
        let of =
            CitingAnswer { conversation: parts.next()?.parse().ok()?, answer: parts.next()?.parse().ok()? };
        let number = parts.next()?.parse().ok()?;
        let live = answers.find_answer(principal, of.conversation, of.answer).await.ok()?;
        let snapshot = live.snapshot();
        let citation = find_citation(&snapshot, number)?;
        Some(Self {
            number: SourceNumbers::from_snapshot(&snapshot).page_number(number),
            place: citation.place.clone(),
            name: name_in_words(&citation.place),
            text: citation.passage.clone(),
            detail: place_in_words(texts, &citation.place),
            proof: CitationCheck::from_citation(texts, citation),
            answered_at: snapshot.meta.created_at,
            answer_href: format!("{}#a-{}", paths::conversation_path(of.conversation), of.answer),
        })
    }
}

impl CitationCheck {
    fn from_citation(texts: Texts, citation: &SnapshotCitation) -> Option<Self> {
        let is_proven = citation.verified?;
        let text = match &citation.reason {
            None if is_proven => texts.get("source-proven"),
            None => texts.get("source-unproven-words"),
            Some(Unproven::Quote(quote)) => texts.with("source-unproven-quote", "text", quote.as_str()),
            Some(Unproven::Number(number)) => texts.with("source-unproven-number", "text", number.as_str()),
            Some(Unproven::Date(month)) => texts.with("source-unproven-date", "text", month.as_str()),
            Some(Unproven::Name(name)) => texts.with("source-unproven-name", "text", name.as_str()),
            Some(Unproven::Negation) => texts.get("source-unproven-negation"),
            Some(Unproven::Quantity(number)) => {
                texts.with("source-unproven-quantity", "text", number.as_str())
            }
            Some(Unproven::Participant(name)) => {
                texts.with("source-unproven-participant", "text", name.as_str())
            }
            Some(Unproven::TimeOrder) => texts.get("source-unproven-time-order"),
            Some(Unproven::Obligation) => texts.get("source-unproven-obligation"),
            Some(Unproven::Words) => texts.get("source-unproven-words"),
        };
        Some(Self { is_proven, text })
    }
}

/// The card of a citation.
#[derive(Template)]
#[template(path = "cited.html")]
struct Card {
    texts: Texts,
    /// Its number on the page of the answer.
    number: u32,
    name: String,
    detail: String,
    is_web: bool,
    href: Option<String>,
    passage: Option<String>,
    proof: Option<CitationCheck>,
}

/// Shows the card of a citation: a piece of HTML that the page of the answer includes.
pub(crate) async fn show_citation_card(
    State(answers): State<AnswerService>,
    user: SignedInVisitor,
    Path((conversation, answer, number)): Path<(String, String, String)>,
) -> Result<Response, Response> {
    let unknown = || user.failure_response(UseCaseError::no_conversation());
    let ids = conversation.parse().ok().zip(answer.parse().ok()).zip(number.parse().ok());
    let ((conversation, answer), number) = ids.ok_or_else(unknown)?;
    let live = answers.find_answer(&user.signed_in.principal, conversation, answer).await;
    let snapshot = live.map_err(|error| user.failure_response(error))?.snapshot();
    let citation = find_citation(&snapshot, number).ok_or_else(unknown)?;
    let texts = user.visitor.texts;
    Ok(error::render_template(&Card {
        texts,
        number: SourceNumbers::from_snapshot(&snapshot).page_number(number),
        name: name_in_words(&citation.place),
        detail: place_in_words(texts, &citation.place),
        is_web: matches!(citation.place, PassagePlace::Web { .. }),
        href: CitingAnswer { conversation, answer }.place_href(number, &citation.place),
        passage: citation.passage.as_deref().map(passage_excerpt),
        proof: CitationCheck::from_citation(texts, citation),
    }))
}

/// Returns the name of a place shown alone: for a file with its folders, unless it is an attached file.
fn name_in_words(place: &PassagePlace) -> String {
    match place {
        PassagePlace::File { path, .. } => {
            shown_name(path.strip_prefix("/uploads/").unwrap_or(path).trim_start_matches('/'))
        }
        PassagePlace::Web { url, title } => web_name(url, title).to_owned(),
    }
}

/// Returns the names of places shown next to each other.
pub(crate) fn place_names(places: &[&PassagePlace]) -> Vec<String> {
    let paths: Vec<&str> = places
        .iter()
        .filter_map(|place| match place {
            PassagePlace::File { path, .. } => Some(path.as_str()),
            PassagePlace::Web { .. } => None,
        })
        .collect();
    let mut of_files = names_of(&paths).into_iter();
    let name = |place: &&PassagePlace| match place {
        PassagePlace::File { .. } => of_files.next().unwrap_or_default(),
        PassagePlace::Web { url, title } => web_name(url, title).to_owned(),
    };
    places.iter().map(name).collect()
}

fn web_name<'a>(url: &'a str, title: &'a str) -> &'a str {
    if title.is_empty() { url } else { title }
}

/// Returns a place in words: page or lines.
pub(crate) fn place_in_words(texts: Texts, place: &PassagePlace) -> String {
    match place {
        PassagePlace::File { path, page: Some(page), lines, page_name } => {
            let kind = PageKind::from_path(path);
            let (key, name) = match kind {
                PageKind::Page => ("source-page", "page"),
                PageKind::Slide => ("source-slide", "slide"),
                PageKind::Sheet => ("source-sheet", "sheet"),
                PageKind::Section => ("source-section", "section"),
                PageKind::File => ("source-file", "file"),
            };
            let place = match (kind, page_name) {
                (PageKind::File, Some(name)) => shown_name(name),
                (PageKind::Sheet, Some(name)) => texts.with(key, "sheet", shown_name(name)),
                // A file that is attached to the document.
                (PageKind::Page, Some(file)) => {
                    format!("{}, {}", texts.with(key, name, page.to_string()), shown_name(file))
                }
                _ => texts.with(key, name, page.to_string()),
            };
            match lines {
                Some(rows) if kind == PageKind::Sheet => format!("{place}, {}", rows_in_words(texts, *rows)),
                Some(lines) => format!("{place}, {}", lines_in_words(texts, *lines)),
                None => place,
            }
        }
        PassagePlace::File { lines: Some(lines), .. } => lines_in_words(texts, *lines),
        PassagePlace::File { .. } => String::new(),
        PassagePlace::Web { url, .. } => {
            let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            host.split(['/', '?', '#']).next().unwrap_or_default().to_owned()
        }
    }
}

fn lines_in_words(texts: Texts, (first, last): (u32, u32)) -> String {
    if first == last {
        return texts.with("source-line", "line", first.to_string());
    }
    texts.with("source-lines", "lines", format!("{first}–{last}"))
}

fn rows_in_words(texts: Texts, (first, last): (u32, u32)) -> String {
    if first == last {
        return texts.with("source-row", "row", first.to_string());
    }
    texts.with("source-rows", "rows", format!("{first}–{last}"))
}

fn find_citation(snapshot: &Snapshot, number: u32) -> Option<&SnapshotCitation> {
    snapshot.parts.iter().find_map(|part| match &part.shape {
        PartKind::Text { citations, .. } | PartKind::Agent { citations, .. } => {
            citations.iter().find(|citation| citation.number == number)
        }
        PartKind::Reasoning { .. }
        | PartKind::Tool { .. }
        | PartKind::Skill { .. }
        | PartKind::WebSearch { .. }
        | PartKind::File { .. } => None,
    })
}

/// Returns the beginning of a passage without blank lines, cut between words.
fn passage_excerpt(passage: &str) -> String {
    let lines = passage.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let passage = separate_cells(lines.collect::<Vec<_>>().join("\n").trim_start());
    let Some((end, _)) = passage.char_indices().nth(CARD_MAX_CHARS) else { return passage };
    let cut = &passage[..end];
    let cut = cut.rsplit_once(char::is_whitespace).map_or(cut, |(words, _)| words);
    format!("{} …", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_a_passage_are_apart() {
        assert_eq!(passage_excerpt("Tenant\tRent\nOakmoor\t2310\n"), "Tenant | Rent\nOakmoor | 2310");
    }

    #[test]
    fn passage_excerpt_cuts_between_words() {
        assert_eq!(passage_excerpt(" Rent\n \n\nThe rent is due. \n"), "Rent\nThe rent is due.");
        let cut = passage_excerpt(&"žluťoučký kůň ".repeat(100));
        assert!(cut.ends_with("kůň …") || cut.ends_with("žluťoučký …"), "{cut}");
        assert!(cut.chars().count() <= CARD_MAX_CHARS + 2, "{cut}");
        assert_eq!(passage_excerpt(&"x".repeat(1000)).chars().count(), CARD_MAX_CHARS + 2);
    }

    #[test]
    fn place_in_words_follows_file_kind() {
        let file = |path: &str, page, lines| PassagePlace::File {
            path: path.to_owned(),
            page,
            lines,
            page_name: None,
        };
        let named = |path: &str, name: &str, lines| {
            let page_name = Some(name.to_owned());
            PassagePlace::File { path: path.to_owned(), page: Some(2), lines, page_name }
        };
        let texts = Texts(crate::language::PageLanguage::English);
        for (place, words) in [
            (file("/a.pdf", Some(3), None), "page 3"),
            (file("/a.pptx", Some(3), None), "slide 3"),
            (file("/a.xlsx", Some(2), Some((4, 4))), "sheet 2, row 4"),
            (file("/a.ODS", Some(2), Some((4, 9))), "sheet 2, rows 4–9"),
            (file("/a.zip", Some(2), None), "file 2"),
            (file("/a.zip", Some(2), Some((4, 9))), "file 2, lines 4–9"),
            (file("/a.txt", None, Some((4, 9))), "lines 4–9"),
            (named("/a.zip", "b/c.pdf, page 3", None), "b/c.pdf, page 3"),
            (named("/a.pdf", "bill.pdf, page 1", None), "page 2, bill.pdf, page 1"),
            (named("/a.zip", "b\u{202e}txt", Some((4, 9))), "b\u{fffd}txt, lines 4–9"),
            (named("/a.xls", "Leden", Some((4, 4))), "sheet Leden, row 4"),
        ] {
            assert_eq!(place_in_words(texts, &place).replace(['\u{2068}', '\u{2069}'], ""), words);
        }
        let places =
            [file("/A/x.txt", None, None), file("/B/x.txt", None, None), file("/B/y.txt", None, None)];
        assert_eq!(place_names(&places.each_ref()), ["A/x.txt", "B/x.txt", "y.txt"]);
        assert_eq!(name_in_words(&places[0]), "A/x.txt");
        assert_eq!(name_in_words(&file("/uploads/x.txt", None, None)), "x.txt");
    }

    #[test]
    fn place_href_opens_file_page() {
        let of =
            CitingAnswer { conversation: ConversationId::from_random(1), answer: MessageId::from_random(2) };
        let file = PassagePlace::File {
            path: "/uploads/a b.pdf".to_owned(),
            page: Some(2),
            lines: None,
            page_name: None,
        };
        let href = of.place_href(7, &file).unwrap();
        assert_eq!(
            href,
            format!("/files/uploads/a%20b.pdf?view&cited={}.{}.7#cited", of.conversation, of.answer)
        );
        let web = PassagePlace::Web { url: "javascript:alert(1)".to_owned(), title: String::new() };
        assert_eq!(of.place_href(1, &web), None);
    }
}
