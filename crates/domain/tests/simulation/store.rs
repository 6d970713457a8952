//! The simulated store: transactions that either happen or are rejected, and that survive all crashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::answer::{Answer, AnswerEnding, LogEntry};
use domain::credits::{AnswerCost, Balance, Credits, PostingKind, Price, Shortage};
use domain::id::{InstanceId, MessageId};
use domain::limits::STEPS_MAX;
use domain::step::{
    ATTACHED_FILES, AwaitedCall, Purpose, ReplyKind, StepCall, TokenUsage, WORKSPACE_INSTRUCTIONS,
};
use domain::turn::host::{LoggedExchange, Setup, ToolRouter, TurnCompletion};

use crate::pauses::SimulatedPause;

pub(crate) const PRICE: Price = Price { base_millis: 1000, input_millis: 100, output_millis: 2000 };
/// The instruction of the summarizing step.
pub(crate) const SUMMING_UP: &str = "Sum up.";
const OUTPUT_MAX_TOKENS: u32 = 1000;

/// The tools of the host: built-in ones, and the tools of a server, one of which is repeatable.
#[derive(Debug)]
pub(crate) struct SimulatedToolRouter;

impl ToolRouter for SimulatedToolRouter {
    fn runs_on_host(&self, tool: &str) -> bool {
        let tools = [
            "skill",
            "agent",
            "registry__look_up",
            "registry__file",
            "registry__pay",
            WORKSPACE_INSTRUCTIONS,
        ];
        tools.contains(&tool)
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        !["registry__file", "registry__pay", "write", "sign"].contains(&tool)
    }

    fn awaited_reply(&self, call: &StepCall) -> Option<ReplyKind> {
        match call.tool.as_str() {
            "function" => Some(ReplyKind::Function),
            "ask_user" => Some(ReplyKind::Question),
            "sign" | "registry__pay" | "open" => Some(ReplyKind::Approval),
            _ => None,
        }
    }
}

pub(crate) struct SimulatedAnswer {
    pub(crate) conversation: usize,
    pub(crate) question: String,
    pub(crate) log: Vec<LogEntry>,
    pub(crate) charged: Vec<TokenUsage>,
    pub(crate) bill: AnswerCost,
    pub(crate) held: Credits,
    pub(crate) settled: Credits,
    pub(crate) epoch: u64,
    /// The node, its instance number, and the end of the lease.
    pub(crate) lease: Option<(usize, u64, u64)>,
    pub(crate) stop: bool,
    pub(crate) ending: Option<AnswerEnding>,
    /// Set if its conversation was deleted.
    pub(crate) deleted: bool,
    pub(crate) answer: Option<Answer>,
    pub(crate) pause: SimulatedPause,
}

