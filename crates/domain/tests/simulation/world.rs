//! The simulated world: two nodes of the service, one machine with its agent, a model, a store, and users, on
//! one event queue in simulated time. Every event can be delayed, duplicated, interrupted or lost.

mod checks;
mod effects;
mod faults;
mod model;
mod parts;
mod replies;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use domain::answer::LogEntry;
use domain::id::MessageId;
use domain::pause::CallReply;
use domain::step::{ATTACHED_FILES, StepCall};
use domain::time::Timestamp;
use domain::turn::executor;
use domain::turn::host::{ToolRouter, Turn, TurnEffect, TurnEvent};
use domain::turn::{CallOutput, ExecutorFrame, HostFrame, SessionStamp};

use self::parts::{Node, SimulatedConnection, SimulatedTurn, TurnKey, WorldMachine};
use crate::rng::Rng;
use crate::store::{SimulatedStore, SimulatedToolRouter, StoreOp, StoreOpResult};

pub(crate) const CONVERSATIONS: usize = 3;
const NODES: usize = 2;
const LEASE: u64 = 10_000;
const TICK: u64 = 2_500;
/// The time for which a paused answer waits for replies.
const PAUSE: u64 = 15_000;
/// The time after which nothing is killed, so that every seed comes to rest.
const PEACE_AFTER: u64 = 60_000;
const EVENTS_MAX: u64 = 100_000;

#[derive(Debug, Clone)]
enum What {
    Ask { conversation: usize },
    Stop { conversation: usize },
    Delete { conversation: usize },
    Grant { amount: u64 },
    Tick { node: usize, life: u64 },
    Connect { at: TurnKey },
    ToTurn { at: TurnKey, connection: Option<u64>, event: TurnEvent },
    ToExecutor { connection: u64, answer: MessageId, stamp: SessionStamp, frame: HostFrame },
    Finished { machine_life: u64, answer: MessageId, call: String, output: CallOutput },
    Transact { at: TurnKey, op: StoreOp },
    Reply { answer: MessageId, call: String, reply: CallReply },
    KillNode { node: usize },
    StartNode { node: usize },
    Freeze { node: usize, until: u64 },
    KillMachine,
    StartMachine,
}

pub(crate) struct SimulationWorld {
    rng: Rng,
    now: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, What>,
    pub(crate) store: SimulatedStore,
    nodes: Vec<Node>,
    machine: WorldMachine,
    connections: BTreeMap<u64, SimulatedConnection>,
    next_connection: u64,
    /// The number of runs of each effectful call.
    pub(crate) effects: BTreeMap<(MessageId, String), u32>,
    /// Calls that finished in the machine.
    finished: BTreeSet<(MessageId, String)>,
    /// The number of effectful calls that ran after one of the other side.
    pub(crate) handovers: u64,
    pub(crate) asked: u64,
    pub(crate) accepted: u64,
    asks_left: u64,
    pub(crate) kills: u64,
    /// The number of requested summaries.
    pub(crate) summaries: u64,
    pub(crate) pauses: u64,
    pub(crate) replies: u64,
    /// Replies that were refused: too late, or different from the first one.
    pub(crate) late_replies: u64,
    /// Answers that ended for lack of a reply.
    pub(crate) expiries: u64,
    trace: u64,
    pub(crate) handled: u64,
}

impl SimulationWorld {
    pub(crate) fn new(seed: u64) -> Self {
        let nodes = (0..NODES).map(|_| Node { life: 0, up: true, frozen_until: 0, turns: BTreeMap::new() });
        let mut world = Self {
            rng: Rng::new(seed),
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            store: SimulatedStore::default(),
            nodes: nodes.collect(),
            machine: WorldMachine::default(),
            connections: BTreeMap::new(),
            next_connection: 0,
            effects: BTreeMap::new(),
            finished: BTreeSet::new(),
            handovers: 0,
            asked: 0,
            accepted: 0,
            asks_left: 0,
            kills: 0,
            summaries: 0,
            pauses: 0,
            replies: 0,
            late_replies: 0,
            expiries: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            handled: 0,
        };
        world.plan_events();
        world
    }

    /// Runs until no event is left. Returns a hash that identifies the run.
    pub(crate) fn run_to_rest(mut self) -> (Self, u64) {
        while let Some(Reverse((at, order))) = self.queue.pop() {
            self.handled += 1;
            assert!(self.handled < EVENTS_MAX, "the world does not come to rest");
            self.now = at;
            let what = self.events.remove(&order).expect("a queued event");
            self.hash_event(at, &what);
            self.apply_event(what);
        }
        let trace = self.trace;
        (self, trace)
    }

