//! Entries of the step log.

use std::borrow::Cow;
use std::sync::Arc;

use domain::citation::{NumberedPassage, Place};
use domain::id::{InstanceId, SkillId};
use domain::skill::SkillName;
use domain::step::{Block, Call, CallResult, Outcome, Step, StopReason, Usage};
use serde::{Deserialize, Serialize};

use super::{VERSION, known, write};
use crate::error::StoreError;
use crate::sql::Result;

#[derive(Serialize, Deserialize)]
struct StepForm<'a> {
    v: u32,
    instance: Cow<'a, str>,
    blocks: Vec<BlockForm<'a>>,
    stop: StopForm,
    usage: UsageForm,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BlockForm<'a> {
    Text(Cow<'a, str>),
    Reasoning(Cow<'a, str>),
    Call {
        id: Cow<'a, str>,
        tool: Cow<'a, str>,
        arguments: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skill: Option<SkillForm<'a>>,
    },
    Opaque {
        format: Cow<'a, str>,
        json: Cow<'a, str>,
    },
}

/// A skill's names; its identifier is made from them.
#[derive(Serialize, Deserialize)]
pub(super) struct SkillForm<'a> {
    name: Cow<'a, str>,
    full: Cow<'a, str>,
}

impl<'a> From<&'a SkillName> for SkillForm<'a> {
    fn from(skill: &'a SkillName) -> Self {
        Self { name: (&skill.name).into(), full: (&skill.full_name).into() }
    }
}

impl From<SkillForm<'_>> for SkillName {
    fn from(form: SkillForm<'_>) -> Self {
        Self { id: SkillId::of(&form.full), name: form.name.into_owned(), full_name: form.full.into_owned() }
    }
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum StopForm {
    Done,
    Calls,
    OutputFull,
    Refused,
    Stopped,
}

#[derive(Serialize, Deserialize)]
struct UsageForm {
    input: u64,
    cached: u64,
    output: u64,
    reasoning: u64,
    estimated: bool,
}

#[derive(Serialize, Deserialize)]
struct ResultForm<'a> {
    v: u32,
    call: Cow<'a, str>,
    tool: Cow<'a, str>,
    outcome: OutcomeForm,
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passages: Vec<PassageForm<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    written: Vec<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum OutcomeForm {
    Done,
    Failed,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
struct PassageForm<'a> {
    n: u32,
    place: PlaceForm<'a>,
    text: Cow<'a, str>,
}

/// Where a passage stands.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlaceForm<'a> {
    /// In a file.
    File {
        path: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        page: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<(u32, u32)>,
    },
    /// On the web.
    Web { url: Cow<'a, str>, title: Cow<'a, str> },
}

impl<'a> From<&'a Place> for PlaceForm<'a> {
    fn from(place: &'a Place) -> Self {
        match place {
            Place::File { path, page, lines } => Self::File { path: path.into(), page: *page, lines: *lines },
            Place::Web { url, title } => Self::Web { url: url.into(), title: title.into() },
        }
    }
}

impl From<PlaceForm<'_>> for Place {
    fn from(form: PlaceForm<'_>) -> Self {
        match form {
            PlaceForm::File { path, page, lines } => Self::File { path: path.into_owned(), page, lines },
            PlaceForm::Web { url, title } => Self::Web { url: url.into_owned(), title: title.into_owned() },
        }
    }
}

/// A step as it is stored.
pub(crate) fn write_step(step: &Step, instance: InstanceId) -> Result<String> {
    write(&StepForm {
        v: VERSION,
        instance: instance.to_string().into(),
        blocks: step.blocks.iter().map(block_form).collect(),
        stop: stop_form(step.stop),
        usage: UsageForm {
            input: step.usage.input_tokens,
            cached: step.usage.cached_tokens,
            output: step.usage.output_tokens,
            reasoning: step.usage.reasoning_tokens,
            estimated: step.usage.estimated,
        },
    })
}

/// The step that [`write_step`] wrote into the row `row` of the log.
pub(crate) fn read_step(json: &str, row: &str) -> Result<(Arc<Step>, InstanceId)> {
    let form: StepForm<'_> =
        serde_json::from_str(json).map_err(|error| StoreError::damaged("log", row, error))?;
    known(form.v).map_err(|reason| StoreError::damaged("log", row, reason))?;
    let instance = form.instance.parse().map_err(|error| StoreError::damaged("log", row, error))?;
    let step = Step {
        blocks: form.blocks.into_iter().map(block_of).collect(),
        stop: stop_of(form.stop),
        usage: Usage {
            input_tokens: form.usage.input,
            cached_tokens: form.usage.cached,
            output_tokens: form.usage.output,
            reasoning_tokens: form.usage.reasoning,
            estimated: form.usage.estimated,
        },
    };
    Ok((Arc::new(step), instance))
}

/// A result as it is stored.
pub(crate) fn write_result(result: &CallResult) -> Result<String> {
    write(&ResultForm {
        v: VERSION,
        call: (&result.call).into(),
        tool: (&result.tool).into(),
        outcome: match result.outcome {
            Outcome::Done => OutcomeForm::Done,
            Outcome::Failed => OutcomeForm::Failed,
            Outcome::Interrupted => OutcomeForm::Interrupted,
        },
        text: (&result.text).into(),
        passages: result
            .passages
            .iter()
            .map(|passage| PassageForm {
                n: passage.number,
                place: (&passage.place).into(),
                text: (&passage.text).into(),
            })
            .collect(),
        written: result.written.iter().map(Into::into).collect(),
    })
}