/// The transactions of a turn.
#[derive(Debug, Clone)]
pub(crate) enum StoreOp {
    Reserve { number: u32, attempt: u32, max_cost: Credits },
    CommitStep { entry: LogEntry, cost: Credits, bill: AnswerCost },
    CommitResult { entry: LogEntry },
    Complete(Box<TurnCompletion>),
    Pause { number: u32, calls: Vec<AwaitedCall>, deadline: u64 },
    NameInstance { number: u32, instance: InstanceId },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StoreOpResult {
    Reserved { number: u32, attempt: u32, outcome: Result<(), Shortage> },
    Step { number: u32, summary: bool },
    Result { call: String },
    Completed,
    Paused { number: u32, deadline: u64 },
    InstanceNamed { number: u32, instance: InstanceId },
    Fenced,
}

#[derive(Default)]
pub(crate) struct SimulatedStore {
    pub(crate) rows: BTreeMap<MessageId, SimulatedAnswer>,
    /// One account owns all conversations, which compete for its credits.
    pub(crate) balance: Balance,
    pub(crate) granted: u64,
}

impl SimulatedStore {
    pub(crate) fn grant_credits(&mut self, amount: u64) {
        self.granted += amount;
        self.post_credits(PostingKind::Grant, Credits(amount));
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
    pub(crate) fn ask_question(&mut self, answer: MessageId, conversation: usize, question: &str) -> bool {
        if self.open_in(conversation).is_some() {
            return false;
        }
        let row = SimulatedAnswer {
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
            pause: SimulatedPause::default(),
        };
        self.rows.insert(answer, row);
        let held = domain::turn::host::first_reservation(&self.turn_setup(answer));
        if let Ok(balance) = self.balance.after_posting(PostingKind::Reserve, held) {
            self.balance = balance;
            self.row_of_answer(answer).held = held;
            true
        } else {
            self.rows.remove(&answer);
            false
        }
    }

    pub(crate) fn turn_setup(&self, answer: MessageId) -> Setup {
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
            earlier: earlier.map(|(_, other)| exchange_of_row(other)).collect(),
            present: exchange_of_row(row),
            bill: row.bill,
            price: PRICE,
            overhead_tokens: 500,
            // Some models have so small a window that much of the transcript must be summarized.
            context_tokens: if row.question.len().is_multiple_of(4) { 4000 } else { 900 },
            summary_instruction: SUMMING_UP.into(),
            output_max_tokens: OUTPUT_MAX_TOKENS,
            steps_max: STEPS_MAX,
            router: Arc::new(SimulatedToolRouter),
            attached: row.question.len().is_multiple_of(3).then(attached_files_call),
            instructions: row.question.len().is_multiple_of(5).then(instructions_call),
            files: Vec::new(),
            sees_images: false,
            stop: row.stop,
            pause: row.pause.state(row.pause.until.is_some()),
        }
    }

    /// Leases every answer without a holder to the node.
    pub(crate) fn claim_answers(&mut self, node: usize, life: u64, now: u64, until: u64) -> Vec<MessageId> {
        let mut claimed = Vec::new();
        for (id, row) in &mut self.rows {
            let free = match row.lease {
                None => true,
                Some((holder, holder_life, expires)) => {
                    expires <= now || (holder == node && holder_life != life)
                }
            };
            let rests = row.pause.until.is_some_and(|until| now < until) && !row.stop;
            if row.ending.is_none() && free && !rests {
                row.epoch += 1;
                row.lease = Some((node, life, until));
                claimed.push(*id);
            }
        }
        claimed
    }

    /// Deletes the conversation of an open answer: hides it and requests a stop.
    pub(crate) fn delete_conversation(&mut self, answer: MessageId) {
        let row = self.row_of_answer(answer);
        (row.deleted, row.stop) = (true, true);
    }

    /// Returns `true` if the node lost the answer to another one. Completed answers do not count.
    pub(crate) fn lost_to_other(&self, from: (usize, u64), answer: MessageId, epoch: u64) -> bool {
        let row = &self.rows[&answer];
        let holds = row.lease.is_some_and(|(node, life, _)| (node, life) == from);
        row.ending.is_none() && (row.epoch != epoch || !holds)
    }

    pub(crate) fn renew_leases(&mut self, node: usize, life: u64, until: u64) {
        for row in self.rows.values_mut() {
            if let Some((holder, holder_life, expires)) = &mut row.lease
                && (*holder, *holder_life) == (node, life)
            {
                *expires = until;
            }
        }
    }

