//! The surroundings of every page of a signed-in user: conversations, sections, languages.

use axum::response::Response;
use control::Conversations;
use domain::account::AccountRole;
use domain::id::ConversationId;

use crate::assets::Addresses;
use crate::language::PageLanguage;
use crate::paths;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The conversations that are listed beside a page. The history has all.
const LISTED_MAX: u32 = 40;

/// The surroundings of a page.
pub(crate) struct PageFrame {
    pub(crate) texts: Texts,
    pub(crate) assets: &'static Addresses,
    pub(crate) email: String,
    pub(crate) is_operator: bool,
    /// True if the account has a valid licence. Without it, the user cannot ask questions or add files.
    pub(crate) is_licensed: bool,
    /// The path of the page.
    path: String,
    /// The path and query of the page, to which the choice of a language returns.
    pub(crate) page: String,
    pub(crate) conversations: Vec<ConversationEntry>,
}

/// A conversation in the list.
pub(crate) struct ConversationEntry {
    pub(crate) href: String,
    pub(crate) title: String,
    pub(crate) is_current: bool,
    pub(crate) is_pinned: bool,
    pub(crate) is_open: bool,
}

impl PageFrame {
    /// Loads the surroundings of a page, which may be that of a conversation.
    pub(crate) async fn load(
        conversations: &Conversations,
        user: &SignedInVisitor,
        current: Option<ConversationId>,
    ) -> Result<Self, Response> {
        let listed = conversations.list_conversations(&user.signed_in.principal, 0, LISTED_MAX).await;
        let page = listed.map_err(|error| user.failure_response(error))?;
        let entries = page.conversations.into_iter().map(|summary| ConversationEntry {
            href: paths::conversation_path(summary.id),
            title: summary.title,
            is_current: Some(summary.id) == current,
            is_pinned: summary.pinned,
            is_open: summary.open_answer.is_some(),
        });
        // A refused change is shown at the path of its form, which is not a page.
        let path =
            current.map_or_else(|| paths::page_of(&user.visitor.path).to_owned(), paths::conversation_path);
        let is_of_page = path == user.visitor.path;
        Ok(Self {
            texts: user.visitor.texts,
            assets: user.visitor.assets,
            email: user.signed_in.email.clone(),
            is_operator: user.signed_in.role == AccountRole::Operator,
            is_licensed: user.signed_in.principal.is_licensed(),
            page: if is_of_page { user.visitor.page.clone() } else { path.clone() },
            path,
            conversations: entries.collect(),
        })
    }

    pub(crate) fn t(&self, key: &str) -> String {
        self.texts.get(key)
    }

    /// Returns true if the page is at this path.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        self.path == path
    }

    /// Returns true if the page is at this path or below it.
    pub(crate) fn is_within(&self, path: &str) -> bool {
        self.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the languages, and which one is chosen.
    pub(crate) fn languages(&self) -> [(PageLanguage, bool); 3] {
        language_choices(self.texts)
    }
}

/// Returns the languages, and which one is chosen.
pub(crate) fn language_choices(texts: Texts) -> [(PageLanguage, bool); 3] {
    PageLanguage::ALL.map(|language| (language, language == texts.0))
}
