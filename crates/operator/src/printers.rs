//! Prints answers to people: tables and lines instead of JSON.

use serde_json::{Value, json};

use crate::output;
use crate::request::AdminRequest;

/// The fields of a report of usage.
const USAGE: [&str; 9] = [
    "steps",
    "credits",
    "summaries",
    "summaryCredits",
    "inputTokens",
    "cachedTokens",
    "outputTokens",
    "reasoningTokens",
    "estimatedTokens",
];

/// Returns the printer of this request's answer.
pub(crate) fn printer_for(request: &AdminRequest) -> fn(&Value, bool) {
    match request {
        AdminRequest::ListAccounts => |answer, _| {
            print_rows(
                answer,
                "accounts",
                "accounts",
                &["email", "accountId", "licenceUntil", "balance", "reserved", "conversations"],
            );
        },
        AdminRequest::ListKeys { .. } => |answer, _| {
            print_rows(
                answer,
                "keys",
                "keys",
                &["name", "keyId", "scope", "expiresAt", "lastUsedAt", "spendingLimit", "spent"],
            );
        },
        AdminRequest::ListMachines => |answer, _| {
            print_rows(answer, "machines", "machines", &["email", "account", "status", "driver", "pids"])
        },
        AdminRequest::ListAudit { .. } => |answer, _| {
            print_rows(
                answer,
                "entries",
                "entries",
                &["entry", "at", "actor", "action", "subject", "detail"],
            );
            if let Some(next) = answer["next"].as_i64() {
                output::print_line(format_args!("\nmore: --before {next}"));
            }
        },
        AdminRequest::ListFailedJobs { .. } => |answer, _| {
            print_rows(
                answer,
                "jobs",
                "failed jobs",
                &["jobId", "kind", "accountId", "attempts", "failedAt", "error"],
            );
        },
        AdminRequest::ShowStatus => print_status,
        AdminRequest::ListModels => |answer, _| print_models(answer),
        AdminRequest::ShowUsage { .. } => |answer, _| print_usage(answer),
        AdminRequest::ShowMachineLog { .. } => |answer, _| {
            for line in answer["log"].as_str().unwrap_or_default().lines() {
                output::print_line(replace_control_chars(line));
            }
        },
        AdminRequest::RunInMachine { .. } => |answer, _| print_run(answer),
        _ => output::print_object,
    }
}

/// Prints the output of a command in a machine.
pub(crate) fn print_run(answer: &Value) {
    for line in answer["output"].as_str().unwrap_or_default().lines() {
        output::print_line(replace_control_chars(line));
    }
}

/// Prints a table of these fields of a list, or that the list is empty.
fn print_rows(answer: &Value, list: &str, what: &str, heads: &[&str]) {
    match answer[list].as_array().map_or(&[][..], Vec::as_slice) {
        [] => output::print_line(format_args!("no {what}")),
        rows => output::print_table(heads, rows),
    }
}

/// Prints the models and the health of their vendors.
fn print_models(answer: &Value) {
    let listed = answer["models"].as_array().map_or(&[][..], Vec::as_slice);
    let rows: Vec<Value> = listed.iter().map(model_row).collect();
    output::print_table(
        &["model", "vendor", "status", "context", "output", "base", "read", "written", "settings", "notes"],
        &rows,
    );
    output::print_line(
        "\nContext and output in tokens; prices in credits: base, per thousand tokens read and written.",
    );
    for vendor in answer["vendors"].as_array().map_or(&[][..], Vec::as_slice) {
        output::print_line(vendor_line(vendor));
    }
    if let Some(failure) = answer["failure"].as_str() {
        output::print_line(format_args!("model discovery failed: {failure}"));
    }
}

fn model_row(model: &Value) -> Value {
    let is_builtin = model["builtin"] == true;
    let vendor =
        if is_builtin { "-".to_owned() } else { output::format_value(&model["vendor"]).to_lowercase() };
    let notes = [
        ("default", "default"),
        ("builtin", "built in"),
        ("deprecated", "deprecated"),
        ("seesImages", "sees images"),
    ];
    let notes = notes.iter().filter(|(field, _)| model[*field] == true).map(|(_, note)| *note);
    let notes = notes.chain((model["usesTools"] == false).then_some("accepts no tools"));
    json!({
        "model": model["id"], "vendor": vendor, "status": model["status"], "context": model["contextTokens"],
        "output": model["outputMaxTokens"], "base": model["priceBase"], "read": model["priceThousandTokensRead"],
        "written": model["priceThousandTokensWritten"], "settings": model["settings"],
        "notes": notes.collect::<Vec<_>>().join(", "),
    })
}

