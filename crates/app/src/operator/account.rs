//! The page of an account: its licence, credits and machine, which operators change, and its deletion.

use askama::Template;
use axum::Form;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use control::Admin;
use domain::credits::Credits;
use domain::id::AccountId;
use domain::time::Timestamp;
use serde::Deserialize;

use super::{OperatorPages, admin_error_response};
use crate::frame::PageFrame;
use crate::sent_form::SentForm;
use crate::shown_time::ShownTime;
use crate::visit::SignedInVisitor;
use crate::{error, paths};

/// The machine of an account.
struct MachineRow {
    status: String,
    driver: Option<String>,
    kernel: Option<String>,
    reason: Option<String>,
    is_running: bool,
}

#[derive(Template)]
#[template(path = "operator_account.html")]
struct OperatorAccountPage {
    frame: PageFrame,
    href: String,
    email: String,
    id: String,
    is_operator: bool,
    created: ShownTime,
    licence: Option<ShownTime>,
    available: String,
    reserved: String,
    keys: usize,
    once: String,
    /// True for the operator's own account, which is deleted on its own page.
    is_own: bool,
    machine: Option<MachineRow>,
}

/// The form of a licence.
#[derive(Deserialize)]
pub(crate) struct LicenceForm {
    #[serde(default)]
    until: String,
}

/// The form of a grant.
#[derive(Deserialize)]
pub(crate) struct GrantForm {
    #[serde(default)]
    amount: String,
    /// Identifies the form, so that sending it twice grants only once.
    #[serde(default)]
    once: String,
}

/// The form that deletes an account.
#[derive(Deserialize)]
pub(crate) struct OperatorDeletionForm {
    /// The account's email, to confirm it.
    #[serde(default)]
    email: String,
}

pub(crate) async fn show_operator_account(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Path(account): Path<String>,
) -> Result<Response, Response> {
    let (admin, id) = admin_and_account(&pages, &user, &account)?;
    let failed = |error| admin_error_response(&user, error);
    let texts = user.visitor.texts;
    let shown = admin.find_account(&id.to_string()).await.map_err(failed)?;
    let credits = admin.account_balance(&account).await.map_err(failed)?;
    let keys = admin.list_keys(&account).await.map_err(failed)?.len();
    let machine = match shown.has_machine {
        true => Some(admin.show_machine(&account).await.map_err(failed)?),
        false => None,
    };
    let machine = machine.map(|machine| MachineRow {
        status: crate::machine::state_in_words(texts, machine.status),
        driver: machine.driver.map(|driver| crate::machine::driver_in_words(texts, &driver)),
        // Its text is for a terminal, where backticks stand around the names of settings.
        kernel: machine.kernel.map(|kernel| kernel.replace('`', "")),
        reason: machine.reason.map(|reason| crate::machine::reason_in_words(texts, &reason)),
        is_running: machine.status == domain::machine::MachineStatus::Running,
    });
    Ok(error::render_template(&OperatorAccountPage {
        frame: PageFrame::load(&pages.conversations, &user, None).await?,
        href: paths::operator_account(id),
        email: shown.email,
        id: id.to_string(),
        is_operator: shown.role == domain::account::AccountRole::Operator,
        created: ShownTime::from_day(texts, shown.created_at),
        licence: shown.licence.until.map(|until| ShownTime::last_day(texts, until)),
        available: texts.number_text(credits.available.0),
        reserved: texts.number_text(credits.reserved.0),
        keys,
        once: domain::hex::encode_hex(&pages.environment.random_bytes::<16>()),
        is_own: id == user.signed_in.principal.account(),
        machine,
    }))
}

