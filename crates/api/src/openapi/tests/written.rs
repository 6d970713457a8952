//! Tests that real responses conform to the document, without additional fields.

use std::sync::Arc;

use control::conversations::Question;
use control::live::{Citation, Meta, PartKind, Rope, Snapshot, SnapshotPart, Unproven};
use domain::agent::AgentName;
use domain::answer::{AnswerError, Ending, ErrorCode, RunState, Stamp};
use domain::catalog::{Language, Localized, ModelEntry, ModelStatus, ProviderName, Setting};
use domain::citation::Place;
use domain::credits::Price;
use domain::id::{AccountId, AgentId, ConversationId, MessageId, PartId, SkillId};
use domain::skill::SkillName;
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::document;
use super::shape::check;
use crate::wire;

fn fits(name: &str, value: &Value) {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    check(&document(), &schema, value).unwrap_or_else(|error| panic!("{name}: {error}: {value}"));
}

fn snapshot(ending: Option<Ending>, parts: Vec<PartKind>) -> Snapshot {
    let numbered = parts.into_iter().zip(1u128..);
    Snapshot::new(
        Arc::new(Meta {
            answer: MessageId::from_random(1),
            account: AccountId::from_random(2),
            conversation: ConversationId::from_random(3),
            created_at: Timestamp::from_micros(1_700_000_000_000_000),
            model: "reader".to_owned(),
        }),
        Stamp { epoch: 1, revision: 2 },
        ending,
        Rope::of("Due \"on\" the fifth."),
        numbered.map(|(shape, id)| SnapshotPart { id: PartId::from_random(id), shape }).collect(),
    )
}

/// Returns a part of each kind and a source of each kind. The compiler reports a new kind that is missing here.
fn every_shape() -> Vec<PartKind> {
    let next = |shape: Option<&PartKind>| match shape {
        None => Some(PartKind::Text { html: Rope::of("<p>x</p>"), citations: Vec::new() }),
        Some(PartKind::Text { citations, .. }) if citations.is_empty() => Some(PartKind::Text {
            html: Rope::of("<p>x</p>"),
            citations: places().into_iter().zip(1..).map(|(place, number)| citation(number, place)).collect(),
        }),
        Some(PartKind::Text { .. }) => Some(PartKind::Reasoning { html: Rope::of("<p>x</p>") }),
        Some(PartKind::Reasoning { .. }) => Some(tool(RunState::Pending, Vec::new())),
        Some(PartKind::Tool { state: RunState::Pending, .. }) => Some(tool(RunState::Complete, places())),
        Some(PartKind::Tool { state: RunState::Complete, .. }) => Some(tool(RunState::Error, Vec::new())),
        Some(PartKind::Tool { state: RunState::Error, .. }) => Some(PartKind::Skill {
            skill: SkillName {
                id: SkillId::of("a:b"),
                name: "b \"b\"".to_owned(),
                full_name: "a:b".to_owned(),
            },
            state: RunState::Complete,
        }),
        Some(PartKind::Skill { .. }) => Some(PartKind::WebSearch {
            query: "rent \"due\"".to_owned(),
            call: "call_2".to_owned(),
            state: RunState::Complete,
            sources: places(),
        }),
        Some(PartKind::WebSearch { .. }) => Some(PartKind::Agent {
            agent: AgentName { id: AgentId::of("a:b"), name: "b".to_owned(), full_name: "a:b".to_owned() },
            state: RunState::Complete,
            html: Rope::of("<p>x</p>"),
            citations: vec![citation(1, places().remove(0))],
        }),
        Some(PartKind::Agent { .. }) => Some(PartKind::File { path: "/a/b.txt".to_owned() }),
        Some(PartKind::File { .. }) => None,
    };
    let mut shapes = Vec::new();
    while let Some(shape) = next(shapes.last()) {
        shapes.push(shape);
    }
    shapes
}

/// Returns a citation that is verified, not verified or not checked, by its number.
fn citation(number: u32, place: Place) -> Citation {
    let verified = [None, Some(true), Some(false)][number as usize % 3];
    let reason = (verified == Some(false)).then(|| Unproven::Number("30".to_owned()));
    Citation { number, place, verified, reason, passage: None }
}

