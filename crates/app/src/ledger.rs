//! The ledger entry by entry, and as CSV.

use std::collections::HashMap;
use std::fmt::Write as _;

use askama::Template;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use control::owner::LedgerEntry;
use control::{Owner, Principal, UseCaseError};
use domain::credits::PostingKind;
use domain::id::KeyId;
use futures_util::stream;
use http_common::{Until, attachment_header};
use serde::Deserialize;

use crate::account::CreditPages;
use crate::error;
use crate::frame::PageFrame;
use crate::paths;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The entries of a page.
const SHOWN_MAX: u32 = 100;
/// The first line of the CSV file.
const COLUMNS: &str = "time,kind,credits,balance,reserved,model,step,input_tokens,output_tokens,estimated,key,conversation,answer\r\n";

/// An entry as the page shows it.
struct LedgerEntryView {
    at: ShownTime,
    kind: String,
    amount: String,
    /// True if the entry increases the balance.
    adds: bool,
    balance: String,
    model: String,
    tokens: String,
    conversation: Option<String>,
    key: String,
}

#[derive(Template)]
#[template(path = "ledger.html")]
struct LedgerListPage {
    frame: PageFrame,
    entries: Vec<LedgerEntryView>,
    previous: Option<u64>,
    next: Option<u64>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct LedgerQuery {
    /// The number of entries to skip, newest first.
    #[serde(default)]
    from: u64,
}

/// Shows entries of the ledger.
pub(crate) async fn show_ledger(
    State(account): State<CreditPages>,
    user: SignedInVisitor,
    Query(position): Query<LedgerQuery>,
) -> Result<Response, Response> {
    let (texts, principal) = (user.visitor.texts, &user.signed_in.principal);
    let failed = |error: UseCaseError| user.failure_response(error);
    let mut found =
        account.owner.list_postings(principal, position.from, SHOWN_MAX + 1).await.map_err(failed)?;
    let more = found.len() > SHOWN_MAX as usize;
    found.truncate(SHOWN_MAX as usize);
    sort_newest_first(&mut found);
    let names = key_names(&account.owner, principal).await.map_err(failed)?;
    let step = u64::from(SHOWN_MAX);
    Ok(error::render_template(&LedgerListPage {
        frame: PageFrame::load(&account.conversations, &user, None).await?,
        entries: found.into_iter().map(|entry| LedgerEntryView::from_entry(texts, &names, entry)).collect(),
        previous: (position.from > 0).then(|| position.from.saturating_sub(step)),
        next: more.then(|| position.from.saturating_add(step)),
    }))
}

/// Sends the whole ledger as CSV, newest entries first. A page of entries is in memory at a time.
pub(crate) async fn download_ledger_csv(
    State(account): State<CreditPages>,
    user: SignedInVisitor,
) -> Result<Response, Response> {
    let principal = user.signed_in.principal.clone();
    let names = key_names(&account.owner, &principal).await.map_err(|error| user.failure_response(error))?;
    let owner = account.owner.clone();
    let pages = stream::try_unfold((Some(None), names), move |(from, names)| {
        let (owner, principal) = (owner.clone(), principal.clone());
        async move {
            let Some(before) = from else { return Ok::<_, UseCaseError>(None) };
            let mut text = if before.is_none() { COLUMNS.to_owned() } else { String::new() };
            let page = owner.ledger_page(&principal, before).await?;
            let next = page.and_then(|mut page| {
                sort_newest_first(&mut page.entries);
                page.entries.iter().for_each(|entry| write_line(&mut text, &names, entry));
                page.next
            });
            Ok(Some((Bytes::from(text), (next.map(Some), names))))
        }
    });
    let revoked = account.access.clone().await_revocation(user.signed_in.principal.clone());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8")),
        (header::CONTENT_DISPOSITION, attachment_header("credits.csv")),
    ];
    Ok((headers, Body::new(Until::new(Body::from_stream(pages), revoked))).into_response())
}

