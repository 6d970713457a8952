//! A conversation with all that was said in it (sections 2.9 and 4.4), sent as it is read.

use std::io;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use control::access::Caller;
use control::conversations::{EXCHANGES_PAGE_MAX, Message};
use control::{Answers, Conversations};
use domain::id::{AccountId, ConversationId};
use futures_util::{StreamExt, stream};
use tokio::task::spawn_blocking;

use crate::chats::{conversation_id, json_body};
use crate::error::{Answered, ApiError};
use crate::extract::Named;
use crate::openapi::answer::ChatDetail;
use crate::openapi::parameters::OfChat;
use crate::openapi::refusals;
use crate::wire::{self, Conversation};

/// Shows a conversation with all that was said
///
/// Questions and answers in the order in which they came. An answer that is being written is there as it stands.
#[utoipa::path(
    get, path = "/api/v1/chats/{chatId}", operation_id = "getChat", tag = "Conversations",
    params(OfChat),
    responses((status = 200, description = "The conversation", body = ChatDetail), refusals::OfChat),
)]
pub(crate) async fn detail(
    State(conversations): State<Conversations>,
    State(answers): State<Answers>,
    Extension(caller): Extension<Caller>,
    Named(chat): Named<String>,
) -> Answered<Response> {
    let (account, conversation) = (caller.account, conversation_id(&chat)?);
    let detail = conversations.detail(account, conversation).await?;
    let chat = serde_json::to_vec(&Conversation::of(detail.summary)).map_err(ApiError::internal)?;
    let mut begun = BytesMut::from(&b"{\"chat\":"[..]);
    begun.put_slice(&chat);
    begun.put_slice(b",\"messages\":[");
    let whole = detail.messages.len() < 2 * EXCHANGES_PAGE_MAX as usize;
    let mut written = written(begun, true, account, detail.messages, answers.clone()).await?;
    if whole {
        written.put_slice(b"]}");
        return Ok(json_body(written.freeze()));
    }
    let rest = Rest { conversations, answers, account, conversation, exchanges: EXCHANGES_PAGE_MAX };
    let first = stream::iter([Ok(written.freeze())]);
    Ok(json_body(Body::from_stream(first.chain(stream::unfold(Some(rest), Rest::next)))))
}

/// What of a long conversation was not sent yet.
struct Rest {
    conversations: Conversations,
    answers: Answers,
    account: AccountId,
    conversation: ConversationId,
    /// So many exchanges were.
    exchanges: u32,
}

impl Rest {
    /// The next messages, and at last the end. A failure cuts the response, so that nobody takes it for whole.
    async fn next(rest: Option<Self>) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let mut rest = rest?;
        let page = rest.conversations.messages_after(rest.account, rest.conversation, rest.exchanges).await;
        Some(match page {
            Err(error) => (Err(cut(ApiError::from(error))), None),
            Ok(page) if page.is_empty() => (Ok(Bytes::from_static(b"]}")), None),
            Ok(page) => {
                rest.exchanges += EXCHANGES_PAGE_MAX;
                match written(BytesMut::new(), false, rest.account, page, rest.answers.clone()).await {
                    Ok(written) => (Ok(written.freeze()), Some(rest)),
                    Err(error) => (Err(cut(error)), None),
                }
            }
        })
    }
}

/// What went wrong was logged; nobody is to take the response for whole.
fn cut(_logged: ApiError) -> io::Error {
    io::Error::other("the rest of the conversation could not be read")
}

/// The messages as JSON after what is in `out`: rendered where it keeps nobody else waiting.
async fn written(
    mut out: BytesMut,
    first: bool,
    account: AccountId,
    messages: Vec<Message>,
    answers: Answers,
) -> Answered<BytesMut> {
    let writing = spawn_blocking(move || {
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 || !first {
                out.put_u8(b',');
            }
            write(&mut out, account, message, &answers)?;
        }
        Ok(out)
    });
    writing.await.map_err(ApiError::internal)?
}

fn write(out: &mut BytesMut, account: AccountId, message: Message, answers: &Answers) -> Answered<()> {
    match message {
        Message::Question(question) => {
            let message = wire::UserMessage {
                id: question.id.to_string(),
                role: "USER",
                status: "completed",
                created_at: question.created_at.to_string(),
                text: &question.text,
                file_paths: &question.attachments,
            };
            out.put_slice(&serde_json::to_vec(&message).map_err(ApiError::internal)?);
        }
        Message::Answer(stored) => {
            let snapshot = answers.shown(account, *stored);
            wire::assistant_message(&snapshot).iter().for_each(|piece| out.put_slice(piece));
        }
    }
    Ok(())
}
