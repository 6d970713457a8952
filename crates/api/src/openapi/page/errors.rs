//! Renders the codes of errors and the remedy of each.

use std::fmt::Write;

use domain::answer::ErrorCode;

use super::super::error_responses::describe_code;
use super::text::{DescriptionLine, Plain};
use crate::error::Code;

/// Renders a table of the codes of calls, in the order of their statuses.
pub(super) fn render_error_table() -> String {
    let mut codes: Vec<Code> = Code::all().collect();
    codes.sort_by_key(|code| code.on_the_wire().1);
    let mut out = String::from("<table class=\"codes\">");
    for code in codes {
        let (word, status) = code.on_the_wire();
        let description = describe_code(code);
        let (meaning, remedy) = (capitalize(description.meaning), capitalize(description.remedy));
        let _ = write!(
            out,
            "<tr id=\"error-{0}\"><th><a href=\"#error-{0}\"><code>{0}</code></a> <small>{1}</small></th>\
             <td>{2}. {3}.</td></tr>",
            Plain(word),
            status.as_u16(),
            DescriptionLine(&meaning),
            DescriptionLine(&remedy),
        );
    }
    out.push_str("</table>");
    out
}

/// Renders a table of the codes of answers that failed.
pub(super) fn answer_errors() -> String {
    let mut out = String::from("<table class=\"codes\">");
    for &code in ErrorCode::ALL {
        let word = code.as_str();
        let _ = write!(
            out,
            "<tr id=\"answer-error-{0}\"><th><a href=\"#answer-error-{0}\"><code>{0}</code></a></th><td>{1}</td></tr>",
            Plain(word),
            DescriptionLine(answer_remedy(code)),
        );
    }
    out.push_str("</table>");
    out
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns what an answer's code means and what to do about it.
const fn answer_remedy(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::ModelUnavailable => {
            "The model's vendor did not answer in several attempts. Ask again later, or name another model."
        }
        ErrorCode::ModelRejected => {
            "The model's vendor refused the request. Name another model; the operator's log has the reason."
        }
        ErrorCode::ModelKeyRefused => {
            "The model's vendor does not accept the service's key. Tell the operator; the question is not the cause."
        }
        ErrorCode::ModelUnpaid => {
            "The service's account with the model's vendor has no credit left. Tell the operator; the question is not the cause."
        }
        ErrorCode::AgentUnavailable => {
            "The agent of the question was removed while the answer was written. Ask another agent of the catalog."
        }
        ErrorCode::ContextTooLong => {
            "The conversation or its files do not fit into the model. Begin a new conversation, or attach less."
        }
        ErrorCode::InsufficientCredits => {
            "The balance ended. Ask the operator for credits, then continue the conversation."
        }
        ErrorCode::SpendingLimit => "The key reached its spending limit. Use another key.",
        ErrorCode::MachineFailed => {
            "The account's machine could not be started. Tell the operator; the message has the reason."
        }
        ErrorCode::TooManySteps => {
            "The agent took as many steps as it may. Continue the conversation, or ask for less at once."
        }
        ErrorCode::OutputExhausted => {
            "The model reached the limit of its output; the text is what it wrote. Ask it to go on, choose less reasoning effort, or another model."
        }
        ErrorCode::ModelRefused => "The model declined to answer. Put the question in other words.",
        ErrorCode::ReplyOverdue => {
            "A pending call had no reply in time. Ask again, and reply to the calls of the answer before they expire."
        }
        ErrorCode::Interrupted => {
            "The service was restored from a backup that was made while the answer was written. See what its tools have done, then ask again."
        }
        ErrorCode::Internal => "The service failed. Ask again; if it fails again, tell the operator.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_table_has_row_per_code() {
        let table = render_error_table();
        for code in Code::all() {
            let word = code.on_the_wire().0;
            let row = table.split("<tr ").find(|row| row.starts_with(&format!("id=\"error-{word}\"")));
            let row = row.unwrap_or_else(|| panic!("{word}"));
            assert!(
                row.contains(&DescriptionLine(&capitalize(describe_code(code).remedy)).to_string()),
                "{row}"
            );
        }
        assert!(table.find("BAD_REQUEST") < table.find("RATE_LIMITED"), "in the order of statuses");
        assert_eq!(answer_errors().matches("<tr id=").count(), ErrorCode::ALL.len());
    }
}
