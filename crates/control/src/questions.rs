//! Checks a question, accepts it in one transaction and dispatches it (section 4.4 of the interface).

use std::sync::Arc;

use domain::answer::Answer;
use domain::catalog::{CatalogJurisdiction, ModelEntry};
use domain::id::{AccountId, ConversationId, MessageId, PostingId, TraceId};
use domain::limits::{INSTRUCTIONS_MAX_BYTES, QUESTION_MAX_BYTES};
use domain::machine::MachineStatus;
use domain::scope::Permission;
use domain::step::ToolSpec;
use engine::templates::PromptTemplates;
use engine::{
    BackgroundTasks, Dispatch, PromptOptions, WebAccess, WebTools, check_functions, first_reservation,
    settle_surely,
};
use live::{Generation, Live, LiveAnswer, Meta, Snapshot};
use machine::{Machines, SupervisorError};
use models::Catalog;
use store::client_histories::ClientExchange;
use store::conversations;
pub use store::questions::Idempotency;
use store::questions::{
    self, Accepted, AskRefused, AskResult, GoesOn, NewConversation, NewExchangeVersion, NewQuestion,
    QuestionTarget,
};
use store::{Sql, Store, StoreError, machines};
use telemetry::trace::SpanContext;
use workspace::Workspaces;

use crate::ask_error::AskError;
use crate::error::UseCaseError;
use crate::principal::Principal;
use crate::question_choices::{agent_of, check_settings, each_once, normalize_attachments, skills_of};
use crate::workspaces_marker::WorkspacesMarker;
use crate::{DiskReserve, Plugins, ServiceEnvironment, title};

/// The number of times that a question is checked because its place changes meanwhile.
const PLACE_TRIES: u32 = 3;

/// A question as a client sends it.
#[derive(Debug, Clone, Default)]
pub struct AskRequest {
    pub input: String,
    /// The conversation to continue; a new one if `None`.
    pub conversation: Option<ConversationId>,
    /// The place in that conversation.
    pub place: AskPlace,
    /// Workspace paths to attach, as written.
    pub attachments: Vec<String>,
    /// The model; the default if `None`. Applies to new conversations, like the next three, and to conversations that
    /// they change; a version has a model with settings, too.
    pub model: Option<String>,
    /// Settings of the model.
    pub settings: Vec<(String, String)>,
    pub jurisdictions: Vec<String>,
    /// True to permit web search.
    pub web_search: bool,
    /// True to change an existing conversation to the four above. Otherwise it ignores them.
    pub changes_conversation: bool,
    /// The agent; the default if `None`.
    pub agent: Option<String>,
    pub skills: Vec<String>,
    /// Instructions beside those of the agent.
    pub instructions: Option<String>,
    /// The functions that the client runs itself.
    pub functions: Vec<ToolSpec>,
    /// True if the model may ask the user questions.
    pub asks_user: bool,
    /// The history of a client that keeps it itself.
    pub client: Option<ClientExchange>,
    /// The idempotency key, which prevents a repeated request from asking again.
    pub idempotency: Option<Idempotency>,
    /// The span of the request, if its trace is recorded.
    pub trace: Option<SpanContext>,
}

impl AskRequest {
    /// Returns the first question of the conversation that it begins.
    fn first_question(&self) -> &str {
        let imported = self.client.as_ref().and_then(|client| client.imported.first());
        imported.map_or(&self.input, |exchange| &exchange.text)
    }
}

/// The place of a question in an existing conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskPlace {
    /// After the last exchange that is shown.
    #[default]
    Next,
    /// At the end of the branch of this answer.
    BranchOf(MessageId),
    /// Instead of the question of this answer, as another version of it.
    Version(MessageId),
}

/// The changes of another version of a question; `None` leaves a field as it was asked.
#[derive(Debug, Clone, Default)]
pub struct QuestionRevision {
    pub input: Option<String>,
    /// Workspace paths to attach, as written.
    pub attachments: Option<Vec<String>>,
    pub model: Option<String>,
    /// As in [`AskRequest`].
    pub idempotency: Option<Idempotency>,
}

