//! The page of the audit log, newest first.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use domain::account::AccountRole;
use domain::audit::AuditAction;
use serde::Deserialize;

use super::{OperatorPages, admin_error_response};
use crate::error;
use crate::frame::PageFrame;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The entries of a page.
const PAGE: u32 = 100;

/// An entry of the log.
struct EntryRow {
    at: ShownTime,
    actor: String,
    action: String,
    subject: String,
    detail: String,
}

#[derive(Template)]
#[template(path = "operator_audit.html")]
struct AuditPage {
    frame: PageFrame,
    entries: Vec<EntryRow>,
    /// The entry before which the next page begins.
    next: Option<i64>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct AuditQuery {
    before: Option<i64>,
}

/// Shows a page of the log.
pub(crate) async fn show_audit_log(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
    Query(position): Query<AuditQuery>,
) -> Result<Response, Response> {
    let admin = pages.operators.admin_for(&user.signed_in).map_err(|error| user.failure_response(error))?;
    let frame = PageFrame::load(&pages.conversations, &user, None).await?;
    let listed = admin
        .list_audit_entries(None, None, position.before, PAGE)
        .await
        .map_err(|error| admin_error_response(&user, error))?;
    let next = listed.last().filter(|_| listed.len() == PAGE as usize).map(|(number, _)| *number);
    let entries = listed.into_iter().map(|(_, entry)| EntryRow {
        at: ShownTime::from_time(user.visitor.texts, entry.at),
        actor: actor_text(user.visitor.texts, entry.actor),
        action: action_text(user.visitor.texts, &entry.action),
        subject: entry.subject,
        detail: detail_text(user.visitor.texts, &entry.action, entry.detail),
    });
    Ok(error::render_template(&AuditPage { frame, entries: entries.collect(), next }))
}

/// Returns the text of an action. An unknown action, recorded by another release, is shown by its name.
fn action_text(texts: Texts, name: &str) -> String {
    AuditAction::parse(name).map_or_else(|| name.to_owned(), |action| texts.get(&action_key(action)))
}

/// Returns the text of an actor: the user of the command line, a key, or an email as it is.
fn actor_text(texts: Texts, actor: String) -> String {
    if let Some(uid) = actor.strip_prefix("operator uid ") {
        return texts.with("audited-command-line", "uid", uid);
    }
    match actor.strip_prefix("key ") {
        Some(key) => texts.with("audited-key", "key", key),
        None => actor,
    }
}

/// Returns the text of details that have a known form; others are shown as they are recorded.
fn detail_text(texts: Texts, action: &str, detail: String) -> String {
    let credits = |amount: &str| {
        let amount = amount.parse().ok().map(|amount| texts.number_text(amount))?;
        Some(texts.with("credits-amount", "amount", amount))
    };
    let text = match (AuditAction::parse(action), detail.as_str()) {
        (Some(AuditAction::SignIn), "password") => Some(texts.get("audited-by-password")),
        (Some(AuditAction::SignIn), "identity provider") => Some(texts.get("audited-by-provider")),
        (Some(AuditAction::SetRole), role) if role == AccountRole::Operator.as_str() => {
            Some(texts.get("operator"))
        }
        (Some(AuditAction::SetRole), role) if role == AccountRole::Owner.as_str() => {
            Some(texts.get("operator-owner"))
        }
        (Some(AuditAction::CreateAccount), created) => created.strip_prefix("credits ").and_then(credits),
        (Some(AuditAction::GrantCredits), granted) => credits(granted),
        _ => None,
    };
    text.unwrap_or(detail)
}

/// Returns the key of an action's text, which follows from its name.
pub(crate) fn action_key(action: AuditAction) -> String {
    format!("audit-{}", action.as_str().replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::PageLanguage;

    #[test]
    fn audit_entries_are_shown_in_language() {
        let texts = Texts(PageLanguage::Czech);
        for (action, recorded, shown) in [
            (AuditAction::SignIn, "password", "Heslo"),
            (AuditAction::SignIn, "identity provider", "Poskytovatel identity"),
            (AuditAction::SetRole, "operator", "Správce"),
            (AuditAction::SetRole, "owner", "Vlastník"),
            (AuditAction::CreateAccount, "credits 100000", "kredity: 100\u{a0}000"),
            (AuditAction::GrantCredits, "5000", "kredity: 5\u{a0}000"),
            (AuditAction::CreateKey, "password", "password"),
            (AuditAction::CreateAccount, "credits many", "credits many"),
        ] {
            assert_eq!(detail_text(texts, action.as_str(), recorded.to_owned()), shown);
        }
        for (recorded, shown) in [
            ("operator uid 0", "příkazový řádek, uid 0"),
            ("key 01", "klíč 01"),
            ("jana@example.org", "jana@example.org"),
        ] {
            assert_eq!(actor_text(texts, recorded.to_owned()), shown);
        }
    }
}
