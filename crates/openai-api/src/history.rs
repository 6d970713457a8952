//! Histories: the exchanges that a client sends with each question, and the hashes that find their conversation.
//!
//! Clients send answers back as they got them, but change white space, and repeat thoughts inside the text. So a hash is
//! made of normalized texts. It covers the questions and the answers, and another one covers the questions alone, because
//! a client may have got a part of an answer only, or let its user edit one.

use domain::limits::QUESTION_MAX_BYTES;
use sha2::{Digest, Sha256};

use crate::error::{OpenAiError, OpenAiResult};
use crate::messages::{Message, MessageRole, SentFile};

/// The longest texts of a history together, in bytes.
pub(crate) const HISTORY_MAX_BYTES: usize = 16 << 20;
/// The longest instructions, in bytes.
pub(crate) const INSTRUCTIONS_MAX_BYTES: usize = 256 << 10;
/// The text of a question that consists of files.
const FILES_ALONE: &str = "Read the attached files.";
/// The text in place of a question before an answer that none precedes.
const NO_QUESTION: &str = "(no question)";
/// Enclosures in which clients send thoughts back: their beginning, the end of their tag, and their end.
const THOUGHTS: [(&str, &str, &str); 2] =
    [("<think>", "", "</think>"), ("<details type=\"reasoning\"", ">", "</details>")];

/// A hash of a history.
pub(crate) type HistoryHash = [u8; 32];

/// An earlier exchange of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlierExchange {
    pub(crate) question: String,
    pub(crate) answer: String,
    /// The hash of the questions up to this one.
    pub(crate) users_hash: HistoryHash,
    /// The hash of the questions and answers up to this answer.
    pub(crate) after_hash: HistoryHash,
}

/// The messages of a request as exchanges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    /// The texts of the system and of the developer.
    pub(crate) instructions: Option<String>,
    pub(crate) earlier: Vec<EarlierExchange>,
    pub(crate) question: String,
    /// The files of the question.
    pub(crate) files: Vec<SentFile>,
    /// The hash of the questions up to the last one.
    pub(crate) users_hash: HistoryHash,
    /// The hash of the whole history.
    pub(crate) asked_hash: HistoryHash,
}

/// Returns the hash of the history with this hash and an answer to its question.
pub(crate) fn hash_after_answer(asked_hash: &HistoryHash, answer: &str) -> HistoryHash {
    extend_hash(asked_hash, b'a', answer)
}

/// The hash of the beginning of each history.
fn hash_of_nothing() -> HistoryHash {
    Sha256::digest(b"history 1").into()
}

fn extend_hash(before: &HistoryHash, role: u8, text: &str) -> HistoryHash {
    let mut hasher = Sha256::new();
    hasher.update(before);
    hasher.update([role]);
    let mut is_first = true;
    for word in without_thoughts(text).split_whitespace() {
        if !std::mem::take(&mut is_first) {
            hasher.update(b" ");
        }
        hasher.update(word);
    }
    hasher.finalize().into()
}

/// Removes thoughts that a client has put into an answer's text.
fn without_thoughts(text: &str) -> String {
    let find_from = |at: usize, word: &str| Some(at + text[at..].find(word)?);
    // Each opening is looked for again only once it is passed, so that no part of the text is searched twice.
    let mut openings = THOUGHTS.map(|(begin, ..)| find_from(0, begin));
    let (mut rest_at, mut out) = (0, String::new());
    loop {
        let found = openings.iter().zip(THOUGHTS).filter_map(|(at, thoughts)| Some(((*at)?, thoughts)));
        let Some((at, (begin, tag_end, end))) = found.min_by_key(|(at, _)| *at) else { break };
        let closing = find_from(at + begin.len(), tag_end).and_then(|tag| find_from(tag, end));
        let Some(closing) = closing else { break };
        out.push_str(&text[rest_at..at]);
        rest_at = closing + end.len();
        for (opening, (begin, ..)) in openings.iter_mut().zip(THOUGHTS) {
            if opening.is_some_and(|at| at < rest_at) {
                *opening = find_from(rest_at, begin);
            }
        }
    }
    out.push_str(&text[rest_at..]);
    out
}

