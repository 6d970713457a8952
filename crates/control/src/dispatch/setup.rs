//! What a turn begins with: the model's measures, the instructions, the tools.

use domain::catalog::Measures;
use domain::credits::Credits;
use domain::id::MessageId;
use domain::step::ToolSpec;
use domain::turn::estimated_tokens;
use domain::turn::host::{self, Exchange, Setup};
use protocol::tool::{Effect, Tool};
use store::turns::{Claimed, TurnRecord};

/// What the model is told of itself and its work.
const INSTRUCTIONS: &str = include_str!("instructions.md");

/// The least that is left for the transcript of a model with a small window.
const TRANSCRIPT_TOKENS_MIN: u64 = 1000;

/// The instructions of a turn.
pub(super) fn instructions(record: &TurnRecord) -> String {
    let mut text = INSTRUCTIONS.to_owned();
    if !record.jurisdictions.is_empty() {
        text.push_str("\nThe question is about the law of: ");
        text.push_str(&record.jurisdictions.join(", "));
        text.push_str(".\n");
    }
    text
}

/// The tools of the machine, as a model is offered them.
pub(super) fn tools() -> Vec<ToolSpec> {
    let spec = |tool: Tool| ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        schema: tool.schema().to_owned(),
    };
    Tool::ALL.into_iter().map(spec).collect()
}

/// The turn of a claimed answer.
pub(super) fn setup(claimed: &Claimed, record: &TurnRecord, measures: Measures) -> Setup {
    Setup {
        epoch: claimed.fence.epoch,
        earlier: record.earlier.clone(),
        bill: record.bill,
        stop: claimed.stop_requested || record.stop_requested,
        ..measured(
            claimed.fence.answer,
            Exchange {
                question: record.question.clone(),
                attachments: record.attachments.clone(),
                log: record.log.clone(),
            },
            measures,
            instructions(record).len(),
        )
    }
}

/// What is held before a question to this model is accepted.
#[must_use]
pub fn first_reservation(question: &str, attachments: &[String], measures: Measures) -> Credits {
    let present =
        Exchange { question: question.to_owned(), attachments: attachments.to_vec(), log: Vec::new() };
    host::first_reservation(&measured(MessageId::from_random(0), present, measures, INSTRUCTIONS.len()))
}

fn measured(answer: MessageId, present: Exchange, measures: Measures, instructions_bytes: usize) -> Setup {
    let Measures { price, context_tokens, output_max_tokens } = measures;
    let tools_bytes: usize =
        Tool::ALL.iter().map(|tool| tool.description().len() + tool.schema().len()).sum();
    let overhead_tokens = estimated_tokens(instructions_bytes) + estimated_tokens(tools_bytes);
    let room = u64::from(context_tokens).saturating_sub(overhead_tokens + u64::from(output_max_tokens));
    Setup {
        answer,
        epoch: 0,
        earlier: Vec::new(),
        present,
        bill: domain::credits::Bill::default(),
        price,
        overhead_tokens,
        context_tokens: room.max(TRANSCRIPT_TOKENS_MIN),
        output_max_tokens,
        repeatable,
        stop: false,
    }
}

/// Whether a call of this tool may run again. A tool that is not known changes nothing: it fails.
fn repeatable(tool: &str) -> bool {
    Tool::named(tool).is_none_or(|tool| tool.effect() == Effect::Repeatable)
}
