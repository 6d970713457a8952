//! The shell around one turn: carries out what the pure [`Turn`] wants, and tells it what comes of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::answer::LogEntry;
use domain::credits::Shortage;

use domain::id::{AccountId, PostingId};
use domain::step::{Call, Item, Outcome, StepError, StepEvent, StepRequest};
use domain::turn::HostFrame;
use domain::turn::host::{Completion, Effect, Event, Turn};
use futures_util::{FutureExt, StreamExt};
use machine::TurnGuard;
use models::{Model, StepStream};
use protocol::turn::host_line;
use store::StoreError;
use store::skills;
use store::turns::{self, Claimed, Fence, Reserve, StepDone, TurnError, TurnRecord};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::briefing::{Briefing, Chosen, counted};
use super::link::{self, LinkEvent};
use super::orders::{self, Orders};
use super::{ATTEMPTS_MAX, REST, REST_DOUBLINGS_MAX, Shared, hopeless, setup};
use crate::live::{LiveAnswer, Meta};

/// How long a database that can't be reached is waited for with what is to be written, and between two tries.
const OUTAGE_MAX: Duration = Duration::from_secs(300);
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// How often a failing store is tried again before the answer is given back.
const STORE_ATTEMPTS_MAX: u32 = 5;
/// The pause before the first of these; doubles.
const STORE_PAUSE: Duration = Duration::from_millis(100);
/// What waits for one turn of its link and its pauses. A frame may be long, so that they are few.
const INBOX_MAX: usize = 16;
/// Links in a row that came to nothing before the machine counts as failed.
const FRUITLESS_LINKS_MAX: u32 = 12;

/// How long an agent may take over its move; longer than any tool may run.
const SILENCE_MAX: Duration = Duration::from_secs(20 * 60);
/// How long an agent may take to be told that the turn is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What comes to a turn.
pub(super) enum Inbox {
    /// Something that the turn itself understands.
    Event(Event),
    /// Something of a link.
    Link {
        /// Which link: those before the newest do not count.
        number: u32,
        /// What.
        event: LinkEvent,
    },
}

/// Sees a claimed answer to its end, or until another takes it over or the service ends.
pub(super) async fn run(shared: &Arc<Shared>, claimed: Claimed, mut given: watch::Receiver<Orders>) {
    let (fence, doublings) = (claimed.fence, claimed.attempts.saturating_sub(1).min(REST_DOUBLINGS_MAX));
    let ended = shared.shutdown.run_until_cancelled(attempt(shared, claimed, &mut given)).await;
    match ended {
        Some(Ended::Over) => return,
        Some(Ended::GiveBack) => {
            let rest = async {
                // Whoever stops or deletes it does not want it to rest.
                let pause = REST * 2_u32.pow(doublings);
                let _ = timeout(pause, orders::next(&mut given)).await;
            };
            shared.shutdown.run_until_cancelled(rest).await;
            shared.give_back(fence).await;
        }
        Some(Ended::MachineStopped) | None => shared.put_back(fence).await,
    }
    // Those who read it go on reading; nobody else needs it until it is taken up again.
    shared.live.let_go(fence.answer);
}

/// Works on the answer, or ends it when that was tried too often.
async fn attempt(shared: &Arc<Shared>, claimed: Claimed, given: &mut watch::Receiver<Orders>) -> Ended {
    let answer = claimed.fence.answer;
    if claimed.attempts > ATTEMPTS_MAX {
        return if hopeless::end(shared, claimed).await { Ended::Over } else { Ended::GiveBack };
    }
    // One answer that breaks its turn must not stay leased and never be worked on again.
    let ended = AssertUnwindSafe(work(shared, claimed, given)).catch_unwind().await;
    ended.unwrap_or_else(|_| {
        tracing::error!(%answer, "the work on an answer panicked");
        Ended::GiveBack
    })
}

/// How the work on a claimed answer ended here.
enum Ended {
    /// Completed, taken over or deleted: nothing is left to do here.
    Over,
    /// Another attempt may do better: the lease goes back.
    GiveBack,
    /// The machine is stopped: the answer waits in the store until it is started.
    MachineStopped,
}

