//! The page of the settings in force, with their origins.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::OperatorPages;
use crate::error;
use crate::frame::PageFrame;
use crate::visit::SignedInVisitor;

/// A setting of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingInForce {
    pub key: String,
    /// The value as in the configuration file; `None` if unset. Never a secret.
    pub value: Option<String>,
    /// The origin: an argument, a variable, a line of the file; `None` for the default.
    pub origin: Option<String>,
}

#[derive(Template)]
#[template(path = "operator_settings.html")]
struct SettingsPage {
    frame: PageFrame,
    /// The settings that somebody has set.
    set: Vec<SettingInForce>,
    defaults: Vec<SettingInForce>,
}

pub(crate) async fn show_settings(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
) -> Result<Response, Response> {
    pages.operators.admin_for(&user.signed_in).map_err(|error| user.failure_response(error))?;
    let frame = PageFrame::load(&pages.conversations, &user, None).await?;
    let (set, defaults) = pages.settings.iter().cloned().partition(|setting| setting.origin.is_some());
    Ok(error::render_template(&SettingsPage { frame, set, defaults }))
}
