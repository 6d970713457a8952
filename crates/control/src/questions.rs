//! Asking: a question is checked, accepted in one transaction, and dispatched (section 4.4 of the interface).

use std::collections::HashSet;
use std::sync::Arc;

use domain::answer::Answer;
use domain::catalog::{Jurisdiction, ModelEntry};
use domain::excerpt::Excerpt;
use domain::id::{AccountId, ConversationId, MessageId, PostingId, TraceId};
use domain::limits::{ATTACHMENTS_MAX, QUESTION_MAX_BYTES, TITLE_MAX_CHARS};
use domain::machine::MachineStatus;
use machine::{MachineError, Machines};
use models::Catalog;
use plugins::{Library, Lookup};
use store::conversations::{self, ConversationError};
use store::questions::{self, Accepted, AskResult, AskedThrough, NewConversation, NewQuestion, Target};
pub use store::questions::{AskRefused, Idempotency};
use store::{Sql, Store, StoreError, machines};
use telemetry::trace::SpanContext;
use workspace::{AskedPath, WorkspaceError, Workspaces};

use crate::access::Caller;
use crate::{DiskReserve, Environment, Plugins};
use engine::settle_surely;
use engine::templates::PromptTemplates;
use engine::{Dispatch, PromptOptions, Web, first_reservation};
use live::{Generation, Live, LiveAnswer, Meta, Snapshot};

/// The most names that a refusal lists.
const NAMES_IN_ERROR_MAX: usize = 100;
/// The most skills that a question names.
const SKILLS_MAX: usize = 100;

/// A question as a client sends it.
#[derive(Debug, Clone, Default)]
pub struct AskRequest {
    /// The text.
    pub input: String,
    /// The conversation to go on with; a new one unless given.
    pub conversation: Option<ConversationId>,
    /// Workspace paths to attach, as written.
    pub attachments: Vec<String>,
    /// The model; the default one unless given. For a new conversation only, as are the next three.
    pub model: Option<String>,
    /// Settings of the model.
    pub settings: Vec<(String, String)>,
    /// Identifiers of jurisdictions.
    pub jurisdictions: Vec<String>,
    /// Whether the web may be searched.
    pub web_search: bool,
    /// An agent; the default one unless given.
    pub agent: Option<String>,
    /// Skills.
    pub skills: Vec<String>,
    /// What keeps a repeated request from asking again.
    pub idempotency: Option<Idempotency>,
    /// The span of the request, when its trace is recorded.
    pub trace: Option<SpanContext>,
}

