//! The encoding of a completed answer: its parts and its sources.

use std::borrow::Cow;

use domain::answer::{
    Answer, AnswerEnding, AnswerSource, CallRun, ContentPart, PartContent, RevisionStamp, RunState,
};
use domain::id::MessageId;
use domain::step::{Purpose, USE_SKILL};
use serde::{Deserialize, Serialize};

use super::log::{NameForm, PlaceForm, PurposeForm};
use super::{VERSION, encode_json, read_versioned};
use crate::error::StoreError;
use crate::sql::Result;

#[derive(Serialize, Deserialize)]
struct AnswerForm<'a> {
    v: u32,
    epoch: u64,
    revision: u64,
    parts: Vec<PartForm<'a>>,
    sources: Vec<SourceForm<'a>>,
    /// The passages that it cites; absent in answers of versions that did not check citations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passages: Vec<AnswerPassageForm<'a>>,
}

#[derive(Serialize, Deserialize)]
struct AnswerPassageForm<'a> {
    n: u32,
    text: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
struct PartForm<'a> {
    id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    body: BodyForm<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BodyForm<'a> {
    Text(Cow<'a, str>),
    Reasoning(Cow<'a, str>),
    Tool(RunForm<'a>),
    /// The older encoding, from before agents: skills only.
    Skill {
        skill: NameForm<'a>,
        call: Cow<'a, str>,
        state: StateForm,
    },
    File(Cow<'a, str>),
}

#[derive(Serialize, Deserialize)]
struct RunForm<'a> {
    tool: Cow<'a, str>,
    call: Cow<'a, str>,
    state: StateForm,
    sources: Vec<PlaceForm<'a>>,
    #[serde(flatten)]
    purpose: PurposeForm<'a>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    report: Cow<'a, str>,
    /// Missing in older answers.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    arguments: Cow<'a, str>,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum StateForm {
    Pending,
    Complete,
    Error,
}

impl From<RunState> for StateForm {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Pending => Self::Pending,
            RunState::Complete => Self::Complete,
            RunState::Error => Self::Error,
        }
    }
}

impl From<StateForm> for RunState {
    fn from(form: StateForm) -> Self {
        match form {
            StateForm::Pending => Self::Pending,
            StateForm::Complete => Self::Complete,
            StateForm::Error => Self::Error,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct SourceForm<'a> {
    n: u32,
    place: PlaceForm<'a>,
    /// Absent in answers of versions in which all texts of an answer could cite it.
    #[serde(default, skip_serializing_if = "is_zero")]
    since: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Encodes the parts, sources and cited passages of an answer in at most `max_bytes`. Drops the passages, then parts at the
/// end until they fit, because completing an answer must never fail.
pub(crate) fn write_answer(answer: &Answer, max_bytes: usize) -> Result<String> {
    let mut part_count = answer.parts.len();
    let mut passages = answer.cited_passages();
    loop {
        let json = encode_json(&AnswerForm {
            v: VERSION,
            epoch: answer.stamp.epoch,
            revision: answer.stamp.revision,
            parts: answer.parts.iter().take(part_count).map(part_form).collect(),
            sources: answer
                .sources
                .iter()
                .map(|source| SourceForm {
                    n: source.number,
                    place: (&source.place).into(),
                    since: answer.citable_since(source.number),
                })
                .collect(),
            passages: passages
                .iter()
                .map(|(n, text)| AnswerPassageForm { n: *n, text: (*text).into() })
                .collect(),
        })?;
        if json.len() <= max_bytes || part_count == 0 {
            return Ok(json);
        }
        if passages.is_empty() {
            part_count /= 2;
        }
        passages.clear();
    }
}

/// Decodes the output of [`write_answer`].
pub(crate) fn read_answer(json: &str, id: MessageId, ending: AnswerEnding) -> Result<Answer> {
    let form: AnswerForm<'_> = read_versioned(json, "answer", id, |form: &AnswerForm<'_>| form.v)?;
    let mut answer = Answer::new(id, &[]);
    answer.stamp = RevisionStamp { epoch: form.epoch, revision: form.revision };
    answer.parts = form.parts.into_iter().map(|part| part_of(part, id)).collect::<Result<_>>()?;
    answer.ending = Some(ending);
    let sources = form.sources.into_iter();
    let sources =
        sources.map(|source| (AnswerSource { number: source.n, place: source.place.into() }, source.since));
    let passages = form.passages.into_iter().map(|passage| (passage.n, passage.text.into()));
    Ok(answer.with_sources(sources).with_passages(passages))
}

fn part_form(part: &ContentPart) -> PartForm<'_> {
    let body = match &part.body {
        PartContent::Text(markdown) => BodyForm::Text(markdown.into()),
        PartContent::Reasoning(markdown) => BodyForm::Reasoning(markdown.into()),
        PartContent::Run(CallRun { call, tool, arguments, purpose, state, sources, report }) => {
            BodyForm::Tool(RunForm {
                tool: tool.into(),
                call: call.into(),
                state: (*state).into(),
                sources: sources.iter().map(Into::into).collect(),
                purpose: purpose.into(),
                report: report.into(),
                arguments: arguments.into(),
            })
        }
        PartContent::File { path } => BodyForm::File(path.into()),
    };
    PartForm { id: part.id.to_string().into(), step: part.step, body }
}

fn part_of(form: PartForm<'_>, answer: MessageId) -> Result<ContentPart> {
    let id = form.id.parse().map_err(|error| StoreError::damaged_row("answer", answer, error))?;
    let body = match form.body {
        BodyForm::Text(markdown) => PartContent::Text(markdown.into_owned()),
        BodyForm::Reasoning(markdown) => PartContent::Reasoning(markdown.into_owned()),
        BodyForm::Tool(RunForm { tool, call, state, sources, purpose, report, arguments }) => {
            PartContent::Run(CallRun {
                call: call.into_owned(),
                tool: tool.into_owned(),
                arguments: arguments.into_owned(),
                purpose: purpose.into(),
                state: state.into(),
                sources: sources.into_iter().map(Into::into).collect(),
                report: report.into_owned(),
            })
        }
        BodyForm::Skill { skill, call, state } => PartContent::Run(CallRun {
            call: call.into_owned(),
            tool: USE_SKILL.to_owned(),
            arguments: String::new(),
            purpose: Purpose::Skill(skill.into()),
            state: state.into(),
            sources: Vec::new(),
            report: String::new(),
        }),
        BodyForm::File(path) => PartContent::File { path: path.into_owned() },
    };
    Ok(ContentPart { id, step: form.step, body })
}
