//! Renders the codes of errors and the remedy of each.

use std::fmt::Write;

use control::PublicCode;
use domain::answer::ErrorCode;

use super::super::error_responses::code_meaning;
use super::text::{DescriptionLine, Plain};
use crate::error::Code;

/// Renders a table of the codes of calls, in the order of their statuses.
pub(super) fn render_error_table() -> String {
    let mut codes = Code::ALL.to_vec();
    codes.sort_by_key(|code| code.on_the_wire().1);
    let mut out = String::from("<table class=\"codes\">");
    for code in codes {
        let (word, status) = code.on_the_wire();
        let remedy = capitalize(code_remedy(code));
        let meaning = capitalize(code_meaning(code).0);
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
    for code in ErrorCode::ALL {
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

/// Returns what to do about a code: a sentence without its full stop.
const fn code_remedy(code: Code) -> &'static str {
    match code {
        Code::UseCase(code) => use_case_remedy(code),
        Code::MethodNotAllowed => "`Allow` lists the methods of the path",
        Code::RangeNotSatisfiable => "`Content-Range` has the size of the file",
        Code::TargetTooLong => "shorten the path or the query",
        Code::HeadTooLarge => "send fewer or shorter headers",
        Code::TooSlow => "send the body without pauses",
    }
}

const fn use_case_remedy(code: PublicCode) -> &'static str {
    match code {
        PublicCode::BadRequest => "the message says what is wrong; correct the request",
        PublicCode::UnknownModel
        | PublicCode::UnknownSetting
        | PublicCode::UnknownJurisdiction
        | PublicCode::UnknownAgent
        | PublicCode::UnknownSkill => "the message lists the valid values; fetch the catalog again",
        PublicCode::AmbiguousName => "use one of the full names in the message, or an id",
        PublicCode::EmptyFile => "upload a file with content",
        PublicCode::IsFolder => "list the folder, and use the path of a file in it",
        PublicCode::NotAFolder => "use the path of a folder",
        PublicCode::OutsideWorkspace => "use a path as an upload or a listing returned it",
        PublicCode::Forbidden => "the message says what does not permit it; choose another path",
        PublicCode::KeyScope => "create a key with the permission that the message names",
        PublicCode::NotFound => "check the id or the path, and the account of the key",
        PublicCode::ConversationBusy => {
            "wait for the answer, or stop it, then ask again; `Retry-After` says when"
        }
        PublicCode::InsufficientCredits => "ask the operator for credits",
        PublicCode::SpendingLimit => "use another key, or have one created with a higher limit",
        PublicCode::NoMachine => "ask the operator for a machine; files work without one",
        PublicCode::MachineNotRunning => "start the machine, wait until it is `RUNNING`, then ask again",
        PublicCode::ModelUnavailable => "ask again later, or name another model of the catalog",
        PublicCode::IdempotencyMismatch => "use a new key for each question",
        PublicCode::AlreadyExists => "choose another name, or delete what is there",
        PublicCode::AmbiguousPath => "percent-encode every byte of the path that is meant",
        PublicCode::NotEmpty => "delete what is in it, or add `recursive=true`",
        PublicCode::TooManyEntries => "delete or move entries, or use the paths that you know",
        PublicCode::QuotaExceeded => "delete files, or ask the operator for a larger quota",
        PublicCode::TooLarge => "send less; upload long texts as files and attach them",
        PublicCode::RateLimited => "repeat the call after `Retry-After`",
        PublicCode::Internal => "repeat the call; if it fails again, tell the operator the `X-Request-Id`",
        PublicCode::Unavailable => "repeat the call after `Retry-After`",
    }
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
        for code in Code::ALL {
            let word = code.on_the_wire().0;
            let row = table.split("<tr ").find(|row| row.starts_with(&format!("id=\"error-{word}\"")));
            let row = row.unwrap_or_else(|| panic!("{word}"));
            assert!(row.contains(&DescriptionLine(&capitalize(code_remedy(code))).to_string()), "{row}");
        }
        assert!(table.find("BAD_REQUEST") < table.find("RATE_LIMITED"), "in the order of statuses");
        assert_eq!(answer_errors().matches("<tr id=").count(), ErrorCode::ALL.len());
    }
}