/// The result of asking.
pub enum AskOutcome {
    /// The question was accepted.
    Accepted {
        live: Arc<LiveAnswer>,
        /// The answer at its beginning, without any text.
        begun: Arc<Snapshot>,
    },
    /// The same request was accepted before.
    Replayed { conversation: ConversationId, answer: MessageId },
}

/// Accepts questions. Cheap to clone.
#[derive(Clone)]
pub struct QuestionService {
    pub(crate) store: Store,
    pub(crate) environment: ServiceEnvironment,
    pub(crate) live: Arc<Live>,
    pub(crate) dispatch: Dispatch,
    /// Finishes the work of a dropped request.
    pub(crate) background: BackgroundTasks,
    pub(crate) machines: Machines,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) workspaces: Workspaces,
    pub(crate) jurisdictions: Arc<Vec<CatalogJurisdiction>>,
    pub(crate) templates: Arc<PromptTemplates>,
    pub(crate) plugins: Plugins,
    pub(crate) web: WebTools,
    pub(crate) disk: DiskReserve,
    pub(crate) marker: WorkspacesMarker,
    /// True if a question starts a machine that does not run.
    pub(crate) machine_started: bool,
}

/// The target of a question with its model.
struct ResolvedTarget {
    target: QuestionTarget,
    /// The name of the model in the conversation.
    model_id: String,
    /// Its entry in the catalog, or the entry of the default while its vendor is unreachable.
    model: ModelEntry,
    /// The changes that the question makes to the conversation, if any.
    goes_on: Option<GoesOn>,
}

impl QuestionService {
    /// Returns how answers can use the web, where their questions permit it.
    #[must_use]
    pub fn web_access(&self) -> WebAccess {
        self.web.access_for(true)
    }

    /// Accepts a question and starts the machine for it. An accepted question survives any crash.
    ///
    /// # Errors
    /// [`UseCaseError`]; nothing was changed then.
    pub async fn ask_question(
        &self,
        principal: &Principal,
        request: AskRequest,
    ) -> Result<AskOutcome, UseCaseError> {
        principal.require_any(&[Permission::Ask])?;
        principal.require_licence()?;
        // Before all checks, because the names in an accepted question may be unknown when it is repeated.
        if let Some(repeated) = self.find_repeated(principal, request.idempotency.as_ref()).await? {
            return Ok(repeated);
        }
        let answer = MessageId::made_at(self.environment.now(), self.environment.random_bits());
        let mut span = engine::start_accept_span(self.environment.tracer(), request.trace, answer);
        let mut taken = self.check_and_submit(principal, request.clone(), answer, None).await;
        for _ in 1..PLACE_TRIES {
            let model = match taken {
                Err(AskError::Refused(AskRefused::OtherModel(other))) => Some(other),
                Err(AskError::Refused(AskRefused::OtherPlace)) => None,
                _ => break,
            };
            taken = self.check_and_submit(principal, request.clone(), answer, model).await;
        }
        if let Some(span) = span.as_mut().filter(|_| taken.is_err()) {
            span.mark_failed();
        }
        Ok(taken?)
    }

    /// Asks a question of a conversation again, changed or to another model, with the same agent and skills. The new
    /// version is shown instead of the exchange and the following ones, which are kept.
    ///
    /// # Errors
    /// [`UseCaseError`]; nothing was changed then.
    pub async fn revise_question(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        answer: MessageId,
        revision: QuestionRevision,
    ) -> Result<AskOutcome, UseCaseError> {
        principal.require_any(&[Permission::Ask])?;
        principal.require_licence()?;
        let account = principal.account();
        let asked = move |tx: &mut dyn Sql| conversations::asked_exchange(tx, account, conversation, answer);
        let asked = self.store.read(asked).await?;
        let (model, settings) = match revision.model.filter(|model| *model != asked.model) {
            Some(other) => (Some(other), Vec::new()),
            None => match self.catalog.find_model(Some(&asked.model)) {
                Some(model) if check_settings(&model.entry, &asked.settings).is_ok() => {
                    (Some(asked.model), asked.settings)
                }
                // The catalog has changed since.
                Some(_) => (Some(asked.model), Vec::new()),
                None => (None, Vec::new()),
            },
        };
        let request = AskRequest {
            input: revision.input.unwrap_or(asked.text),
            conversation: Some(conversation),
            place: AskPlace::Version(answer),
            attachments: revision.attachments.unwrap_or(asked.attachments),
            model,
            settings,
            agent: asked.agent,
            skills: asked.skills,
            idempotency: revision.idempotency,
            ..AskRequest::default()
        };
        self.ask_question(principal, request).await
    }

