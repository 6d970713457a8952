//! The reservation that a question needs in order to be accepted.

use super::{Setup, Turn};
use crate::credits::Credits;
use crate::step::TokenUsage;
use crate::turn::estimated_tokens;

/// Returns the credits to reserve for the first step of a new answer.
#[must_use]
pub fn first_reservation(setup: &Setup) -> Credits {
    let turn = Turn::new(setup.clone());
    // Entries that do not fit are not shown; the question always is.
    let shown = turn
        .transcript
        .shown_size()
        .min(setup.context_tokens + estimated_tokens(setup.present.question.len()));
    let most = TokenUsage {
        input_tokens: setup.overhead_tokens + shown,
        output_tokens: u64::from(setup.output_max_tokens),
        ..TokenUsage::default()
    };
    setup.bill.max_cost(setup.price, most)
}
