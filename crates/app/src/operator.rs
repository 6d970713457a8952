//! The pages of operators: accounts, vendors of models, plugins, settings in force, the audit log. Changes go through the commands' own operations.

mod account;
mod audit;
mod people;
mod plugins;
mod settings;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use control::admin::AdminError;
use control::passwords::PasswordError;
use control::{Conversations, Operators, PublicCode, ServiceEnvironment, UseCaseError};
use serde::Deserialize;

#[cfg(test)]
pub(crate) use self::audit::action_key;
pub use self::settings::SettingInForce;

use crate::frame::PageFrame;
use crate::machine::state_in_words;
use crate::shown_time::ShownTime;
use crate::visit::SignedInVisitor;
use crate::{error, paths};

/// The maximum number of listed accounts. Others are found by their email.
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
    frame: PageFrame,
    accounts: Vec<AccountRow>,
    total: String,
    vendors: Vec<VendorRow>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct OperatorQuery {
    #[serde(default)]
    account: String,
}

/// The use cases of the pages.
#[derive(Clone)]
pub(crate) struct OperatorPages {
    pub(crate) operators: Operators,
    pub(crate) conversations: Conversations,
    pub(crate) settings: Arc<[SettingInForce]>,
    pub(crate) environment: ServiceEnvironment,
}

/// Routes the pages and forms of operators.
pub(crate) fn operator_routes() -> Router<crate::State> {
    Router::new()
        .route(paths::OPERATOR, get(show_operator))
        .route("/operator/audit", get(audit::show_audit_log))
        .route("/operator/plugins", get(plugins::show_plugins))
        .route("/operator/settings", get(settings::show_settings))
        .route(paths::OPERATOR_ACCOUNTS, post(people::create_account))
        .route("/operator/accounts/{account}", get(account::show_operator_account))
        .route("/operator/accounts/{account}/licence", post(account::change_licence))
        .route("/operator/accounts/{account}/credits", post(account::grant_credits))
        .route("/operator/accounts/{account}/machine/{change}", post(account::change_machine))
        .route("/operator/accounts/{account}/password", post(people::set_password))
        .route("/operator/accounts/{account}/role", post(people::set_role))
        .route("/operator/accounts/{account}/delete", post(account::delete_account))
}

/// Shows accounts and vendors, or redirects to the account found by a search.
pub(crate) async fn show_operator(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Query(search): Query<OperatorQuery>,
) -> Result<Response, Response> {
    let admin = pages.operators.admin_for(&user.signed_in).map_err(|error| user.failure_response(error))?;
    if !search.account.trim().is_empty() {
        let found = admin
            .find_account(search.account.trim())
            .await
            .map_err(|error| admin_error_response(&user, error))?;
        return Ok(Redirect::to(&paths::operator_account(found.id)).into_response());
    }
    let texts = user.visitor.texts;
    let frame = PageFrame::load(&pages.conversations, &user, None).await?;
    let listed = admin.list_accounts().await.map_err(|error| admin_error_response(&user, error))?;
    let machines = admin.list_machines().await.map_err(|error| admin_error_response(&user, error))?;
    let machine = |account| machines.iter().find(|machine| machine.account == account);
    let total = texts.number_text(listed.len() as u64);
    let accounts = listed.into_iter().take(LISTED_MAX).map(|(account, credits)| AccountRow {
        href: paths::operator_account(account.id),
        email: account.email,
        is_operator: account.role == domain::account::AccountRole::Operator,
        licence: account.licence.until.map(|until| ShownTime::last_day(texts, until)),
        available: texts.number_text(credits.available.0),
        conversations: texts.number_text(account.conversations),
        machine: machine(account.id)
            .and_then(|machine| machine.status)
            .map(|status| state_in_words(texts, status)),
    });
    let accounts = accounts.collect();
    let vendors =
        pages.operators.vendors_health(&user.signed_in).map_err(|error| user.failure_response(error))?;
    let vendors = vendors.into_iter().map(|vendor| VendorRow {
        name: vendor.provider.as_str(),
        address: vendor.base_url,
        is_up: vendor.up == Some(true),
        since: vendor.since.map(|since| ShownTime::from_time(texts, since)),
        models: vendor.models,
        cause: vendor.detail,
    });
    Ok(error::render_template(&OperatorPage { frame, accounts, total, vendors: vendors.collect() }))
}

/// Creates the response to an operation that failed.
fn admin_error_response(user: &SignedInVisitor, error: AdminError) -> Response {
    user.failure_response(match error {
        AdminError::NoSuchAccount(_) => UseCaseError::new(PublicCode::NotFound, error),
        AdminError::Password(PasswordError::Busy) => UseCaseError::new(PublicCode::Unavailable, error),
        AdminError::NotAnAmount | AdminError::Past | AdminError::Machine(_) => {
            UseCaseError::new(PublicCode::BadRequest, error)
        }
        error => UseCaseError::internal(error),
    })
}
