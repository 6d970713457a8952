//! The web application of account owners: pages that are rendered by the service, a face of the use cases in [`control`].
//!
//! Every request passes [`visit`]: it limits rates and sizes, refuses cross-site changes, and resolves the
//! session. A handler calls its use cases and renders a template. Pages work without scripts: the one script
//! lets an answer grow in place, and without it the page reloads. The security policy ([`headers`]) permits
//! neither inline scripts nor inline styles nor content from other hosts. Texts are in `locales`, a Fluent file
//! for each [`language`].
//!
//! # Where to look
//!
//! - Every request: `visit.rs`; sites that may send forms: `origin.rs`.
//! - A language: `language.rs`, `texts.rs`, `shown_time.rs`, `shown_size.rs`, and the folder `locales`. Labels of the
//!   catalog are in `domain` and `models`.
//! - The growth of an answer on its page: `growing.rs`; versions of questions: `revision.rs`.
//! - Cards of citations: `cited.rs`; numbers of sources: `source_numbers.rs`; the export: `export.rs`.
//! - Files: `files`; names of files on all pages: `domain`'s `shown_name.rs`, and `uploads.js` for files before their upload.

mod account;
mod answer;
mod answer_html;
mod ask;
mod assets;
mod browser;
mod cells;
mod choices;
mod cited;
mod composer;
mod conversation;
mod credentials;
#[cfg(debug_assertions)]
mod design;
mod error;
mod events;
mod export;
mod files;
mod frame;
mod growing;
mod headers;
mod history;
mod inert_markdown;
mod key_examples;
mod keys;
mod language;
mod ledger;
mod licence;
mod links;
mod machine;
mod no_such_page;
mod operator;
mod origin;
mod paths;
mod revision;
mod sent_form;
mod session_cookie;
mod shown_size;
mod shown_time;
mod sign_in;
mod single_sign_on;
mod source_numbers;
mod texts;
mod usage_chart;
mod visit;
mod welcome;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use control::{
    AnswerService, Authenticator, Catalogs, CauserieService, Conversations, CredentialService, FileService,
    FirstOwner, HistoryService, Operators, Owner, QuestionService, ServiceEnvironment, SessionService,
    SingleSignOn, Vm,
};
use http_common::{Budgets, RateLimiter};
use tokio_util::sync::CancellationToken;

pub use crate::no_such_page::{no_such_page, without_slash};
pub use crate::operator::SettingInForce;
pub use crate::visit::signed_in;

use crate::files::UploadLimits;
use crate::sign_in::SignInLimits;
use crate::visit::VisitLayer;

/// The configuration of the web application.
#[derive(Clone)]
pub struct AppConfig {
    /// The time limit of a form.
    pub body_timeout: Duration,
    /// The largest upload, in bytes; `None` to leave it to the quota.
    pub upload_max_bytes: Option<u64>,
    /// The time without progress after which an upload is aborted.
    pub stall_timeout: Duration,
    /// True if the service itself speaks TLS.
    pub tls: bool,
    /// The settings in force, for operators.
    pub settings: Arc<[SettingInForce]>,
    /// The clock and random numbers.
    pub environment: ServiceEnvironment,
    /// Cancelled when the service shuts down. Open streams end then.
    pub ending: CancellationToken,
}

/// The state of the router. A handler extracts the parts that it needs.
#[derive(Clone)]
struct State(Arc<Parts>);

macro_rules! parts {
    ($($part:ident: $type:ty,)*) => {
        struct Parts { $($part: $type,)* }

        $(impl FromRef<State> for $type {
            fn from_ref(state: &State) -> Self {
                state.0.$part.clone()
            }
        })*
    };
}

parts! {
    access: Authenticator,
    answers: AnswerService,
    budgets: Budgets,
    catalogs: Catalogs,
    conversations: Conversations,
    credentials: CredentialService,
    ending: AppShutdown,
    environment: ServiceEnvironment,
    files: FileService,
    first_owner: FirstOwner,
    history: HistoryService,
    operators: Operators,
    owner: Owner,
    questions: QuestionService,
    sessions: SessionService,
    settings: Arc<[SettingInForce]>,
    sign_in_limits: Arc<SignInLimits>,
    single_sign_on: SingleSignOn,
    upload_limits: UploadLimits,
    vm: Vm,
}

