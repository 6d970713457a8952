//! The faults of the simulated world.

use std::collections::BTreeMap;

use domain::id::MessageId;
use domain::turn::host::TurnEvent;

use super::{NODES, Node, SimulationWorld, TurnKey, What};

impl SimulationWorld {
    pub(super) fn kill_node(&mut self, node: usize) {
        if !self.nodes[node].up {
            return;
        }
        self.kills += 1;
        let life = self.nodes[node].life + 1;
        self.nodes[node] = Node { life, up: false, frozen_until: 0, turns: BTreeMap::new() };
        self.schedule_after(100, 5000, What::StartNode { node });
    }

    pub(super) fn kill_machine(&mut self) {
        if !self.machine.up {
            return;
        }
        self.kills += 1;
        self.machine.up = false;
        let life = self.machine.life;
        let cut: Vec<_> = self.connections.iter().filter(|(_, made)| made.machine_life == life).collect();
        let cut: Vec<_> = cut.into_iter().map(|(connection, made)| (*connection, made.at)).collect();
        for (connection, at) in cut {
            self.schedule_after(
                1,
                200,
                What::ToTurn { at, connection: Some(connection), event: TurnEvent::Disconnected },
            );
        }
    }

    /// Deletes a conversation. The node that works on its answer is notified, or finds out later.
    pub(super) fn delete_conversation(&mut self, conversation: usize) {
        let Some(answer) = self.store.open_in(conversation) else { return };
        self.store.delete_conversation(answer);
        for node in 0..NODES {
            let life = self.nodes[node].life;
            if let Some(running) = self.nodes[node].turns.get(&answer)
                && self.rng.roll_percent(80)
            {
                let at = TurnKey { node, life, answer, epoch: running.epoch };
                self.schedule_after(
                    0,
                    50,
                    What::ToTurn { at, connection: None, event: TurnEvent::StopRequested },
                );
            }
        }
    }

    /// Lets another node take over an answer from a hanging one, which resumes while the conversation is
    /// deleted and the new holder is slow to connect. Returns whether that was possible.
    pub(super) fn unsettle_holder(&mut self, answer: MessageId) -> bool {
        let hangs = |node: &&mut Node| node.frozen_until > self.now && node.turns.contains_key(&answer);
        let Some(before) = self.nodes.iter_mut().find(hangs) else { return false };
        before.frozen_until = self.now + self.rng.next_below(500);
        let conversation = self.store.rows[&answer].conversation;
        self.schedule_after(0, 1000, What::Delete { conversation });
        true
    }
}