/// Prints usage by day, by model, and in total.
fn print_usage(answer: &Value) {
    if answer["complete"] == false {
        output::print_line("the oldest days are left out; --since limits the period\n");
    }
    let named = |list: &str, name: &str| -> Vec<Value> {
        let rows = answer[list].as_array().map_or(&[][..], Vec::as_slice);
        rows.iter().map(|row| first_column(row, &row[name])).collect()
    };
    let total = first_column(&answer["total"], &"total".into());
    let rows: Vec<Value> =
        named("days", "day").into_iter().chain(named("models", "model")).chain([total]).collect();
    let heads: Vec<&str> = ["of"].into_iter().chain(USAGE).collect();
    output::print_table(&heads, &rows);
}

fn first_column(row: &Value, name: &Value) -> Value {
    let mut row = row.clone();
    if let Value::Object(fields) = &mut row {
        fields.insert("of".to_owned(), name.clone());
    }
    row
}

fn print_status(answer: &Value, _: bool) {
    let text = |name: &str| output::format_value(&answer[name]);
    output::print_line(format_args!(
        "causerie {} at {}, since {}",
        text("version"),
        text("address"),
        text("startedAt")
    ));
    output::print_line(format_args!("accounts: {}", text("accounts")));
    let machines = answer["machines"].as_object().into_iter().flatten();
    let machines: Vec<String> =
        machines.map(|(state, count)| format!("{count} {}", state.to_lowercase())).collect();
    let machines = if machines.is_empty() { "none".to_owned() } else { machines.join(", ") };
    output::print_line(format_args!("machines: {machines} ({})", text("driver")));
    output::print_line(format_args!("default model: {}", text("defaultModel")));
    let vendors = answer["vendors"].as_array().map_or(&[][..], Vec::as_slice);
    for vendor in vendors {
        output::print_line(vendor_line(vendor));
    }
}

/// Returns the health of a vendor of models in one line.
fn vendor_line(vendor: &Value) -> String {
    let text = |name: &str| output::format_value(&vendor[name]);
    let health = format!("{}: {} at {}", text("vendor").to_lowercase(), text("status"), text("baseUrl"));
    match vendor_trouble(vendor) {
        None => health,
        Some(trouble) => format!("{health} since {}: {trouble}", text("since")),
    }
}

/// Returns the reason why a vendor does not answer.
pub(crate) fn vendor_trouble(vendor: &Value) -> Option<String> {
    let cause = vendor["cause"].as_str().filter(|cause| !cause.is_empty());
    let what = match vendor["trouble"].as_str()? {
        // The cause already states that.
        "unreachable" => return Some(cause.unwrap_or("it cannot be reached").to_owned()),
        "key" => "it does not accept the key",
        "payment" => "its account has no credit left",
        "refused" => "it refuses to list its models",
        "unreadable" => "its response is not a list of models",
        "empty" => "it lists no models",
        other => other,
    };
    Some(cause.map_or_else(|| what.to_owned(), |cause| format!("{what}: {cause}")))
}

/// Replaces control characters: a tool may have written terminal commands.
fn replace_control_chars(line: &str) -> String {
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
        assert_eq!(replace_control_chars("a\tb\u{1b}[2Jc\u{9b}d\r"), "a\tb\u{fffd}[2Jc\u{fffd}d\u{fffd}");
    }

    #[test]
    fn vendor_line_explains_unreachable_vendor() {
        let mut vendor = json!({
            "vendor": "OPENAI", "status": "DOWN", "baseUrl": "http://127.0.0.1:9/v1", "trouble": "unreachable",
            "cause": "it cannot be reached: the connection was refused", "since": "2026-11-23T08:00:00.000Z",
        });
        let line = vendor_line(&vendor);
        let expected = "openai: DOWN at http://127.0.0.1:9/v1 since 2026-11-23 08:00:00Z: it cannot be reached: the \
                        connection was refused";
        assert_eq!(line, expected);
        vendor["trouble"] = "key".into();
        vendor["cause"] = "401: no such key".into();
        assert!(
            vendor_line(&vendor).ends_with("Z: it does not accept the key: 401: no such key"),
            "{vendor}"
        );
        vendor["trouble"] = Value::Null;
        vendor["status"] = "UP".into();
        assert_eq!(vendor_line(&vendor), "openai: UP at http://127.0.0.1:9/v1");
    }
}
