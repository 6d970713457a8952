//! The page of credits: the balance, the licence, and what answers have cost.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use control::owner::KeyUsage;
use control::usage::UsageTotal;
use control::{Authenticator, Conversations, Environment, Owner};
use serde::Deserialize;

use crate::error;
use crate::frame::Frame;
use crate::licence::LicenceView;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::usage_chart::{self, UsageChart};
use crate::visit::User;

/// The steps of the bars' scale: an element `meter` needs no style.
const SCALE: u64 = 100;

/// A table of usage; none if nothing was used.
struct Table {
    title: String,
    rows: Vec<UsageRow>,
    has_tokens: bool,
    /// True if the page shows it on request only.
    is_folded: bool,
}

/// A row of a table of usage.
struct UsageRow {
    label: String,
    credits: String,
    steps: String,
    tokens: String,
    /// The share of the largest row, of [`SCALE`].
    share: u64,
}

#[derive(Template)]
#[template(path = "credits.html")]
struct CreditsPage {
    frame: Frame,
    available: String,
    reserved: Option<String>,
    licence: Option<LicenceView>,
    total: String,
    /// The spans to choose from, in days, with their names; the chosen one, and its name in a sentence.
    spans: Vec<(u32, String)>,
    days: u32,
    span: String,
    chart: UsageChart,
    tables: Vec<Table>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct Span {
    /// The days of the chart.
    #[serde(default)]
    days: u32,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) owner: Owner,
    pub(crate) access: Authenticator,
    pub(crate) conversations: Conversations,
    pub(crate) environment: Environment,
}

/// Shows credits and usage.
pub(crate) async fn credits(
    State(account): State<Account>,
    user: User,
    Query(span): Query<Span>,
) -> Result<Response, Response> {
    let (texts, principal) = (user.visitor.texts, &user.signed_in.principal);
    let frame = Frame::load(&account.conversations, &user, None).await?;
    let balance = account.owner.balance(principal).await.map_err(|error| user.failed(error))?;
    let now = account.environment.now();
    let days =
        usage_chart::SPANS_DAYS.into_iter().find(|days| *days == span.days).unwrap_or(usage_chart::DAYS);
    let since = usage_chart::since(now, days);
    let usage = account.owner.usage(principal, since).await.map_err(|error| user.failed(error))?;
    let keys = account.owner.usage_by_key(principal, since).await.map_err(|error| user.failed(error))?;
    let spent: Vec<_> = usage.days.iter().map(|(day, total)| (*day, total.credits.0)).collect();
    let by_day = usage.days.iter().map(|(day, total)| (ShownTime::day(texts, *day).text, *total));
    let unknown = || texts.get("credits-no-model");
    let models = usage.models.iter().map(|(model, total)| (model.clone().unwrap_or_else(unknown), *total));
    let keys = keys.into_iter().map(|KeyUsage { name, steps, credits, .. }| {
        let total = UsageTotal { steps, credits, ..UsageTotal::default() };
        (name.unwrap_or_else(|| texts.get("credits-no-key")), total)
    });
    let table = |key: &str, usage, has_tokens, is_folded| Table {
        title: texts.get(key),
        rows: rows(texts, usage),
        has_tokens,
        is_folded,
    };
    let tables = [
        table("credits-by-model", models.collect(), true, false),
        table("credits-by-key", keys.collect(), false, false),
        table("credits-days", by_day.collect(), true, true),
    ];
    Ok(error::rendered(&CreditsPage {
        frame,
        available: texts.number(balance.available.0),
        reserved: (balance.reserved.0 > 0).then(|| texts.number(balance.reserved.0)),
        licence: LicenceView::of(texts, user.signed_in.licence_until, now),
        total: texts.number(usage.total.credits.0),
        spans: usage_chart::SPANS_DAYS
            .map(|days| (days, texts.with("credits-days-count", "count", days)))
            .to_vec(),
        days,
        span: texts.with("credits-span", "count", days),
        chart: UsageChart::of(texts, now, days, &spent),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
    }))
}

fn rows(texts: Texts, usage: Vec<(String, UsageTotal)>) -> Vec<UsageRow> {
    let most = usage.iter().map(|(_, total)| total.credits.0).max().unwrap_or(0).max(1);
    let row = |(label, total): (String, UsageTotal)| UsageRow {
        label,
        credits: texts.number(total.credits.0),
        steps: texts.number(total.steps),
        tokens: texts.number(total.tokens.input_tokens.saturating_add(total.tokens.output_tokens)),
        share: total.credits.0.saturating_mul(SCALE) / most,
    };
    usage.into_iter().map(row).collect()
}
