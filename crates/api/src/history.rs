//! The operation that shows a conversation with its messages (sections 2.9 and 4.4), sent page by page.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use control::conversations::{Exchanges, ShownBranch, StoredMessage};
use control::{AnswerService, Authenticator, Conversations, Principal};
use domain::id::{AccountId, ConversationId};
use domain::scope::Permission::Read;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use http_common::{Budget, BudgetHolder, BudgetShare, Budgets, StreamedBody, Until};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::ApiLimits;
use crate::chats::json_body;
use crate::error::{ApiError, ApiResult};
use crate::extract::ChatPath;
use crate::openapi::answer::ChatDetail;
use crate::openapi::error_responses;
use crate::openapi::parameters::OfChat;
use crate::operations::operation;
use crate::wire::{self, Conversation};

/// The interval at which a reader tries again to charge its next page.
const BUDGET_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The smallest number of cached pages at which unused ones are removed.
const SWEEP_AT_LEAST: usize = 64;

operation! {
    /// Get a conversation
    ///
    /// Questions and answers, oldest first. An answer in progress is included with its current text.
    get_chat = get "/api/v1/chats/{chatId}" as "getChat" => get_chat_detail;
    needs: &[Read];
    schema:
        tag = "Conversations",
        params(OfChat),
        responses((status = 200, description = "The conversation", body = ChatDetail), error_responses::OfChat),
}

pub(crate) async fn get_chat_detail(
    State(history): State<ChatHistory>,
    State(access): State<Authenticator>,
    State(limits): State<ApiLimits>,
    Extension(principal): Extension<Principal>,
    ChatPath(conversation): ChatPath,
) -> ApiResult<Response> {
    let summary = history.conversations.find_summary(&principal, conversation).await?;
    let (branch, first) = history.first_page(&principal, conversation).await?;
    if first.exchanges == 0 {
        // Deleted meanwhile.
        return Err(ApiError::not_found());
    }
    let chat = serde_json::to_vec(&Conversation::from_summary(summary)).map_err(ApiError::internal)?;
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
        principal: principal.clone(),
        conversation,
        branch,
        exchanges: first.exchanges,
        stall_timeout: limits.stall_timeout,
        next: Vec::new(),
        ended: false,
    };
    let begun = stream::iter([Ok(begun.freeze()), Ok(first.bytes)]);
    let body = Body::from_stream(begun.chain(stream::unfold(Some(rest), RemainingMessages::next_piece)));
    let mut response = json_body(Body::new(Until::new(body, access.await_revocation(principal))));
    response.extensions_mut().insert(StreamedBody);
    Ok(response)
}

/// The separator of messages.
const COMMA: &[u8] = b",";
/// The end of the response.
const END: &[u8] = b"]}";

/// The part of a long conversation that is not yet sent.
struct RemainingMessages {
    history: ChatHistory,
    principal: Principal,
    conversation: ConversationId,
    /// The branch that is sent. The response is aborted if another branch becomes current meanwhile.
    branch: ShownBranch,
    /// The number of exchanges that were sent.
    exchanges: u32,
    stall_timeout: Duration,
    /// The next pieces in reverse order.
    next: Vec<Bytes>,
    /// True if they are the last ones.
    ended: bool,
}

impl RemainingMessages {
    /// Returns the next messages, and finally the end. A failure aborts the response, so that it is not taken as complete.
    async fn next_piece(rest: Option<Self>) -> Option<(io::Result<Bytes>, Option<Self>)> {
        let mut rest = rest?;
        if let Some(piece) = rest.next.pop() {
            let goes_on = !rest.ended || !rest.next.is_empty();
            return Some((Ok(piece), goes_on.then_some(rest)));
        }
        let page = match rest.page_in_time().await {
            Ok(page) => page,
            Err(error) => return Some((Err(aborted_body_error(error)), None)),
        };
        if page.exchanges == 0 {
            return Some((Ok(Bytes::from_static(END)), None));
        }
        rest.exchanges += page.exchanges;
        rest.ended = !page.full;
        rest.next = if page.full { vec![page.bytes] } else { vec![Bytes::from_static(END), page.bytes] };
        Some((Ok(Bytes::from_static(COMMA)), Some(rest)))
    }

    /// Returns the next page. While the account's budget is used up, waits until its other readers release some.
    async fn page_in_time(&self) -> ApiResult<MessagePage> {
        let until = Instant::now() + self.stall_timeout;
        loop {
            match self
                .history
                .branch_page(&self.principal, self.conversation, self.branch, self.exchanges)
                .await
            {
                Err(error) if error.is_spent() && Instant::now() < until => sleep(BUDGET_POLL_INTERVAL).await,
                page => return page,
            }
        }
    }
}

/// The source of conversations' pages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ChatHistory {
    pub(crate) conversations: Conversations,
    pub(crate) answers: AnswerService,
    pub(crate) budgets: Budgets,
    pub(crate) pages: PageCache,
}