    /// Accepts a question that was not accepted before. `model` is that of its branch, if it is known.
    async fn check_and_submit(
        &self,
        principal: &Principal,
        request: AskRequest,
        answer: MessageId,
        model: Option<String>,
    ) -> Result<AskOutcome, AskError> {
        if request.input.trim().is_empty() {
            return Err(AskError::Blank);
        }
        if request.input.len() > QUESTION_MAX_BYTES {
            return Err(AskError::TooLong);
        }
        if request.input.contains('\0') {
            return Err(AskError::Nul);
        }
        if request.instructions.as_ref().is_some_and(|text| text.len() > INSTRUCTIONS_MAX_BYTES) {
            return Err(AskError::InstructionsTooLong);
        }
        let request = self.place_question(principal.account(), request).await?;
        check_functions(&request.functions).map_err(AskError::Functions)?;
        let library = self.plugins.library();
        let agent = request.agent.as_deref().map(|word| agent_of(&library, word)).transpose()?;
        let skills = skills_of(&library, &request.skills)?;
        let ResolvedTarget { target, model_id, model, goes_on } =
            self.resolve_target(principal, &request, model).await?;
        let attachments =
            normalize_attachments(&self.workspaces.workspace_for(principal.account()), &request.attachments)
                .await?;
        if !principal.has_machine() {
            return Err(AskError::NoMachine);
        }
        self.machine_permits(principal.account()).await?;
        if self.disk.is_low() {
            return Err(AskError::DiskLow);
        }
        self.marker.check_marker()?;
        let (jurisdictions, web_search) = match (&target, &goes_on) {
            (QuestionTarget::New(new), _) => (new.jurisdictions.as_slice(), new.web_search),
            (_, Some(goes_on)) => (goes_on.jurisdictions.as_slice(), goes_on.web_search),
            // Assumes the maximum that the conversation may permit.
            (
                QuestionTarget::Existing(_) | QuestionTarget::BranchOf { .. } | QuestionTarget::Version(_),
                None,
            ) => (&[][..], true),
        };
        let web = self.web.access_for(web_search);
        let templates = &self.templates;
        let chosen = PromptOptions {
            agent: agent.as_deref(),
            skills: &skills,
            jurisdictions,
            web,
            workspace: None,
            client: request.instructions.as_deref(),
            functions: &request.functions,
            asks_user: request.asks_user,
            templates,
        };
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
            account: principal.account(),
            user: principal.user(),
            through: principal.asked_through(),
            trace: request.trace.map(|request| TraceId::from_bits(request.trace)),
            target,
            question: MessageId::made_at(now, self.environment.random_bits()),
            answer,
            model: model_id,
            goes_on,
            model_limits: model.model_limits(),
            reserve,
            instructions: request.instructions,
            functions: request.functions,
            asks_user: request.asks_user,
            client: request.client,
            text: request.input,
            attachments,
            agent,
            skills,
            posting: PostingId::made_at(now, self.environment.random_bits()),
            idempotency: request.idempotency,
            now,
        };
        // Dropping the future must not leave an accepted question whose machine is never started.
        let taken = self.background.see_through(self.clone().submit_question(new)).await;
        taken.unwrap_or(Err(AskError::Store(StoreError::Panicked)))
    }

    /// Refuses a question to a machine that does not run, if questions may not start it.
    async fn machine_permits(&self, account: AccountId) -> Result<(), AskError> {
        if self.machine_started {
            return Ok(());
        }
        match self.machines.status(account).await {
            Ok(MachineStatus::Running) => Ok(()),
            Ok(status) => Err(AskError::MachineNotRunning(status)),
            Err(SupervisorError::NoMachine) => Err(AskError::NoMachine),
            Err(error) => Err(AskError::Machine(error)),
        }
    }

    /// Returns the outcome of the same request, if it was accepted before.
    async fn find_repeated(
        &self,
        principal: &Principal,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<AskOutcome>, AskError> {
        let Some(idempotency) = idempotency.cloned() else { return Ok(None) };
        let (account, now) = (principal.account(), self.environment.now());
        let found = self
            .store
            .read(move |tx| questions::find_accepted_question(tx, account, &idempotency, now))
            .await?;
        Ok(found.map(|(conversation, answer)| AskOutcome::Replayed { conversation, answer }))
    }

    async fn submit_question(self, new: NewQuestion) -> Result<AskOutcome, AskError> {
        let (account, attachments, generation) =
            (new.account, new.attachments.clone(), self.live.generation());
        let submitted = self.store.write(move |tx| accept_question(tx, &new)).await;
        if matches!(submitted, Err(AskRefused::Store(StoreError::Uncertain(_)))) {
            // It may have been accepted: then it must not wait for a machine that is never started.
            self.start_machine(account).await;
        }
        match submitted? {
            AskResult::Replayed { conversation, answer } => Ok(AskOutcome::Replayed { conversation, answer }),
            AskResult::Accepted(accepted) => {
                let (live, begun) = self.begin_answer(account, accepted, &attachments, generation).await;
                Ok(AskOutcome::Accepted { live, begun })
            }
        }
    }

    async fn begin_answer(
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
        let live = self.live.begin_answer(meta, answer);
        if self.live.has_deleted_since(generation) {
            // Possibly this conversation, whose readers were dismissed before its answer began.
            let (store, known, meta) = (self.store.clone(), self.live.clone(), live.meta().clone());
            self.background.spawn_until_shutdown(async move { settle_surely(&store, &known, &meta).await });
        }
        // A tool of an earlier answer may have taken the machine's permissions for the workspace away.
        if let Err(error) = self.workspaces.workspace_for(account).repair_permissions().await {
            tracing::warn!(%account, %error, "workspace open failed");
        }
        self.start_machine(account).await;
        (live, begun)
    }

    /// Starts the machine for a question, and dispatches the question.
    pub(crate) async fn start_machine(&self, account: AccountId) {
        // Before the dispatch, so that the failure of an earlier start does not end this answer.
        match self.machines.start_machine(account).await {
            Ok(()) => {}
            // The turn reports the state of the machine.
            Err(error @ (SupervisorError::NoMachine | SupervisorError::ShuttingDown)) => {
                tracing::debug!(%error, "machine start for a question failed");
            }
            Err(error) => tracing::warn!(%error, "machine start for a question failed"),
        }
        self.dispatch.claim_accepted(account);
    }

    /// Returns the target of the question, and its model. `of_branch` is the model of its branch, if it is known.
    async fn resolve_target(
        &self,
        principal: &Principal,
        request: &AskRequest,
        of_branch: Option<String>,
    ) -> Result<ResolvedTarget, AskError> {
        let settings = request.settings.clone();
        let (target, model) = match (request.conversation, request.place) {
            (Some(conversation), AskPlace::Version(of)) => {
                let version = NewExchangeVersion { conversation, of, settings };
                (QuestionTarget::Version(version), self.chosen_model(request)?)
            }
            (Some(id), place) => {
                let before = match of_branch {
                    Some(model) => model,
                    None => self.model_of_branch(principal.account(), id, place).await?,
                };
                let (model_id, model, goes_on) = self.going_on(request, before)?;
                let target = match place {
                    AskPlace::BranchOf(answer) => QuestionTarget::BranchOf { conversation: id, answer },
                    AskPlace::Next | AskPlace::Version(_) => QuestionTarget::Existing(id),
                };
                return Ok(ResolvedTarget { target, model_id, model, goes_on });
            }
            (None, _) => {
                let model = self.chosen_model(request)?;
                self.check_jurisdictions(&request.jurisdictions)?;
                let new = NewConversation {
                    id: ConversationId::made_at(self.environment.now(), self.environment.random_bits()),
                    title: title::of_question(request.first_question()),
                    settings,
                    jurisdictions: each_once(&request.jurisdictions),
                    web_search: request.web_search,
                };
                (QuestionTarget::New(new), model)
            }
        };
        Ok(ResolvedTarget { target, model_id: model.id.clone(), model, goes_on: None })
    }

    /// Returns the next model of a conversation, its entry, and the changes that the question makes.
    fn going_on(
        &self,
        request: &AskRequest,
        before: String,
    ) -> Result<(String, ModelEntry, Option<GoesOn>), AskError> {
        if !request.changes_conversation {
            let model = self.model_of(&before)?;
            return Ok((before, model, None));
        }
        self.check_jurisdictions(&request.jurisdictions)?;
        let is_other = request.model.as_ref().is_some_and(|model| *model != before);
        // The settings of a model that an outage hides are unknown.
        let is_listed = is_other || self.catalog.find_model(Some(&before)).is_some();
        let (id, model) = if is_other {
            let model = self.chosen_model(request)?;
            (model.id.clone(), model)
        } else {
            let model = self.model_of(&before)?;
            (before, model)
        };
        if is_listed {
            check_settings(&model, &request.settings)?;
        }
        let goes_on = GoesOn {
            settings: is_listed.then(|| request.settings.clone()),
            jurisdictions: each_once(&request.jurisdictions),
            web_search: request.web_search,
        };
        Ok((id, model, Some(goes_on)))
    }

    /// Returns the model of the branch that a question of a conversation follows.
    async fn model_of_branch(
        &self,
        account: AccountId,
        conversation: ConversationId,
        place: AskPlace,
    ) -> Result<String, AskError> {
        if let AskPlace::BranchOf(answer) = place {
            let model =
                move |tx: &mut dyn Sql| conversations::model_of_branch(tx, account, conversation, answer);
            return self.store.read(model).await?.ok_or(AskError::Refused(AskRefused::NotFound));
        }
        Ok(self
            .store
            .read(move |tx| conversations::read_conversation_summary(tx, account, conversation))
            .await?
            .model)
    }

    /// Returns the model that the question names, or the default, and checks the settings.
    fn chosen_model(&self, request: &AskRequest) -> Result<ModelEntry, AskError> {
        let asked = request.model.as_deref();
        let model = self.catalog.find_model(asked).ok_or_else(|| self.unknown_model(asked))?.entry;
        check_settings(&model, &request.settings)?;
        Ok(model)
    }

    /// Returns the model of a conversation. If an outage of its vendor hides the model, the limits and the price of the
    /// default model apply, and the answer waits for the vendor.
    fn model_of(&self, id: &str) -> Result<ModelEntry, AskError> {
        if let Some(model) = self.catalog.find_model(Some(id)) {
            return Ok(model.entry);
        }
        if self.catalog.outage_of(id).is_none() {
            return Err(AskError::GoneModel { model: id.to_owned() });
        }
        self.catalog.find_model(None).map(|model| model.entry).ok_or_else(|| self.unknown_model(Some(id)))
    }

    /// Returns the error for an unknown model, or for a missing default if no model is requested. A vendor whose model
    /// discovery failed may have the model.
    fn unknown_model(&self, asked: Option<&str>) -> AskError {
        let Some(asked) = asked else {
            let outage = self.catalog.explain_outage();
            let outage = outage.unwrap_or_else(|| "none is configured as the default".to_owned());
            return AskError::NoModel { outage };
        };
        if let Some(outage) = self.catalog.outage_of(asked) {
            return AskError::NoModel { outage };
        }
        let valid = self.catalog.model_entries().iter().map(|entry| entry.id.clone()).collect();
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
}

/// Accepts the question and requests the start of its machine in one transaction, so that a crash in between cannot
/// leave a question waiting for a machine that is never started.
fn accept_question(tx: &mut dyn Sql, new: &NewQuestion) -> Result<AskResult, AskRefused> {
    QuestionService::check_place(tx, new)?;
    let asked = match &new.target {
        QuestionTarget::Version(NewExchangeVersion { conversation, .. })
        | QuestionTarget::BranchOf { conversation, .. } => {
            title::follow_first_question(tx, new.account, *conversation, |tx| {
                questions::ask_question(tx, new)
            })?
        }
        QuestionTarget::Existing(_) | QuestionTarget::New(_) => questions::ask_question(tx, new)?,
    };
    if matches!(asked, AskResult::Accepted(_)) {
        machines::request_start(tx, new.account)?;
    }
    Ok(asked)
}
