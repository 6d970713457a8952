//! The page of API keys: creating, listing and revoking them.

use std::time::Duration;

use askama::Template;
use axum::Form;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use control::api_keys::KeyRestrictions;
use control::form_token::FormToken;
use control::owner::{KeyUsage, StoredKey};
use control::{Conversations, ErrorKind, Owner, PublicCode, ServiceEnvironment, UseCaseError};
use domain::credits::Credits;
use domain::key::SecretKey;
use domain::scope::{Permission, Scope};
use domain::time::Timestamp;
use serde::Deserialize;

use crate::frame::PageFrame;
use crate::key_examples::{Example, program_examples};
use crate::sent_form::SentForm;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;
use crate::{error, origin, paths, usage_chart};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The lifetimes of keys that the form offers, in days; 0 for the licence's end.
const LIVES_DAYS: [u32; 4] = [0, 30, 90, 365];

/// A key in the list.
struct KeyView {
    name: String,
    scope: String,
    created: ShownTime,
    used: Option<ShownTime>,
    expires: Option<ShownTime>,
    is_expired: bool,
    spending: Option<String>,
    /// The credits of the last days, of keys that may ask.
    credits: Option<String>,
    revoke: String,
}

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage {
    frame: PageFrame,
    keys: Vec<KeyView>,
    /// The permissions and lifetimes of a new key, and the preselected ones.
    permissions: Vec<(Permission, String, bool)>,
    lives: Vec<(u32, String, bool)>,
    /// The initial values of the form.
    form: NewKeyForm,
    /// The secret and the name of the key just created.
    made: Option<(SecretKey, String)>,
    /// The name of the key that the same form created before.
    made_before: Option<String>,
    /// Identifies the form, so that sending it twice creates only one key.
    once: String,
    /// Programs that ask with that key.
    examples: Vec<Example>,
    error: Option<String>,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct KeyPages {
    pub(crate) owner: Owner,
    pub(crate) conversations: Conversations,
    pub(crate) environment: ServiceEnvironment,
}

/// The form of a new key.
#[derive(Deserialize, Default)]
pub(crate) struct NewKeyForm {
    #[serde(default)]
    once: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    days: u32,
    #[serde(default)]
    limit: String,
    // A check box is present or absent.
    read: Option<String>,
    ask: Option<String>,
    files: Option<String>,
    machine: Option<String>,
}

impl NewKeyForm {
    /// The form of a key with all permissions.
    fn new() -> Self {
        let on = || Some(String::new());
        let [read, ask, files, machine] = [on(), on(), on(), on()];
        Self { days: 0, read, ask, files, machine, ..Self::default() }
    }

    /// Returns the identity of the submitted form.
    fn form_token(&self) -> Option<FormToken> {
        let boxes = Permission::ALL.map(|permission| if self.permits(permission) { "on" } else { "" });
        let sent = SentForm::from_token(&self.once)?
            .with_field("name", &self.name)
            .with_field("days", &self.days.to_string())
            .with_field("limit", &self.limit)
            .with_field("permissions", &boxes.join(","));
        Some(sent.into_token())
    }

    fn permits(&self, permission: Permission) -> bool {
        match permission {
            Permission::Read => self.read.is_some(),
            Permission::Ask => self.ask.is_some(),
            Permission::Files => self.files.is_some(),
            Permission::Machine => self.machine.is_some(),
        }
    }

    /// Returns the restrictions, or the key of the error's text.
    fn key_restrictions(&self, environment: &ServiceEnvironment) -> Result<KeyRestrictions, &'static str> {
        let permissions: Vec<_> = Permission::ALL.into_iter().filter(|one| self.permits(*one)).collect();
        let scope = Scope::from_permissions(&permissions).ok_or("keys-no-permission")?;
        let spending_limit = match self.limit.trim() {
            "" => None,
            text => Some(Credits(text.parse().map_err(|_| "keys-bad-limit")?)),
        };
        if !LIVES_DAYS.contains(&self.days) {
            return Err("keys-bad-life");
        }
        let expires_at = (self.days > 0).then(|| environment.now().saturating_add(DAY * self.days));
        Ok(KeyRestrictions { expires_at, scope, spending_limit })
    }
}

pub(crate) async fn show_keys(
    State(keys): State<KeyPages>,
    user: SignedInVisitor,
) -> Result<Response, Response> {
    keys.render_keys(&user, KeyFormOutcome::Nothing).await
}

