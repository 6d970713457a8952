//! The page of plugins: their parts and problems.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::OperatorPages;
use crate::error;
use crate::frame::PageFrame;
use crate::visit::SignedInVisitor;

struct PluginRow {
    name: String,
    skills: usize,
    agents: usize,
    servers: usize,
}

/// A problem in a plugin.
struct NoticeRow {
    place: String,
    text: String,
    /// True if it caused something to be skipped.
    is_skipped: bool,
}

#[derive(Template)]
#[template(path = "operator_plugins.html")]
struct PluginsPage {
    frame: PageFrame,
    plugins: Vec<PluginRow>,
    notices: Vec<NoticeRow>,
    left_out: Option<String>,
}

pub(crate) async fn show_plugins(
    State(pages): State<OperatorPages>,
    user: SignedInVisitor,
) -> Result<Response, Response> {
    let overview =
        pages.operators.plugin_overview(&user.signed_in).map_err(|error| user.failure_response(error))?;
    let texts = user.visitor.texts;
    let plugins = overview.plugins.into_iter().map(|(name, parts)| PluginRow {
        name,
        skills: parts.skills,
        agents: parts.agents,
        servers: parts.servers,
    });
    let notices = overview.notices.into_iter().map(|notice| NoticeRow {
        place: match notice.line {
            Some(line) => format!("{}:{line}", notice.file),
            None => notice.file,
        },
        text: notice.text,
        is_skipped: notice.skipped,
    });
    let left_out = u64::try_from(overview.notices_left_out).unwrap_or(u64::MAX);
    Ok(error::render_template(&PluginsPage {
        frame: PageFrame::load(&pages.conversations, &user, None).await?,
        plugins: plugins.collect(),
        notices: notices.collect(),
        left_out: (left_out > 0).then(|| texts.with("operator-more-notices", "count", left_out)),
    }))
}