async fn work(shared: &Arc<Shared>, claimed: Claimed, given: &mut watch::Receiver<Orders>) -> Ended {
    let answer = claimed.fence.answer;
    let record = match shared.store.read(move |tx| turns::load(tx, answer)).await {
        Ok(Some(record)) => record,
        Ok(None) => return Ended::Over,
        // What can't be read now can't be read later either.
        Err(error @ StoreError::Damaged { .. }) => {
            tracing::error!(%answer, %error, "an answer is damaged");
            return if hopeless::end(shared, claimed).await { Ended::Over } else { Ended::GiveBack };
        }
        Err(error) => {
            tracing::error!(%answer, %error, "an answer could not be loaded");
            return Ended::GiveBack;
        }
    };
    let (events, mut inbox) = mpsc::channel(INBOX_MAX);
    let Some(mut shell) = Shell::new(shared, claimed, record, events).await else { return Ended::GiveBack };
    let mut effects: VecDeque<Effect> = shell.turn.begin().into();
    loop {
        while let Some(effect) = effects.pop_front() {
            match shell.carry_out(effect).await {
                Ok(Some(event)) => effects.extend(shell.turn.on(event)),
                Ok(None) => {}
                Err(ended) => return ended,
            }
        }
        if shell.link.machine_stopped && shell.turn.is_idle() {
            return Ended::MachineStopped;
        }
        shell.link_if_wanted();
        let awaited = shell.link.lines.is_some() && shell.voice.is_none();
        let event = tokio::select! {
            biased; // no agent keeps a stop waiting
            order = orders::next(given) => Some(order),
            () = tokio::time::sleep_until(shell.link.heard + SILENCE_MAX), if awaited => {
                Some(Event::MachineFailed("the agent has been silent for too long".to_owned()))
            }
            came = next(&mut inbox, &mut shell.voice) => match came {
                Came::ByInbox(came) => shell.receive(came),
                Came::Said(event) => Some(shell.named(event)),
            },
        };
        if let Some(event) = event {
            shell.hear(&event);
            let of_agent = matches!(event, Event::Agent(_));
            let wanted = shell.turn.on(event);
            if of_agent && !wanted.is_empty() {
                // Only what gets the turn on counts as a sign of life.
                shell.link.fruitless = 0;
                shell.link.heard = Instant::now();
            }
            effects.extend(wanted);
        }
    }
}

/// What came first.
enum Came {
    ByInbox(Inbox),
    Said(Event),
}

/// What comes next of agent and model: neither keeps the other waiting.
async fn next(inbox: &mut mpsc::Receiver<Inbox>, voice: &mut Option<Voice>) -> Came {
    tokio::select! {
        Some(came) = inbox.recv() => Came::ByInbox(came),
        event = said(voice) => Came::Said(event),
    }
}

/// A model that is saying a step.
struct Voice {
    number: u32,
    attempt: u32,
    stream: StepStream,
    jitter: u64,
}

/// What the model says next; never, while none is asked.
async fn said(voice: &mut Option<Voice>) -> Event {
    let Some(Voice { number, attempt, stream, jitter }) = voice else { return std::future::pending().await };
    let (number, attempt, jitter) = (*number, *attempt, *jitter);
    match stream.next().await {
        Some(Ok(event)) => Event::Said { number, attempt, event },
        other => {
            *voice = None;
            let cut =
                StepError::Unavailable { reason: "the stream ended early".to_owned(), retry_after: None };
            let error = other.and_then(Result::err).unwrap_or(cut);
            tracing::info!(%error, number, attempt, "a model step failed");
            Event::SayFailed { number, attempt, error, jitter }
        }
    }
}

struct Shell {
    shared: Arc<Shared>,
    fence: Fence,
    account: AccountId,
    model: Option<Model>,
    output_max_tokens: u32,
    record: TurnRecord,
    briefing: Briefing,
    /// Calls that open a skill which the account's use of it is to be counted by.
    opening: HashMap<String, String>,
    /// Skills whose use was counted with the question or an earlier call.
    counted: HashSet<String>,
    live: Arc<LiveAnswer>,
    turn: Turn,
    voice: Option<Voice>,
    /// Whether nothing of the answer was ever said.
    silent: bool,
    events: mpsc::Sender<Inbox>,
    link: Link,
    pause: Option<AbortOnDropHandle<()>>,
    completed: bool,
    _guard: TurnGuard,
}

struct Link {
    number: u32,
    /// Links in a row that did not get the turn on.
    fruitless: u32,
    /// When the agent last got the turn on.
    heard: Instant,
    task: Option<AbortOnDropHandle<()>>,
    lines: Option<mpsc::Sender<bytes::Bytes>>,
    /// There will be none until somebody starts the machine.
    machine_stopped: bool,
}