/// Orders entries newest first. Entries of one transaction have the same time: it settles a step, then releases
/// the rest, so that the balances are consistent.
fn sort_newest_first(entries: &mut [LedgerEntry]) {
    let rank = |kind| match kind {
        PostingKind::Release => 0,
        PostingKind::Settle => 1,
        PostingKind::Reserve => 2,
        PostingKind::Grant => 3,
    };
    entries.sort_by_key(|entry| (std::cmp::Reverse(entry.at), rank(entry.kind)));
}

/// Returns the names of the account's keys. A revoked key has no name.
async fn key_names(owner: &Owner, principal: &Principal) -> Result<HashMap<KeyId, String>, UseCaseError> {
    Ok(owner.list_keys(principal).await?.into_iter().map(|key| (key.id, key.name)).collect())
}

impl LedgerEntryView {
    fn from_entry(texts: Texts, names: &HashMap<KeyId, String>, entry: LedgerEntry) -> Self {
        let (key, sign, adds) = match entry.kind {
            PostingKind::Grant => ("ledger-grant", "+", true),
            PostingKind::Reserve => ("ledger-reserve", "−", false),
            PostingKind::Settle => ("ledger-settle", "", false),
            PostingKind::Release => ("ledger-release", "+", true),
        };
        let tokens = entry.usage.map(|usage| usage.input_tokens.saturating_add(usage.output_tokens));
        let revoked = || texts.get("ledger-revoked-key");
        Self {
            at: ShownTime::from_time(texts, entry.at),
            kind: texts.get(key),
            amount: format!("{sign}{}", texts.number_text(entry.amount.0)),
            adds,
            balance: texts.number_text(entry.balance.available.0),
            model: entry.model.unwrap_or_default(),
            tokens: tokens.map(|tokens| texts.number_text(tokens)).unwrap_or_default(),
            conversation: entry.conversation.map(paths::conversation_path),
            key: entry.key.map(|key| names.get(&key).cloned().unwrap_or_else(revoked)).unwrap_or_default(),
        }
    }
}

fn write_line(text: &mut String, names: &HashMap<KeyId, String>, entry: &LedgerEntry) {
    let kind = match entry.kind {
        PostingKind::Grant => "grant",
        PostingKind::Reserve => "reserve",
        PostingKind::Settle => "settle",
        PostingKind::Release => "release",
    };
    let usage = |count: fn(domain::step::TokenUsage) -> String| entry.usage.map(count).unwrap_or_default();
    let key = entry.key.map(|key| names.get(&key).cloned().unwrap_or_else(|| key.to_string()));
    let fields = [
        entry.at.to_string(),
        kind.to_owned(),
        entry.amount.0.to_string(),
        entry.balance.available.0.to_string(),
        entry.balance.reserved.0.to_string(),
        entry.model.clone().unwrap_or_default(),
        entry.step.map(|step| step.to_string()).unwrap_or_default(),
        usage(|usage| usage.input_tokens.to_string()),
        usage(|usage| usage.output_tokens.to_string()),
        usage(|usage| usage.estimated.to_string()),
        key.unwrap_or_default(),
        entry.conversation.map(|id| id.to_string()).unwrap_or_default(),
        entry.answer.map(|id| id.to_string()).unwrap_or_default(),
    ];
    let fields = fields.map(|value| csv_field(&value));
    let _ = write!(text, "{}\r\n", fields.join(","));
}

/// Returns a value as a field of CSV. Spreadsheets would run a value that begins like a formula, so it gets an
/// apostrophe.
fn csv_field(value: &str) -> String {
    let is_formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let value = if is_formula { format!("'{value}") } else { value.to_owned() };
    if value.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_never_formulas() {
        assert_eq!(csv_field("plain"), "plain");
        assert_eq!(csv_field("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(csv_field("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(csv_field("@x"), "'@x");
    }
}