/// Creates a key, and shows its secret once.
pub(crate) async fn create_key(
    State(keys): State<KeyPages>,
    user: SignedInVisitor,
    headers: HeaderMap,
    Form(form): Form<NewKeyForm>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let refused = match form.key_restrictions(&keys.environment) {
        Ok(restrictions) => {
            let token = form.form_token();
            match keys.owner.create_key(&user.signed_in.principal, &form.name, restrictions, token).await {
                Ok(None) => {
                    let page = keys.render_keys(&user, KeyFormOutcome::Before(form.name)).await?;
                    return Ok((StatusCode::CONFLICT, page).into_response());
                }
                Ok(Some(made)) => {
                    let examples =
                        program_examples(texts, &origin::request_origin(&headers), made.key.reveal());
                    return keys
                        .render_keys(
                            &user,
                            KeyFormOutcome::Key { secret: made.key, name: form.name, examples },
                        )
                        .await;
                }
                Err(error) if error.kind() != ErrorKind::Invalid => return Err(user.failure_response(error)),
                Err(_) => texts.get("keys-bad-name"),
            }
        }
        Err(key) => texts.get(key),
    };
    let page = keys.render_keys(&user, KeyFormOutcome::Refused(refused, form)).await?;
    Ok((StatusCode::BAD_REQUEST, page).into_response())
}

pub(crate) async fn revoke_key(
    State(owner): State<Owner>,
    user: SignedInVisitor,
    Path(key): Path<String>,
) -> Result<Response, Response> {
    let unknown = || user.failure_response(UseCaseError::new(PublicCode::NotFound, "no such key"));
    let key = key.parse().map_err(|_| unknown())?;
    owner.revoke_key(&user.signed_in.principal, key).await.map_err(|error| user.failure_response(error))?;
    Ok(Redirect::to(paths::KEYS).into_response())
}

/// The outcome of the form that led to the page.
enum KeyFormOutcome {
    Nothing,
    Refused(String, NewKeyForm),
    /// The form was sent before; the name of its key.
    Before(String),
    Key {
        secret: SecretKey,
        name: String,
        examples: Vec<Example>,
    },
}

impl KeyPages {
    async fn render_keys(&self, user: &SignedInVisitor, made: KeyFormOutcome) -> Result<Response, Response> {
        let (mut form, mut error, mut made_before) = (NewKeyForm::new(), None, None);
        let (made, examples) = match made {
            KeyFormOutcome::Nothing => (None, Vec::new()),
            KeyFormOutcome::Refused(reason, refused) => {
                (form, error) = (refused, Some(reason));
                (None, Vec::new())
            }
            KeyFormOutcome::Before(name) => {
                made_before = Some(name);
                (None, Vec::new())
            }
            KeyFormOutcome::Key { secret, name, examples } => (Some((secret, name)), examples),
        };
        let texts = user.visitor.texts;
        let frame = PageFrame::load(&self.conversations, user, None).await?;
        let keys = self.owner.list_keys(&user.signed_in.principal).await;
        let keys = keys.map_err(|error| user.failure_response(error))?;
        let since = usage_chart::chart_begin(self.environment.now(), usage_chart::DAYS);
        let used = self.owner.usage_by_key(&user.signed_in.principal, since).await;
        let used = used.map_err(|error| user.failure_response(error))?;
        let permissions = Permission::ALL.map(|one| (one, permission_text(texts, one), form.permits(one)));
        let lives = LIVES_DAYS.map(|days| {
            let label = match days {
                0 => texts.get("keys-life-licence"),
                days => texts.with("keys-life-days", "count", days),
            };
            (days, label, days == form.days)
        });
        let now = self.environment.now();
        let keys = keys.into_iter().rev().map(|key| KeyView::from_key(texts, key, &used, now)).collect();
        let (permissions, lives) = (permissions.to_vec(), lives.to_vec());
        let once = domain::hex::encode_hex(&self.environment.random_bytes::<16>());
        Ok(error::render_template(&KeysPage {
            frame,
            keys,
            permissions,
            lives,
            form,
            made,
            made_before,
            once,
            examples,
            error,
        }))
    }
}

impl KeyView {
    fn from_key(texts: Texts, key: StoredKey, used: &[KeyUsage], now: Timestamp) -> Self {
        let all = key.scope == Scope::ALL;
        let names = key.scope.permissions().map(|one| permission_text(texts, one));
        let spending = key.spending.map(|spending| {
            format!("{} / {}", texts.number_text(spending.spent.0), texts.number_text(spending.limit.0))
        });
        let credits = used.iter().find(|used| used.key == Some(key.id)).map_or(0, |used| used.credits.0);
        let may_ask = key.scope.permissions().any(|one| one == Permission::Ask);
        Self {
            credits: may_ask.then(|| texts.number_text(credits)),
            name: key.name,
            scope: if all { texts.get("keys-all") } else { names.collect::<Vec<_>>().join(", ") },
            created: ShownTime::from_day(texts, key.created_at),
            used: key.last_used_at.map(|at| ShownTime::from_time(texts, at)),
            expires: key.expires_at.map(|at| ShownTime::from_end(texts, at)),
            is_expired: key.expires_at.is_some_and(|at| at <= now),
            spending,
            revoke: format!("{}/{}/revoke", paths::KEYS, key.id),
        }
    }
}

fn permission_text(texts: Texts, permission: Permission) -> String {
    match permission {
        Permission::Read => texts.get("permission-read"),
        Permission::Ask => texts.get("permission-ask"),
        Permission::Files => texts.get("permission-files"),
        Permission::Machine => texts.get("permission-machine"),
    }
}
