//! The shell around one turn: carries out what the pure [`Turn`] wants, and tells it what comes of it.

mod calls;
mod connection;
mod silence;
mod voice;

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::answer::{Change, Stamp};
use domain::catalog::Measures;
use domain::image::Image;
use domain::step::{Item, StepError, StepEvent, StepRequest, ToolSpec};
use domain::time::Timestamp;
use domain::turn::HostFrame;
use domain::turn::host::{Completion, Effect, Event, Turn};
use futures_util::FutureExt;
use machine::TurnGuard;
use models::{Model, StepStream};
use protocol::turn::host_line;
use store::StoreError;
use store::turns::{self, Claimed, TurnRecord};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::connection::Link;
use self::silence::over_at;
use self::voice::{Voice, said};
use super::briefing::{Briefing, Chosen, counted};
use super::desk::Desk;
use super::hosted::Running;
use super::link::{self, LinkEvent};
use super::orders::{self, Order, Orders};
use super::report::Report;
use super::web::{self, Reading};
use super::{ATTEMPTS_MAX, REST, REST_DOUBLINGS_MAX, Shared, delegate, hopeless, images, setup};
use crate::live::{LiveAnswer, Meta};
use crate::settle::{settle, settle_surely};

/// What waits for one turn of its link and its pauses. A frame may be long, so that they are few.
pub(super) const INBOX_MAX: usize = 16;
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
    /// Another agent's work ended in a way that ends this turn's here as well.
    Lost(Ended),
}

/// Sees a claimed answer to its end, or until another takes it over or the service ends.
pub(super) async fn run(shared: &Arc<Shared>, claimed: Claimed, mut given: watch::Receiver<Orders>) {
    let (fence, doublings) = (claimed.fence, claimed.attempts.saturating_sub(1).min(REST_DOUBLINGS_MAX));
    let meta = claimed_meta(&claimed);
    let ended = shared.shutdown.run_until_cancelled(attempt(shared, claimed, &mut given)).await;
    match ended {
        Some(Ended::Over) => {}
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
    // Those who read it go on reading until it is taken up again; were it over without this turn's knowledge, nobody
    // else would tell them.
    let settled = settle_surely(&shared.store, &shared.live, &meta);
    shared.shutdown.run_until_cancelled(settled).await;
}

/// What is known of an answer without looking at it.
fn claimed_meta(claimed: &Claimed) -> Meta {
    Meta {
        answer: claimed.fence.answer,
        account: claimed.account,
        conversation: claimed.conversation,
        created_at: Timestamp::from_micros(0),
        model: String::new(),
    }
}

/// Works on the answer, or ends it when that was tried too often.
async fn attempt(shared: &Arc<Shared>, claimed: Claimed, given: &mut watch::Receiver<Orders>) -> Ended {
    let answer = claimed.fence.answer;
    if claimed.attempts > ATTEMPTS_MAX {
        return if hopeless::end(shared, claimed).await { Ended::Over } else { Ended::GiveBack };
    }
    // One answer that breaks its turn must not stay leased and never be worked on again.
    let ended = AssertUnwindSafe(Box::pin(work(shared, claimed, given))).catch_unwind().await;
    ended.unwrap_or_else(|_| {
        tracing::error!(%answer, "the work on an answer panicked");
        Ended::GiveBack
    })
}

/// How the work on a claimed answer ended here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Completed, taken over or deleted: nothing is left to do here.
    Over,
    /// Another attempt may do better: the lease goes back.
    GiveBack,
    /// The machine is stopped: the answer waits in the store until it is started.
    MachineStopped,
}

async fn work(shared: &Arc<Shared>, claimed: Claimed, given: &mut watch::Receiver<Orders>) -> Ended {
    let (answer, moment) = (claimed.fence.answer, shared.live.moment());
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
    // Whoever stops it does not want to wait for lists of tools.
    let tools = tokio::select! {
        biased;
        () = orders::given(given) => Vec::new(),
        () = std::future::ready(()), if record.stop_requested => Vec::new(),
        tools = shared.web.mcp_tools() => tools,
    };
    let Some(mut shell) = Shell::new(shared, claimed, record, tools, events).await else {
        return Ended::GiveBack;
    };
    if shared.live.has_deleted_since(moment) {
        // Perhaps this one. Should the store fail now, its readers are told with the end.
        let _ = settle(&shared.store, &shared.live, &claimed_meta(&claimed)).await;
    }
    see_through(&mut shell, &mut inbox, given).await
}

