//! The simulated store: transactions that either happen or are rejected, and that survive all crashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::answer::{Answer, Ending, LogEntry};
use domain::credits::{AnswerCost, Balance, Credits, PostingKind, Price, Shortage};
use domain::id::MessageId;
use domain::limits::STEPS_MAX;
use domain::step::{ATTACHED_FILES, Call, Purpose, Usage, WORKSPACE_INSTRUCTIONS};
use domain::turn::host::{Completion, Exchange, Setup, ToolRouter};

pub(crate) const PRICE: Price = Price { base_millis: 1000, input_millis: 100, output_millis: 2000 };
/// The instruction of the summarizing step.
pub(crate) const SUMMING_UP: &str = "Sum up.";
const OUTPUT_MAX_TOKENS: u32 = 1000;

/// The tools of the host: its own, and those of a server, one of which is repeatable.
#[derive(Debug)]
pub(crate) struct OfHost;

impl ToolRouter for OfHost {
    fn runs_on_host(&self, tool: &str) -> bool {
        ["skill", "agent", "registry__look_up", "registry__file", WORKSPACE_INSTRUCTIONS].contains(&tool)
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        !["registry__file", "write"].contains(&tool)
    }
}

pub(crate) struct Row {
    pub(crate) conversation: usize,
    pub(crate) question: String,
    pub(crate) log: Vec<LogEntry>,
    pub(crate) charged: Vec<Usage>,
    pub(crate) bill: AnswerCost,
    pub(crate) held: Credits,
    pub(crate) settled: Credits,
    pub(crate) epoch: u64,
    /// The node, its instance number, and the end of the lease.
    pub(crate) lease: Option<(usize, u64, u64)>,
    pub(crate) stop: bool,
    pub(crate) ending: Option<Ending>,
    /// Set if its conversation was deleted.
    pub(crate) deleted: bool,
    pub(crate) answer: Option<Answer>,
}

/// The transactions of a turn.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Reserve { number: u32, attempt: u32, max_cost: Credits },
    CommitStep { entry: LogEntry, cost: Credits, bill: AnswerCost },
    CommitResult { entry: LogEntry },
    Complete(Box<Completion>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Done {
    Reserved { number: u32, attempt: u32, outcome: Result<(), Shortage> },
    Step { number: u32, summary: bool },
    Result { call: String },
    Completed,
    Fenced,
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) rows: BTreeMap<MessageId, Row>,
    /// One account owns all conversations, which compete for its credits.
    pub(crate) balance: Balance,
    pub(crate) granted: u64,
}

impl Store {
    pub(crate) fn grant(&mut self, amount: u64) {
        self.granted += amount;
        self.post(PostingKind::Grant, Credits(amount));
    }

    pub(crate) fn open_in(&self, conversation: usize) -> Option<MessageId> {
        let mut open = self
            .rows
            .iter()
            .filter(|(_, row)| row.conversation == conversation && row.ending.is_none() && !row.deleted);
        let first = open.next().map(|(id, _)| *id);
        assert!(open.next().is_none(), "two open answers in one conversation");
        first
    }

    pub(crate) fn any_open(&self) -> bool {
        self.rows.values().any(|row| row.ending.is_none())
    }

    /// Accepts a question, or rejects it as busy or for lack of credits.
    pub(crate) fn ask(&mut self, answer: MessageId, conversation: usize, question: &str) -> bool {
        if self.open_in(conversation).is_some() {
            return false;
        }
        let row = Row {
            conversation,
            question: question.to_owned(),
            log: Vec::new(),
            charged: Vec::new(),
            bill: AnswerCost::default(),
            held: Credits::default(),
            settled: Credits::default(),
            epoch: 0,
            lease: None,
            stop: false,
            ending: None,
            deleted: false,
            answer: None,
        };
        self.rows.insert(answer, row);
        let held = domain::turn::host::first_reservation(&self.setup(answer));
        if let Ok(balance) = self.balance.post(PostingKind::Reserve, held) {
            self.balance = balance;
            self.row(answer).held = held;
            true
        } else {
            self.rows.remove(&answer);
            false
        }
    }

    pub(crate) fn setup(&self, answer: MessageId) -> Setup {
        let row = &self.rows[&answer];
        let earlier = self.rows.iter().filter(|(id, other)| {
            **id != answer
                && other.conversation == row.conversation
                && other.ending.is_some()
                && !other.deleted
        });
        Setup {
            answer,
            epoch: row.epoch,
            earlier: earlier.map(|(_, other)| exchange(other)).collect(),
            present: exchange(row),
            bill: row.bill,
            price: PRICE,
            overhead_tokens: 500,
            // Some models have so small a window that much of the transcript must be summarized.
            context_tokens: if row.question.len().is_multiple_of(4) { 4000 } else { 900 },
            summary_instruction: SUMMING_UP.into(),
            output_max_tokens: OUTPUT_MAX_TOKENS,
            steps_max: STEPS_MAX,
            router: Arc::new(OfHost),
            attached: row.question.len().is_multiple_of(3).then(attached),
            instructions: row.question.len().is_multiple_of(5).then(instructions),
            files: Vec::new(),
            sees_images: false,
            stop: row.stop,
        }
    }