impl History {
    /// Converts the messages of a request.
    ///
    /// # Errors
    /// [`OpenAiError`] if the last message is not the user's, or a bound is exceeded.
    pub(crate) fn from_messages(messages: Vec<Message>) -> OpenAiResult<Self> {
        let mut builder = HistoryBuilder::new();
        for message in messages {
            match message.role {
                MessageRole::System => push_text(&mut builder.instructions, &message.text),
                MessageRole::User | MessageRole::Tool => builder.push_user(message),
                MessageRole::Assistant => builder.push_assistant(&message.text),
            }
        }
        builder.finish()
    }
}

struct HistoryBuilder {
    instructions: String,
    earlier: Vec<EarlierExchange>,
    /// The user's texts since the last answer, if there are any.
    asked: Option<String>,
    files: Vec<SentFile>,
    users: HistoryHash,
    after: HistoryHash,
}

impl HistoryBuilder {
    fn new() -> Self {
        let nothing = hash_of_nothing();
        Self {
            instructions: String::new(),
            earlier: Vec::new(),
            asked: None,
            files: Vec::new(),
            users: nothing,
            after: nothing,
        }
    }

    fn push_user(&mut self, message: Message) {
        push_text(self.asked.get_or_insert_default(), &message.text);
        self.files.extend(message.files);
    }

    fn push_assistant(&mut self, text: &str) {
        self.files.clear();
        match (self.asked.take(), self.earlier.last_mut()) {
            // Consecutive answers are one.
            (None, Some(last)) => {
                push_text(&mut last.answer, text);
                self.after = extend_hash(&self.after, b'a', text);
                last.after_hash = self.after;
            }
            (asked, _) => {
                let question = question_text(asked.unwrap_or_default(), NO_QUESTION);
                self.users = extend_hash(&self.users, b'u', &question);
                self.after = extend_hash(&extend_hash(&self.after, b'u', &question), b'a', text);
                self.earlier.push(EarlierExchange {
                    question,
                    answer: text.to_owned(),
                    users_hash: self.users,
                    after_hash: self.after,
                });
            }
        }
    }

    fn finish(self) -> OpenAiResult<History> {
        let Some(asked) = self.asked else {
            return Err(OpenAiError::invalid_field("messages", "the last message must be the user's"));
        };
        if asked.trim().is_empty() && self.files.is_empty() {
            return Err(OpenAiError::invalid_field("messages", "the last message is empty: send a text"));
        }
        let question = question_text(asked, FILES_ALONE);
        let texts = self.earlier.iter().map(|exchange| exchange.question.len() + exchange.answer.len());
        let total = texts.fold(question.len(), usize::saturating_add);
        let longest = self.earlier.iter().map(|exchange| exchange.question.len()).max().unwrap_or(0);
        if question.len().max(longest) > QUESTION_MAX_BYTES {
            let message = format!("a message is too long: send at most {QUESTION_MAX_BYTES} bytes");
            return Err(OpenAiError::invalid_field("messages", message));
        }
        if total > HISTORY_MAX_BYTES {
            let message = format!("messages are too long together: send at most {HISTORY_MAX_BYTES} bytes");
            return Err(OpenAiError::invalid_field("messages", message));
        }
        if self.instructions.len() > INSTRUCTIONS_MAX_BYTES {
            let message =
                format!("system messages are too long: send at most {INSTRUCTIONS_MAX_BYTES} bytes");
            return Err(OpenAiError::invalid_field("messages", message));
        }
        let users_hash = extend_hash(&self.users, b'u', &question);
        let asked_hash = extend_hash(&self.after, b'u', &question);
        let instructions = Some(self.instructions).filter(|text| !text.trim().is_empty());
        Ok(History {
            instructions,
            earlier: self.earlier,
            question,
            files: self.files,
            users_hash,
            asked_hash,
        })
    }
}

fn question_text(text: String, fallback: &str) -> String {
    if text.trim().is_empty() { fallback.to_owned() } else { text }
}