/// Messages as JSON, separated by commas.
struct MessagePage {
    bytes: Bytes,
    exchanges: u32,
    /// True if another page may follow.
    full: bool,
}

/// A page before it is charged.
struct MadePage {
    json: Bytes,
    exchanges: u32,
    full: bool,
    /// True if all its answers are completed.
    settled: bool,
}

impl MadePage {
    /// Charges the page for one reader.
    fn charge_to(self, budget: &Arc<Budget>, holder: BudgetHolder) -> ApiResult<MessagePage> {
        let held = budget.take_share(holder, self.json.len() as u64)?;
        let bytes = Bytes::from_owner(Own { json: self.json, _held: held });
        Ok(MessagePage { bytes, exchanges: self.exchanges, full: self.full })
    }
}

/// The account, the conversation, its branch and the first exchange of a page.
type PageKey = (AccountId, ConversationId, ShownBranch, u32);

/// The pages that are being sent. Concurrent readers share one copy of a page.
#[derive(Clone, Default)]
pub(crate) struct PageCache(Arc<Mutex<PageCacheState>>);

#[derive(Default)]
struct PageCacheState {
    slots: HashMap<PageKey, Weak<PageSlot>>,
    sweep_at: usize,
}

/// A rendered page; `None` if it may change, so that readers cannot share it.
type PageSlot = OnceCell<Option<Arc<RenderedPage>>>;

struct RenderedPage {
    json: Bytes,
    exchanges: u32,
    _held: BudgetShare,
}

/// A page for one reader, with its share of the budget.
struct Own {
    json: Bytes,
    _held: BudgetShare,
}

impl AsRef<[u8]> for Own {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

/// A shared page. Keeps the page in the cache while it is being sent.
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
    /// Returns a page, charged to its account until it is sent: a shared page once for all its readers, any
    /// other page for each reader. `make` renders the page.
    async fn get_or_make_page<'a>(
        &self,
        key: PageKey,
        budget: &Arc<Budget>,
        make: &(dyn Fn() -> BoxFuture<'a, ApiResult<MadePage>> + Sync),
    ) -> ApiResult<MessagePage> {
        let holder = BudgetHolder::Account(key.0);
        let slot = self.page_slot(key);
        let mut own = None;
        let shared = slot.get_or_try_init(async || {
            let made = make().await?;
            // A full page of completed answers of a branch never changes.
            if made.full && made.settled {
                let held = budget.take_share(holder, made.json.len() as u64)?;
                let MadePage { json, exchanges, .. } = made;
                return Ok::<_, ApiError>(Some(Arc::new(RenderedPage { json, exchanges, _held: held })));
            }
            own = Some(made.charge_to(budget, holder)?);
            Ok(None)
        });
        if let Some(made) = shared.await?.clone() {
            let exchanges = made.exchanges;
            let bytes = Bytes::from_owner(CachedPageGuard { made, _slot: slot });
            return Ok(MessagePage { bytes, exchanges, full: true });
        }
        match own {
            Some(own) => Ok(own),
            None => make().await?.charge_to(budget, holder),
        }
    }

    fn page_slot(&self, key: PageKey) -> Arc<PageSlot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.slots.len() >= known.sweep_at {
            known.slots.retain(|_, slot| slot.strong_count() > 0);
            known.sweep_at = (2 * known.slots.len()).max(SWEEP_AT_LEAST);
        }
        let known = known.slots.entry(key).or_default();
        known.upgrade().unwrap_or_else(|| {
            let slot = Arc::default();
            *known = Arc::downgrade(&slot);
            slot
        })
    }
}

impl ChatHistory {
    /// Returns the current branch and its first page.
    async fn first_page(
        &self,
        principal: &Principal,
        conversation: ConversationId,
    ) -> ApiResult<(ShownBranch, MessagePage)> {
        let branch = self.conversations.shown_branch(principal, conversation).await?;
        match self.branch_page(principal, conversation, branch, 0).await {
            // Another branch has become current.
            Err(error) if error.is_busy() => self.unshared_first_page(principal, conversation).await,
            page => Ok((branch, page?)),
        }
    }

    /// As [`Self::first_page`], reading both together, for this reader alone.
    async fn unshared_first_page(
        &self,
        principal: &Principal,
        conversation: ConversationId,
    ) -> ApiResult<(ShownBranch, MessagePage)> {
        let _place = self.budgets.made.acquire_permit(BudgetHolder::Account(principal.account())).await;
        let (branch, page) = self.conversations.shown_messages(principal, conversation, 0).await?;
        let made = self.render_page(principal, page).await?;
        Ok((branch, made.charge_to(&self.budgets.body_bytes, BudgetHolder::Account(principal.account()))?))
    }