    /// Leases every answer without a holder to the node.
    pub(crate) fn claim(&mut self, node: usize, life: u64, now: u64, until: u64) -> Vec<MessageId> {
        let mut claimed = Vec::new();
        for (id, row) in &mut self.rows {
            let free = match row.lease {
                None => true,
                Some((holder, holder_life, expires)) => {
                    expires <= now || (holder == node && holder_life != life)
                }
            };
            if row.ending.is_none() && free {
                row.epoch += 1;
                row.lease = Some((node, life, until));
                claimed.push(*id);
            }
        }
        claimed
    }

    /// Deletes the conversation of an open answer: hides it and requests a stop.
    pub(crate) fn delete(&mut self, answer: MessageId) {
        let row = self.row(answer);
        (row.deleted, row.stop) = (true, true);
    }

    /// Returns `true` if the node lost the answer to another one. Completed answers do not count.
    pub(crate) fn took(&self, from: (usize, u64), answer: MessageId, epoch: u64) -> bool {
        let row = &self.rows[&answer];
        let holds = row.lease.is_some_and(|(node, life, _)| (node, life) == from);
        row.ending.is_none() && (row.epoch != epoch || !holds)
    }

    pub(crate) fn renew(&mut self, node: usize, life: u64, until: u64) {
        for row in self.rows.values_mut() {
            if let Some((holder, holder_life, expires)) = &mut row.lease
                && (*holder, *holder_life) == (node, life)
            {
                *expires = until;
            }
        }
    }

    pub(crate) fn run(&mut self, answer: MessageId, epoch: u64, op: Op) -> Done {
        let row = &self.rows[&answer];
        if row.epoch != epoch || row.ending.is_some() {
            return Done::Fenced;
        }
        match op {
            Op::Reserve { number, attempt, max_cost } => {
                let held = std::mem::take(&mut self.row(answer).held);
                self.post(PostingKind::Release, held);
                let granted = self.balance.post(PostingKind::Reserve, max_cost);
                if let Ok(balance) = granted {
                    self.balance = balance;
                    self.row(answer).held = max_cost;
                }
                Done::Reserved { number, attempt, outcome: granted.map(drop).map_err(|_| Shortage::Balance) }
            }
            Op::CommitStep { entry, cost, bill } => {
                let (number, summary) = match &entry {
                    LogEntry::Step { number, .. } => (*number, false),
                    LogEntry::Summary { number, .. } => (*number, true),
                    LogEntry::Result { .. } => unreachable!("a step is committed"),
                };
                self.settle(answer, &entry, cost, bill);
                self.row(answer).log.push(entry);
                Done::Step { number, summary }
            }
            Op::CommitResult { entry } => {
                let LogEntry::Result { result, .. } = &entry else { unreachable!("a result is committed") };
                let call = result.call.clone();
                let log = &mut self.row(answer).log;
                let known = |known: &LogEntry| matches!(known, LogEntry::Result { result, .. } if result.call == call);
                assert!(!log.iter().any(known), "a result committed twice");
                log.push(entry);
                Done::Result { call }
            }
            Op::Complete(completion) => {
                if let Some(entry) = completion.partial {
                    if completion.cost > Credits(0) {
                        self.settle(answer, &entry, completion.cost, completion.bill);
                    }
                    self.row(answer).log.push(entry);
                }
                let held = std::mem::take(&mut self.row(answer).held);
                self.post(PostingKind::Release, held);
                let row = self.row(answer);
                row.ending = Some(completion.ending);
                row.answer = Some(completion.answer);
                row.lease = None;
                Done::Completed
            }
        }
    }

    fn settle(&mut self, answer: MessageId, entry: &LogEntry, cost: Credits, bill: AnswerCost) {
        let (number, step) = match entry {
            LogEntry::Step { number, step, .. } => (number, step),
            LogEntry::Summary { number, step, .. } => {
                let before =
                    |known: &LogEntry| matches!(known, LogEntry::Summary { number: of, .. } if of == number);
                assert!(!self.rows[&answer].log.iter().any(before), "a summary is bought once");
                (number, step)
            }
            LogEntry::Result { .. } => unreachable!("steps cost"),
        };
        let row = self.row(answer);
        let steps = row.log.iter().filter(|entry| matches!(entry, LogEntry::Step { .. })).count();
        assert_eq!(*number as usize, steps, "steps are numbered without a gap and committed once");
        let rest = row.held.0.checked_sub(cost.0).expect("no step costs more than was held");
        row.held = Credits(0);
        row.bill = bill;
        row.settled.0 += cost.0;
        row.charged.push(step.usage);
        self.post(PostingKind::Settle, cost);
        self.post(PostingKind::Release, Credits(rest));
    }

    fn row(&mut self, answer: MessageId) -> &mut Row {
        self.rows.get_mut(&answer).expect("a row of this answer")
    }

    fn post(&mut self, kind: PostingKind, amount: Credits) {
        self.balance = self.balance.post(kind, amount).expect("the ledger adds up");
    }
}

/// Creates the call that reads the attachments of some questions.
fn attached() -> Call {
    let (id, arguments) = ("attached".to_owned(), "{}".to_owned());
    Call { id, tool: ATTACHED_FILES.to_owned(), arguments, purpose: Purpose::Tool }
}

/// Creates the call that reads the workspace's instructions of some questions.
fn instructions() -> Call {
    let name = || WORKSPACE_INSTRUCTIONS.to_owned();
    Call { id: name(), tool: name(), arguments: "{}".to_owned(), purpose: Purpose::Tool }
}

fn exchange(row: &Row) -> Exchange {
    Exchange { question: row.question.clone(), attachments: Vec::new(), log: row.log.clone() }
}
