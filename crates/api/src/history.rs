//! A conversation with all that was said in it (sections 2.9 and 4.4), sent as it is read.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use control::access::Caller;
use control::conversations::Message;
use control::{Answers, Authenticator, Conversations};
use domain::id::{AccountId, ConversationId};
use domain::scope::Permission::Read;
use futures_util::{StreamExt, stream};
use http_common::{Budgets, Holder, Share, StreamedBody, Until};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::Limits;
use crate::chats::json_body;
use crate::error::{ApiError, ApiResult};
use crate::extract::ChatPath;
use crate::openapi::answer::ChatDetail;
use crate::openapi::error_responses;
use crate::openapi::parameters::OfChat;
use crate::operations::operation;
use crate::streams::revoked;
use crate::wire::{self, Conversation};

/// How often a reader looks again whether there is room for its next page.
const BUDGET_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// At how many pages those that nobody reads any more are forgotten, at least.
const SWEEP_AT_LEAST: usize = 64;

operation! {
    /// Shows a conversation with all that was said
    ///
    /// Questions and answers in the order in which they came. An answer that is being written is there as it stands.
    get_chat = get "/api/v1/chats/{chatId}" as "getChat" => detail;
    needs: &[Read];
    schema:
        tag = "Conversations",
        params(OfChat),
        responses((status = 200, description = "The conversation", body = ChatDetail), error_responses::OfChat),
}

pub(crate) async fn detail(
    State(history): State<History>,
    State(access): State<Authenticator>,
    State(limits): State<Limits>,
    Extension(caller): Extension<Caller>,
    ChatPath(conversation): ChatPath,
) -> ApiResult<Response> {
    let summary = history.conversations.summary(caller.account, conversation).await?;
    let of = (caller.account, conversation);
    let first = history.page(of, 0).await?;
    if first.exchanges == 0 {
        // It was deleted meanwhile.
        return Err(ApiError::not_found());
    }
    let chat = serde_json::to_vec(&Conversation::of(summary)).map_err(ApiError::internal)?;
    let mut begun = BytesMut::from(&b"{\"chat\":"[..]);
    begun.put_slice(&chat);
    begun.put_slice(b",\"messages\":[");
    if !first.full {
        begun.put_slice(&first.bytes);
        begun.put_slice(END);
        return Ok(json_body(begun.freeze()));
    }
    let rest = RemainingMessages {
        history,
        of,
        exchanges: first.exchanges,
        stall_timeout: limits.stall_timeout,
        next: Vec::new(),
        ended: false,
    };
    let begun = stream::iter([Ok(begun.freeze()), Ok(first.bytes)]);
    let body = Body::from_stream(begun.chain(stream::unfold(Some(rest), RemainingMessages::next)));
    let mut response = json_body(Body::new(Until::new(body, revoked(access, caller))));
    response.extensions_mut().insert(StreamedBody);
    Ok(response)
}

/// Between two messages.
const COMMA: &[u8] = b",";
/// After the last one.
const END: &[u8] = b"]}";

/// What of a long conversation was not sent yet.
struct RemainingMessages {
    history: History,
    of: (AccountId, ConversationId),
    /// So many exchanges were.
    exchanges: u32,
    stall_timeout: Duration,
    /// What comes next, the last piece first.
    next: Vec<Bytes>,
    /// Whether nothing comes after that.
    ended: bool,
}

impl RemainingMessages {
    /// The next messages, and at last the end. A failure cuts the response, so that nobody takes it for whole.
    async fn next(rest: Option<Self>) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let mut rest = rest?;
        if let Some(piece) = rest.next.pop() {
            let goes_on = !rest.ended || !rest.next.is_empty();
            return Some((Ok(piece), goes_on.then_some(rest)));
        }
        let page = match rest.page_in_time().await {
            Ok(page) => page,
            Err(error) => return Some((Err(cut(error)), None)),
        };
        if page.exchanges == 0 {
            return Some((Ok(Bytes::from_static(END)), None));
        }
        rest.exchanges += page.exchanges;
        rest.ended = !page.full;
        rest.next = if page.full { vec![page.bytes] } else { vec![Bytes::from_static(END), page.bytes] };
        Some((Ok(Bytes::from_static(COMMA)), Some(rest)))
    }

    /// The next page. While the account holds all that it may, it is waited for: others of its readers come to an end.
    async fn page_in_time(&self) -> ApiResult<MessagePage> {
        let until = Instant::now() + self.stall_timeout;
        loop {
            match self.history.page(self.of, self.exchanges).await {
                Err(error) if error.is_spent() && Instant::now() < until => sleep(BUDGET_POLL_INTERVAL).await,
                page => return page,
            }
        }
    }
}

/// What conversations are shown from. Cheap to clone.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) conversations: Conversations,
    pub(crate) answers: Answers,
    pub(crate) budgets: Budgets,
    pub(crate) pages: PageCache,
}

/// Messages as JSON, with commas between them.
struct MessagePage {
    bytes: Bytes,
    exchanges: u32,
    /// Whether others may come after it.
    full: bool,
}

/// Pages that are being read: each is in memory once, for all who read it at the same time.
#[derive(Clone, Default)]
pub(crate) struct PageCache(Arc<Mutex<PageCacheState>>);

