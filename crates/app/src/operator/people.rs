//! Accounts that operators create, and the passwords and roles of their owners.
//!
//! An operator's own password and role are not changed here: whoever has taken over a session does not know the password.

use axum::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use control::admin::AdminError;
use control::passwords::Password;
use domain::account::Role;
use domain::credits::Credits;
use serde::Deserialize;

use super::account::{end_of_day, operation, refused};
use super::{OperatorPages, failed};
use crate::visit::User;
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
pub(crate) struct PasswordForm {
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
pub(crate) async fn create(
    State(pages): State<OperatorPages>,
    user: User,
    Form(form): Form<NewAccountForm>,
) -> Result<Response, Response> {
    let admin = pages.operators.admin(&user.signed_in).map_err(|error| user.failed(error))?;
    let until = end_of_day(&form.until).ok_or_else(|| refused(&user, "operator-bad-day"))?;
    let credits = match form.credits.trim() {
        "" => Credits(0),
        text => Credits(text.parse().map_err(|_| refused(&user, "operator-bad-amount"))?),
    };
    let password = match form.password.as_str() {
        "" => None,
        text => Some(password_of(&user, text)?),
    };
    match admin.create_account(&form.email, Some(until), credits, password, true).await {
        Ok(account) => Ok(Redirect::to(&paths::operator_account(account.id)).into_response()),
        Err(AdminError::NotAnEmail(_)) => Err(refused(&user, "welcome-bad-email")),
        Err(AdminError::EmailTaken) => {
            let texts = user.visitor.texts;
            Err(error::page(texts, StatusCode::CONFLICT, &texts.get("operator-email-taken")))
        }
        Err(error) => Err(failed(&user, error)),
    }
}

/// Replaces the password of an account's owner, whose sessions end.
pub(crate) async fn set_password(
    State(pages): State<OperatorPages>,
    user: User,
    Path(account): Path<String>,
    Form(form): Form<PasswordForm>,
) -> Result<Response, Response> {
    let (admin, id) = operation(&pages, &user, &account)?;
    if id == user.signed_in.principal.account() {
        return Err(refused(&user, "operator-not-own"));
    }
    let password = password_of(&user, &form.password)?;
    admin.set_password(&account, password).await.map_err(|error| failed(&user, error))?;
    Ok(Redirect::to(&paths::operator_account(id)).into_response())
}

/// Makes an account's owner an operator, or takes the role away.
pub(crate) async fn set_role(
    State(pages): State<OperatorPages>,
    user: User,
    Path(account): Path<String>,
    Form(form): Form<RoleForm>,
) -> Result<Response, Response> {
    let (admin, id) = operation(&pages, &user, &account)?;
    let role = Role::parse(&form.role).filter(|_| id != user.signed_in.principal.account());
    let role = role.ok_or_else(|| refused(&user, "operator-not-own"))?;
    admin.set_role(&account, role).await.map_err(|error| failed(&user, error))?;
    Ok(Redirect::to(&paths::operator_account(id)).into_response())
}

#[expect(clippy::result_large_err, reason = "every failure becomes a response at once")]
fn password_of(user: &User, text: &str) -> Result<Password, Response> {
    Password::parse(text).map_err(|_| refused(user, "welcome-bad-password"))
}
