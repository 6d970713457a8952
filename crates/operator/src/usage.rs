//! Formats the usage report of an account.

use control::usage::{UsageReport, UsageTotal};
use domain::time::Timestamp;
use serde_json::{Map, Value, json};

/// Returns the report as one JSON object.
pub(crate) fn to_json(since: Option<Timestamp>, report: &UsageReport) -> Value {
    let days = report.days.iter().map(|(day, sum)| {
        let day = day.to_string();
        usage_with_name("day", json!(day.split('T').next()), sum)
    });
    let models = report.models.iter().map(|(model, sum)| usage_with_name("model", json!(model), sum));
    json!({
        "complete": report.complete,
        "days": days.collect::<Vec<_>>(),
        "models": models.collect::<Vec<_>>(),
        "since": since.map(|since| since.to_string()),
        "total": usage_fields(&report.total),
    })
}

fn usage_with_name(name: &str, value: Value, sum: &UsageTotal) -> Value {
    let mut object = usage_fields(sum);
    object.insert(name.to_owned(), value);
    Value::Object(object)
}

fn usage_fields(sum: &UsageTotal) -> Map<String, Value> {
    let counts = [
        ("steps", sum.steps),
        ("credits", sum.credits.0),
        ("summaries", sum.summaries),
        ("summaryCredits", sum.summary_credits.0),
        ("inputTokens", sum.tokens.input_tokens),
        ("cachedTokens", sum.tokens.cached_tokens),
        ("outputTokens", sum.tokens.output_tokens),
        ("reasoningTokens", sum.tokens.reasoning_tokens),
        ("estimatedTokens", sum.estimated_tokens),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
}