/// Why a question was not accepted. Nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The text is missing, or only white space.
    #[error("input is missing: it is the text of the question")]
    Blank,
    /// The text is longer than a question may be, or holds NUL.
    #[error("input is longer than {QUESTION_MAX_BYTES} bytes, or holds a NUL character")]
    Unreadable,
    /// There is no such model.
    #[error("there is no model {}; valid values: {}", Excerpt(asked), valid.join(", "))]
    UnknownModel {
        /// What was asked for.
        asked: String,
        /// What there is.
        valid: Vec<String>,
    },
    /// There is no such model, or none at all, since a vendor has not told its models.
    #[error("there is no model to answer with now ({outage}); try again later")]
    NoModel {
        /// Which vendor, and why.
        outage: String,
    },
    /// The model has no such setting, or the setting no such value.
    #[error("{} is no setting of this model; valid values: {}", Excerpt(asked), valid.join(", "))]
    UnknownSetting {
        /// What was asked for.
        asked: String,
        /// What there is.
        valid: Vec<String>,
    },
    /// A setting is given more than once.
    #[error("the setting {} is given more than once", Excerpt(.0))]
    RepeatedSetting(String),
    /// There is no such jurisdiction.
    #[error("there is no jurisdiction {}; valid values: {}", Excerpt(asked), valid.join(", "))]
    UnknownJurisdiction {
        /// What was asked for.
        asked: String,
        /// What there is.
        valid: Vec<String>,
    },
    /// There is no such agent.
    #[error("there is no agent {}; valid values: {}", Excerpt(asked), listed(valid))]
    UnknownAgent {
        /// What was asked for.
        asked: String,
        /// The full names that there are.
        valid: Vec<String>,
    },
    /// There is no such skill.
    #[error("there is no skill {}; valid values: {}", Excerpt(asked), listed(valid))]
    UnknownSkill {
        /// What was asked for.
        asked: String,
        /// The full names that there are.
        valid: Vec<String>,
    },
    /// Several skills, or several agents, have this name.
    #[error("{} names several; their full names: {}", Excerpt(asked), listed(meant))]
    AmbiguousName {
        /// What was asked for.
        asked: String,
        /// The full names of those that it may mean.
        meant: Vec<String>,
    },
    /// More files than a question may have.
    #[error("more than {ATTACHMENTS_MAX} files are attached")]
    TooManyAttachments,
    /// More skills than a question may name.
    #[error("more than {SKILLS_MAX} skills are named")]
    TooManySkills,
    /// An attached path leads nowhere.
    #[error("filePaths: there is nothing at {}", Excerpt(.0))]
    NoSuchAttachment(String),
    /// An attached path cannot be used.
    #[error("filePaths: {}: {error}", Excerpt(path))]
    Attachment {
        /// The path as written.
        path: String,
        /// Why.
        #[source]
        error: WorkspaceError,
    },
    /// The account has no machine.
    #[error("the account has no machine")]
    NoMachine,
    /// The account's machine does not run, and questions start none here.
    #[error("the machine is {}; start it and wait until it is RUNNING", .0.as_str())]
    MachineNotRunning(MachineStatus),
    /// The disk is nearly full: nothing new is begun.
    #[error("the service is short of disk space and takes no questions; try again later")]
    DiskLow,
    /// The state of the account's machine could not be told.
    #[error(transparent)]
    Machine(MachineError),
    /// The store refuses it.
    #[error(transparent)]
    Refused(#[from] AskRefused),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ConversationError> for AskError {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::NotFound => Self::Refused(AskRefused::NotFound),
            ConversationError::Store(error) => Self::Store(error),
        }
    }
}

/// What became of a question.
pub enum AskOutcome {
    /// It was accepted.
    Accepted {
        /// Its answer.
        live: Arc<LiveAnswer>,
        /// The answer as it was then, however far it has come meanwhile.
        begun: Arc<Snapshot>,
    },
    /// The same request was accepted before.
    Replayed {
        /// Its conversation.
        conversation: ConversationId,
        /// Its answer.
        answer: MessageId,
    },
}

/// Takes questions. Cheap to clone.
#[derive(Clone)]
pub struct Questions {
    pub(crate) store: Store,
    pub(crate) environment: Environment,
    pub(crate) live: Arc<Live>,
    pub(crate) dispatch: Dispatch,
    pub(crate) machines: Machines,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) workspaces: Workspaces,
    pub(crate) jurisdictions: Arc<Vec<Jurisdiction>>,
    pub(crate) templates: Arc<PromptTemplates>,
    pub(crate) plugins: Plugins,
    pub(crate) web: Web,
    pub(crate) disk: DiskReserve,
    /// Whether a question starts a machine that does not run.
    pub(crate) machine_started: bool,
}