fn tool(state: RunState, sources: Vec<Place>) -> PartKind {
    PartKind::Tool { tool: "search".to_owned(), call: "call_1".to_owned(), state, sources }
}

fn places() -> Vec<Place> {
    let file = |page, lines| Place::File { path: "/a/b.txt".to_owned(), page, lines, page_name: None };
    let web = Place::Web { url: "https://example.org/".to_owned(), title: "A page".to_owned() };
    vec![file(None, None), file(Some(3), None), file(None, Some((12, 14))), web]
}

fn read(segments: Vec<bytes::Bytes>) -> Value {
    serde_json::from_slice(&segments.concat()).unwrap()
}

#[test]
fn answers_and_messages_are_written_as_told() {
    let failed =
        Ending::Failed(AnswerError { code: ErrorCode::MachineFailed, message: "it failed".to_owned() });
    for ending in [None, Some(Ending::Done), Some(Ending::Stopped), Some(failed)] {
        for parts in [Vec::new(), every_shape()] {
            let snapshot = snapshot(ending.clone(), parts);
            fits("Answer", &read(wire::answer(&snapshot)));
            let message = read(wire::assistant_message(&snapshot));
            fits("AssistantMessage", &message);
            fits("Message", &message);
        }
    }
}

#[test]
fn every_code_of_a_failed_answer_is_told() {
    // The compiler reports a new code that is missing here.
    let next = |code: Option<ErrorCode>| match code {
        None => Some(ErrorCode::ModelUnavailable),
        Some(ErrorCode::ModelUnavailable) => Some(ErrorCode::ModelRejected),
        Some(ErrorCode::ModelRejected) => Some(ErrorCode::ModelKeyRefused),
        Some(ErrorCode::ModelKeyRefused) => Some(ErrorCode::ModelUnpaid),
        Some(ErrorCode::ModelUnpaid) => Some(ErrorCode::AgentUnavailable),
        Some(ErrorCode::AgentUnavailable) => Some(ErrorCode::ContextTooLong),
        Some(ErrorCode::ContextTooLong) => Some(ErrorCode::InsufficientCredits),
        Some(ErrorCode::InsufficientCredits) => Some(ErrorCode::SpendingLimit),
        Some(ErrorCode::SpendingLimit) => Some(ErrorCode::MachineFailed),
        Some(ErrorCode::MachineFailed) => Some(ErrorCode::TooManySteps),
        Some(ErrorCode::TooManySteps) => Some(ErrorCode::OutputExhausted),
        Some(ErrorCode::OutputExhausted) => Some(ErrorCode::ModelRefused),
        Some(ErrorCode::ModelRefused) => Some(ErrorCode::Interrupted),
        Some(ErrorCode::Interrupted) => Some(ErrorCode::Internal),
        Some(ErrorCode::Internal) => None,
    };
    let mut code = None;
    while let Some(one) = next(code) {
        fits("AnswerErrorCode", &json!(one.as_str()));
        code = Some(one);
    }
}

#[test]
fn a_question_in_the_history_is_written_as_told() {
    let question = Question {
        ordinal: 0,
        id: MessageId::from_random(1),
        created_at: Timestamp::from_micros(0),
        text: "When?".to_owned(),
        attachments: vec!["/uploads/lease.pdf".to_owned()],
    };
    let written = read(wire::user_message(&question));
    fits("UserMessage", &written);
    fits("Message", &written);
}

#[test]
fn models_are_written_as_told() {
    for (builtin, settings) in [(true, Vec::new()), (false, vec![Setting::reasoning_effort()])] {
        let entry = ModelEntry {
            id: "m".to_owned(),
            label: Localized::new("a", "b", "c"),
            description: Localized::new("a", "b", "c"),
            provider: ProviderName::Google,
            default: true,
            deprecated: false,
            settings,
            builtin,
            price: Price { base_millis: 0, input_millis: 0, output_millis: 0 },
            context_tokens: 1,
            output_max_tokens: 1,
            vendor_name: "m".to_owned(),
            sees_images: false,
            uses_tools: true,
        };
        let model = wire::Model::of(&entry, ModelStatus::Unknown, Language::En);
        fits("Model", &serde_json::to_value(&model).unwrap());
    }
}
