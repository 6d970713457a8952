//! The page of API keys: making, listing and revoking them.

use std::time::Duration;

use askama::Template;
use axum::Form;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use control::api_keys::KeyRestrictions;
use control::form_token::FormToken;
use control::owner::{Key, KeyUsage};
use control::{Conversations, Environment, ErrorKind, Owner, PublicCode, UseCaseError};
use domain::credits::Credits;
use domain::key::SecretKey;
use domain::scope::{Permission, Scope};
use domain::time::Timestamp;
use serde::Deserialize;

use crate::frame::Frame;
use crate::key_examples::{Example, examples};
use crate::sent_form::SentForm;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::User;
use crate::{error, origin, paths, usage_chart};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The lives of keys that the form offers, in days; 0 for the licence's own.
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
    frame: Frame,
    keys: Vec<KeyView>,
    /// The permissions and lives of a new key, and which ones the form begins with.
    permissions: Vec<(Permission, String, bool)>,
    lives: Vec<(u32, String, bool)>,
    /// The fields that the form begins with.
    form: NewKeyForm,
    /// The secret of the key that was just made, and its name.
    made: Option<(SecretKey, String)>,
    /// The name of the key that the same form has made before.
    made_before: Option<String>,
    /// Identifies the form, so that one that is sent twice makes one key.
    once: String,
    /// Programs that ask with that key.
    examples: Vec<Example>,
    error: Option<String>,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) owner: Owner,
    pub(crate) conversations: Conversations,
    pub(crate) environment: Environment,
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
    /// The form of a key that may do everything.
    fn new() -> Self {
        let on = || Some(String::new());
        let [read, ask, files, machine] = [on(), on(), on(), on()];
        Self { days: 0, read, ask, files, machine, ..Self::default() }
    }

    /// Returns what identifies the form as it was sent.
    fn token(&self) -> Option<FormToken> {
        let boxes = Permission::ALL.map(|permission| if self.permits(permission) { "on" } else { "" });
        let sent = SentForm::of(&self.once)?
            .field("name", &self.name)
            .field("days", &self.days.to_string())
            .field("limit", &self.limit)
            .field("permissions", &boxes.join(","));
        Some(sent.token())
    }

    fn permits(&self, permission: Permission) -> bool {
        match permission {
            Permission::Read => self.read.is_some(),
            Permission::Ask => self.ask.is_some(),
            Permission::Files => self.files.is_some(),
            Permission::Machine => self.machine.is_some(),
        }
    }

    /// Returns the restrictions, or the key of the text that says what is wrong.
    fn restrictions(&self, environment: &Environment) -> Result<KeyRestrictions, &'static str> {
        let permissions: Vec<_> = Permission::ALL.into_iter().filter(|one| self.permits(*one)).collect();
        let scope = Scope::of(&permissions).ok_or("keys-no-permission")?;
        let spending_limit = match self.limit.trim() {
            "" => None,
            text => Some(Credits(text.parse().map_err(|_| "keys-bad-limit")?)),
        };
        if !LIVES_DAYS.contains(&self.days) {
            return Err("keys-bad-life");
        }
        let expires_at = (self.days > 0).then(|| environment.now().plus(DAY * self.days));
        Ok(KeyRestrictions { expires_at, scope, spending_limit })
    }
}

/// Shows the keys.
pub(crate) async fn show(State(keys): State<Keys>, user: User) -> Result<Response, Response> {
    keys.page(&user, Made::Nothing).await
}

/// Makes a key, and shows its secret once.
pub(crate) async fn create(
    State(keys): State<Keys>,
    user: User,
    headers: HeaderMap,
    Form(form): Form<NewKeyForm>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let refused = match form.restrictions(&keys.environment) {
        Ok(restrictions) => {
            let token = form.token();
            match keys.owner.create_key(&user.signed_in.principal, &form.name, restrictions, token).await {
                Ok(None) => {
                    let page = keys.page(&user, Made::Before(form.name)).await?;
                    return Ok((StatusCode::CONFLICT, page).into_response());
                }
                Ok(Some(made)) => {
                    let examples = examples(texts, &origin::of(&headers), made.key.reveal());
                    return keys.page(&user, Made::Key { secret: made.key, name: form.name, examples }).await;
                }
                Err(error) if error.kind() != ErrorKind::Invalid => return Err(user.failed(error)),
                Err(_) => texts.get("keys-bad-name"),
            }
        }
        Err(key) => texts.get(key),
    };
    let page = keys.page(&user, Made::Refused(refused, form)).await?;
    Ok((StatusCode::BAD_REQUEST, page).into_response())
}