/// The result that [`write_result`] wrote into the row `row` of the log.
pub(crate) fn read_result(json: &str, row: &str) -> Result<Arc<CallResult>> {
    let form: ResultForm<'_> =
        serde_json::from_str(json).map_err(|error| StoreError::damaged("log", row, error))?;
    known(form.v).map_err(|reason| StoreError::damaged("log", row, reason))?;
    Ok(Arc::new(CallResult {
        call: form.call.into_owned(),
        tool: form.tool.into_owned(),
        outcome: match form.outcome {
            OutcomeForm::Done => Outcome::Done,
            OutcomeForm::Failed => Outcome::Failed,
            OutcomeForm::Interrupted => Outcome::Interrupted,
        },
        text: form.text.into_owned(),
        passages: form
            .passages
            .into_iter()
            .map(|passage| NumberedPassage {
                number: passage.n,
                place: passage.place.into(),
                text: passage.text.into_owned(),
            })
            .collect(),
        written: form.written.into_iter().map(Cow::into_owned).collect(),
    }))
}

fn block_form(block: &Block) -> BlockForm<'_> {
    match block {
        Block::Text(text) => BlockForm::Text(text.into()),
        Block::Reasoning(text) => BlockForm::Reasoning(text.into()),
        Block::Call(call) => BlockForm::Call {
            id: (&call.id).into(),
            tool: (&call.tool).into(),
            arguments: (&call.arguments).into(),
            skill: call.skill.as_ref().map(Into::into),
        },
        Block::Opaque { format, json } => BlockForm::Opaque { format: format.into(), json: json.into() },
    }
}

fn block_of(form: BlockForm<'_>) -> Block {
    match form {
        BlockForm::Text(text) => Block::Text(text.into_owned()),
        BlockForm::Reasoning(text) => Block::Reasoning(text.into_owned()),
        BlockForm::Call { id, tool, arguments, skill } => Block::Call(Call {
            id: id.into_owned(),
            tool: tool.into_owned(),
            arguments: arguments.into_owned(),
            skill: skill.map(Into::into),
        }),
        BlockForm::Opaque { format, json } => {
            Block::Opaque { format: format.into_owned(), json: json.into_owned() }
        }
    }
}

const fn stop_form(stop: StopReason) -> StopForm {
    match stop {
        StopReason::Done => StopForm::Done,
        StopReason::Calls => StopForm::Calls,
        StopReason::OutputFull => StopForm::OutputFull,
        StopReason::Refused => StopForm::Refused,
        StopReason::Stopped => StopForm::Stopped,
    }
}

const fn stop_of(form: StopForm) -> StopReason {
    match form {
        StopForm::Done => StopReason::Done,
        StopForm::Calls => StopReason::Calls,
        StopForm::OutputFull => StopReason::OutputFull,
        StopForm::Refused => StopReason::Refused,
        StopForm::Stopped => StopReason::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> CallResult {
        CallResult {
            call: "c\"1".to_owned(),
            tool: "search".to_owned(),
            outcome: Outcome::Interrupted,
            text: "nul \0 and line\u{2028}".to_owned(),
            passages: vec![
                NumberedPassage {
                    number: 1,
                    place: Place::File { path: "/uploads/a.pdf".to_owned(), page: Some(3), lines: None },
                    text: "one".to_owned(),
                },
                NumberedPassage {
                    number: 2,
                    place: Place::Web { url: "https://x".to_owned(), title: String::new() },
                    text: String::new(),
                },
            ],
            written: vec!["/out.txt".to_owned()],
        }
    }

    fn call(skill: Option<&str>) -> Call {
        let skill = skill.map(|full_name| SkillName {
            id: SkillId::of(full_name),
            name: "b".to_owned(),
            full_name: full_name.to_owned(),
        });
        Call { id: "c".to_owned(), tool: "t".to_owned(), arguments: "{".to_owned(), skill }
    }

    #[test]
    fn entries_survive_their_form_and_hold_no_nul() {
        let step = Step {
            blocks: vec![
                Block::Reasoning("hm \0".to_owned()),
                Block::Text("text".to_owned()),
                Block::Call(call(None)),
                Block::Call(call(Some("a:b"))),
                Block::Opaque { format: "f".to_owned(), json: "{}".to_owned() },
            ],
            stop: StopReason::OutputFull,
            usage: Usage { input_tokens: u64::MAX, estimated: true, ..Usage::default() },
        };
        let instance = InstanceId::from_random(9);
        let json = write_step(&step, instance).expect("a step has a form");
        assert!(!json.contains('\0'));
        assert_eq!(read_step(&json, "row").expect("what was written"), (Arc::new(step), instance));
        let json = write_result(&result()).expect("a result has a form");
        assert!(!json.contains('\0'));
        assert_eq!(*read_result(&json, "row").expect("what was written"), result());
    }

    #[test]
    fn what_is_damaged_or_too_new_names_its_row() {
        let json = write_result(&result()).expect("a result has a form").replacen("\"v\":1", "\"v\":2", 1);
        for broken in ["", "{", "[]", "null", json.as_str()] {
            for error in [read_step(broken, "row 7").err(), read_result(broken, "row 7").err()] {
                let error = error.expect("it is damaged").to_string();
                assert!(error.starts_with("log row 7 is damaged"), "{error}");
            }
        }
    }
}