/// Appends a text as a paragraph.
fn push_text(to: &mut String, text: &str) {
    if !to.is_empty() && !text.is_empty() {
        to.push_str("\n\n");
    }
    to.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: MessageRole, text: &str) -> Message {
        Message { role, text: text.to_owned(), ..Message::default() }
    }

    fn history(messages: &[(MessageRole, &str)]) -> OpenAiResult<History> {
        History::from_messages(messages.iter().map(|(role, text)| message(*role, text)).collect())
    }

    use MessageRole::{Assistant, System, Tool, User};

    #[test]
    fn answer_sent_back_has_recorded_hash() {
        let first = history(&[(System, "Be brief."), (User, "When is the rent due?")]).expect("a history");
        assert_eq!(first.instructions.as_deref(), Some("Be brief."));
        let sent = hash_after_answer(&first.asked_hash, "On the 5th. [1](https://example.org)");
        for back in [
            "On the 5th. [1](https://example.org)",
            " On the 5th.\r\n[1](https://example.org)\n",
            "<think>It says so.</think>On the 5th. [1](https://example.org)",
            "<details type=\"reasoning\" done=\"true\">\n> x\n</details>\nOn the 5th. [1](https://example.org)",
        ] {
            let second = [(User, "When is the rent due?"), (Assistant, back), (User, "How much?")];
            let second = history(&second).expect("a history");
            let exchange = second.earlier.last().expect("an exchange");
            assert_eq!(exchange.after_hash, sent, "{back}");
            assert_eq!(exchange.users_hash, first.users_hash);
        }
    }

    #[test]
    fn edited_texts_change_hashes() {
        let base = history(&[(User, "a"), (Assistant, "b"), (User, "c")]).expect("a history");
        let answer = history(&[(User, "a"), (Assistant, "B"), (User, "c")]).expect("a history");
        let question = history(&[(User, "A"), (Assistant, "b"), (User, "c")]).expect("a history");
        let hashes = |history: &History| (history.earlier[0].after_hash, history.earlier[0].users_hash);
        assert_ne!(hashes(&base).0, hashes(&answer).0);
        assert_eq!(hashes(&base).1, hashes(&answer).1);
        assert_ne!(hashes(&base).1, hashes(&question).1);
    }

    #[test]
    fn messages_form_exchanges() {
        let history = history(&[
            (Assistant, "Hello."),
            (User, "a"),
            (User, "b"),
            (Assistant, "c"),
            (Assistant, "d"),
            (Tool, "result"),
            (User, "e"),
        ])
        .expect("a history");
        let exchanges: Vec<(&str, &str)> =
            history.earlier.iter().map(|one| (one.question.as_str(), one.answer.as_str())).collect();
        assert_eq!(exchanges, [(NO_QUESTION, "Hello."), ("a\n\nb", "c\n\nd")]);
        assert_eq!(history.question, "result\n\ne");
    }

    #[test]
    fn history_without_question_is_refused() {
        for messages in [&[][..], &[(System, "x")], &[(User, "a"), (Assistant, "b")], &[(User, " ")]] {
            assert!(history(messages).is_err(), "{messages:?}");
        }
        let long = "x".repeat(QUESTION_MAX_BYTES + 1);
        assert!(history(&[(User, &long)]).is_err());
        assert!(history(&[(User, &long), (Assistant, "b"), (User, "c")]).is_err());
        let long = "x".repeat(INSTRUCTIONS_MAX_BYTES + 1);
        assert!(history(&[(System, &long), (User, "c")]).is_err());
    }

    #[test]
    fn unclosed_thoughts_stay() {
        assert_eq!(without_thoughts("a <think>b"), "a <think>b");
        assert_eq!(without_thoughts("a<think>b</think>c<think>d</think>"), "ac");
        let details = "<details type=\"reasoning\" done>e</details>";
        assert_eq!(without_thoughts(&format!("a<think>{details}</think>{details}b{details}")), "ab");
    }

    /// A search of the whole rest for each of them would take hours.
    #[test]
    fn many_thoughts_are_removed_at_once() {
        assert_eq!(without_thoughts(&"<think></think>".repeat(1_000_000)), "");
    }
}
