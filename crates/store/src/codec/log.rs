//! The encoding of entries of the step log.

use std::borrow::Cow;
use std::sync::Arc;

use domain::agent::AgentName;
use domain::citation::{NumberedCitation, NumberedPassage, PassagePlace};
use domain::hex;
use domain::id::{AgentId, InstanceId, SkillId};
use domain::image::{ImageKind, ImageRef};
use domain::skill::SkillName;
use domain::step::{CallResult, OutputBlock, Purpose, Step, StepCall, StepOutcome, StopReason, TokenUsage};
use domain::step_note::StepNote;
use domain::unread::{UnreadFile, UnreadReason};
use serde::{Deserialize, Serialize};

use super::awaited::{AwaitedForm, awaited_form, awaited_of};
use super::{VERSION, encode_json, read_versioned};
use crate::error::StoreError;
use crate::sql::Result;

#[derive(Serialize, Deserialize)]
struct StepForm<'a> {
    v: u32,
    instance: Cow<'a, str>,
    blocks: Vec<BlockForm<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cited: Vec<CitationForm<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<NoteForm<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    awaited: Vec<AwaitedForm<'a>>,
    stop: StopForm,
    usage: UsageForm,
}

/// A note on a step.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NoteForm<'a> {
    ToolsRefused,
    ToolLeftOut(Cow<'a, str>),
    CallsLeftOut(u32),
    UnknownStop,
}

/// A source named by the vendor.
#[derive(Serialize, Deserialize)]
struct CitationForm<'a> {
    block: u32,
    at: usize,
    n: u32,
    place: PlaceForm<'a>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    quote: Cow<'a, str>,
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
        #[serde(flatten)]
        purpose: PurposeForm<'a>,
    },
    Opaque {
        format: Cow<'a, str>,
        json: Cow<'a, str>,
    },
}

/// The purpose of a call: at most one field is set; none for a tool.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct PurposeForm<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skill: Option<NameForm<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<NameForm<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<Cow<'a, str>>,
}

/// The names of a skill or an agent. Its identifier is derived from them.
#[derive(Serialize, Deserialize)]
pub(super) struct NameForm<'a> {
    name: Cow<'a, str>,
    full: Cow<'a, str>,
}

impl<'a> From<&'a Purpose> for PurposeForm<'a> {
    fn from(purpose: &'a Purpose) -> Self {
        let form = Self::default();
        match purpose {
            Purpose::Tool => form,
            Purpose::Skill(SkillName { name, full_name, .. }) => {
                Self { skill: Some(NameForm { name: name.into(), full: full_name.into() }), ..form }
            }
            Purpose::Agent(AgentName { name, full_name, .. }) => {
                Self { agent: Some(NameForm { name: name.into(), full: full_name.into() }), ..form }
            }
            Purpose::WebSearch { query } => Self { query: Some(query.into()), ..form },
        }
    }
}

impl From<PurposeForm<'_>> for Purpose {
    fn from(form: PurposeForm<'_>) -> Self {
        match form {
            PurposeForm { skill: Some(skill), .. } => Self::Skill(skill.into()),
            PurposeForm { agent: Some(agent), .. } => Self::Agent(agent.into()),
            PurposeForm { query: Some(query), .. } => Self::WebSearch { query: query.into_owned() },
            PurposeForm { skill: None, agent: None, query: None } => Self::Tool,
        }
    }
}

impl From<NameForm<'_>> for SkillName {
    fn from(form: NameForm<'_>) -> Self {
        Self {
            id: SkillId::from_full_name(&form.full),
            name: form.name.into_owned(),
            full_name: form.full.into_owned(),
        }
    }
}

impl From<NameForm<'_>> for AgentName {
    fn from(form: NameForm<'_>) -> Self {
        Self {
            id: AgentId::from_full_name(&form.full),
            name: form.name.into_owned(),
            full_name: form.full.into_owned(),
        }
    }
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum StopForm {
    Done,
    Calls,
    OutputFull,
    Refused,
    Filtered,
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
    passages: Vec<LogPassageForm<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    written: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageForm<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unread: Vec<UnreadForm<'a>>,
}

/// A file that could not be read, with the text form of the reason.
#[derive(Serialize, Deserialize)]
struct UnreadForm<'a> {
    path: Cow<'a, str>,
    reason: Cow<'a, str>,
}

/// A reference to an image: the file and its metadata, never its bytes.
#[derive(Serialize, Deserialize)]
struct ImageForm<'a> {
    path: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    mime: Cow<'a, str>,
    sha256: Cow<'a, str>,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum OutcomeForm {
    Done,
    Failed,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
struct LogPassageForm<'a> {
    n: u32,
    place: PlaceForm<'a>,
    text: Cow<'a, str>,
}