    fn plan_events(&mut self) {
        let credits = 30 + self.rng.next_below(200);
        self.store.grant_credits(credits);
        let asks = 2 + self.rng.next_below(7);
        self.asks_left = asks;
        for _ in 0..asks {
            let conversation = self.rng.next_below(CONVERSATIONS as u64) as usize;
            let at = self.rng.next_below(40_000);
            self.schedule_at(at, What::Ask { conversation });
        }
        for _ in 0..self.rng.next_below(3) {
            let conversation = self.rng.next_below(CONVERSATIONS as u64) as usize;
            let at = self.rng.next_below(PEACE_AFTER);
            self.schedule_at(at, What::Stop { conversation });
        }
        if self.rng.roll_percent(30) {
            let conversation = self.rng.next_below(CONVERSATIONS as u64) as usize;
            let at = self.rng.next_below(PEACE_AFTER);
            self.schedule_at(at, What::Delete { conversation });
        }
        if self.rng.roll_percent(50) {
            let (at, amount) = (self.rng.next_below(PEACE_AFTER), self.rng.next_below(100));
            self.schedule_at(at, What::Grant { amount });
        }
        for _ in 0..self.rng.next_below(9) {
            let at = self.rng.next_below(PEACE_AFTER);
            let node = self.rng.next_below(NODES as u64) as usize;
            match self.rng.next_below(5) {
                0 | 1 => self.schedule_at(at, What::KillNode { node }),
                2 | 3 => self.schedule_at(at, What::KillMachine),
                _ => {
                    let until = at + self.rng.next_below(3 * LEASE);
                    self.schedule_at(at, What::Freeze { node, until });
                }
            }
        }
        for node in 0..NODES {
            let at = self.rng.next_below(TICK);
            self.schedule_at(at, What::Tick { node, life: 0 });
        }
    }

    fn schedule_at(&mut self, at: u64, what: What) {
        self.order += 1;
        self.queue.push(Reverse((at.max(self.now), self.order)));
        self.events.insert(self.order, what);
    }

    fn schedule_after(&mut self, least: u64, spread: u64, what: What) {
        let at = self.now + least + self.rng.next_below(spread);
        self.schedule_at(at, what);
    }

