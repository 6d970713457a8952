//! The parts of the simulated world.

use std::collections::{BTreeMap, BTreeSet};

use domain::answer::Answer;
use domain::id::{InstanceId, MessageId};
use domain::turn::SessionStamp;
use domain::turn::executor::Executor;
use domain::turn::host::Turn;

/// The position of a turn: node, its instance number, the answer and the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnKey {
    pub(super) node: usize,
    pub(super) life: u64,
    pub(super) answer: MessageId,
    pub(super) epoch: u64,
}

pub(super) struct Node {
    pub(super) life: u64,
    pub(super) up: bool,
    pub(super) frozen_until: u64,
    pub(super) turns: BTreeMap<MessageId, SimulatedTurn>,
}

pub(super) struct SimulatedTurn {
    pub(super) epoch: u64,
    pub(super) turn: Turn,
    pub(super) connection: Option<u64>,
    pub(super) stamp: SessionStamp,
    pub(super) connecting: bool,
    /// The answer as folded by a reader from the published changes.
    pub(super) reader: Answer,
}

pub(super) struct SimulatedConnection {
    pub(super) at: TurnKey,
    pub(super) machine_life: u64,
    /// The last arrival time, because bytes of a stream arrive in order.
    pub(super) last_to_executor: u64,
    pub(super) last_to_host: u64,
}

#[derive(Default)]
pub(super) struct WorldMachine {
    pub(super) up: bool,
    pub(super) starting: bool,
    pub(super) life: u64,
    pub(super) executors: BTreeMap<MessageId, Executor>,
    pub(super) routes: BTreeMap<MessageId, (SessionStamp, u64)>,
    /// Calls that were killed because they were not needed any more.
    pub(super) killed: BTreeSet<(MessageId, String)>,
}

impl WorldMachine {
    pub(super) fn instance_id(&self) -> InstanceId {
        InstanceId::from_random(u128::from(self.life) + 1)
    }
}