macro_rules! composed {
    ($($type:ty { $($part:ident),* },)*) => {
        $(impl FromRef<State> for $type {
            fn from_ref(State(parts): &State) -> Self {
                Self { $($part: parts.$part.clone()),* }
            }
        })*
    };
}

composed! {
    account::CreditPages { owner, access, conversations, environment },
    ask::AskPages { questions, catalogs, conversations, environment },
    files::FilePages { files, access, answers, conversations, budgets },
    credentials::CredentialPages { credentials, sessions, conversations, environment, sign_in_limits },
    conversation::ConversationPages { conversations, questions, answers, access, catalogs, budgets, environment },
    history::HistoryPages { history, conversations },
    keys::KeyPages { owner, conversations, environment },
    machine::MachineState { vm, files, conversations },
    operator::OperatorPages { operators, conversations, settings, environment },
    sign_in::SignInPages { sessions, single_sign_on, sign_in_limits },
    welcome::Welcome { first_owner, sessions },
}

impl State {
    fn new(service: &CauserieService, config: AppConfig, guard: &RateLimiter) -> Self {
        Self(Arc::new(Parts {
            access: service.access.clone(),
            answers: service.answers.clone(),
            budgets: guard.budgets.clone(),
            catalogs: service.catalogs.clone(),
            conversations: service.conversations.clone(),
            credentials: service.credentials.clone(),
            ending: AppShutdown(config.ending),
            environment: config.environment,
            files: service.files.clone(),
            first_owner: service.first_owner.clone(),
            history: service.history.clone(),
            operators: service.operators.clone(),
            owner: service.owner.clone(),
            questions: service.questions.clone(),
            sessions: service.sessions.clone(),
            settings: config.settings,
            sign_in_limits: Arc::default(),
            single_sign_on: service.single_sign_on.clone(),
            upload_limits: UploadLimits {
                size_max_bytes: config.upload_max_bytes,
                stall_timeout: config.stall_timeout,
            },
            vm: service.vm.clone(),
        }))
    }
}

/// Cancelled when the service shuts down.
#[derive(Debug, Clone)]
struct AppShutdown(CancellationToken);

/// Creates the router of the web application, behind the rate limiter `guard`.
pub fn app_router(service: &CauserieService, config: AppConfig, guard: Arc<RateLimiter>) -> Router {
    let layer = VisitLayer {
        sessions: service.sessions.clone(),
        guard: guard.clone(),
        body_timeout: config.body_timeout,
        tls: config.tls,
    };
    Router::new()
        .merge(session_routes())
        .merge(conversation_routes())
        .merge(file_routes())
        .merge(account_routes())
        .merge(operator::operator_routes())
        .merge(asset_routes())
        .method_not_allowed_fallback(page_of_form)
        // The layer has read the form within its own bounds.
        .layer(DefaultBodyLimit::disable())
        .with_state(State::new(service, config, &guard))
        .layer(from_fn_with_state(layer, visit::attach_visitor))
}

/// Routes signing in and out, and the choice of a language.
fn session_routes() -> Router<State> {
    Router::new()
        .route(paths::SIGN_IN, get(sign_in::show_sign_in).post(sign_in::sign_in))
        .route(paths::SIGN_IN_ELSEWHERE, get(single_sign_on::begin_single_sign_on))
        .route("/sign-in/callback", get(single_sign_on::complete_single_sign_on))
        .route("/welcome", get(welcome::show_welcome).post(welcome::create_first_owner))
        .route(paths::SIGN_OUT, post(sign_in::sign_out))
        .route(paths::LANGUAGE, post(language::choose_language))
}

