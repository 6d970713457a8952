//! The addresses of resources: `causerie://files/{+path}` and `causerie://conversations/{id}`.

use std::fmt::Write as _;

use domain::id::ConversationId;
use workspace::AskedPath;

/// Before the path of a file.
const FILES: &str = "causerie://files/";
/// Before the id of a conversation.
const CONVERSATIONS: &str = "causerie://conversations/";

/// The templates of the addresses (RFC 6570).
pub(crate) const FILE_TEMPLATE: &str = "causerie://files/{+path}";
pub(crate) const CONVERSATION_TEMPLATE: &str = "causerie://conversations/{id}";

/// A resource.
#[derive(Debug, Clone)]
pub(crate) enum ResourceName {
    File(AskedPath),
    Conversation(ConversationId),
}

impl ResourceName {
    /// Parses an address.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        if let Some(path) = uri.strip_prefix(FILES) {
            return Some(Self::File(AskedPath::from_url(path)));
        }
        uri.strip_prefix(CONVERSATIONS)?.parse().ok().map(Self::Conversation)
    }
}

/// Returns the address of a file.
pub(crate) fn file_uri(path: &str) -> String {
    let mut uri = FILES.to_owned();
    for byte in path.trim_start_matches('/').bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// Returns the address of a conversation.
pub(crate) fn conversation_uri(conversation: ConversationId) -> String {
    format!("{CONVERSATIONS}{conversation}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_back() {
        let uri = file_uri("/uploads/nájem 100%.txt");
        assert_eq!(uri, "causerie://files/uploads/n%C3%A1jem%20100%25.txt");
        let Some(ResourceName::File(path)) = ResourceName::parse(&uri) else { panic!("a file") };
        assert_eq!(path.meant_path().expect("a path").to_string(), "/uploads/nájem 100%.txt");
        let id = ConversationId::from_random(7);
        let parsed = ResourceName::parse(&conversation_uri(id));
        assert!(matches!(parsed, Some(ResourceName::Conversation(parsed)) if parsed == id));
        for wrong in ["causerie://conversations/x", "causerie://other/1", "file:///etc/passwd", ""] {
            assert!(ResourceName::parse(wrong).is_none(), "{wrong}");
        }
    }
}
