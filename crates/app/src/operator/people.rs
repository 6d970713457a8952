//! Accounts that operators create, and the passwords and roles of their owners.
//!
//! An operator's own password and role cannot be changed here, because an attacker with a stolen session does
//! not know the password.

use axum::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use control::admin::AdminError;
use control::passwords::Password;
use domain::account::AccountRole;
use domain::credits::Credits;
use serde::Deserialize;

use super::account::{admin_and_account, end_of_day, refusal_page};
use super::{OperatorPages, admin_error_response};
use crate::visit::SignedInVisitor;
use crate::{error, paths};

/// The form of a new account.
#[derive(Deserialize)]
pub(crate) struct NewAccountForm {
    #[serde(default)]
    email: String,
    /// The last day of the licence.
    #[serde(default)]
    until: String,
    #[serde(default)]
    credits: String,
    #[serde(default)]
    password: String,
}

/// The form of a password.
#[derive(Deserialize)]
pub(crate) struct OperatorPasswordForm {
    #[serde(default)]
    password: String,
}

/// The form of a role.
#[derive(Deserialize)]
pub(crate) struct RoleForm {
    #[serde(default)]
    role: String,
}

/// Creates an account with a machine, and shows it.
pub(crate) async fn create_account(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Form(form): Form<NewAccountForm>,
) -> Result<Response, Response> {
    let admin = pages.operators.admin_for(&user.signed_in).map_err(|error| user.failure_response(error))?;
    let until = end_of_day(&form.until).ok_or_else(|| refusal_page(&user, "operator-bad-day"))?;
    let credits = match form.credits.trim() {
        "" => Credits(0),
        text => Credits(text.parse().map_err(|_| refusal_page(&user, "operator-bad-amount"))?),
    };
    let password = match form.password.as_str() {
        "" => None,
        text => Some(password_of(&user, text)?),
    };
    match admin.create_account(&form.email, Some(until), credits, password, true).await {
        Ok(account) => Ok(Redirect::to(&paths::operator_account(account.id)).into_response()),
        Err(AdminError::NotAnEmail(_)) => Err(refusal_page(&user, "welcome-bad-email")),
        Err(AdminError::EmailTaken) => {
            let texts = user.visitor.texts;
            Err(error::error_page(texts, StatusCode::CONFLICT, &texts.get("operator-email-taken")))
        }
        Err(error) => Err(admin_error_response(&user, error)),
    }
}

/// Replaces the password of an account's owner, whose sessions end.
pub(crate) async fn set_password(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Path(account): Path<String>,
    Form(form): Form<OperatorPasswordForm>,
) -> Result<Response, Response> {
    let (admin, id) = admin_and_account(&pages, &user, &account)?;
    if id == user.signed_in.principal.account() {
        return Err(refusal_page(&user, "operator-not-own"));
    }
    let password = password_of(&user, &form.password)?;
    admin.set_password(&account, password).await.map_err(|error| admin_error_response(&user, error))?;
    Ok(Redirect::to(&paths::operator_account(id)).into_response())
}

/// Makes an account's owner an operator, or takes the role away.
pub(crate) async fn set_role(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Path(account): Path<String>,
    Form(form): Form<RoleForm>,
) -> Result<Response, Response> {
    let (admin, id) = admin_and_account(&pages, &user, &account)?;
    let role = AccountRole::parse(&form.role).filter(|_| id != user.signed_in.principal.account());
    let role = role.ok_or_else(|| refusal_page(&user, "operator-not-own"))?;
    admin.set_role(&account, role).await.map_err(|error| admin_error_response(&user, error))?;
    Ok(Redirect::to(&paths::operator_account(id)).into_response())
}

#[expect(clippy::result_large_err, reason = "every failure becomes a response at once")]
fn password_of(user: &SignedInVisitor, text: &str) -> Result<Password, Response> {
    Password::parse(text).map_err(|_| refusal_page(user, "welcome-bad-password"))
}