    /// Returns the page of a branch that begins with the exchange `from`.
    async fn branch_page(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        branch: ShownBranch,
        from: u32,
    ) -> ApiResult<MessagePage> {
        let key = (principal.account(), conversation, branch, from);
        let make = || self.make_page(principal, conversation, branch, from).boxed();
        self.pages.get_or_make_page(key, &self.budgets.body_bytes, &make).await
    }

    /// Renders a page.
    async fn make_page(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        branch: ShownBranch,
        from: u32,
    ) -> ApiResult<MadePage> {
        // Bounds the memory that concurrent readers take.
        let _place = self.budgets.made.acquire_permit(BudgetHolder::Account(principal.account())).await;
        let page = self.conversations.messages_of(principal, conversation, branch, from).await?;
        self.render_page(principal, page).await
    }

    async fn render_page(&self, principal: &Principal, page: Exchanges) -> ApiResult<MadePage> {
        let settled = page.messages.iter().all(|message| match message {
            StoredMessage::Question(_) => true,
            StoredMessage::Answer(answer) => answer.completed_at.is_some(),
        });
        let exchanges = u32::try_from(page.messages.len() / 2).unwrap_or(u32::MAX);
        let json = render_messages(principal.clone(), page.messages, self.answers.clone()).await?;
        Ok(MadePage { json, exchanges, full: page.full, settled })
    }
}

/// Creates the error that aborts the response. The cause was logged.
fn aborted_body_error(_logged: ApiError) -> io::Error {
    io::Error::other("the rest of the conversation could not be read")
}

/// Renders the messages as JSON, on a thread for blocking work.
async fn render_messages(
    principal: Principal,
    messages: Vec<StoredMessage>,
    answers: AnswerService,
) -> ApiResult<Bytes> {
    let writing = spawn_blocking(move || {
        let mut out = BytesMut::new();
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 {
                out.put_slice(COMMA);
            }
            write_message(&mut out, &principal, message, &answers)?;
        }
        Ok(out.freeze())
    });
    writing.await.map_err(ApiError::internal)?
}

fn write_message(
    out: &mut BytesMut,
    principal: &Principal,
    message: StoredMessage,
    answers: &AnswerService,
) -> ApiResult<()> {
    match message {
        StoredMessage::Question(question) => {
            wire::user_message(&question).iter().for_each(|piece| out.put_slice(piece));
        }
        StoredMessage::Answer(stored) => {
            let snapshot = answers.snapshot_of(principal, *stored);
            wire::assistant_message(&snapshot).iter().for_each(|piece| out.put_slice(piece));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::id::MessageId;
    use http_common::BudgetBounds;

    use super::*;

    const SIZE: u64 = 1000;

    fn sample_page_key() -> PageKey {
        let branch = ShownBranch { last: MessageId::from_random(3), exchanges: 200 };
        (AccountId::from_random(1), ConversationId::from_random(2), branch, 0)
    }

    /// A page with its budget, which has room for two.
    async fn read_page(
        pages: &PageCache,
        budget: &Arc<Budget>,
        full: bool,
        settled: bool,
    ) -> ApiResult<MessagePage> {
        let json = Bytes::from(vec![b' '; SIZE as usize]);
        let make = || {
            let json = json.clone();
            async move { Ok(MadePage { json, exchanges: 1, full, settled }) }.boxed()
        };
        pages.get_or_make_page(sample_page_key(), budget, &make).await
    }

    #[tokio::test]
    async fn unsettled_page_charged_per_reader() {
        for (full, settled) in [(false, true), (false, false), (true, false)] {
            let (pages, budget) =
                (PageCache::default(), Budget::new(BudgetBounds { each: 2 * SIZE, all: 10 * SIZE }));
            let first = read_page(&pages, &budget, full, settled).await.expect("there is room");
            assert_eq!(budget.total_amount(), SIZE, "once for one reader");
            let second = read_page(&pages, &budget, full, settled).await.expect("there is room");
            assert_eq!((budget.total_amount(), second.full), (2 * SIZE, full));
            let refused = read_page(&pages, &budget, full, settled).await;
            assert!(refused.err().expect("the account holds all that it may").is_spent());
            drop(first);
            assert_eq!(budget.total_amount(), SIZE, "the first was sent");
            drop(second);
            assert_eq!(budget.total_amount(), 0);
        }
    }

    #[tokio::test]
    async fn settled_page_charged_once() {
        let (pages, budget) = (PageCache::default(), Budget::new(BudgetBounds { each: SIZE, all: SIZE }));
        let first = read_page(&pages, &budget, true, true).await.expect("there is room");
        let second = read_page(&pages, &budget, true, true).await.expect("it is the same one");
        assert_eq!(first.bytes.as_ptr(), second.bytes.as_ptr());
        drop(first);
        assert_eq!(budget.total_amount(), SIZE, "the second still has it");
        drop(second);
        assert_eq!(budget.total_amount(), 0);
    }
}
