//! The page of the settings in force, with their origins.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::OperatorPages;
use crate::error;
use crate::frame::Frame;
use crate::visit::User;

/// A setting of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingInForce {
    /// The key.
    pub key: String,
    /// The value as in the configuration file; `None` if unset. Never a secret.
    pub value: Option<String>,
    /// The origin: an argument, a variable, a line of the file; `None` for the default.
    pub origin: Option<String>,
}

#[derive(Template)]
#[template(path = "operator_settings.html")]
struct SettingsPage {
    frame: Frame,
    /// The settings that somebody has set.
    set: Vec<SettingInForce>,
    /// The defaults.
    defaults: Vec<SettingInForce>,
}

/// Shows the settings.
pub(crate) async fn show(State(pages): State<OperatorPages>, user: User) -> Result<Response, Response> {
    pages.operators.admin(&user.signed_in).map_err(|error| user.failed(error))?;
    let frame = Frame::load(&pages.conversations, &user, None).await?;
    let (set, defaults) = pages.settings.iter().cloned().partition(|setting| setting.origin.is_some());
    Ok(error::rendered(&SettingsPage { frame, set, defaults }))
}
