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
use http_common::{Until, attachment};
use serde::Deserialize;

use crate::account::Account;
use crate::error;
use crate::frame::Frame;
use crate::paths;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::User;

/// The entries of a page.
const SHOWN_MAX: u32 = 100;
/// The first line of the CSV file.
const COLUMNS: &str = "time,kind,credits,balance,reserved,model,step,input_tokens,output_tokens,estimated,key,conversation,answer\r\n";

/// An entry as the page shows it.
struct EntryView {
    at: ShownTime,
    kind: String,
    amount: String,
    /// True if the entry adds to what can be spent.
    adds: bool,
    balance: String,
    model: String,
    tokens: String,
    conversation: Option<String>,
    key: String,
}

#[derive(Template)]
#[template(path = "ledger.html")]
struct LedgerPage {
    frame: Frame,
    entries: Vec<EntryView>,
    previous: Option<u64>,
    next: Option<u64>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct Position {
    /// The number of entries to pass over, newest first.
    #[serde(default)]
    from: u64,
}

/// Shows entries of the ledger.
pub(crate) async fn show(
    State(account): State<Account>,
    user: User,
    Query(position): Query<Position>,
) -> Result<Response, Response> {
    let (texts, principal) = (user.visitor.texts, &user.signed_in.principal);
    let failed = |error: UseCaseError| user.failed(error);
    let mut found = account.owner.ledger(principal, position.from, SHOWN_MAX + 1).await.map_err(failed)?;
    let more = found.len() > SHOWN_MAX as usize;
    found.truncate(SHOWN_MAX as usize);
    order(&mut found);
    let names = key_names(&account.owner, principal).await.map_err(failed)?;
    let step = u64::from(SHOWN_MAX);
    Ok(error::rendered(&LedgerPage {
        frame: Frame::load(&account.conversations, &user, None).await?,
        entries: found.into_iter().map(|entry| EntryView::of(texts, &names, entry)).collect(),
        previous: (position.from > 0).then(|| position.from.saturating_sub(step)),
        next: more.then(|| position.from.saturating_add(step)),
    }))
}

/// Sends the whole ledger as CSV, newest entries first. A page of entries is in memory at a time.
pub(crate) async fn csv(State(account): State<Account>, user: User) -> Result<Response, Response> {
    let principal = user.signed_in.principal.clone();
    let names = key_names(&account.owner, &principal).await.map_err(|error| user.failed(error))?;
    let owner = account.owner.clone();
    let pages = stream::try_unfold((Some(None), names), move |(from, names)| {
        let (owner, principal) = (owner.clone(), principal.clone());
        async move {
            let Some(before) = from else { return Ok::<_, UseCaseError>(None) };
            let mut text = if before.is_none() { COLUMNS.to_owned() } else { String::new() };
            let page = owner.ledger_page(&principal, before).await?;
            let next = page.and_then(|mut page| {
                order(&mut page.entries);
                page.entries.iter().for_each(|entry| write_line(&mut text, &names, entry));
                page.next
            });
            Ok(Some((Bytes::from(text), (next.map(Some), names))))
        }
    });
    let revoked = account.access.clone().revoked(user.signed_in.principal.clone());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8")),
        (header::CONTENT_DISPOSITION, attachment("credits.csv")),
    ];
    Ok((headers, Body::new(Until::new(Body::from_stream(pages), revoked))).into_response())
}

/// Orders entries newest first. Those of one transaction have the same time: it settles a step, then releases the rest, so
/// that the balances follow from each other.
fn order(entries: &mut [LedgerEntry]) {
    let rank = |kind| match kind {
        PostingKind::Release => 0,
        PostingKind::Settle => 1,
        PostingKind::Reserve => 2,
        PostingKind::Grant => 3,
    };
    entries.sort_by_key(|entry| (std::cmp::Reverse(entry.at), rank(entry.kind)));
}

/// Returns the names of the account's keys. A revoked one has none.
async fn key_names(owner: &Owner, principal: &Principal) -> Result<HashMap<KeyId, String>, UseCaseError> {
    Ok(owner.list_keys(principal).await?.into_iter().map(|key| (key.id, key.name)).collect())
}

impl EntryView {
    fn of(texts: Texts, names: &HashMap<KeyId, String>, entry: LedgerEntry) -> Self {
        let (key, sign, adds) = match entry.kind {
            PostingKind::Grant => ("ledger-grant", "+", true),
            PostingKind::Reserve => ("ledger-reserve", "−", false),
            PostingKind::Settle => ("ledger-settle", "", false),
            PostingKind::Release => ("ledger-release", "+", true),
        };
        let tokens = entry.usage.map(|usage| usage.input_tokens.saturating_add(usage.output_tokens));
        let revoked = || texts.get("ledger-revoked-key");
        Self {
            at: ShownTime::time(texts, entry.at),
            kind: texts.get(key),
            amount: format!("{sign}{}", texts.number(entry.amount.0)),
            adds,
            balance: texts.number(entry.balance.available.0),
            model: entry.model.unwrap_or_default(),
            tokens: tokens.map(|tokens| texts.number(tokens)).unwrap_or_default(),
            conversation: entry.conversation.map(paths::conversation),
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
    let usage = |count: fn(domain::step::Usage) -> String| entry.usage.map(count).unwrap_or_default();
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
    let fields = fields.map(|value| field(&value));
    let _ = write!(text, "{}\r\n", fields.join(","));
}

/// Returns a value as a field of CSV. Programs for tables would run a value that begins like a formula, so it gets an
/// apostrophe.
fn field(value: &str) -> String {
    let is_formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let value = if is_formula { format!("'{value}") } else { value.to_owned() };
    if value.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_never_formulas() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(field("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(field("@x"), "'@x");
    }
}