impl Shell {
    /// `None` when it can't be begun now.
    async fn new(
        shared: &Arc<Shared>,
        claimed: Claimed,
        record: TurnRecord,
        events: mpsc::Sender<Inbox>,
    ) -> Option<Self> {
        let model = shared.catalog.resolve(Some(&record.model));
        // As agreed with the question, whatever the catalog says now, and whether its vendor has told it yet.
        let present = || Some(model.clone().or_else(|| shared.catalog.resolve(None))?.entry.measures());
        let measures = record.measures.or_else(present)?;
        let chosen = Chosen {
            agent: record.agent.as_deref(),
            skills: &record.skills,
            jurisdictions: &record.jurisdictions,
        };
        let briefing = Briefing::new(shared.plugins.library(), chosen);
        let turn = Turn::new(setup::setup(&claimed, &record, measures, &briefing));
        let meta = Meta {
            answer: claimed.fence.answer,
            account: claimed.account,
            conversation: claimed.conversation,
            created_at: record.created_at,
            model: record.model.clone(),
        };
        let live = shared.live.begin(meta, turn.answer().clone());
        live.restart(turn.answer().clone());
        let guard = match shared.machines.turn(claimed.account).await {
            Ok(guard) => guard,
            Err(error) => {
                tracing::error!(%error, "a turn could not ask for its machine");
                return None;
            }
        };
        Some(Self {
            shared: shared.clone(),
            fence: claimed.fence,
            account: claimed.account,
            model,
            output_max_tokens: measures.output_max_tokens,
            briefing,
            opening: HashMap::new(),
            counted: counted(&record),
            record,
            live,
            turn,
            voice: None,
            silent: claimed.fence.epoch == 1,
            events,
            link: Link {
                number: 0,
                fruitless: 0,
                heard: Instant::now(),
                task: None,
                lines: None,
                machine_stopped: false,
            },
            pause: None,
            completed: false,
            _guard: guard,
        })
    }

    /// Does what the turn wants and tells what came of it at once, if something did.
    async fn carry_out(&mut self, effect: Effect) -> Result<Option<Event>, Ended> {
        match effect {
            Effect::Send(frame) => return Ok(self.send(&frame)),
            Effect::Relink => self.drop_link(),
            Effect::Reserve { number, greatest } => return self.reserve(number, greatest).await.map(Some),
            Effect::Say { number, attempt, transcript, tools } => {
                self.say(number, attempt, transcript, tools)
            }
            Effect::Hush => self.voice = None,
            Effect::Pause { number, attempt, wait } => self.pause(number, attempt, wait),
            Effect::CommitStep { entry, cost, .. } => {
                let done = self.step_done(entry, cost);
                let (number, usage) = (done.number, done.step.usage);
                let committed = Event::StepCommitted { number };
                let op = move |tx: &mut dyn store::Sql, fence| turns::commit_step(tx, fence, &done);
                let event = self.write(committed.clone(), op).await?;
                if event == committed {
                    self.shared.figures.settled(&self.record.model, usage, cost);
                }
                return Ok(Some(event));
            }
            Effect::Run(call) => return Ok(Some(self.run(call))),
            Effect::CommitResult { number, result } => {
                let (call, now) = (result.call.clone(), self.shared.environment.now());
                let account = self.account;
                let opened: Vec<String> = self.opening.remove(&result.call).into_iter().collect();
                return self
                    .write(Event::ResultCommitted { call }, move |tx, fence| {
                        if turns::commit_result(tx, fence, number, &result, now)? {
                            skills::count(tx, account, &opened)?;
                        }
                        Ok(())
                    })
                    .await
                    .map(Some);
            }
            Effect::Publish(stamp, change) => self.live.fold(stamp, change),
            Effect::Complete(completion) => {
                let event = self.complete(*completion).await?;
                self.completed = event == Event::Completed;
                return Ok(Some(event));
            }
            Effect::Leave => {
                self.part();
                // Taken over, it is still being written: readers wait for whoever has it now.
                if self.completed || self.is_gone().await {
                    self.shared.live.finish(self.fence.answer);
                }
                return Err(Ended::Over);
            }
        }
        Ok(None)
    }

    /// What the model said, with the skill's name in a call that opens one.
    fn named(&self, said: Event) -> Event {
        match said {
            Event::Said { number, attempt, event: StepEvent::Call(call) } => {
                let skill = self.briefing.skill_of(&call);
                Event::Said { number, attempt, event: StepEvent::Call(Call { skill, ..call }) }
            }
            other => other,
        }
    }