    pub(crate) fn run_op(&mut self, answer: MessageId, epoch: u64, op: StoreOp) -> StoreOpResult {
        let row = &self.rows[&answer];
        if row.epoch != epoch || row.ending.is_some() || row.lease.is_none() {
            return StoreOpResult::Fenced;
        }
        match op {
            StoreOp::Reserve { number, attempt, max_cost } => {
                let held = std::mem::take(&mut self.row_of_answer(answer).held);
                self.post_credits(PostingKind::Release, held);
                let granted = self.balance.after_posting(PostingKind::Reserve, max_cost);
                if let Ok(balance) = granted {
                    self.balance = balance;
                    self.row_of_answer(answer).held = max_cost;
                }
                StoreOpResult::Reserved {
                    number,
                    attempt,
                    outcome: granted.map(drop).map_err(|_| Shortage::Balance),
                }
            }
            StoreOp::CommitStep { entry, cost, bill } => {
                let (number, summary) = match &entry {
                    LogEntry::Step { number, .. } => (*number, false),
                    LogEntry::Summary { number, .. } => (*number, true),
                    LogEntry::Result { .. } => unreachable!("a step is committed"),
                };
                self.settle_entry(answer, &entry, cost, bill);
                self.row_of_answer(answer).log.push(entry);
                StoreOpResult::Step { number, summary }
            }
            StoreOp::CommitResult { entry } => {
                let LogEntry::Result { result, .. } = &entry else { unreachable!("a result is committed") };
                let call = result.call.clone();
                let log = &mut self.row_of_answer(answer).log;
                let known = |known: &LogEntry| matches!(known, LogEntry::Result { result, .. } if result.call == call);
                assert!(!log.iter().any(known), "a result committed twice");
                log.push(entry);
                StoreOpResult::Result { call }
            }
            StoreOp::Pause { number, calls, deadline } => {
                let row = self.row_of_answer(answer);
                assert_eq!(row.held, Credits(0), "a paused answer holds no credits");
                row.pause.begin(number, calls, deadline);
                row.lease = None;
                StoreOpResult::Paused { number, deadline }
            }
            StoreOp::NameInstance { number, instance } => {
                let last = self.row_of_answer(answer).pause.last.as_mut().expect("a step that was paused");
                assert_eq!(last.step, number);
                last.instance = Some(instance);
                StoreOpResult::InstanceNamed { number, instance }
            }
            StoreOp::Complete(completion) => {
                if let Some(entry) = completion.partial {
                    if completion.cost > Credits(0) {
                        self.settle_entry(answer, &entry, completion.cost, completion.bill);
                    }
                    self.row_of_answer(answer).log.push(entry);
                }
                let held = std::mem::take(&mut self.row_of_answer(answer).held);
                self.post_credits(PostingKind::Release, held);
                let row = self.row_of_answer(answer);
                row.ending = Some(completion.ending);
                row.answer = Some(completion.answer);
                row.lease = None;
                StoreOpResult::Completed
            }
        }
    }

    fn settle_entry(&mut self, answer: MessageId, entry: &LogEntry, cost: Credits, bill: AnswerCost) {
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
        let row = self.row_of_answer(answer);
        let steps = row.log.iter().filter(|entry| matches!(entry, LogEntry::Step { .. })).count();
        assert_eq!(*number as usize, steps, "steps are numbered without a gap and committed once");
        let rest = row.held.0.checked_sub(cost.0).expect("no step costs more than was held");
        row.held = Credits(0);
        row.bill = bill;
        row.settled.0 += cost.0;
        row.charged.push(step.usage);
        self.post_credits(PostingKind::Settle, cost);
        self.post_credits(PostingKind::Release, Credits(rest));
    }

    fn row_of_answer(&mut self, answer: MessageId) -> &mut SimulatedAnswer {
        self.rows.get_mut(&answer).expect("a row of this answer")
    }

    fn post_credits(&mut self, kind: PostingKind, amount: Credits) {
        self.balance = self.balance.after_posting(kind, amount).expect("the ledger adds up");
    }
}

/// Creates the call that reads the attachments of some questions.
fn attached_files_call() -> StepCall {
    let (id, arguments) = ("attached".to_owned(), "{}".to_owned());
    StepCall { id, tool: ATTACHED_FILES.to_owned(), arguments, purpose: Purpose::Tool }
}

/// Creates the call that reads the workspace's instructions of some questions.
fn instructions_call() -> StepCall {
    let name = || WORKSPACE_INSTRUCTIONS.to_owned();
    StepCall { id: name(), tool: name(), arguments: "{}".to_owned(), purpose: Purpose::Tool }
}

fn exchange_of_row(row: &SimulatedAnswer) -> LoggedExchange {
    LoggedExchange { question: row.question.clone(), attachments: Vec::new(), log: row.log.clone() }
}
