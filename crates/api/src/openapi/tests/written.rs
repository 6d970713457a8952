//! Tests that real responses conform to the document, without additional fields.

use std::sync::Arc;

use control::conversations::StoredQuestion;
use domain::agent::AgentName;
use domain::answer::{AnswerEnding, AnswerFailure, ErrorCode, RevisionStamp, RunState};
use domain::catalog::{CatalogLanguage, CatalogSetting, Localized, ModelEntry, ModelStatus, ProviderName};
use domain::citation::PassagePlace;
use domain::credits::Price;
use domain::id::{AccountId, AgentId, ConversationId, MessageId, PartId, SkillId};
use domain::skill::SkillName;
use domain::time::Timestamp;
use live::{Meta, PartKind, Rope, Snapshot, SnapshotCitation, SnapshotPart, Unproven};
use serde_json::{Value, json};

use super::interface_document;
use super::shape::check_value;
use crate::wire;

fn assert_fits_schema(name: &str, value: &Value) {
    let schema = json!({"$ref": format!("#/components/schemas/{name}")});
    check_value(&interface_document(), &schema, value)
        .unwrap_or_else(|error| panic!("{name}: {error}: {value}"));
}

fn sample_snapshot(ending: Option<AnswerEnding>, parts: Vec<PartKind>) -> Snapshot {
    let numbered = parts.into_iter().zip(1u128..);
    Snapshot::new(
        Arc::new(Meta {
            answer: MessageId::from_random(1),
            account: AccountId::from_random(2),
            conversation: ConversationId::from_random(3),
            created_at: Timestamp::from_micros(1_700_000_000_000_000),
            model: "reader".to_owned(),
        }),
        RevisionStamp { epoch: 1, revision: 2 },
        ending,
        Rope::from_text("Due \"on\" the fifth."),
        numbered.map(|(shape, id)| SnapshotPart { id: PartId::from_random(id), shape }).collect(),
    )
}

/// Returns a part of each kind and a source of each kind. The compiler reports a new kind that is missing here.
fn every_shape() -> Vec<PartKind> {
    let next = |shape: Option<&PartKind>| match shape {
        None => Some(PartKind::Text { html: Rope::from_text("<p>x</p>"), citations: Vec::new() }),
        Some(PartKind::Text { citations, .. }) if citations.is_empty() => Some(PartKind::Text {
            html: Rope::from_text("<p>x</p>"),
            citations: sample_places()
                .into_iter()
                .zip(1..)
                .map(|(place, number)| sample_citation(number, place))
                .collect(),
        }),
        Some(PartKind::Text { .. }) => Some(PartKind::Reasoning { html: Rope::from_text("<p>x</p>") }),
        Some(PartKind::Reasoning { .. }) => Some(sample_tool(RunState::Pending, Vec::new())),
        Some(PartKind::Tool { state: RunState::Pending, .. }) => {
            Some(sample_tool(RunState::Complete, sample_places()))
        }
        Some(PartKind::Tool { state: RunState::Complete, .. }) => {
            Some(sample_tool(RunState::Error, Vec::new()))
        }
        Some(PartKind::Tool { state: RunState::Error, .. }) => Some(PartKind::Skill {
            skill: SkillName {
                id: SkillId::from_full_name("a:b"),
                name: "b \"b\"".to_owned(),
                full_name: "a:b".to_owned(),
            },
            state: RunState::Complete,
        }),
        Some(PartKind::Skill { .. }) => Some(PartKind::WebSearch {
            query: "rent \"due\"".to_owned(),
            call: "call_2".to_owned(),
            state: RunState::Complete,
            sources: sample_places(),
        }),
        Some(PartKind::WebSearch { .. }) => Some(PartKind::Agent {
            agent: AgentName {
                id: AgentId::from_full_name("a:b"),
                name: "b".to_owned(),
                full_name: "a:b".to_owned(),
            },
            state: RunState::Complete,
            html: Rope::from_text("<p>x</p>"),
            citations: vec![sample_citation(1, sample_places().remove(0))],
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
fn sample_citation(number: u32, place: PassagePlace) -> SnapshotCitation {
    let verified = [None, Some(true), Some(false)][number as usize % 3];
    let reason = (verified == Some(false)).then(|| Unproven::Number("30".to_owned()));
    SnapshotCitation { number, place, verified, reason, passage: None }
}

fn sample_tool(state: RunState, sources: Vec<PassagePlace>) -> PartKind {
    PartKind::Tool { tool: "search".to_owned(), call: "call_1".to_owned(), state, sources }
}

fn sample_places() -> Vec<PassagePlace> {
    let file = |page, lines| PassagePlace::File { path: "/a/b.txt".to_owned(), page, lines, page_name: None };
    let web = PassagePlace::Web { url: "https://example.org/".to_owned(), title: "A page".to_owned() };
    vec![file(None, None), file(Some(3), None), file(None, Some((12, 14))), web]
}

fn parse_segments(segments: Vec<bytes::Bytes>) -> Value {
    serde_json::from_slice(&segments.concat()).unwrap()
}

#[test]
fn wire_messages_fit_schemas() {
    let failed = AnswerEnding::Failed(AnswerFailure {
        code: ErrorCode::MachineFailed,
        message: "it failed".to_owned(),
    });
    for ending in [None, Some(AnswerEnding::Done), Some(AnswerEnding::Stopped), Some(failed)] {
        for parts in [Vec::new(), every_shape()] {
            let snapshot = sample_snapshot(ending.clone(), parts);
            assert_fits_schema("Answer", &parse_segments(wire::encode_answer(&snapshot)));
            let message = parse_segments(wire::assistant_message(&snapshot));
            assert_fits_schema("AssistantMessage", &message);
            assert_fits_schema("Message", &message);
        }
    }
}

#[test]
fn answer_error_codes_are_documented() {
    for code in ErrorCode::ALL {
        assert_fits_schema("AnswerErrorCode", &json!(code.as_str()));
    }
}

#[test]
fn history_question_fits_schema() {
    let question = StoredQuestion {
        ordinal: 0,
        id: MessageId::from_random(1),
        created_at: Timestamp::from_micros(0),
        text: "When?".to_owned(),
        attachments: vec!["/uploads/lease.pdf".to_owned()],
    };
    let written = parse_segments(wire::user_message(&question));
    assert_fits_schema("UserMessage", &written);
    assert_fits_schema("Message", &written);
}

#[test]
fn models_are_written_as_told() {
    for (builtin, settings) in [(true, Vec::new()), (false, vec![CatalogSetting::reasoning_effort()])] {
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
        let model = wire::Model::from_entry(&entry, ModelStatus::Unknown, CatalogLanguage::En);
        assert_fits_schema("Model", &serde_json::to_value(&model).unwrap());
    }
}