    /// Runs a call that is the service's own.
    fn run(&mut self, call: Call) -> Event {
        let output = self.briefing.open(&call);
        if let Some(skill) = call.skill.filter(|_| output.outcome == Outcome::Done)
            && self.counted.insert(skill.full_name.clone())
        {
            self.opening.insert(call.id.clone(), skill.full_name);
        }
        Event::Hosted { call: call.id, output }
    }

    /// Whether the answer is in progress nowhere. Its readers may have been told so before this turn made it
    /// known as live.
    async fn is_gone(&mut self) -> bool {
        let answer = self.fence.answer;
        matches!(self.shared.store.read(move |tx| turns::load(tx, answer)).await, Ok(None))
    }

    fn receive(&mut self, came: Inbox) -> Option<Event> {
        match came {
            Inbox::Event(event) => Some(event),
            Inbox::Link { number, .. } if number != self.link.number => None,
            Inbox::Link { event, .. } => match event {
                LinkEvent::Up { link, lines } => {
                    self.link.lines = Some(lines);
                    self.link.heard = Instant::now();
                    Some(Event::Linked(link.instance()))
                }
                LinkEvent::Frame(frame) => Some(Event::Agent(frame)),
                LinkEvent::Violation => Some(Event::Violation),
                LinkEvent::Down => {
                    self.drop_link();
                    self.link.fruitless += 1;
                    if self.link.fruitless < FRUITLESS_LINKS_MAX {
                        return Some(Event::Unlinked);
                    }
                    Some(Event::MachineFailed("the agent does not answer".to_owned()))
                }
                LinkEvent::Hopeless(reason) => Some(Event::MachineFailed(reason)),
                LinkEvent::MachineStopped => {
                    self.link.machine_stopped = true;
                    None
                }
            },
        }
    }

    /// Leaves the link to itself until the agent was told the last word.
    fn part(&mut self) {
        self.link.lines = None;
        if let Some(task) = self.link.task.take() {
            self.shared.tasks.spawn(async move {
                // Aborted when it takes longer.
                let _ = timeout(CLOSE_TIMEOUT, task).await;
            });
        }
    }

    fn link_if_wanted(&mut self) {
        if self.link.task.is_some() || !self.turn.wants_link() {
            return;
        }
        self.link.number += 1;
        let (number, fruitless) = (self.link.number, self.link.fruitless);
        let run =
            link::run(self.shared.machines.clone(), self.account, number, fruitless, self.events.clone());
        self.link.task = Some(AbortOnDropHandle::new(tokio::spawn(run)));
    }

    fn drop_link(&mut self) {
        self.link.lines = None;
        self.link.task = None;
        self.link.number += 1;
        self.link.machine_stopped = false;
    }

    /// Tells the agent. One that takes nothing any more loses the link: a new one begins with all that it was
    /// not told.
    fn send(&mut self, frame: &HostFrame) -> Option<Event> {
        let lines = self.link.lines.as_ref()?;
        lines.try_send(bytes::Bytes::from(host_line(frame))).err()?;
        self.drop_link();
        Some(Event::Unlinked)
    }

    fn say(&mut self, number: u32, attempt: u32, transcript: Vec<Item>, tools: bool) {
        let jitter = u64::from_be_bytes(self.shared.environment.bytes());
        let stream: StepStream = match &self.model {
            Some(model) => model.step(StepRequest {
                model: model.entry.vendor_name.clone(),
                instructions: self.briefing.instructions().to_owned(),
                transcript,
                tools: if tools { self.briefing.tools().to_vec() } else { Vec::new() },
                settings: self.record.settings.clone(),
                output_max_tokens: self.output_max_tokens,
            }),
            None => {
                self.model = self.shared.catalog.resolve(Some(&self.record.model));
                let reason = format!("the catalog has no model {}", self.record.model);
                let gone = StepError::Unavailable { reason, retry_after: None };
                Box::pin(futures_util::stream::iter([Err(gone)]))
            }
        };
        self.voice = Some(Voice { number, attempt, stream, jitter });
    }

    /// Takes note of the answer's first word.
    fn hear(&mut self, event: &Event) {
        let word = matches!(event, Event::Said { event: StepEvent::Text(_) | StepEvent::Reasoning(_), .. });
        if word && std::mem::take(&mut self.silent) {
            self.shared.figures.first_word.took(self.age());
        }
    }