    fn hash_event(&mut self, at: u64, what: &What) {
        for byte in format!("{at}{what:?}").bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn apply_event(&mut self, what: What) {
        let to_node = match &what {
            What::Tick { node, .. } => Some(*node),
            What::Connect { at } | What::ToTurn { at, .. } => Some(at.node),
            What::Ask { .. }
            | What::Stop { .. }
            | What::Delete { .. }
            | What::Grant { .. }
            | What::ToExecutor { .. }
            | What::Finished { .. }
            | What::Transact { .. }
            | What::Reply { .. }
            | What::KillNode { .. }
            | What::StartNode { .. }
            | What::Freeze { .. }
            | What::KillMachine
            | What::StartMachine => None,
        };
        if let Some(node) = to_node
            && self.nodes[node].frozen_until > self.now
        {
            let thaw = self.nodes[node].frozen_until;
            return self.schedule_at(thaw, what);
        }
        match what {
            What::Ask { conversation } => self.ask_question(conversation),
            What::Stop { conversation } => self.stop_answer(conversation),
            What::Delete { conversation } => self.delete_conversation(conversation),
            What::Grant { amount } => self.store.grant_credits(amount),
            What::Tick { node, life } => self.tick_node(node, life),
            What::Connect { at } => self.connect_turn(at),
            What::ToTurn { at, connection, event } => self.reach_turn(at, connection, event),
            What::ToExecutor { connection, answer, stamp, frame } => {
                self.reach_executor(connection, answer, stamp, frame)
            }
            What::Finished { machine_life, answer, call, output } => {
                let killed = self.machine.killed.contains(&(answer, call.clone()));
                if machine_life == self.machine.life && self.machine.up && !killed {
                    self.finished.insert((answer, call.clone()));
                    self.run_executor(answer, executor::ExecutorEvent::Finished { call, output });
                }
            }
            What::Transact { at, op } => self.run_transaction(at, op),
            What::Reply { answer, call, reply } => self.give_reply(answer, &call, reply),
            What::KillNode { node } => self.kill_node(node),
            What::StartNode { node } => {
                self.nodes[node].up = true;
                let life = self.nodes[node].life;
                self.schedule_after(0, 50, What::Tick { node, life });
            }
            What::Freeze { node, until } => {
                self.kills += 1;
                self.nodes[node].frozen_until = until;
            }
            What::KillMachine => self.kill_machine(),
            What::StartMachine => {
                self.machine =
                    WorldMachine { up: true, life: self.machine.life + 1, ..WorldMachine::default() };
            }
        }
    }

    fn ask_question(&mut self, conversation: usize) {
        self.asked += 1;
        self.asks_left -= 1;
        let answer = MessageId::from_random(self.rng.next_bits());
        let length = 5 + self.rng.next_below(300) as usize;
        if self.store.ask_question(answer, conversation, &"q".repeat(length)) {
            self.accepted += 1;
        }
    }

    fn stop_answer(&mut self, conversation: usize) {
        let Some(answer) = self.store.open_in(conversation) else { return };
        let row = self.store.rows.get_mut(&answer).expect("an open answer has a row");
        row.stop = true;
        if let Some((node, life, _)) = row.lease {
            let at = TurnKey { node, life, answer, epoch: row.epoch };
            self.schedule_after(
                0,
                20,
                What::ToTurn { at, connection: None, event: TurnEvent::StopRequested },
            );
        }
    }

    fn tick_node(&mut self, node: usize, life: u64) {
        if !self.nodes[node].up || self.nodes[node].life != life {
            return;
        }
        let until = self.now + LEASE;
        self.store.renew_leases(node, life, until);
        let turns = self.nodes[node].turns.iter().map(|(answer, running)| (*answer, running.epoch));
        for (answer, epoch) in turns.collect::<Vec<_>>() {
            if self.store.lost_to_other((node, life), answer, epoch) {
                let at = TurnKey { node, life, answer, epoch };
                self.schedule_after(0, 20, What::ToTurn { at, connection: None, event: TurnEvent::Fenced });
            } else if self.store.rows[&answer].stop {
                let at = TurnKey { node, life, answer, epoch };
                self.schedule_after(
                    0,
                    20,
                    What::ToTurn { at, connection: None, event: TurnEvent::StopRequested },
                );
            }
        }
        for answer in self.store.claim_answers(node, life, self.now, until) {
            let setup = self.store.turn_setup(answer);
            let late = self.now < PEACE_AFTER && self.rng.roll_percent(30) && self.unsettle_holder(answer);
            let at = TurnKey { node, life, answer, epoch: setup.epoch };
            let mut turn = Turn::new(setup);
            let reader = turn.answer().clone();
            let effects = turn.begin_turn();
            let (epoch, stamp) = (at.epoch, SessionStamp::default());
            let running = SimulatedTurn { epoch, turn, connection: None, stamp, connecting: late, reader };
            self.nodes[node].turns.insert(answer, running);
            if late {
                self.schedule_after(500, 3000, What::Connect { at });
            }
            self.carry_out(at, effects);
        }
        if self.store.any_open() || self.asks_left > 0 {
            self.schedule_after(TICK, 100, What::Tick { node, life });
        }
    }

    fn running_turn(&mut self, at: TurnKey) -> Option<&mut SimulatedTurn> {
        let node = &mut self.nodes[at.node];
        if !node.up || node.life != at.life {
            return None;
        }
        node.turns.get_mut(&at.answer).filter(|running| running.epoch == at.epoch)
    }

    fn connect_turn(&mut self, at: TurnKey) {
        if self.running_turn(at).is_none_or(|running| !running.turn.wants_connection()) {
            if let Some(running) = self.running_turn(at) {
                running.connecting = false;
            }
            return;
        }
        if !self.machine.up {
            if self.rng.roll_percent(1) {
                return self.reach_turn(at, None, TurnEvent::MachineFailed("no room".to_owned()));
            }
            if !self.machine.starting {
                self.machine.starting = true;
                self.schedule_after(50, 500, What::StartMachine);
            }
            return self.schedule_after(100, 100, What::Connect { at });
        }
        self.next_connection += 1;
        let connection = self.next_connection;
        let machine_life = self.machine.life;
        let made =
            SimulatedConnection { at, machine_life, last_to_executor: self.now, last_to_host: self.now };
        self.connections.insert(connection, made);
        let running = self.running_turn(at).expect("looked up above");
        running.connecting = false;
        running.connection = Some(connection);
        let instance = self.machine.instance_id();
        self.reach_turn(at, Some(connection), TurnEvent::Connected(instance));
    }

    fn reach_turn(&mut self, at: TurnKey, connection: Option<u64>, event: TurnEvent) {
        let Some(running) = self.running_turn(at) else { return };
        if connection.is_some() && running.connection != connection {
            return;
        }
        if event == TurnEvent::Disconnected {
            running.connection = None;
        }
        let effects = running.turn.apply_event(event);
        self.carry_out(at, effects);
    }

    fn carry_out(&mut self, at: TurnKey, effects: Vec<TurnEffect>) {
        for effect in effects {
            match effect {
                TurnEffect::Send(frame) => self.send_frame(at, frame),
                TurnEffect::Reconnect => {
                    if let Some(running) = self.running_turn(at) {
                        running.connection = None;
                    }
                }
                TurnEffect::Reserve { number, attempt, summary: _, max_cost } => {
                    self.transact_soon(at, StoreOp::Reserve { number, attempt, max_cost });
                }
                TurnEffect::CommitStep { entry, cost, bill } => {
                    self.transact_soon(at, StoreOp::CommitStep { entry, cost, bill });
                }
                TurnEffect::CommitResult { number, result } => {
                    self.check_interrupted(at, &result);
                    self.check_replied(at, &result);
                    self.transact_soon(
                        at,
                        StoreOp::CommitResult { entry: LogEntry::Result { number, result } },
                    );
                }
                TurnEffect::Complete(completion) => {
                    self.check_overdue(at, &completion);
                    self.transact_soon(at, StoreOp::Complete(completion));
                }
                TurnEffect::Pause { number, calls } => {
                    let deadline = self.now + PAUSE;
                    self.transact_soon(at, StoreOp::Pause { number, calls, deadline });
                }
                TurnEffect::NameInstance { number, instance } => {
                    self.transact_soon(at, StoreOp::NameInstance { number, instance });
                }
                TurnEffect::CallModel { number, attempt, transcript, tools, .. } => {
                    self.check_shown(&transcript);
                    self.produce_step(at, number, attempt, tools);
                }
                TurnEffect::CancelModel => {}
                TurnEffect::RunTool(call) => self.run_here(at, &call),
                TurnEffect::BackOff { number, attempt, wait } => {
                    let when = self.now + wait.as_millis() as u64;
                    let event = TurnEvent::BackoffElapsed { number, attempt };
                    self.schedule_at(when, What::ToTurn { at, connection: None, event });
                }
                TurnEffect::Publish(stamp, change) => {
                    let twice = self.rng.roll_percent(10);
                    let running = self.running_turn(at).expect("the turn that published");
                    assert!(running.reader.fold_change(stamp, change.clone()), "a change arrives in order");
                    if twice {
                        assert!(!running.reader.fold_change(stamp, change), "a duplicate is ignored");
                    }
                }
                TurnEffect::Finish => {
                    self.check_reader(at);
                    self.nodes[at.node].turns.remove(&at.answer);
                }
            }
        }
        let Some(running) = self.running_turn(at) else { return };
        if running.turn.wants_connection() && running.connection.is_none() && !running.connecting {
            running.connecting = true;
            self.schedule_after(1, 30, What::Connect { at });
        } else if running.connection.is_none() && !running.connecting && !running.turn.is_over() {
            // The caller detects the end of its own stream at once.
            let effects = running.turn.apply_event(TurnEvent::Disconnected);
            assert!(
                effects.iter().all(|effect| !matches!(effect, TurnEffect::Send(_))),
                "nothing is sent without a connection"
            );
        }
    }

    fn transact_soon(&mut self, at: TurnKey, op: StoreOp) {
        self.schedule_after(1, 40, What::Transact { at, op });
    }

    fn run_transaction(&mut self, at: TurnKey, op: StoreOp) {
        let killed = !self.nodes[at.node].up || self.nodes[at.node].life != at.life;
        if killed && self.rng.roll_percent(50) {
            return; // it had not reached the store when its node was killed
        }
        let awaited = match &op {
            StoreOp::Pause { calls, .. } => calls.clone(),
            _ => Vec::new(),
        };
        let event = match self.store.run_op(at.answer, at.epoch, op) {
            StoreOpResult::Reserved { number, attempt, outcome } => {
                TurnEvent::Reserved { number, attempt, outcome }
            }
            StoreOpResult::Step { number, summary } => TurnEvent::StepCommitted { number, summary },
            StoreOpResult::Result { call } => TurnEvent::ResultCommitted { call },
            StoreOpResult::Completed => TurnEvent::Completed,
            StoreOpResult::Paused { number, deadline } => {
                self.plan_replies(at.answer, &awaited);
                TurnEvent::Paused { number, deadline: Timestamp::from_micros(deadline as i64) }
            }
            StoreOpResult::InstanceNamed { number, instance } => {
                TurnEvent::InstanceNamed { number, instance }
            }
            StoreOpResult::Fenced => TurnEvent::Fenced,
        };
        self.maybe_twice(What::ToTurn { at, connection: None, event });
    }

    fn maybe_twice(&mut self, what: What) {
        if self.rng.roll_percent(5) {
            self.schedule_after(1, 3000, what.clone());
        }
        self.schedule_after(1, 20, what);
    }

    fn send_frame(&mut self, at: TurnKey, frame: HostFrame) {
        let running = self.running_turn(at).expect("the turn that sends");
        if let HostFrame::Open(open) = &frame {
            running.stamp = open.stamp;
        }
        let (stamp, connection) = (running.stamp, running.connection);
        let Some(connection) = connection else { return };
        let late = self.now + 1 + self.rng.next_below(30);
        let made = self.connections.get_mut(&connection).expect("a connection in use");
        made.last_to_executor = made.last_to_executor.max(late);
        let when = made.last_to_executor;
        let what = What::ToExecutor { connection, answer: at.answer, stamp, frame };
        if self.rng.roll_percent(5) {
            self.schedule_after(1, 5000, what.clone());
        }
        self.schedule_at(when, what);
    }

    fn reach_executor(&mut self, connection: u64, answer: MessageId, stamp: SessionStamp, frame: HostFrame) {
        let Some(made) = self.connections.get(&connection) else { return };
        if !self.machine.up || made.machine_life != self.machine.life {
            return;
        }
        if matches!(frame, HostFrame::Open(_)) {
            let known = self.machine.routes.get(&answer).map(|(stamp, _)| *stamp);
            if known.is_none_or(|known| known < stamp) {
                self.machine.routes.insert(answer, (stamp, connection));
            }
        }
        self.run_executor(answer, executor::ExecutorEvent::Host { stamp, frame });
    }

    fn run_executor(&mut self, answer: MessageId, event: executor::ExecutorEvent) {
        let effects = self.machine.executors.entry(answer).or_default().apply_event(event);
        for effect in effects {
            match effect {
                executor::ExecutorEffect::Send(frame) => self.send_to_host(answer, frame),
                executor::ExecutorEffect::Start(call) => {
                    let killed = self.machine.killed.contains(&(answer, call.id.clone()));
                    assert!(!killed, "an unneeded call is started");
                    let of_machine =
                        ["read", "write", "sign", "open", ATTACHED_FILES].contains(&call.tool.as_str());
                    assert!(of_machine, "the machine runs no calls of the host");
                    self.check_permitted(answer, &call.id, &call.tool);
                    if !SimulatedToolRouter.is_repeatable(&call.tool) {
                        self.count_effect(answer, &call.id);
                    }
                    let output = self.next_output();
                    let machine_life = self.machine.life;
                    self.schedule_after(
                        1,
                        4000,
                        What::Finished { machine_life, answer, call: call.id, output },
                    );
                }
                executor::ExecutorEffect::Kill(call) => {
                    self.machine.killed.insert((answer, call));
                }
            }
        }
    }

    /// Runs a call on the host; a subagent publishes text before it returns.
    fn run_here(&mut self, at: TurnKey, call: &StepCall) {
        assert!(SimulatedToolRouter.runs_on_host(&call.tool), "the host runs no calls of the machine");
        self.check_permitted(at.answer, &call.id, &call.tool);
        if !SimulatedToolRouter.is_repeatable(&call.tool) {
            self.count_effect(at.answer, &call.id);
        }
        if call.tool == "agent" {
            let mut when = self.now;
            for keep in 0..self.rng.next_below(4) {
                when += self.rng.next_below(1000);
                let event =
                    TurnEvent::Reported {
                        call: call.id.clone(), keep: keep as usize, text: "wé".to_owned()
                    };
                self.schedule_at(when, What::ToTurn { at, connection: None, event });
            }
        }
        let event = TurnEvent::ToolReturned { call: call.id.clone(), output: self.next_output() };
        self.schedule_after(1, 3000, What::ToTurn { at, connection: None, event });
    }

    fn send_to_host(&mut self, answer: MessageId, frame: ExecutorFrame) {
        let Some((_, connection)) = self.machine.routes.get(&answer).copied() else { return };
        let late = self.now + 1 + self.rng.next_below(30);
        let made = self.connections.get_mut(&connection).expect("a routed connection");
        made.last_to_host = made.last_to_host.max(late);
        let (at, when) = (made.at, made.last_to_host);
        let what = What::ToTurn { at, connection: Some(connection), event: TurnEvent::Executor(frame) };
        if self.rng.roll_percent(5) {
            self.schedule_after(1, 5000, what.clone());
        }
        self.schedule_at(when, what);
    }
}
