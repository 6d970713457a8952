//! The paths that pages redirect and lead to. The table of routes in `lib.rs` has the others.

use domain::id::{AccountId, ConversationId, MessageId};

pub(crate) const HOME: &str = "/";
pub(crate) const SIGN_IN: &str = "/sign-in";
/// Redirects to the identity provider.
pub(crate) const SIGN_IN_ELSEWHERE: &str = "/sign-in/provider";
pub(crate) const SIGN_OUT: &str = "/sign-out";
pub(crate) const LANGUAGE: &str = "/language";
pub(crate) const ASK: &str = "/ask";
pub(crate) const HISTORY: &str = "/history";
/// The home folder, and the prefix of files; the rest is the path in the workspace.
pub(crate) const FILES: &str = "/files";
/// Changes of files have separate paths, because files may have any name.
pub(crate) const UPLOAD: &str = "/workspace/upload";
pub(crate) const NEW_FOLDER: &str = "/workspace/folder";
pub(crate) const DELETE_FILE: &str = "/workspace/delete";
/// The page on which chosen files are renamed, moved or deleted, and its forms.
pub(crate) const CHOSEN_FILES: &str = "/workspace/chosen";
pub(crate) const RENAME_FILE: &str = "/workspace/rename";
pub(crate) const MOVE_FILES: &str = "/workspace/move";
pub(crate) const DELETE_FILES: &str = "/workspace/delete-chosen";
pub(crate) const KEYS: &str = "/keys";
pub(crate) const MACHINE: &str = "/machine";
pub(crate) const START_MACHINE: &str = "/machine/start";
pub(crate) const STOP_MACHINE: &str = "/machine/stop";
pub(crate) const ACCOUNT: &str = "/account";
pub(crate) const CHANGE_EMAIL: &str = "/account/email";
pub(crate) const CHANGE_PASSWORD: &str = "/account/password";
pub(crate) const SIGN_OUT_EVERYWHERE: &str = "/account/sign-out-everywhere";
pub(crate) const DELETE_ACCOUNT: &str = "/account/delete";
pub(crate) const OPERATOR: &str = "/operator";
pub(crate) const OPERATOR_ACCOUNTS: &str = "/operator/accounts";
/// The prefix of the style sheet, the script and the icon.
pub(crate) const ASSETS: &str = "/assets/";
pub(crate) const STYLE: &str = "/assets/app.css";
pub(crate) const SCRIPT: &str = "/assets/app.js";
pub(crate) const ICON: &str = "/assets/icon.svg";

/// Returns the page of a conversation.
pub(crate) fn conversation_path(id: ConversationId) -> String {
    format!("/c/{id}")
}

/// Returns the operators' page of an account.
pub(crate) fn operator_account(id: AccountId) -> String {
    format!("/operator/accounts/{id}")
}

/// Returns the event stream of an answer.
pub(crate) fn events_path(conversation: ConversationId, answer: MessageId) -> String {
    format!("/c/{conversation}/{answer}/events")
}

/// Returns the prefix of the cards of an answer's citations; their number follows.
pub(crate) fn cards_path(conversation: ConversationId, answer: MessageId) -> String {
    format!("/c/{conversation}/{answer}/sources/")
}

/// The longest address to return to, in bytes.
const RETURN_MAX_BYTES: usize = 2048;

/// Returns the path and query if they lead to a page of this application, so that signing in never redirects to
/// another site.
pub(crate) fn own_address(address: &str) -> Option<&str> {
    // These characters are also allowed in a cookie.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~%?=&+:!$()*@".contains(&byte);
    let own = address.starts_with('/') && !address.starts_with("//") && address.bytes().all(plain);
    let is_sign_in = address.split('?').next() == Some(SIGN_IN);
    (own && !is_sign_in && address.len() <= RETURN_MAX_BYTES).then_some(address)
}

/// Returns the address of a page that reports the completed change and leads on to `next`, an [`own_address`].
pub(crate) fn with_next(path: &str, next: Option<&str>, done: Option<&str>) -> String {
    let next = next.map(|next| next.replace('%', "%25").replace('&', "%26").replace('+', "%2B"));
    match (next, done) {
        (None, None) => path.to_owned(),
        (Some(next), None) => format!("{path}?next={next}"),
        (None, Some(done)) => format!("{path}?done={done}"),
        (Some(next), Some(done)) => format!("{path}?next={next}&done={done}"),
    }
}

/// The change that redirects to the page for signing in if the session has ended.
pub(crate) const SESSION_ENDED: &str = "ended";

/// Returns the page of a form, by the path of the form; the path itself if it is already a page.
pub(crate) fn page_of(path: &str) -> &str {
    /// The prefixes of pages whose forms are below them, after an identifier.
    const WITH_IDENTIFIER: [&str; 2] = ["/c/", "/operator/accounts/"];
    if let Some(prefix) = WITH_IDENTIFIER.into_iter().find(|prefix| path.starts_with(prefix)) {
        let rest = &path[prefix.len()..];
        return &path[..prefix.len() + rest.find('/').unwrap_or(rest.len())];
    }
    match path {
        ASK | SIGN_OUT | LANGUAGE => HOME,
        NEW_FOLDER | DELETE_FILE | UPLOAD | CHOSEN_FILES | RENAME_FILE | MOVE_FILES | DELETE_FILES => FILES,
        CHANGE_EMAIL | CHANGE_PASSWORD | DELETE_ACCOUNT | SIGN_OUT_EVERYWHERE => ACCOUNT,
        START_MACHINE | STOP_MACHINE => MACHINE,
        OPERATOR_ACCOUNTS => OPERATOR,
        _ if path.starts_with("/account/sessions/") => ACCOUNT,
        _ if path.starts_with("/keys/") => KEYS,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_pages_are_returned_to() {
        for path in [
            "/",
            "/keys",
            "/c/0190c8a0-0000-7000-8000-000000000000",
            "/files/uploads/a%20%C3%A1.pdf?view&page=3",
            "/history?q=rent+2",
        ] {
            assert_eq!(own_address(path), Some(path));
        }
        for path in [
            "",
            "keys",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a;b",
            "/a\r\nb",
            SIGN_IN,
            "/sign-in?next=/keys",
            &"/a".repeat(2000),
        ] {
            assert_eq!(own_address(path), None, "{path}");
        }
    }

    #[test]
    fn sign_in_returns_to_page() {
        assert_eq!(with_next(SIGN_IN, None, None), "/sign-in");
        let next = with_next(SIGN_IN, Some("/files/a%20b?view&page=2"), None);
        assert_eq!(next, "/sign-in?next=/files/a%2520b?view%26page=2");
        let next = with_next(SIGN_IN, Some(page_of("/c/0190c8a0/ask")), Some(SESSION_ENDED));
        assert_eq!(next, "/sign-in?next=/c/0190c8a0&done=ended");
        for (form, page) in [
            (ASK, HOME),
            (NEW_FOLDER, FILES),
            (DELETE_ACCOUNT, ACCOUNT),
            ("/c/0190c8a0", "/c/0190c8a0"),
            ("/operator/accounts/0190c8a0/machine/start", "/operator/accounts/0190c8a0"),
            (OPERATOR_ACCOUNTS, OPERATOR),
            ("/keys/0190c8a0/revoke", KEYS),
            ("/files/ask", "/files/ask"),
        ] {
            assert_eq!(page_of(form), page, "{form}");
        }
    }
}
