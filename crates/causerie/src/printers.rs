//! Prints answers to people: tables and lines instead of JSON.

use serde_json::Value;

use crate::output;
use crate::request::Request;

/// Returns what prints the answer to this request.
pub(crate) fn of(request: &Request) -> fn(&Value, bool) {
    match request {
        Request::ListAccounts => |answer, _| {
            rows(
                answer,
                "accounts",
                &["email", "accountId", "licenceUntil", "balance", "reserved", "conversations"],
            );
        },
        Request::ListKeys { .. } => |answer, _| {
            rows(
                answer,
                "keys",
                &["name", "keyId", "scope", "expiresAt", "lastUsedAt", "spendingLimit", "spent"],
            );
        },
        Request::ListMachines => {
            |answer, _| rows(answer, "machines", &["account", "status", "driver", "pids"])
        }
        Request::ListAudit { .. } => |answer, _| {
            rows(answer, "entries", &["entry", "at", "actor", "action", "subject", "detail"]);
            if let Some(next) = answer["next"].as_i64() {
                output::line(format_args!("\nmore: --before {next}"));
            }
        },
        Request::ListFailedJobs { .. } => |answer, _| {
            rows(answer, "jobs", &["jobId", "kind", "accountId", "attempts", "failedAt", "error"]);
        },
        Request::ShowAccount { .. } | Request::ShowMachine { .. } | Request::StopAllMachines => {
            |answer, _| fields(answer)
        }
        Request::ShowStatus => status,
        Request::ShowMachineLog { .. } => |answer, _| {
            for line in answer["log"].as_str().unwrap_or_default().lines() {
                output::line(visible(line));
            }
        },
        Request::RunInMachine { .. } => |answer, _| print_run(answer),
        _ => output::print,
    }
}

/// Prints what a command in a machine printed.
pub(crate) fn print_run(answer: &Value) {
    for line in answer["output"].as_str().unwrap_or_default().lines() {
        output::line(visible(line));
    }
}

/// Prints a table of these fields of a list.
fn rows(answer: &Value, list: &str, heads: &[&str]) {
    let rows = answer[list].as_array().map_or(&[][..], Vec::as_slice);
    let shown: Vec<Value> = rows.iter().map(joined).collect();
    output::table(heads, &shown);
}

/// Joins the lists in an object to texts.
fn joined(row: &Value) -> Value {
    let fields = row.as_object().into_iter().flatten().map(|(name, value)| {
        let value = match value {
            Value::Array(parts) => parts.iter().map(output::plain).collect::<Vec<_>>().join(" ").into(),
            other => other.clone(),
        };
        (name.clone(), value)
    });
    Value::Object(fields.collect())
}

fn fields(answer: &Value) {
    for (name, value) in joined(answer).as_object().into_iter().flatten() {
        output::line(format_args!("{name}: {}", output::plain(value)));
    }
}

fn status(answer: &Value, _: bool) {
    let text = |name: &str| output::plain(&answer[name]);
    output::line(format_args!(
        "causerie {} at {}, since {}",
        text("version"),
        text("address"),
        text("startedAt")
    ));
    output::line(format_args!("accounts: {}", text("accounts")));
    let machines = answer["machines"].as_object().into_iter().flatten();
    let machines: Vec<String> =
        machines.map(|(state, count)| format!("{} {count}", state.to_lowercase())).collect();
    let machines = if machines.is_empty() { "none".to_owned() } else { machines.join(", ") };
    output::line(format_args!("machines: {machines} ({})", text("driver")));
    output::line(format_args!("default model: {}", text("defaultModel")));
    let vendors = answer["vendors"].as_array().map_or(&[][..], Vec::as_slice);
    for vendor in vendors {
        output::line(vendor_line(vendor));
    }
}

/// Says in one line how a vendor of models fares.
fn vendor_line(vendor: &Value) -> String {
    let text = |name: &str| output::plain(&vendor[name]);
    let health = format!("{}: {} at {}", text("vendor").to_lowercase(), text("status"), text("baseUrl"));
    if vendor["trouble"].is_null() {
        return health;
    }
    let cause = vendor["cause"].as_str().map(|cause| format!(", {cause}")).unwrap_or_default();
    format!("{health} since {}: {}{cause}", text("since"), text("trouble"))
}

/// Replaces control characters: a tool may have written what a terminal would obey.
fn visible(line: &str) -> String {
    line.chars()
        .map(|letter| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_log_cannot_steer_the_terminal() {
        assert_eq!(visible("a\tb\u{1b}[2Jc\u{9b}d\r"), "a\tb\u{fffd}[2Jc\u{fffd}d\u{fffd}");
    }

    #[test]
    fn a_vendor_that_does_not_answer_is_named_with_address_reason_and_time() {
        let mut vendor = json!({
            "vendor": "OPENAI", "status": "DOWN", "baseUrl": "http://127.0.0.1:9/v1", "trouble": "unreachable",
            "cause": "connection refused", "since": "2026-11-23T08:00:00.000Z",
        });
        assert_eq!(
            vendor_line(&vendor),
            "openai: DOWN at http://127.0.0.1:9/v1 since 2026-11-23T08:00:00.000Z: unreachable, connection refused"
        );
        vendor["trouble"] = Value::Null;
        vendor["status"] = "UP".into();
        assert_eq!(vendor_line(&vendor), "openai: UP at http://127.0.0.1:9/v1");
    }
}