/// Carries out what the turn wants until it is over or nothing more can be done here.
pub(super) async fn see_through(
    shell: &mut Shell,
    inbox: &mut mpsc::Receiver<Inbox>,
    given: &mut watch::Receiver<Orders>,
) -> Ended {
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
        let silent_until = shell.link.silence.until(shell.turn.awaits_agent(), Instant::now());
        let event = tokio::select! {
            biased; // no agent keeps a stop waiting
            order = orders::next(given) => Some(order),
            () = over_at(silent_until) => {
                Some(Event::MachineFailed("the agent has been silent for too long".to_owned()))
            }
            came = next(inbox, &mut shell.voice) => match came {
                Came::ByInbox(Inbox::Lost(ended)) => return ended,
                Came::ByInbox(came) => shell.receive(came),
                Came::Said(event) => shell.named(event),
            },
        };
        if let Some(event) = event {
            shell.hear(&event);
            let of_agent = matches!(event, Event::Agent(_));
            let wanted = shell.turn.on(event);
            if of_agent && !wanted.is_empty() {
                // Only what gets the turn on counts as a sign of life.
                shell.link.fruitless = 0;
                shell.link.silence.end();
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

/// What a turn is worked on with.
pub(super) struct Shell {
    pub(super) desk: Desk,
    model: Option<Model>,
    settings: Vec<(String, String)>,
    measures: Measures,
    /// When the answer began.
    created_at: Timestamp,
    briefing: Briefing,
    reading: Reading,
    /// Calls that open a skill which the account's use of it is to be counted by.
    opening: HashMap<String, String>,
    /// Skills whose use was counted with the question or an earlier call.
    counted: HashSet<String>,
    pub(super) audience: Audience,
    pub(super) turn: Turn,
    voice: Option<Voice>,
    /// The calls that run here.
    running: Running,
    /// How many other agents may work at once.
    others: Arc<Semaphore>,
    /// Whether nothing of the answer was ever said.
    silent: bool,
    events: mpsc::Sender<Inbox>,
    link: Link,
    pause: Option<AbortOnDropHandle<()>>,
    completed: bool,
    _guard: Option<TurnGuard>,
}

/// Who is told what the turn makes of its answer.
pub(super) enum Audience {
    /// Those who read the answer.
    Readers(Arc<LiveAnswer>),
    /// The turn that gave the task.
    Caller(Report),
}

impl Audience {
    fn tell(&mut self, stamp: Stamp, change: Change) {
        match self {
            Self::Readers(live) => live.fold(stamp, change),
            Self::Caller(report) => report.take(&change),
        }
    }
}

/// What a turn begins with besides its link.
pub(super) struct Beginning {
    pub(super) desk: Desk,
    pub(super) model: Option<Model>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) measures: Measures,
    pub(super) created_at: Timestamp,
    pub(super) briefing: Briefing,
    pub(super) reading: Reading,
    pub(super) counted: HashSet<String>,
    pub(super) audience: Audience,
    pub(super) turn: Turn,
    pub(super) silent: bool,
    pub(super) guard: Option<TurnGuard>,
}

impl Shell {
    /// `None` when it can't be begun now.
    async fn new(
        shared: &Arc<Shared>,
        claimed: Claimed,
        record: TurnRecord,
        tools: Vec<ToolSpec>,
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
            web: shared.web.reach(record.web_search),
            guide: &shared.guide,
        };
        let reading = Reading {
            reach: chosen.web,
            allowed: Arc::new(web::allowed_by(&record.earlier, &record.question)),
            country: record.jurisdictions.first().cloned().filter(|_| record.jurisdictions.len() == 1),
        };
        let mut briefing = Briefing::new(shared.plugins.library(), chosen);
        briefing.offer(tools);
        let reads = setup::Reads {
            images: model.as_ref().is_some_and(|model| model.entry.sees_images),
            only_quotes: model.as_ref().is_some_and(|model| model.entry.builtin),
        };
        let turn = Turn::new(setup::setup(&claimed, &record, measures, &briefing, shared.web.clone(), reads));
        let meta =
            Meta { created_at: record.created_at, model: record.model.clone(), ..claimed_meta(&claimed) };
        let live = if record.deleted {
            shared.live.delete(claimed.conversation); // nobody finds it any more
            Arc::new(LiveAnswer::new(meta, turn.answer().clone()))
        } else {
            shared.live.begin(meta, turn.answer().clone())
        };
        live.restart(turn.answer().clone());
        let guard = match shared.machines.turn(claimed.account).await {
            Ok(guard) => guard,
            Err(error) => {
                tracing::error!(%error, "a turn could not ask for its machine");
                return None;
            }
        };
        let counted = counted(&record);
        let desk = Desk::of(shared, &claimed, &record);
        let beginning = Beginning {
            desk,
            model,
            settings: record.settings,
            measures,
            created_at: record.created_at,
            briefing,
            reading,
            counted,
            audience: Audience::Readers(live),
            turn,
            silent: claimed.fence.epoch == 1,
            guard: Some(guard),
        };
        Some(Self::begin(beginning, events))
    }

    /// Begins the work.
    pub(super) fn begin(beginning: Beginning, events: mpsc::Sender<Inbox>) -> Self {
        let Beginning { desk, model, settings, measures, created_at, .. } = beginning;
        let Beginning { briefing, reading, counted, audience, turn, silent, guard, .. } = beginning;
        Self {
            desk,
            model,
            settings,
            measures,
            created_at,
            briefing,
            reading,
            opening: HashMap::new(),
            counted,
            audience,
            turn,
            voice: None,
            running: Running::default(),
            others: Arc::new(Semaphore::new(delegate::AT_ONCE)),
            silent,
            events,
            link: Link::new(),
            pause: None,
            completed: false,
            _guard: guard,
        }
    }

    /// Does what the turn wants and tells what came of it at once, if something did.
    async fn carry_out(&mut self, effect: Effect) -> Result<Option<Event>, Ended> {
        self.desk.spans.wanted(&effect);
        match effect {
            Effect::Send(frame) => return Ok(self.send(&frame)),
            Effect::Relink => self.drop_link(),
            Effect::Reserve { number, attempt, summary, greatest } => {
                return self.desk.reserve(number, attempt, summary, greatest).await.map(Some);
            }
            Effect::Say { number, attempt, transcript, tools, output_max_tokens } => {
                let request = self.request(transcript, tools, output_max_tokens).await;
                self.say(number, attempt, request);
            }
            Effect::Hush => self.voice = None,
            Effect::Pause { number, attempt, wait } => self.pause(number, attempt, wait),
            Effect::CommitStep { entry, cost, .. } => {
                return self.desk.commit_step(entry, cost).await.map(Some);
            }
            Effect::Run(call) => return Ok(self.run(call)),
            Effect::CommitResult { number, result } => {
                let opened: Vec<String> = self.opening.remove(&result.call).into_iter().collect();
                return self.desk.commit_result(number, result, opened).await.map(Some);
            }
            Effect::Publish(stamp, change) => self.audience.tell(stamp, change),
            Effect::Complete(completion) => return self.complete(*completion).await.map(Some),
            Effect::Leave => {
                // Whoever has the answer now goes on with the tasks that it gave away.
                self.running.end(Order::Leave).await;
                self.part();
                // Taken over, it may still be written: what its readers are told then is looked up.
                if self.desk.delegation.is_none() && self.completed {
                    self.desk.shared.live.finish(self.desk.fence.answer);
                }
                return Err(Ended::Over);
            }
        }
        Ok(None)
    }

    async fn complete(&mut self, completion: Completion) -> Result<Event, Ended> {
        self.running.end(Order::Stop).await;
        let event = self.desk.complete(completion, self.age()).await?;
        self.completed = event == Event::Completed;
        Ok(event)
    }

    fn receive(&mut self, came: Inbox) -> Option<Event> {
        match came {
            Inbox::Event(event) => {
                if let Event::Hosted { call, .. } = &event {
                    self.running.over(call);
                }
                Some(event)
            }
            Inbox::Lost(_) => None,
            Inbox::Link { number, .. } if number != self.link.number => None,
            Inbox::Link { event, .. } => match event {
                LinkEvent::Up { link, lines, tools } => {
                    self.briefing.bring(tools);
                    let (overhead_tokens, context_tokens) = setup::room(&self.briefing, self.measures);
                    self.turn.weigh(overhead_tokens, context_tokens);
                    self.link.lines = Some(lines);
                    self.link.silence.end();
                    Some(Event::Linked(link.instance()))
                }
                LinkEvent::Frame(frame) => Some(Event::Agent(frame)),
                LinkEvent::Violation => Some(Event::Violation),
                LinkEvent::Down => {
                    self.drop_link();
                    if !self.link.is_given_up(self.turn.needs_agent()) {
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
            self.desk.shared.tasks.spawn(async move {
                // Aborted when it takes longer.
                let _ = timeout(CLOSE_TIMEOUT, task).await;
            });
        }
    }

    fn link_if_wanted(&mut self) {
        if self.link.task.is_some() || !self.turn.wants_link() {
            return;
        }
        self.desk.spans.reach();
        self.link.number += 1;
        let (number, fruitless) = (self.link.number, self.link.fruitless);
        let run = link::run(
            self.desk.shared.clone(),
            self.briefing.library().clone(),
            self.desk.account,
            number,
            fruitless,
            self.events.clone(),
        );
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

    /// The images that the model is shown.
    async fn images(&mut self, transcript: &[Item]) -> Vec<Image> {
        if !self.model.as_ref().is_some_and(|model| model.entry.sees_images) {
            return Vec::new();
        }
        images::load(&self.desk.shared.workspaces.of(self.desk.account), transcript).await
    }

    /// What the model is asked, but for its name.
    async fn request(&mut self, transcript: Vec<Item>, tools: bool, output_max_tokens: u32) -> StepRequest {
        StepRequest {
            images: self.images(&transcript).await,
            model: String::new(),
            instructions: self.briefing.instructions().to_owned(),
            transcript,
            tools: if tools { self.briefing.tools().to_vec() } else { Vec::new() },
            settings: self.settings.clone(),
            output_max_tokens,
        }
    }

    fn say(&mut self, number: u32, attempt: u32, request: StepRequest) {
        let jitter = u64::from_be_bytes(self.desk.shared.environment.bytes());
        let stream: StepStream = match &self.model {
            Some(model) => {
                self.turn.answered_by(model.entry.provider);
                model.step(StepRequest { model: model.entry.vendor_name.clone(), ..request })
            }
            None => {
                self.model = self.desk.shared.catalog.resolve(Some(&self.desk.model));
                let reason = format!("the catalog has no model {}", self.desk.model);
                let gone = StepError::Unavailable { reason, retry_after: None };
                Box::pin(futures_util::stream::iter([Err(gone)]))
            }
        };
        self.voice = Some(Voice { number, attempt, stream, jitter });
    }

    /// Takes note of the answer's first word, and of what its trace tells.
    fn hear(&mut self, event: &Event) {
        self.desk.spans.met(event);
        let word = matches!(event, Event::Said { event: StepEvent::Text(_) | StepEvent::Reasoning(_), .. });
        if word && std::mem::take(&mut self.silent) {
            self.desk.shared.figures.first_word.took(self.age());
        }
    }

    /// How long ago the answer began.
    fn age(&self) -> Duration {
        self.desk.shared.environment.now().since(self.created_at)
    }

    fn pause(&mut self, number: u32, attempt: u32, wait: Duration) {
        let events = self.events.clone();
        self.pause = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The turn that is told nothing has ended.
            let _ = events.send(Inbox::Event(Event::PauseOver { number, attempt })).await;
        })));
    }
}
