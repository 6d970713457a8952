//! The items of stored conversations: a question is a message, an answer has the items of its response.

use control::conversations::{StoredMessage, StoredQuestion};
use control::{Conversations, Principal};
use domain::answer::Answer;
use domain::id::ConversationId;
use serde_json::{Value, json};

use crate::error::{OpenAiError, OpenAiResult};
use crate::paging::{PageQuery, list_body, no_such_entry};
use crate::response_items::ResponseItems;
use crate::response_wire::ResponseId;
use crate::sent_files::encode_file_id;

/// The number of exchanges that are read together.
const EXCHANGES_TOGETHER: u32 = 8;
/// The maximum number of exchanges that are looked through for one page.
const EXCHANGES_MAX: u32 = 4_000;

/// Returns the item of a question.
pub(crate) fn question_item(id: ResponseId, text: &str, attachments: &[String]) -> Value {
    let mut content = vec![json!({"type": "input_text", "text": text})];
    content.extend(attachments.iter().map(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        json!({"type": "input_file", "file_id": encode_file_id(path), "filename": name})
    }));
    json!({"id": id.question_id(), "type": "message", "role": "user", "status": "completed", "content": content})
}

/// Returns the items of an answer.
pub(crate) fn answer_items(id: ResponseId, answer: &Answer, origin: &str) -> Vec<Value> {
    let mut items = ResponseItems::new(id, origin.to_owned());
    items.read_state(answer);
    items.output(answer)
}

/// Reads the items of a conversation's shown branch.
pub(crate) struct ItemReader<'a> {
    pub(crate) conversations: &'a Conversations,
    pub(crate) principal: &'a Principal,
    pub(crate) conversation: ConversationId,
    /// The beginning of links to files: `https://host`.
    pub(crate) origin: &'a str,
}

impl ItemReader<'_> {
    /// Returns a page of the items.
    ///
    /// # Errors
    /// [`OpenAiError`].
    pub(crate) async fn read_page(&self, page: &PageQuery) -> OpenAiResult<Value> {
        let exchanges = self.conversations.shown_branch(self.principal, self.conversation).await?.exchanges;
        let (mut found, mut is_skipping) = (Vec::new(), page.after.is_some());
        let mut read = 0;
        while read < exchanges.min(EXCHANGES_MAX) && found.len() <= page.limit {
            let together = EXCHANGES_TOGETHER.min(exchanges - read);
            let from = if page.is_ascending { read } else { exchanges - read - together };
            let mut items = self.read_exchanges(from, from + together).await?;
            if !page.is_ascending {
                items.reverse();
            }
            if is_skipping {
                let known = items.iter().position(|item| item["id"].as_str() == page.after.as_deref());
                if let Some(at) = known {
                    is_skipping = false;
                    found.extend(items.into_iter().skip(at + 1));
                }
            } else {
                found.extend(items);
            }
            read += together;
        }
        if is_skipping {
            return Err(no_such_entry(page.after.as_deref().unwrap_or_default()));
        }
        let has_more = found.len() > page.limit || read < exchanges;
        found.truncate(page.limit);
        Ok(list_body(found, has_more))
    }

    /// Returns the items of the exchanges from this position to before the other.
    async fn read_exchanges(&self, mut from: u32, until: u32) -> OpenAiResult<Vec<Value>> {
        let mut items = Vec::new();
        while from < until {
            let (_, page) =
                self.conversations.shown_messages(self.principal, self.conversation, from).await?;
            let before = from;
            let mut asked: Option<StoredQuestion> = None;
            for message in page.messages {
                match message {
                    StoredMessage::Question(question) => asked = Some(question),
                    StoredMessage::Answer(stored) if stored.ordinal < until => {
                        let id = ResponseId { conversation: self.conversation, answer: stored.id };
                        if let Some(question) = asked.take() {
                            items.push(question_item(id, &question.text, &question.attachments));
                        }
                        items.extend(answer_items(id, &stored.answer, self.origin));
                        from = stored.ordinal + 1;
                    }
                    StoredMessage::Answer(_) => break,
                }
            }
            if from == before {
                // The branch has become shorter.
                break;
            }
        }
        Ok(items)
    }
}

/// Creates the error for an item that does not exist.
pub(crate) fn no_such_item(id: &str) -> OpenAiError {
    OpenAiError::not_found("item", id)
}