/// Routes questions, answers and their history.
fn conversation_routes() -> Router<State> {
    Router::new()
        .route(paths::HOME, get(ask::show_question_form))
        .route(paths::ASK, post(ask::ask_first_question))
        .route("/c/{conversation}", get(conversation::show_conversation))
        .route("/c/{conversation}/ask", post(ask::follow_up))
        // Another version of the question of an answer, and the choice among versions.
        .route("/c/{conversation}/{answer}/edit", post(revision::revise_question::<true>))
        .route("/c/{conversation}/{answer}/retry", post(revision::revise_question::<false>))
        .route("/c/{conversation}/show", post(revision::show_version))
        .route("/c/{conversation}/stop", post(conversation::stop_answer))
        .route("/c/{conversation}/delete", post(conversation::delete_conversation))
        .route("/c/{conversation}/change", post(history::change_conversation))
        .route("/c/{conversation}/export.md", get(export::export_markdown))
        .route("/c/{conversation}/export.json", get(export::export_json))
        .route("/c/{conversation}/print", get(export::show_print_page))
        .route(paths::HISTORY, get(history::show_history))
        .route("/c/{conversation}/{answer}/events", get(events::stream_answer))
        // Waits for an answer after this one.
        .route("/c/{conversation}/{answer}/later", get(events::stream_later_answer))
        .route("/c/{conversation}/{answer}/sources/{number}", get(cited::show_citation_card))
}

/// Routes the files of the workspace.
fn file_routes() -> Router<State> {
    Router::new()
        .route(paths::FILES, get(files::show_path))
        .route("/files/{*path}", get(files::show_path))
        .route(paths::UPLOAD, post(files::upload_files))
        // Uploads in pieces: start, progress, cancellation, and a piece at an offset.
        .route("/workspace/uploads", post(files::begin_upload))
        .route("/workspace/uploads/{upload}", get(files::upload_progress).delete(files::cancel_upload))
        .route("/workspace/uploads/{upload}/{offset}", post(files::append_piece))
        .route("/workspace/indexing", get(files::show_indexing_states))
        .route(paths::NEW_FOLDER, post(files::create_folder))
        .route(paths::DELETE_FILE, post(files::delete_path))
        .route(paths::CHOSEN_FILES, post(files::show_arrangement))
        .route(paths::RENAME_FILE, post(files::rename_entry))
        .route(paths::MOVE_FILES, post(files::move_files))
        .route(paths::DELETE_FILES, post(files::delete_chosen))
}

/// Routes keys, machine, credits and credentials of an account.
fn account_routes() -> Router<State> {
    Router::new()
        .route(paths::KEYS, get(keys::show_keys).post(keys::create_key))
        .route("/keys/{key}/revoke", post(keys::revoke_key))
        .route(paths::MACHINE, get(machine::show_machine))
        .route(paths::START_MACHINE, post(machine::start_machine))
        .route(paths::STOP_MACHINE, post(machine::stop_machine))
        .route("/credits", get(account::show_credits))
        .route("/credits/ledger", get(ledger::show_ledger))
        .route("/credits/ledger.csv", get(ledger::download_ledger_csv))
        .route(paths::ACCOUNT, get(credentials::show_account))
        .route(paths::CHANGE_EMAIL, post(credentials::change_email))
        .route(paths::CHANGE_PASSWORD, post(credentials::change_password))
        .route("/account/sessions/{session}/end", post(credentials::end_session))
        .route(paths::SIGN_OUT_EVERYWHERE, post(credentials::sign_out_everywhere))
        .route(paths::DELETE_ACCOUNT, post(credentials::delete_account))
}

fn asset_routes() -> Router<State> {
    let routes = Router::new()
        .route(paths::STYLE, get(assets::serve_style))
        .route(paths::SCRIPT, get(assets::serve_script))
        .route(paths::ICON, get(assets::serve_icon));
    #[cfg(debug_assertions)]
    let routes = routes
        .route("/design", get(design::show_design))
        .route("/assets/design.css", get(assets::serve_design_style));
    routes
}

/// Redirects to the page of a form, whose address a browser shows after the form was refused.
async fn page_of_form(method: Method, uri: Uri) -> Response {
    let page = paths::page_of(uri.path());
    if method != Method::GET || page == uri.path() {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    Redirect::to(page).into_response()
}