/// Deletes the account if its email was repeated.
pub(crate) async fn delete_account(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Path(account): Path<String>,
    Form(form): Form<OperatorDeletionForm>,
) -> Result<Response, Response> {
    let (admin, id) = admin_and_account(&pages, &user, &account)?;
    if id == user.signed_in.principal.account() {
        return Err(refusal_page(&user, "operator-delete-own"));
    }
    let shown =
        admin.find_account(&id.to_string()).await.map_err(|error| admin_error_response(&user, error))?;
    if form.email.trim().to_lowercase() != shown.email.to_lowercase() {
        return Err(refusal_page(&user, "operator-delete-other"));
    }
    admin.delete_account(&account).await.map_err(|error| admin_error_response(&user, error))?;
    Ok(Redirect::to(paths::OPERATOR).into_response())
}

/// Sets the last day of the licence.
pub(crate) async fn change_licence(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Path(account): Path<String>,
    Form(form): Form<LicenceForm>,
) -> Result<Response, Response> {
    let (admin, id) = admin_and_account(&pages, &user, &account)?;
    let wrong = || refusal_page(&user, "operator-bad-day");
    let until = end_of_day(&form.until).ok_or_else(wrong)?;
    admin.set_licence(&account, Some(until)).await.map_err(|error| admin_error_response(&user, error))?;
    Ok(Redirect::to(&paths::operator_account(id)).into_response())
}

pub(crate) async fn grant_credits(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Path(account): Path<String>,
    Form(form): Form<GrantForm>,
) -> Result<Response, Response> {
    let (admin, id) = admin_and_account(&pages, &user, &account)?;
    let wrong = |_| refusal_page(&user, "operator-bad-amount");
    let amount = form.amount.trim().parse().map_err(wrong)?;
    // A corrected amount is another grant.
    let token =
        SentForm::from_token(&form.once).map(|sent| sent.with_field("amount", &form.amount).into_token());
    admin
        .grant_credits(&account, Credits(amount), token)
        .await
        .map_err(|error| admin_error_response(&user, error))?;
    Ok(Redirect::to(&paths::operator_account(id)).into_response())
}

/// Starts or stops the machine.
pub(crate) async fn change_machine(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Path((account, change)): Path<(String, String)>,
) -> Result<Response, Response> {
    let (admin, id) = admin_and_account(&pages, &user, &account)?;
    let changed = match &*change {
        "start" => admin.start_machine(&account).await,
        "stop" => admin.stop_machine(&account).await,
        _ => return Err(not_found(&user)),
    };
    changed.map_err(|error| admin_error_response(&user, error))?;
    Ok(Redirect::to(&paths::operator_account(id)).into_response())
}

/// Returns the operations and the account of a path.
#[expect(clippy::result_large_err, reason = "every failure becomes a response at once")]
pub(super) fn admin_and_account(
    pages: &OperatorPages,
    user: &SignedInVisitor,
    account: &str,
) -> Result<(Admin, AccountId), Response> {
    let admin = pages.operators.admin_for(&user.signed_in).map_err(|error| user.failure_response(error))?;
    Ok((admin, account.parse().map_err(|_| not_found(user))?))
}

fn not_found(user: &SignedInVisitor) -> Response {
    user.failure_response(control::UseCaseError::new(control::PublicCode::NotFound, "no such account"))
}

pub(super) fn refusal_page(user: &SignedInVisitor, key: &str) -> Response {
    let texts = user.visitor.texts;
    error::error_page(texts, axum::http::StatusCode::BAD_REQUEST, &texts.get(key))
}

/// Returns the end of a day in UTC, such as that of `2027-12-31`.
pub(super) fn end_of_day(text: &str) -> Option<Timestamp> {
    let day = text.trim().parse::<jiff::civil::Date>().ok()?;
    let end = day.tomorrow().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Timestamp::from_micros(end.timestamp().as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_day_includes_last_day() {
        let end = end_of_day("2026-11-22").map(|end| end.to_string());
        assert_eq!(end.as_deref(), Some("2026-11-23T00:00:00.000Z"));
        for wrong in ["", "none", "2026-13-01", "22. 11. 2026", "9999-12-31"] {
            assert_eq!(end_of_day(wrong), None, "{wrong}");
        }
    }
}