#[derive(Default)]
struct PageCacheState {
    slots: HashMap<(AccountId, ConversationId, u32), Weak<PageSlot>>,
    sweep_at: usize,
}

/// A page once it is made; nothing when it may be another the next time, and is for nobody else.
type PageSlot = OnceCell<Option<Arc<RenderedPage>>>;

struct RenderedPage {
    json: Bytes,
    exchanges: u32,
    _held: Share,
}

/// A page of one reader, and what it holds of the budget.
struct Own {
    json: Bytes,
    _held: Share,
}

impl AsRef<[u8]> for Own {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

/// A page that somebody reads, which keeps it where others find it.
struct CachedPageGuard {
    made: Arc<RenderedPage>,
    _slot: Arc<PageSlot>,
}

impl AsRef<[u8]> for CachedPageGuard {
    fn as_ref(&self) -> &[u8] {
        &self.made.json
    }
}

impl PageCache {
    fn slot(&self, account: AccountId, conversation: ConversationId, from: u32) -> Arc<PageSlot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.slots.len() >= known.sweep_at {
            known.slots.retain(|_, slot| slot.strong_count() > 0);
            known.sweep_at = (2 * known.slots.len()).max(SWEEP_AT_LEAST);
        }
        let known = known.slots.entry((account, conversation, from)).or_default();
        known.upgrade().unwrap_or_else(|| {
            let slot = Arc::default();
            *known = Arc::downgrade(&slot);
            slot
        })
    }
}

impl History {
    /// The messages from an exchange on.
    async fn page(
        &self,
        (account, conversation): (AccountId, ConversationId),
        from: u32,
    ) -> ApiResult<MessagePage> {
        let slot = self.pages.slot(account, conversation, from);
        let mut own = None;
        let shared = slot.get_or_try_init(async || {
            let (json, exchanges, full, settled) = self.made(account, conversation, from).await?;
            // What is full of completed answers never changes.
            if full && settled {
                let held = self.budgets.body_bytes.take(Holder::Account(account), json.len() as u64)?;
                return Ok::<_, ApiError>(Some(Arc::new(RenderedPage { json, exchanges, _held: held })));
            }
            own = Some(self.own(account, json, exchanges, full)?);
            Ok(None)
        });
        if let Some(made) = shared.await?.clone() {
            let exchanges = made.exchanges;
            let bytes = Bytes::from_owner(CachedPageGuard { made, _slot: slot });
            return Ok(MessagePage { bytes, exchanges, full: true });
        }
        if let Some(own) = own {
            return Ok(own);
        }
        let (bytes, exchanges, full, _) = self.made(account, conversation, from).await?;
        self.own(account, bytes, exchanges, full)
    }

    /// A page for one reader alone. It counts for its account until it is sent, as a shared one does.
    fn own(&self, account: AccountId, json: Bytes, exchanges: u32, full: bool) -> ApiResult<MessagePage> {
        let held = self.budgets.body_bytes.take(Holder::Account(account), json.len() as u64)?;
        let bytes = Bytes::from_owner(Own { json, _held: held });
        Ok(MessagePage { bytes, exchanges, full })
    }

    /// A page as JSON, how many exchanges are in it, whether it is full, and whether all its answers are completed.
    async fn made(
        &self,
        account: AccountId,
        conversation: ConversationId,
        from: u32,
    ) -> ApiResult<(Bytes, u32, bool, bool)> {
        // So that no crowd of readers fills the memory.
        let _place = self.budgets.made.enter(Holder::Account(account)).await;
        let page = self.conversations.messages_after(account, conversation, from).await?;
        let settled = page.messages.iter().all(|message| match message {
            Message::Question(_) => true,
            Message::Answer(answer) => answer.completed_at.is_some(),
        });
        let exchanges = u32::try_from(page.messages.len() / 2).unwrap_or(u32::MAX);
        let json = written(account, page.messages, self.answers.clone()).await?;
        Ok((json, exchanges, page.full, settled))
    }
}

/// What went wrong was logged; nobody is to take the response for whole.
fn cut(_logged: ApiError) -> io::Error {
    io::Error::other("the rest of the conversation could not be read")
}

/// The messages as JSON: rendered where it keeps nobody else waiting.
async fn written(account: AccountId, messages: Vec<Message>, answers: Answers) -> ApiResult<Bytes> {
    let writing = spawn_blocking(move || {
        let mut out = BytesMut::new();
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 {
                out.put_slice(COMMA);
            }
            write(&mut out, account, message, &answers)?;
        }
        Ok(out.freeze())
    });
    writing.await.map_err(ApiError::internal)?
}

fn write(out: &mut BytesMut, account: AccountId, message: Message, answers: &Answers) -> ApiResult<()> {
    match message {
        Message::Question(question) => {
            wire::user_message(&question).iter().for_each(|piece| out.put_slice(piece));
        }
        Message::Answer(stored) => {
            let snapshot = answers.snapshot_of(account, *stored);
            wire::assistant_message(&snapshot).iter().for_each(|piece| out.put_slice(piece));
        }
    }
    Ok(())
}
