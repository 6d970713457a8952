//! The encoding of calls that await a reply from outside, and of replies.

use std::borrow::Cow;

use domain::pause::CallReply;
use domain::step::{AwaitedCall, ReplyKind, ToolSpec};
use serde::{Deserialize, Serialize};

use super::{VERSION, decode_json, encode_json, read_versioned};
use crate::sql::Result;

/// A call that awaits a reply.
#[derive(Serialize, Deserialize)]
pub(super) struct AwaitedForm<'a> {
    call: Cow<'a, str>,
    kind: KindForm,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum KindForm {
    Function,
    Question,
    Approval,
}

#[derive(Serialize, Deserialize)]
struct VersionedReply<'a> {
    v: u32,
    reply: ReplyForm<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReplyForm<'a> {
    Output { text: Cow<'a, str>, failed: bool },
    Approved,
    Refused { reason: Cow<'a, str> },
}

pub(super) fn awaited_form(awaited: &AwaitedCall) -> AwaitedForm<'_> {
    let kind = match awaited.kind {
        ReplyKind::Function => KindForm::Function,
        ReplyKind::Question => KindForm::Question,
        ReplyKind::Approval => KindForm::Approval,
    };
    AwaitedForm { call: (&awaited.call).into(), kind }
}

pub(super) fn awaited_of(form: AwaitedForm<'_>) -> AwaitedCall {
    let kind = match form.kind {
        KindForm::Function => ReplyKind::Function,
        KindForm::Question => ReplyKind::Question,
        KindForm::Approval => ReplyKind::Approval,
    };
    AwaitedCall { call: form.call.into_owned(), kind }
}

pub(crate) fn write_reply(reply: &CallReply) -> Result<String> {
    let reply = match reply {
        CallReply::Output { text, failed } => ReplyForm::Output { text: text.into(), failed: *failed },
        CallReply::Approved => ReplyForm::Approved,
        CallReply::Refused { reason } => ReplyForm::Refused { reason: reason.into() },
    };
    encode_json(&VersionedReply { v: VERSION, reply })
}

/// Decodes the output of [`write_reply`]. Errors name `row`.
pub(crate) fn read_reply(json: &str, row: &str) -> Result<CallReply> {
    let form: VersionedReply<'_> =
        read_versioned(json, "awaited call", row, |form: &VersionedReply<'_>| form.v)?;
    Ok(match form.reply {
        ReplyForm::Output { text, failed } => CallReply::Output { text: text.into_owned(), failed },
        ReplyForm::Approved => CallReply::Approved,
        ReplyForm::Refused { reason } => CallReply::Refused { reason: reason.into_owned() },
    })
}

/// Encodes the functions of a client; `None` if there are none.
pub(crate) fn write_functions(functions: &[ToolSpec]) -> Result<Option<String>> {
    let form = |tool: &ToolSpec| (tool.name.clone(), tool.description.clone(), tool.schema.clone());
    let forms: Vec<_> = functions.iter().map(form).collect();
    if forms.is_empty() { Ok(None) } else { encode_json(&forms).map(Some) }
}

/// Decodes the output of [`write_functions`]. Errors name `row`.
pub(crate) fn read_functions(json: Option<&str>, row: &str) -> Result<Vec<ToolSpec>> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let forms: Vec<(String, String, String)> = decode_json(json, "question of answer", row)?;
    Ok(forms.into_iter().map(|(name, description, schema)| ToolSpec { name, description, schema }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_round_trip() {
        for reply in [
            CallReply::Output { text: "a \u{2028} \0".to_owned(), failed: true },
            CallReply::Approved,
            CallReply::Refused { reason: String::new() },
        ] {
            let json = write_reply(&reply).expect("JSON");
            assert!(!json.contains('\0'), "the engines refuse it");
            assert_eq!(read_reply(&json, "row").expect("a reply"), reply);
        }
        let newer = r#"{"v": 2, "reply": "asked_back"}"#;
        assert!(matches!(read_reply(newer, "row"), Err(crate::StoreError::Newer { .. })));
    }
}
