//! What a turn begins with: its exchange and the model's measures.

use std::sync::Arc;

use domain::catalog::Measures;
use domain::credits::Credits;
use domain::id::MessageId;
use domain::limits::{DELEGATED_STEPS_MAX, STEPS_MAX};
use domain::turn::host::{self, Exchange, Setup};
use plugins::Library;
use protocol::tool::{Effect, Tool};
use store::turns::delegations::Delegation;
use store::turns::{Claimed, TurnRecord};

use super::briefing::{Briefing, Chosen};
use super::web::Web;

/// The least that is left for the transcript of a model with a small window.
const TRANSCRIPT_TOKENS_MIN: u64 = 1000;

/// The turn of a claimed answer.
pub(super) fn setup(
    claimed: &Claimed,
    record: &TurnRecord,
    measures: Measures,
    briefing: &Briefing,
    hosted: Web,
) -> Setup {
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
            briefing,
            hosted,
        )
    }
}

/// The turn of another agent with a task.
pub(super) fn delegated(
    id: MessageId,
    epoch: u64,
    task: String,
    delegation: Delegation,
    measures: Measures,
    briefing: &Briefing,
    hosted: Web,
) -> Setup {
    let Delegation { log, bill } = delegation;
    let present = Exchange { question: task, attachments: Vec::new(), log };
    Setup { epoch, bill, steps_max: DELEGATED_STEPS_MAX, ..measured(id, present, measures, briefing, hosted) }
}

/// What is held before a question to this model is accepted.
#[must_use]
pub fn first_reservation(
    question: &str,
    attachments: &[String],
    measures: Measures,
    library: Arc<Library>,
    chosen: Chosen<'_>,
    web: Web,
) -> Credits {
    let present =
        Exchange { question: question.to_owned(), attachments: attachments.to_vec(), log: Vec::new() };
    let briefing = Briefing::new(library, chosen);
    host::first_reservation(&measured(MessageId::from_random(0), present, measures, &briefing, web))
}

fn measured(
    answer: MessageId,
    present: Exchange,
    measures: Measures,
    briefing: &Briefing,
    hosted: Web,
) -> Setup {
    let Measures { price, context_tokens, output_max_tokens } = measures;
    let overhead_tokens = briefing.tokens();
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
        steps_max: STEPS_MAX,
        hosted: Arc::new(hosted),
        stop: false,
    }
}

/// Whether a call of this tool may run again. A tool that is not known changes nothing: it fails. Nor does one that
/// the service runs itself.
fn repeatable(tool: &str) -> bool {
    Tool::named(tool).is_none_or(|tool| tool.effect() == Effect::Repeatable)
}
