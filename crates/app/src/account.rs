//! The page of credits: the balance, the licence, and the cost of answers.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use control::owner::KeyUsage;
use control::usage::UsageTotal;
use control::{Authenticator, Conversations, Owner, ServiceEnvironment};
use serde::Deserialize;

use crate::error;
use crate::frame::PageFrame;
use crate::licence::LicenceView;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::usage_chart::{self, UsageChart};
use crate::visit::SignedInVisitor;

/// The steps of the bars' scale: an element `meter` needs no style.
const SCALE: u64 = 100;

/// A table of usage; absent without usage.
struct UsageTable {
    title: String,
    rows: Vec<UsageTableRow>,
    has_tokens: bool,
    /// True if the page shows it on request only.
    is_folded: bool,
}

/// A row of a table of usage.
struct UsageTableRow {
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
    frame: PageFrame,
    available: String,
    reserved: Option<String>,
    licence: Option<LicenceView>,
    total: String,
    /// The spans to choose from, in days, with their names; the chosen one, and its name in a sentence.
    spans: Vec<(u32, String)>,
    days: u32,
    span: String,
    chart: UsageChart,
    tables: Vec<UsageTable>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct UsageSpanQuery {
    /// The days of the chart.
    #[serde(default)]
    days: u32,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct CreditPages {
    pub(crate) owner: Owner,
    pub(crate) access: Authenticator,
    pub(crate) conversations: Conversations,
    pub(crate) environment: ServiceEnvironment,
}

/// Shows credits and usage.
pub(crate) async fn show_credits(
    State(account): State<CreditPages>,
    user: SignedInVisitor,
    Query(span): Query<UsageSpanQuery>,
) -> Result<Response, Response> {
    let (texts, principal) = (user.visitor.texts, &user.signed_in.principal);
    let frame = PageFrame::load(&account.conversations, &user, None).await?;
    let balance =
        account.owner.account_balance(principal).await.map_err(|error| user.failure_response(error))?;
    let now = account.environment.now();
    let days =
        usage_chart::SPANS_DAYS.into_iter().find(|days| *days == span.days).unwrap_or(usage_chart::DAYS);
    let since = usage_chart::chart_begin(now, days);
    let usage =
        account.owner.account_usage(principal, since).await.map_err(|error| user.failure_response(error))?;
    let keys =
        account.owner.usage_by_key(principal, since).await.map_err(|error| user.failure_response(error))?;
    let spent: Vec<_> = usage.days.iter().map(|(day, total)| (*day, total.credits.0)).collect();
    let by_day = usage.days.iter().map(|(day, total)| (ShownTime::from_day(texts, *day).text, *total));
    let unknown = || texts.get("credits-no-model");
    let models = usage.models.iter().map(|(model, total)| (model.clone().unwrap_or_else(unknown), *total));
    let keys = keys.into_iter().map(|KeyUsage { name, steps, credits, .. }| {
        let total = UsageTotal { steps, credits, ..UsageTotal::default() };
        (name.unwrap_or_else(|| texts.get("credits-no-key")), total)
    });
    let table = |key: &str, usage, has_tokens, is_folded| UsageTable {
        title: texts.get(key),
        rows: usage_rows(texts, usage),
        has_tokens,
        is_folded,
    };
    let tables = [
        table("credits-by-model", models.collect(), true, false),
        table("credits-by-key", keys.collect(), false, false),
        table("credits-days", by_day.collect(), true, true),
    ];
    Ok(error::render_template(&CreditsPage {
        frame,
        available: texts.number_text(balance.available.0),
        reserved: (balance.reserved.0 > 0).then(|| texts.number_text(balance.reserved.0)),
        licence: LicenceView::from_licence_end(texts, user.signed_in.licence_until, now),
        total: texts.number_text(usage.total.credits.0),
        spans: usage_chart::SPANS_DAYS
            .map(|days| (days, texts.with("credits-days-count", "count", days)))
            .to_vec(),
        days,
        span: texts.with("credits-span", "count", days),
        chart: UsageChart::from_days(texts, now, days, &spent),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
    }))
}

fn usage_rows(texts: Texts, usage: Vec<(String, UsageTotal)>) -> Vec<UsageTableRow> {
    let most = usage.iter().map(|(_, total)| total.credits.0).max().unwrap_or(0).max(1);
    let row = |(label, total): (String, UsageTotal)| UsageTableRow {
        label,
        credits: texts.number_text(total.credits.0),
        steps: texts.number_text(total.steps),
        tokens: texts.number_text(total.tokens.input_tokens.saturating_add(total.tokens.output_tokens)),
        share: total.credits.0.saturating_mul(SCALE) / most,
    };
    usage.into_iter().map(row).collect()
}