impl Questions {
    /// Accepts a question: when this returns, it will be answered whatever happens. The machine is started
    /// for it.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn ask(&self, caller: &Caller, request: AskRequest) -> Result<AskOutcome, AskError> {
        // Before anything is checked: what an accepted question names may be gone when it is repeated.
        if let Some(repeated) = self.repeated(caller, request.idempotency.as_ref()).await? {
            return Ok(repeated);
        }
        let answer = MessageId::made_at(self.environment.now(), self.environment.bits());
        let mut span = engine::accept(self.environment.tracer(), request.trace, answer);
        let taken = self.check_and_submit(caller, request, answer).await;
        if let Some(span) = span.as_mut().filter(|_| taken.is_err()) {
            span.fail();
        }
        taken
    }

    /// The rest of [`Self::ask`], when it was not accepted before.
    async fn check_and_submit(
        &self,
        caller: &Caller,
        request: AskRequest,
        answer: MessageId,
    ) -> Result<AskOutcome, AskError> {
        if request.input.trim().is_empty() {
            return Err(AskError::Blank);
        }
        if request.input.len() > QUESTION_MAX_BYTES || request.input.contains('\0') {
            return Err(AskError::Unreadable);
        }
        let library = self.plugins.library();
        let agent = request.agent.as_deref().map(|word| agent_of(&library, word)).transpose()?;
        let skills = skills_of(&library, &request.skills)?;
        let (target, model) = self.target(caller, &request).await?;
        let attachments = self.attachments(caller, &request.attachments).await?;
        if !caller.has_machine {
            return Err(AskError::NoMachine);
        }
        self.machine_permits(caller.account).await?;
        if self.disk.is_low() {
            return Err(AskError::DiskLow);
        }
        let jurisdictions = match &target {
            Target::New(new) => new.jurisdictions.as_slice(),
            Target::Existing(_) => &[],
        };
        let web = match &target {
            Target::New(new) => self.web.reach(new.web_search),
            // At most, when the conversation allows it.
            Target::Existing(_) => self.web.reach(true),
        };
        let templates = &self.templates;
        let chosen =
            PromptOptions { agent: agent.as_deref(), skills: &skills, jurisdictions, web, templates };
        let reserve = first_reservation(
            &request.input,
            &attachments,
            model.model_limits(),
            library,
            chosen,
            self.web.clone(),
        );
        let now = self.environment.now();
        let new = NewQuestion {
            account: caller.account,
            user: caller.user,
            through: AskedThrough::Key(caller.key),
            trace: request.trace.map(|request| TraceId::from_bits(request.trace)),
            target,
            question: MessageId::made_at(now, self.environment.bits()),
            answer,
            model_limits: model.model_limits(),
            reserve,
            text: request.input,
            attachments,
            agent,
            skills,
            posting: PostingId::made_at(now, self.environment.bits()),
            idempotency: request.idempotency,
            now,
        };
        // A caller that goes away now must not leave an accepted question whose machine nobody starts.
        let taken = self.dispatch.see_through(self.clone().submit(new)).await;
        taken.unwrap_or(Err(AskError::Store(StoreError::Panicked)))
    }

    /// Refuses a question to a machine that does not run, where the operator wants it so.
    async fn machine_permits(&self, account: AccountId) -> Result<(), AskError> {
        if self.machine_started {
            return Ok(());
        }
        match self.machines.status(account).await {
            Ok(MachineStatus::Running) => Ok(()),
            Ok(status) => Err(AskError::MachineNotRunning(status)),
            Err(MachineError::NoMachine) => Err(AskError::NoMachine),
            Err(error) => Err(AskError::Machine(error)),
        }
    }

    /// What became of the same request, when it was accepted before.
    async fn repeated(
        &self,
        caller: &Caller,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<AskOutcome>, AskError> {
        let Some(idempotency) = idempotency.cloned() else { return Ok(None) };
        let (account, now) = (caller.account, self.environment.now());
        let found = self.store.read(move |tx| questions::replay(tx, account, &idempotency, now)).await?;
        Ok(found.map(|(conversation, answer)| AskOutcome::Replayed { conversation, answer }))
    }

    async fn submit(self, new: NewQuestion) -> Result<AskOutcome, AskError> {
        let (account, attachments, generation) =
            (new.account, new.attachments.clone(), self.live.generation());
        match self.store.write(move |tx| accept(tx, &new)).await? {
            AskResult::Replayed { conversation, answer } => Ok(AskOutcome::Replayed { conversation, answer }),
            AskResult::Accepted(accepted) => {
                let (live, begun) = self.begin(account, accepted, &attachments, generation).await;
                Ok(AskOutcome::Accepted { live, begun })
            }
        }
    }

    async fn begin(
        &self,
        account: AccountId,
        accepted: Accepted,
        attachments: &[String],
        generation: Generation,
    ) -> (Arc<LiveAnswer>, Arc<Snapshot>) {
        let meta = Meta {
            answer: accepted.answer,
            account,
            conversation: accepted.conversation.id,
            created_at: accepted.created_at,
            model: accepted.conversation.model,
        };
        let answer = Answer::new(accepted.answer, attachments);
        let begun = LiveAnswer::new(meta.clone(), answer.clone()).snapshot();
        let live = self.live.begin(meta, answer);
        if self.live.has_deleted_since(generation) {
            // Perhaps this conversation: then its readers were told before there was anything to read.
            let (store, known, meta) = (self.store.clone(), self.live.clone(), live.meta().clone());
            self.dispatch.spawn(async move { settle_surely(&store, &known, &meta).await });
        }
        // A tool of an earlier answer may have shut the workspace for everybody who works in the machine.
        if let Err(error) = self.workspaces.of(account).repair().await {
            tracing::warn!(%account, %error, "workspace open failed");
        }
        // Before dispatch looks: why an earlier start was given up must not end this answer.
        match self.machines.start(account).await {
            Ok(()) => {}
            // The turn tells what became of the machine.
            Err(error @ (MachineError::NoMachine | MachineError::ShuttingDown)) => {
                tracing::debug!(%error, "machine start for a question failed");
            }
            Err(error) => tracing::warn!(%error, "machine start for a question failed"),
        }
        self.dispatch.accepted(account);
        (live, begun)
    }

    /// Where the question goes, and the model that answers there.
    async fn target(&self, caller: &Caller, request: &AskRequest) -> Result<(Target, ModelEntry), AskError> {
        if let Some(id) = request.conversation {
            let account = caller.account;
            let conversation = self.store.read(move |tx| conversations::summary(tx, account, id)).await?;
            let model =
                self.catalog.resolve(Some(&conversation.model)).or_else(|| self.catalog.resolve(None));
            let model = model.ok_or_else(|| self.unknown_model(&conversation.model))?;
            return Ok((Target::Existing(id), model.entry));
        }
        let asked = request.model.as_deref();
        let model =
            self.catalog.resolve(asked).ok_or_else(|| self.unknown_model(asked.unwrap_or_default()))?.entry;
        check_settings(&model, &request.settings)?;
        self.check_jurisdictions(&request.jurisdictions)?;
        let new = NewConversation {
            id: ConversationId::made_at(self.environment.now(), self.environment.bits()),
            title: title_of(&request.input),
            model: model.id.clone(),
            settings: request.settings.clone(),
            jurisdictions: each_once(&request.jurisdictions),
            web_search: request.web_search,
        };
        Ok((Target::New(new), model))
    }

    /// Why there is no such model, or with an empty name no default one. A vendor that has not told its models may have
    /// it, where it could be one of its own.
    fn unknown_model(&self, asked: &str) -> AskError {
        if asked.is_empty() {
            let outage = self.catalog.outage();
            let outage = outage.unwrap_or_else(|| "none is configured as the default".to_owned());
            return AskError::NoModel { outage };
        }
        if let Some(outage) = self.catalog.outage_of(asked) {
            return AskError::NoModel { outage };
        }
        let valid = self.catalog.entries().iter().map(|entry| entry.id.clone()).collect();
        AskError::UnknownModel { asked: asked.to_owned(), valid }
    }

    fn check_jurisdictions(&self, asked: &[String]) -> Result<(), AskError> {
        let known = |id: &String| self.jurisdictions.iter().any(|jurisdiction| jurisdiction.id == *id);
        match asked.iter().find(|id| !known(id)) {
            None => Ok(()),
            Some(id) => Err(AskError::UnknownJurisdiction {
                asked: id.clone(),
                valid: self.jurisdictions.iter().map(|jurisdiction| jurisdiction.id.clone()).collect(),
            }),
        }
    }

    /// The attached paths as the workspace has them.
    async fn attachments(&self, caller: &Caller, written: &[String]) -> Result<Vec<String>, AskError> {
        if written.len() > ATTACHMENTS_MAX {
            return Err(AskError::TooManyAttachments);
        }
        let workspace = self.workspaces.of(caller.account);
        let mut attachments = Vec::with_capacity(written.len());
        for path in written {
            let failed = |error| AskError::Attachment { path: path.clone(), error };
            let asked = AskedPath::from_text(path).map_err(|error| failed(error.into()))?;
            match workspace.find(&asked).await {
                Ok(found) => attachments.push(found.path.to_string()),
                Err(WorkspaceError::NotFound) => return Err(AskError::NoSuchAttachment(path.clone())),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(attachments)
    }
}

/// Accepts the question and notes in the same transaction that its machine is wanted: were the service to end
/// before it has started it, the next one would wait for a machine that nobody starts.
fn accept(tx: &mut dyn Sql, new: &NewQuestion) -> Result<AskResult, AskRefused> {
    let asked = questions::ask(tx, new)?;
    if matches!(asked, AskResult::Accepted(_)) {
        machines::request_start(tx, new.account)?;
    }
    Ok(asked)
}

/// The full name of the agent that a word names.
fn agent_of(library: &Library, word: &str) -> Result<String, AskError> {
    match library.agent(word) {
        Lookup::Found(agent) => Ok(agent.full_name.clone()),
        Lookup::Unknown => Err(AskError::UnknownAgent {
            asked: word.to_owned(),
            valid: library.agents.iter().map(|agent| agent.full_name.clone()).collect(),
        }),
        Lookup::Ambiguous(meant) => Err(AskError::AmbiguousName { asked: word.to_owned(), meant }),
    }
}

/// The full names of the skills that words name, each once.
fn skills_of(library: &Library, words: &[String]) -> Result<Vec<String>, AskError> {
    if words.len() > SKILLS_MAX {
        return Err(AskError::TooManySkills);
    }
    let mut names = Vec::new();
    for word in words {
        match library.skill(word) {
            Lookup::Found(skill) if names.contains(&skill.name.full_name) => {}
            Lookup::Found(skill) => names.push(skill.name.full_name.clone()),
            Lookup::Unknown => {
                let valid = library.skills.iter().map(|skill| skill.name.full_name.clone()).collect();
                return Err(AskError::UnknownSkill { asked: word.clone(), valid });
            }
            Lookup::Ambiguous(meant) => {
                return Err(AskError::AmbiguousName { asked: word.clone(), meant });
            }
        }
    }
    Ok(names)
}

/// Names in a message, as far as one may be long.
fn listed(names: &[String]) -> String {
    let told = names.iter().take(NAMES_IN_ERROR_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_IN_ERROR_MAX { format!("{told}, …") } else { told }
}

fn check_settings(model: &ModelEntry, settings: &[(String, String)]) -> Result<(), AskError> {
    for (at, (key, value)) in settings.iter().enumerate() {
        let Some(setting) = model.settings.iter().find(|setting| setting.key == *key) else {
            let valid = model.settings.iter().map(|setting| setting.key.clone()).collect();
            return Err(AskError::UnknownSetting { asked: key.clone(), valid });
        };
        if !setting.options.iter().any(|option| option.value == *value) {
            let valid = setting.options.iter().map(|option| option.value.clone()).collect();
            return Err(AskError::UnknownSetting { asked: value.clone(), valid });
        }
        // Keys are few: those before it are all different.
        if settings[..at].iter().any(|(earlier, _)| earlier == key) {
            return Err(AskError::RepeatedSetting(key.clone()));
        }
    }
    Ok(())
}

/// The texts in their order without repetitions.
fn each_once(texts: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.iter().filter(|text| seen.insert(text.as_str())).cloned().collect()
}

/// A conversation's title: the first line of its first question, cut at a word.
fn title_of(question: &str) -> String {
    let line = question.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let clean: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= TITLE_MAX_CHARS {
        return clean;
    }
    let cut: String = clean.chars().take(TITLE_MAX_CHARS - 1).collect();
    let whole = cut.rsplit_once(' ').map_or(cut.as_str(), |(whole, _)| whole);
    format!("{whole}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_cut_at_a_word() {
        assert_eq!(title_of("\n  Kolik činí nájemné?\nPodrobně."), "Kolik činí nájemné?");
        let long = title_of(&"slovo ".repeat(100));
        assert!(long.chars().count() <= TITLE_MAX_CHARS && long.ends_with("slovo…"), "{long}");
        assert!(title_of(&"x".repeat(500)).chars().count() <= TITLE_MAX_CHARS);
    }
}
