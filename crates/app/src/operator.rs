//! The pages of operators: accounts, vendors of models, plugins, settings in force, the audit log. Changes go through the commands' own operations.

mod account;
mod audit;
mod people;
mod plugins;
mod settings;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use control::admin::AdminError;
use control::passwords::PasswordError;
use control::{Conversations, Environment, Operators, PublicCode, UseCaseError};
use serde::Deserialize;

pub(crate) use self::account::{change_licence, change_machine, delete, grant, show as show_account};
pub(crate) use self::audit::show as show_audit;
pub(crate) use self::people::{create, set_password, set_role};
pub(crate) use self::plugins::show as show_plugins;
pub use self::settings::SettingInForce;
pub(crate) use self::settings::show as show_settings;

use crate::frame::Frame;
use crate::machine::state_in_words;
use crate::shown_time::ShownTime;
use crate::visit::User;
use crate::{error, paths};

/// The most accounts of the list. Others are found by their email.
const LISTED_MAX: usize = 200;

/// An account in the list.
struct AccountRow {
    href: String,
    email: String,
    is_operator: bool,
    licence: Option<ShownTime>,
    available: String,
    conversations: String,
    machine: Option<String>,
}

/// A vendor of models.
struct VendorRow {
    name: &'static str,
    address: String,
    is_up: bool,
    since: Option<ShownTime>,
    models: usize,
    cause: Option<String>,
}

#[derive(Template)]
#[template(path = "operator.html")]
struct OperatorPage {
    frame: Frame,
    accounts: Vec<AccountRow>,
    total: String,
    vendors: Vec<VendorRow>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    account: String,
}

/// The use cases of the pages.
#[derive(Clone)]
pub(crate) struct OperatorPages {
    pub(crate) operators: Operators,
    pub(crate) conversations: Conversations,
    pub(crate) settings: Arc<[SettingInForce]>,
    pub(crate) environment: Environment,
}

/// Shows accounts and vendors, or leads to the account that was searched for.
pub(crate) async fn show(
    State(pages): State<OperatorPages>,
    user: User,
    Query(search): Query<Search>,
) -> Result<Response, Response> {
    let admin = pages.operators.admin(&user.signed_in).map_err(|error| user.failed(error))?;
    if !search.account.trim().is_empty() {
        let found = admin.account(search.account.trim()).await.map_err(|error| failed(&user, error))?;
        return Ok(Redirect::to(&paths::operator_account(found.id)).into_response());
    }
    let texts = user.visitor.texts;
    let frame = Frame::load(&pages.conversations, &user, None).await?;
    let listed = admin.list_accounts().await.map_err(|error| failed(&user, error))?;
    let machines = admin.list_machines().await.map_err(|error| failed(&user, error))?;
    let machine = |account| machines.iter().find(|machine| machine.account == account);
    let total = texts.number(listed.len() as u64);
    let accounts = listed.into_iter().take(LISTED_MAX).map(|(account, credits)| AccountRow {
        href: paths::operator_account(account.id),
        email: account.email,
        is_operator: account.role == domain::account::Role::Operator,
        licence: account.licence.until.map(|until| ShownTime::last_day(texts, until)),
        available: texts.number(credits.available.0),
        conversations: texts.number(account.conversations),
        machine: machine(account.id)
            .and_then(|machine| machine.status)
            .map(|status| state_in_words(texts, status)),
    });
    let accounts = accounts.collect();
    let vendors = pages.operators.vendors(&user.signed_in).map_err(|error| user.failed(error))?;
    let vendors = vendors.into_iter().map(|vendor| VendorRow {
        name: vendor.provider.as_str(),
        address: vendor.base_url,
        is_up: vendor.up == Some(true),
        since: vendor.since.map(|since| ShownTime::time(texts, since)),
        models: vendor.models,
        cause: vendor.detail,
    });
    Ok(error::rendered(&OperatorPage { frame, accounts, total, vendors: vendors.collect() }))
}

/// Creates the response to an operation that failed.
fn failed(user: &User, error: AdminError) -> Response {
    user.failed(match error {
        AdminError::NoSuchAccount(_) => UseCaseError::new(PublicCode::NotFound, error),
        AdminError::Password(PasswordError::Busy) => UseCaseError::new(PublicCode::Unavailable, error),
        AdminError::NotAnAmount | AdminError::Past | AdminError::Machine(_) => {
            UseCaseError::new(PublicCode::BadRequest, error)
        }
        error => UseCaseError::internal(error),
    })
}
