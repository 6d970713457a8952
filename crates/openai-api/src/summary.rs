//! Summaries of inputs, which clients keep and send back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::messages::{Message, MessageRole};

/// The question in place of what was summarized.
const SUMMARIZED: &str = "(summary of the conversation so far)";

/// Encodes a summary as the content of an item.
pub(crate) fn encode_summary(summary: &str) -> String {
    URL_SAFE_NO_PAD.encode(summary)
}

/// Returns the messages that a summary stands for; `None` if it is not one of this service.
pub(crate) fn summarized_messages(content: &str) -> Option<[Message; 2]> {
    let summary = String::from_utf8(URL_SAFE_NO_PAD.decode(content).ok()?).ok()?;
    let summary = Some(summary).filter(|summary| !summary.trim().is_empty() && !summary.contains('\0'))?;
    let new = |role, text| Message { role, text, ..Message::default() };
    Some([new(MessageRole::User, SUMMARIZED.to_owned()), new(MessageRole::Assistant, summary)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_stands_for_an_exchange() {
        let [asked, answered] = summarized_messages(&encode_summary("The rent is 5.")).expect("messages");
        assert_eq!((asked.role, answered.role), (MessageRole::User, MessageRole::Assistant));
        assert_eq!(answered.text, "The rent is 5.");
        for wrong in ["%", &URL_SAFE_NO_PAD.encode(b"\xff"), &encode_summary("a\0"), ""] {
            assert!(summarized_messages(wrong).is_none(), "{wrong}");
        }
    }
}