/// The origin of a passage.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlaceForm<'a> {
    /// A place in a file.
    File {
        path: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        page: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<(u32, u32)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        page_name: Option<Cow<'a, str>>,
    },
    Web {
        url: Cow<'a, str>,
        title: Cow<'a, str>,
    },
}

impl<'a> From<&'a PassagePlace> for PlaceForm<'a> {
    fn from(place: &'a PassagePlace) -> Self {
        match place {
            PassagePlace::File { path, page, lines, page_name } => Self::File {
                path: path.into(),
                page: *page,
                lines: *lines,
                page_name: page_name.as_ref().map(Cow::from),
            },
            PassagePlace::Web { url, title } => Self::Web { url: url.into(), title: title.into() },
        }
    }
}

impl From<PlaceForm<'_>> for PassagePlace {
    fn from(form: PlaceForm<'_>) -> Self {
        match form {
            PlaceForm::File { path, page, lines, page_name } => {
                Self::File { path: path.into_owned(), page, lines, page_name: page_name.map(Cow::into_owned) }
            }
            PlaceForm::Web { url, title } => Self::Web { url: url.into_owned(), title: title.into_owned() },
        }
    }
}

pub(crate) fn write_step(step: &Step, instance: InstanceId) -> Result<String> {
    encode_json(&StepForm {
        v: VERSION,
        instance: instance.to_string().into(),
        blocks: step.blocks.iter().map(block_form).collect(),
        cited: step.cited.iter().map(citation_form).collect(),
        notes: step.notes.iter().map(note_form).collect(),
        awaited: step.awaited.iter().map(awaited_form).collect(),
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

/// Decodes the output of [`write_step`]. Errors name `row`.
pub(crate) fn read_step(json: &str, row: &str) -> Result<(Arc<Step>, InstanceId)> {
    let form: StepForm<'_> = read_versioned(json, "log", row, |form: &StepForm<'_>| form.v)?;
    let instance = form.instance.parse().map_err(|error| StoreError::damaged_row("log", row, error))?;
    let step = Step {
        blocks: form.blocks.into_iter().map(block_of).collect(),
        cited: form.cited.into_iter().map(citation_of).collect(),
        notes: form.notes.into_iter().map(note_of).collect(),
        awaited: form.awaited.into_iter().map(awaited_of).collect(),
        stop: stop_of(form.stop),
        usage: TokenUsage {
            input_tokens: form.usage.input,
            cached_tokens: form.usage.cached,
            output_tokens: form.usage.output,
            reasoning_tokens: form.usage.reasoning,
            estimated: form.usage.estimated,
        },
    };
    Ok((Arc::new(step), instance))
}

pub(crate) fn write_result(result: &CallResult) -> Result<String> {
    encode_json(&ResultForm {
        v: VERSION,
        call: (&result.call).into(),
        tool: (&result.tool).into(),
        outcome: match result.outcome {
            StepOutcome::Done => OutcomeForm::Done,
            StepOutcome::Failed => OutcomeForm::Failed,
            StepOutcome::Interrupted => OutcomeForm::Interrupted,
        },
        text: (&result.text).into(),
        passages: result
            .passages
            .iter()
            .map(|passage| LogPassageForm {
                n: passage.number,
                place: (&passage.place).into(),
                text: (&passage.text).into(),
            })
            .collect(),
        written: result.written.iter().map(Into::into).collect(),
        images: result.images.iter().map(image_form).collect(),
        unread: result
            .unread
            .iter()
            .map(|file| UnreadForm { path: (&file.path).into(), reason: file.reason.to_string().into() })
            .collect(),
    })
}

/// Decodes the output of [`write_result`]. Errors name `row`.
pub(crate) fn read_result(json: &str, row: &str) -> Result<Arc<CallResult>> {
    let form: ResultForm<'_> = read_versioned(json, "log", row, |form: &ResultForm<'_>| form.v)?;
    Ok(Arc::new(CallResult {
        images: form.images.into_iter().filter_map(image_of).collect(),
        call: form.call.into_owned(),
        tool: form.tool.into_owned(),
        outcome: match form.outcome {
            OutcomeForm::Done => StepOutcome::Done,
            OutcomeForm::Failed => StepOutcome::Failed,
            OutcomeForm::Interrupted => StepOutcome::Interrupted,
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
        // Unknown reasons, written by a later version, are dropped.
        unread: form
            .unread
            .into_iter()
            .filter_map(|file| {
                let reason = UnreadReason::of_code(&file.reason)?;
                Some(UnreadFile { path: file.path.into_owned(), reason })
            })
            .collect(),
    }))
}

fn image_form(image: &ImageRef) -> ImageForm<'_> {
    let sha256 = hex::encode_hex(&image.sha256);
    ImageForm {
        path: (&image.path).into(),
        page: image.page,
        mime: image.kind.mime_type().into(),
        sha256: sha256.into(),
    }
}

/// Returns `None` for a kind that this version does not know; the image is then not shown.
fn image_of(form: ImageForm<'_>) -> Option<ImageRef> {
    let kind = ImageKind::of_mime(&form.mime)?;
    let sha256 = hex::decode_array(&form.sha256)?;
    Some(ImageRef { path: form.path.into_owned(), page: form.page, kind, sha256 })
}

fn block_form(block: &OutputBlock) -> BlockForm<'_> {
    match block {
        OutputBlock::Text(text) => BlockForm::Text(text.into()),
        OutputBlock::Reasoning(text) => BlockForm::Reasoning(text.into()),
        OutputBlock::Call(call) => BlockForm::Call {
            id: (&call.id).into(),
            tool: (&call.tool).into(),
            arguments: (&call.arguments).into(),
            purpose: (&call.purpose).into(),
        },
        OutputBlock::Opaque { format, json } => {
            BlockForm::Opaque { format: format.into(), json: json.into() }
        }
    }
}