/// Revokes a key.
pub(crate) async fn revoke(
    State(owner): State<Owner>,
    user: User,
    Path(key): Path<String>,
) -> Result<Response, Response> {
    let unknown = || user.failed(UseCaseError::new(PublicCode::NotFound, "no such key"));
    let key = key.parse().map_err(|_| unknown())?;
    owner.revoke_key(&user.signed_in.principal, key).await.map_err(|error| user.failed(error))?;
    Ok(Redirect::to(paths::KEYS).into_response())
}

/// The outcome of the form that led to the page.
enum Made {
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

impl Keys {
    async fn page(&self, user: &User, made: Made) -> Result<Response, Response> {
        let (mut form, mut error, mut made_before) = (NewKeyForm::new(), None, None);
        let (made, examples) = match made {
            Made::Nothing => (None, Vec::new()),
            Made::Refused(reason, refused) => {
                (form, error) = (refused, Some(reason));
                (None, Vec::new())
            }
            Made::Before(name) => {
                made_before = Some(name);
                (None, Vec::new())
            }
            Made::Key { secret, name, examples } => (Some((secret, name)), examples),
        };
        let texts = user.visitor.texts;
        let frame = Frame::load(&self.conversations, user, None).await?;
        let keys = self.owner.list_keys(&user.signed_in.principal).await;
        let keys = keys.map_err(|error| user.failed(error))?;
        let since = usage_chart::since(self.environment.now(), usage_chart::DAYS);
        let used = self.owner.usage_by_key(&user.signed_in.principal, since).await;
        let used = used.map_err(|error| user.failed(error))?;
        let permissions = Permission::ALL.map(|one| (one, permission(texts, one), form.permits(one)));
        let lives = LIVES_DAYS.map(|days| {
            let label = match days {
                0 => texts.get("keys-life-licence"),
                days => texts.with("keys-life-days", "count", days),
            };
            (days, label, days == form.days)
        });
        let now = self.environment.now();
        let keys = keys.into_iter().rev().map(|key| KeyView::of(texts, key, &used, now)).collect();
        let (permissions, lives) = (permissions.to_vec(), lives.to_vec());
        let once = domain::hex::encode(&self.environment.bytes::<16>());
        Ok(error::rendered(&KeysPage {
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
    fn of(texts: Texts, key: Key, used: &[KeyUsage], now: Timestamp) -> Self {
        let all = key.scope == Scope::ALL;
        let names = key.scope.permissions().map(|one| permission(texts, one));
        let spending = key.spending.map(|spending| {
            format!("{} / {}", texts.number(spending.spent.0), texts.number(spending.limit.0))
        });
        let credits = used.iter().find(|used| used.key == Some(key.id)).map_or(0, |used| used.credits.0);
        let may_ask = key.scope.permissions().any(|one| one == Permission::Ask);
        Self {
            credits: may_ask.then(|| texts.number(credits)),
            name: key.name,
            scope: if all { texts.get("keys-all") } else { names.collect::<Vec<_>>().join(", ") },
            created: ShownTime::day(texts, key.created_at),
            used: key.last_used_at.map(|at| ShownTime::time(texts, at)),
            expires: key.expires_at.map(|at| ShownTime::time(texts, at)),
            is_expired: key.expires_at.is_some_and(|at| at <= now),
            spending,
            revoke: format!("{}/{}/revoke", paths::KEYS, key.id),
        }
    }
}

fn permission(texts: Texts, permission: Permission) -> String {
    match permission {
        Permission::Read => texts.get("permission-read"),
        Permission::Ask => texts.get("permission-ask"),
        Permission::Files => texts.get("permission-files"),
        Permission::Machine => texts.get("permission-machine"),
    }
}