    /// How long ago the answer began.
    fn age(&self) -> Duration {
        self.shared.environment.now().since(self.record.created_at)
    }

    fn pause(&mut self, number: u32, attempt: u32, wait: Duration) {
        let events = self.events.clone();
        self.pause = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The turn that is told nothing has ended.
            let _ = events.send(Inbox::Event(Event::PauseOver { number, attempt })).await;
        })));
    }

    async fn reserve(&mut self, number: u32, greatest: domain::credits::Credits) -> Result<Event, Ended> {
        let new = Reserve {
            step: number,
            greatest,
            model: self.record.model.clone(),
            release: self.posting(),
            reserve: self.posting(),
            now: self.shared.environment.now(),
        };
        let granted = Event::Reserved { number, outcome: Ok(()) };
        self.write(granted, move |tx, fence| turns::reserve(tx, fence, &new)).await
    }

    fn step_done(&self, entry: LogEntry, cost: domain::credits::Credits) -> StepDone {
        let (number, step, instance) = match entry {
            LogEntry::Step { number, step, instance } => (number, step, instance),
            LogEntry::Result { .. } => unreachable!("only steps are committed as steps"),
        };
        StepDone {
            number,
            step,
            instance,
            cost,
            model: self.record.model.clone(),
            settle: self.posting(),
            release: self.posting(),
            now: self.shared.environment.now(),
        }
    }

    async fn complete(&mut self, completion: Completion) -> Result<Event, Ended> {
        let partial = completion.partial.map(|entry| self.step_done(entry, completion.cost));
        let last = turns::Completion {
            text: completion.answer.text(),
            answer: completion.answer,
            release: self.posting(),
            now: self.shared.environment.now(),
        };
        let ending = last.answer.ending.clone();
        let settled = partial.as_ref().map(|partial| (partial.step.usage, partial.cost));
        let completed = self.write(Event::Completed, move |tx, fence| {
            if let Some(partial) = &partial {
                turns::commit_step(tx, fence, partial)?;
            }
            turns::complete(tx, fence, &last)
        });
        let event = completed.await?;
        if event == Event::Completed {
            self.shared.figures.ended(ending.as_ref(), self.age());
            if let Some((usage, cost)) = settled {
                self.shared.figures.settled(&self.record.model, usage, cost);
            }
        }
        Ok(event)
    }

    /// Writes under the lease. A store that fails is tried again for a while; then the answer is given back.
    async fn write(
        &mut self,
        done: Event,
        op: impl Fn(&mut dyn store::Sql, Fence) -> Result<(), TurnError> + Clone + Send + 'static,
    ) -> Result<Event, Ended> {
        let (fence, begun) = (self.fence, Instant::now());
        let (mut attempt, mut failures) = (0, 0);
        while failures < STORE_ATTEMPTS_MAX {
            let op = op.clone();
            match self.shared.store.write(move |tx| op(tx, fence)).await {
                Ok(()) => return Ok(done),
                Err(TurnError::Fenced) => return Ok(Event::Fenced),
                // The first try was durable and its answer lost.
                Err(TurnError::StepCommitted) if attempt > 0 => return Ok(done),
                Err(TurnError::Short(shortage)) => return Ok(refused(done, shortage)),
                // What was said is paid for, and nobody else can take the answer up meanwhile.
                Err(TurnError::Store(error)) if error.is_outage() && begun.elapsed() < OUTAGE_MAX => {
                    tracing::debug!(answer = %fence.answer, %error, "an answer waits for the database");
                    let ending = self.shared.shutdown.cancelled();
                    if timeout(OUTAGE_PAUSE, ending).await.is_ok() {
                        return Err(Ended::GiveBack);
                    }
                }
                Err(error @ (TurnError::StepCommitted | TurnError::Store(_))) => {
                    tracing::error!(answer = %fence.answer, %error, attempt, "an answer could not be written");
                    tokio::time::sleep(STORE_PAUSE * 2_u32.pow(failures)).await;
                    failures += 1;
                }
            }
            attempt += 1;
        }
        Err(Ended::GiveBack)
    }

    fn posting(&self) -> PostingId {
        PostingId::from_random(self.shared.environment.bits())
    }
}

/// What a reservation that can't be paid for comes to.
fn refused(done: Event, shortage: Shortage) -> Event {
    match done {
        Event::Reserved { number, .. } => Event::Reserved { number, outcome: Err(shortage) },
        other => other,
    }
}