fn block_of(form: BlockForm<'_>) -> OutputBlock {
    match form {
        BlockForm::Text(text) => OutputBlock::Text(text.into_owned()),
        BlockForm::Reasoning(text) => OutputBlock::Reasoning(text.into_owned()),
        BlockForm::Call { id, tool, arguments, purpose } => OutputBlock::Call(StepCall {
            id: id.into_owned(),
            tool: tool.into_owned(),
            arguments: arguments.into_owned(),
            purpose: purpose.into(),
        }),
        BlockForm::Opaque { format, json } => {
            OutputBlock::Opaque { format: format.into_owned(), json: json.into_owned() }
        }
    }
}

fn citation_form(cited: &NumberedCitation) -> CitationForm<'_> {
    let NumberedCitation { block, at, number, place, quote } = cited;
    CitationForm { block: *block, at: *at, n: *number, place: place.into(), quote: quote.into() }
}

fn citation_of(form: CitationForm<'_>) -> NumberedCitation {
    let CitationForm { block, at, n: number, place, quote } = form;
    NumberedCitation { block, at, number, place: place.into(), quote: quote.into_owned() }
}

fn note_form(note: &StepNote) -> NoteForm<'_> {
    match note {
        StepNote::ToolsRefused => NoteForm::ToolsRefused,
        StepNote::ToolLeftOut(tool) => NoteForm::ToolLeftOut(tool.into()),
        StepNote::CallsLeftOut(calls) => NoteForm::CallsLeftOut(*calls),
        StepNote::UnknownStop => NoteForm::UnknownStop,
    }
}

fn note_of(form: NoteForm<'_>) -> StepNote {
    match form {
        NoteForm::ToolsRefused => StepNote::ToolsRefused,
        NoteForm::ToolLeftOut(tool) => StepNote::ToolLeftOut(tool.into_owned()),
        NoteForm::CallsLeftOut(calls) => StepNote::CallsLeftOut(calls),
        NoteForm::UnknownStop => StepNote::UnknownStop,
    }
}

const fn stop_form(stop: StopReason) -> StopForm {
    match stop {
        StopReason::Done => StopForm::Done,
        StopReason::Calls => StopForm::Calls,
        StopReason::OutputFull => StopForm::OutputFull,
        StopReason::Refused => StopForm::Refused,
        StopReason::Filtered => StopForm::Filtered,
        StopReason::Stopped => StopForm::Stopped,
    }
}

const fn stop_of(form: StopForm) -> StopReason {
    match form {
        StopForm::Done => StopReason::Done,
        StopForm::Calls => StopReason::Calls,
        StopForm::OutputFull => StopReason::OutputFull,
        StopForm::Refused => StopReason::Refused,
        StopForm::Filtered => StopReason::Filtered,
        StopForm::Stopped => StopReason::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use domain::step::{AwaitedCall, ReplyKind};

    use super::*;

    fn example_call_result() -> CallResult {
        CallResult {
            images: [None, Some(3)]
                .map(|page| ImageRef {
                    path: "/a.png".to_owned(),
                    page,
                    kind: ImageKind::Png,
                    sha256: [0xaf; 32],
                })
                .into(),
            call: "c\"1".to_owned(),
            tool: "search".to_owned(),
            outcome: StepOutcome::Interrupted,
            text: "nul \0 and line\u{2028}".to_owned(),
            passages: vec![
                NumberedPassage {
                    number: 1,
                    place: PassagePlace::File {
                        path: "/uploads/a.zip".to_owned(),
                        page: Some(3),
                        lines: None,
                        page_name: Some("a/b.txt".to_owned()),
                    },
                    text: "one".to_owned(),
                },
                NumberedPassage {
                    number: 2,
                    place: PassagePlace::Web { url: "https://x".to_owned(), title: String::new() },
                    text: String::new(),
                },
            ],
            written: vec!["/out.txt".to_owned()],
            unread: vec![UnreadFile { path: "/a.pdf".to_owned(), reason: UnreadReason::Encrypted }],
        }
    }

    fn call_block(purpose: Purpose) -> OutputBlock {
        OutputBlock::Call(StepCall {
            id: "c".to_owned(),
            tool: "t".to_owned(),
            arguments: "{".to_owned(),
            purpose,
        })
    }

    #[test]
    fn decode_entry_before_agents() {
        let old = r#"{"v":1,"instance":"00000000-0000-4000-8000-000000000009","blocks":[
            {"call":{"id":"c","tool":"skill","arguments":"{}","skill":{"name":"b","full":"a:b"}}},
            {"call":{"id":"d","tool":"read","arguments":"{}"}}],
            "stop":"calls","usage":{"input":1,"cached":0,"output":1,"reasoning":0,"estimated":false}}"#;
        let (step, _) = read_step(old, "row").expect("it is known");
        let purposes: Vec<_> = step.tool_calls().map(|call| &call.purpose).collect();
        assert!(matches!(purposes[..], [Purpose::Skill(_), Purpose::Tool]), "{purposes:?}");
    }

    #[test]
    fn decode_place_before_page_names() {
        let form: PlaceForm<'_> =
            serde_json::from_str(r#"{"file":{"path":"/a.pdf","page":3}}"#).expect("a place");
        let place =
            PassagePlace::File { path: "/a.pdf".to_owned(), page: Some(3), lines: None, page_name: None };
        assert_eq!(PassagePlace::from(form), place);
    }

    #[test]
    fn log_entry_round_trips_without_nul() {
        let step = Step {
            blocks: vec![
                OutputBlock::Reasoning("hm \0".to_owned()),
                OutputBlock::Text("text".to_owned()),
                call_block(Purpose::Tool),
                call_block(Purpose::Skill(SkillName {
                    id: SkillId::from_full_name("a:b"),
                    name: "b".to_owned(),
                    full_name: "a:b".to_owned(),
                })),
                call_block(Purpose::Agent(AgentName {
                    id: AgentId::from_full_name("a:b"),
                    name: "b".to_owned(),
                    full_name: "a:b".to_owned(),
                })),
                call_block(Purpose::WebSearch { query: "q \0".to_owned() }),
                OutputBlock::Opaque { format: "f".to_owned(), json: "{}".to_owned() },
            ],
            cited: vec![NumberedCitation {
                block: 1,
                at: 4,
                number: 3,
                place: PassagePlace::Web { url: "https://x".to_owned(), title: "t \0".to_owned() },
                quote: "q \0".to_owned(),
            }],
            awaited: [ReplyKind::Function, ReplyKind::Question, ReplyKind::Approval]
                .map(|kind| AwaitedCall { call: "c".to_owned(), kind })
                .into(),
            notes: vec![
                StepNote::ToolsRefused,
                StepNote::ToolLeftOut("a".to_owned()),
                StepNote::CallsLeftOut(3),
                StepNote::UnknownStop,
            ],
            stop: StopReason::OutputFull,
            usage: TokenUsage { input_tokens: u64::MAX, estimated: true, ..TokenUsage::default() },
        };
        let instance = InstanceId::from_random(9);
        let json = write_step(&step, instance).expect("the step is encoded");
        assert!(!json.contains('\0'));
        assert_eq!(read_step(&json, "row").expect("the step is decoded"), (Arc::new(step), instance));
        let json = write_result(&example_call_result()).expect("the result is encoded");
        assert!(!json.contains('\0'));
        assert_eq!(*read_result(&json, "row").expect("the result is decoded"), example_call_result());
    }

    #[test]
    fn decode_later_version_is_not_damage() {
        let json = write_result(&example_call_result())
            .expect("the result is encoded")
            .replacen("\"v\":1", "\"v\":2", 1);
        for newer in [json.as_str(), r#"{"v":2}"#, r#"{"v":3,"blocks":[{"dance":1}],"stop":"later"}"#] {
            for error in [read_step(newer, "row 7").err(), read_result(newer, "row 7").err()] {
                assert!(
                    matches!(error, Some(StoreError::Newer { place }) if place == "log row 7"),
                    "{newer}"
                );
            }
        }
        let older = json.replacen("\"v\":2", "\"v\":0", 1);
        for broken in ["", "{", "[]", "null", r#"{"v":1}"#, older.as_str()] {
            for error in [read_step(broken, "row 7").err(), read_result(broken, "row 7").err()] {
                let error = error.expect("decoding fails").to_string();
                assert!(error.starts_with("log row 7 is damaged"), "{error}");
            }
        }
    }
}
