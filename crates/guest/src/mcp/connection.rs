//! The pipes of one server process: outgoing messages, incoming messages, and its log.
//!
//! ```text
//!   request -> lines -> [writer] -> standard input            pending calls are in `pending`, by id
//!   request <- answer <- [reader] <- standard output          other output is ignored, within bounds
//!                       [listener] <- standard error          the end of the log is retained
//! ```
//! Dropping the connection ends the server: its standard input is closed, and its supervisor ends it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use ::mcp::text::clean_paragraphs;
use ::mcp::{
    CANCELLED, DISCOVER, LIST_CHANGED, LISTEN, McpMessage, Notification, PROGRESS, REPLIES_MAX, RpcResponse,
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::lines::{LINE_MAX_BYTES, LineCutter};

/// The maximum output of a server between two answers, in bytes.
pub(super) const FLOOD_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The number of bytes that are retained of the log.
const STDERR_KEPT_BYTES: usize = 4 * 1024;
/// The number of bytes of the log that are shown in errors.
const STDERR_SHOWN_BYTES: usize = 1000;
/// The number of messages that may wait to be written.
const LINES_WAITING_MAX: usize = 64;
/// The period in which a server may send [`REPLIES_MAX`] requests.
const REPLIES_EVERY: Duration = Duration::from_secs(10);
/// The time in which remaining log output is read after a server exits.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The server was gone before the request was sent.
    NotSent,
    /// The server ended before it answered.
    Ended,
    /// The request timed out and was cancelled.
    Late,
}

/// The end of a connection.
#[derive(Debug, Clone)]
pub(super) struct ConnectionEnd {
    pub(super) why: String,
    pub(super) at: Instant,
}

/// A connection to one server process. Dropping it ends the server.
#[derive(Debug)]
pub(super) struct McpConnection {
    shared: Arc<McpConnectionState>,
    lines: mpsc::Sender<String>,
    numbers: AtomicU64,
    /// The stateless revision in use; unset before negotiation and in revisions with a handshake.
    revision: OnceLock<&'static str>,
}

/// The id that no request has.
const NO_REQUEST: u64 = 0;

#[derive(Debug)]
struct McpConnectionState {
    pending: Mutex<PendingRequests>,
    list_changed: AtomicBool,
    /// True if the server may send requests: from `initialize` on, and never in a stateless revision.
    may_ask: AtomicBool,
    /// The id of the request that subscribes to changes of the tool list, while it is open.
    subscription: AtomicU64,
    words: Mutex<Vec<u8>>,
    /// The reason why the connection ended.
    ended: watch::Sender<Option<ConnectionEnd>>,
}

#[derive(Debug, Default)]
struct PendingRequests {
    closed: bool,
    waiting: HashMap<u64, WaitingRequest>,
}

#[derive(Debug)]
struct WaitingRequest {
    answer: oneshot::Sender<RpcResponse>,
    progress: watch::Sender<u64>,
}

/// The timeouts of an answer: `quiet` restarts with each progress notification, `at_most` does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerTimeouts {
    pub(super) quiet: Duration,
    pub(super) at_most: Duration,
}

impl AnswerTimeouts {
    pub(super) const fn from_duration(time: Duration) -> Self {
        Self { quiet: time, at_most: time }
    }
}

impl McpConnection {
    /// Communicates over these pipes.
    pub(super) fn new(
        stdin: impl AsyncWrite + Unpin + Send + 'static,
        stdout: impl AsyncRead + Unpin + Send + 'static,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let shared = Arc::new(McpConnectionState {
            pending: Mutex::default(),
            list_changed: AtomicBool::new(false),
            may_ask: AtomicBool::new(false),
            subscription: AtomicU64::new(NO_REQUEST),
            words: Mutex::default(),
            ended: watch::Sender::new(None),
        });
        let (lines, waiting) = mpsc::channel(LINES_WAITING_MAX);
        let listener = tokio::spawn(read_stderr(stderr, shared.clone()));
        tokio::spawn(write_lines(stdin, waiting, shared.ended.subscribe()));
        let reader = ServerReader {
            shared: shared.clone(),
            replies: lines.downgrade(),
            left: REPLIES_MAX,
            since: Instant::now(),
        };
        tokio::spawn(async move {
            let shared = reader.shared.clone();
            let why = reader.read_messages(stdout).await;
            // The last log lines are often more informative.
            let _ = timeout(STDERR_DRAIN_TIMEOUT, listener).await;
            shared.close_with_reason(why);
        });
        Self { shared, lines, numbers: AtomicU64::new(NO_REQUEST + 1), revision: OnceLock::new() }
    }

    /// Selects the stateless revision to use from now on.
    pub(super) fn set_revision(&self, revision: &'static str) {
        let _set_before = self.revision.set(revision);
        self.shared.may_ask.store(false, Ordering::SeqCst);
    }

    /// Returns true if the server announces changes of its tool list, as far as the client can know.
    pub(super) fn is_notified(&self) -> bool {
        self.revision.get().is_none() || self.shared.subscription.load(Ordering::SeqCst) != NO_REQUEST
    }

    /// Subscribes to changes of the tool list in a stateless revision. Does not wait for the answer, which would
    /// end the subscription.
    pub(super) async fn subscribe_list_changes(&self, time: Duration) -> bool {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let params = self.with_meta(json!({ "notifications": { "toolsListChanged": true } }));
        self.shared.subscription.store(number, Ordering::SeqCst);
        self.send_notification(::mcp::encode_request(number, LISTEN, &params), time).await
    }

    fn with_meta(&self, params: Value) -> Value {
        match self.revision.get() {
            Some(revision) => ::mcp::with_revision(params, revision),
            None => params,
        }
    }

    /// Returns the end of the connection, if it has ended.
    pub(super) fn connection_end(&self) -> Option<ConnectionEnd> {
        self.shared.ended.borrow().clone()
    }

    /// Returns a handle that can end the connection.
    pub(super) fn to_closer(&self) -> ConnectionCloser {
        ConnectionCloser(Arc::downgrade(&self.shared))
    }

    /// Closes the connection as unusable.
    pub(super) fn give_up(&self, why: &str) {
        self.shared.close_with_reason(why.to_owned());
    }

    /// Returns true if the server has announced a change of its tool list since the last call.
    pub(super) fn took_list_change(&self) -> bool {
        self.shared.list_changed.swap(false, Ordering::SeqCst)
    }

    /// Returns the end of the server's log as plain text, to explain a failure.
    pub(super) fn log_tail(&self) -> String {
        let words = lock_mutex(&self.shared.words);
        let words = clean_paragraphs(&String::from_utf8_lossy(&words));
        words[words.ceil_char_boundary(words.len().saturating_sub(STDERR_SHOWN_BYTES))..].to_owned()
    }

    /// Sends a request and waits for the answer. On timeout, and when the future is dropped, the server receives a
    /// cancellation.
    pub(super) async fn send_request(
        &self,
        method: &str,
        mut params: Value,
        max_wait: AnswerTimeouts,
    ) -> Result<RpcResponse, Unanswered> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        if method == "tools/call" {
            params["_meta"] = json!({ "progressToken": number });
        }
        if method == "initialize" {
            self.shared.may_ask.store(true, Ordering::SeqCst);
        }
        let line = ::mcp::encode_request(number, method, &self.with_meta(params));
        let (answer, answered) = oneshot::channel();
        let (progress, progressed) = watch::channel(0);
        {
            let mut pending = lock_mutex(&self.shared.pending);
            if pending.closed {
                return Err(Unanswered::NotSent);
            }
            pending.waiting.insert(number, WaitingRequest { answer, progress });
        }
        // A handshake must not be cancelled, and a server may not know how to cancel the discovery.
        let mut call = McpRequestGuard { connection: self, number, tells: false };
        let until = Instant::now() + max_wait.at_most;
        match tokio::time::timeout_at(until, self.lines.send(line)).await {
            Ok(Ok(())) => call.tells = !["initialize", DISCOVER].contains(&method),
            Ok(Err(_)) => return Err(Unanswered::Ended),
            Err(_) => return Err(Unanswered::Late),
        }
        let answer = wait_for_answer(answered, progressed, max_wait.quiet, until).await?;
        call.tells = false;
        Ok(answer)
    }

    /// Sends a notification. Returns `false` if it was not queued in time.
    pub(super) async fn send_notification(&self, line: String, time: Duration) -> bool {
        matches!(timeout(time, self.lines.send(line)).await, Ok(Ok(())))
    }
}

/// Ends a connection, if it still exists.
#[derive(Debug)]
pub(super) struct ConnectionCloser(Weak<McpConnectionState>);

impl ConnectionCloser {
    pub(super) fn close_connection(&self, why: &str) {
        if let Some(shared) = self.0.upgrade() {
            shared.close_with_reason(why.to_owned());
        }
    }
}

async fn wait_for_answer(
    mut answered: oneshot::Receiver<RpcResponse>,
    mut progressed: watch::Receiver<u64>,
    quiet: Duration,
    until: Instant,
) -> Result<RpcResponse, Unanswered> {
    let mut max_wait = (Instant::now() + quiet).min(until);
    loop {
        tokio::select! {
            biased;
            answer = &mut answered => return answer.map_err(|_| Unanswered::Ended),
            Ok(()) = progressed.changed() => max_wait = (Instant::now() + quiet).min(until),
            () = sleep_until(max_wait) => return Err(Unanswered::Late),
        }
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.shared.close_with_reason("it is no longer needed".to_owned());
    }
}

/// A request that waits for its answer.
struct McpRequestGuard<'a> {
    connection: &'a McpConnection,
    number: u64,
    /// True if the server must be notified when nobody waits any longer.
    tells: bool,
}

impl Drop for McpRequestGuard<'_> {
    fn drop(&mut self) {
        let waited = lock_mutex(&self.connection.shared.pending).waiting.remove(&self.number).is_some();
        if waited && self.tells {
            // A server that does not read gets no notification.
            let _ = self
                .connection
                .lines
                .try_send(::mcp::encode_cancellation(self.number, "the caller no longer waits"));
        }
    }
}

impl McpConnectionState {
    fn accept_notification(&self, notification: &Notification) {
        let Notification { method, progress, subscription } = notification;
        match method.as_str() {
            LIST_CHANGED => {
                // Stateless revisions send it only for a subscription.
                let wanted = self.may_ask.load(Ordering::SeqCst)
                    || subscription.is_some_and(|of| of == self.subscription.load(Ordering::SeqCst));
                self.list_changed.fetch_or(wanted, Ordering::SeqCst);
            }
            PROGRESS => {
                let waiting = progress.and_then(|of| {
                    lock_mutex(&self.pending).waiting.get(&of).map(|waiting| waiting.progress.clone())
                });
                if let Some(waiting) = waiting {
                    waiting.send_modify(|signs| *signs += 1);
                }
            }
            CANCELLED => self.end_subscription(subscription.unwrap_or(NO_REQUEST)),
            _ => {}
        }
    }

    /// Ends the subscription if this request opened it.
    fn end_subscription(&self, number: u64) {
        let _another =
            self.subscription.compare_exchange(number, NO_REQUEST, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Fails all pending requests. Only the first reason is recorded.
    fn close_with_reason(&self, why: String) {
        {
            let mut pending = lock_mutex(&self.pending);
            pending.closed = true;
            pending.waiting.clear();
        }
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert_with(|| ConnectionEnd { why, at: Instant::now() });
            first
        });
    }
}

struct ServerReader {
    shared: Arc<McpConnectionState>,
    replies: mpsc::WeakSender<String>,
    /// The number of requests that the server may still send in this period.
    left: usize,
    since: Instant,
}

impl ServerReader {
    /// Reads until the server is unusable and returns the reason.
    async fn read_messages(mut self, mut stdout: impl AsyncRead + Unpin) -> String {
        let mut cutter = LineCutter::default();
        let mut buffer = vec![0; 64 * 1024];
        let mut unasked = 0;
        loop {
            let read = match stdout.read(&mut buffer).await {
                Ok(0) | Err(_) => return "it ended".to_owned(),
                Ok(read) => read,
            };
            unasked += read;
            for line in cutter.push(&buffer[..read]) {
                let Some(line) = line else {
                    return format!("it wrote a line of more than {LINE_MAX_BYTES} bytes");
                };
                for message in ::mcp::parse_messages(&line) {
                    if self.accept_message(message) {
                        unasked = 0;
                    }
                }
            }
            if unasked > FLOOD_MAX_BYTES {
                return format!("it wrote more than {FLOOD_MAX_BYTES} unsolicited bytes");
            }
            if self.shared.ended.borrow().is_some() {
                return String::new();
            }
        }
    }

    /// Handles a message. Returns true if it answered a pending request.
    fn accept_message(&mut self, message: McpMessage) -> bool {
        match message {
            McpMessage::Answer(number, answer) => {
                self.shared.end_subscription(number);
                let waiting = lock_mutex(&self.shared.pending).waiting.remove(&number);
                // The caller may have been dropped meanwhile.
                return waiting.is_some_and(|waiting| waiting.answer.send(answer).is_ok());
            }
            McpMessage::Notification(notification) => self.shared.accept_notification(&notification),
            McpMessage::Request(..) if !self.shared.may_ask.load(Ordering::SeqCst) => {}
            McpMessage::Request(id, method) => {
                if self.since.elapsed() > REPLIES_EVERY {
                    (self.left, self.since) = (REPLIES_MAX, Instant::now());
                }
                if let (Some(left), Some(replies)) = (self.left.checked_sub(1), self.replies.upgrade()) {
                    self.left = left;
                    // A server that does not read gets no replies.
                    let _ = replies.try_send(::mcp::encode_reply(&id, &method));
                }
            }
        }
        false
    }
}

/// Writes until the connection ends. Closing standard input then ends the server.
async fn write_lines(
    mut stdin: impl AsyncWrite + Unpin,
    mut waiting: mpsc::Receiver<String>,
    mut ended: watch::Receiver<Option<ConnectionEnd>>,
) {
    let writing = async {
        while let Some(mut line) = waiting.recv().await {
            line.push('\n');
            // The server has ended, or its calls will time out.
            if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
                return std::future::pending().await;
            }
        }
    };
    tokio::select! {
        () = writing => {}
        _ = ended.wait_for(Option::is_some) => {}
    }
}

async fn read_stderr(mut stderr: impl AsyncRead + Unpin, shared: Arc<McpConnectionState>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = stderr.read(&mut buffer).await
        && read > 0
    {
        let mut words = lock_mutex(&shared.words);
        words.extend_from_slice(&buffer[..read]);
        let over = words.len().saturating_sub(STDERR_KEPT_BYTES);
        words.drain(..over);
    }
}

fn lock_mutex<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};

    use super::*;

    /// The server's end of the pipes.
    pub(in crate::mcp) struct FakeServer {
        heard: Lines<BufReader<ReadHalf<DuplexStream>>>,
        says: WriteHalf<DuplexStream>,
    }

    impl FakeServer {
        pub(in crate::mcp) async fn receive_message(&mut self) -> Value {
            let line = self.heard.next_line().await.unwrap().unwrap();
            serde_json::from_str(&line).unwrap()
        }

        pub(in crate::mcp) async fn send_message(&mut self, message: Value) {
            self.says.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }
    }

    pub(in crate::mcp) fn connected_pair() -> (McpConnection, FakeServer) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (out, into) = split(near);
        let (heard, says) = split(far);
        (
            McpConnection::new(into, out, tokio::io::empty()),
            FakeServer { heard: BufReader::new(heard).lines(), says },
        )
    }

    const PATIENCE: AnswerTimeouts =
        AnswerTimeouts { quiet: Duration::from_secs(10), at_most: Duration::from_secs(25) };

    #[tokio::test(start_paused = true)]
    async fn send_request_timeout_cancels_unless_progress() {
        let (connection, mut far) = connected_pair();
        let began = Instant::now();
        let late = connection.send_request("tools/call", json!({}), PATIENCE).await;
        assert_eq!((late, began.elapsed()), (Err(Unanswered::Late), PATIENCE.quiet));
        let (request, notification) = (far.receive_message().await, far.receive_message().await);
        assert_eq!(notification["method"], "notifications/cancelled");
        assert_eq!(notification["params"]["requestId"], request["id"]);

        let began = Instant::now();
        let progress = async {
            let request = far.receive_message().await;
            assert_eq!(request["params"]["_meta"]["progressToken"], request["id"]);
            for step in 0..10 {
                tokio::time::sleep(Duration::from_secs(6)).await;
                far.send_message(json!({"jsonrpc": "2.0", "method": PROGRESS,
                               "params": {"progressToken": request["id"], "progress": step}}))
                    .await;
            }
        };
        let (late, ()) = tokio::join!(connection.send_request("tools/call", json!({}), PATIENCE), async {
            tokio::select! { () = progress => {}, () = tokio::time::sleep(PATIENCE.at_most) => {} }
        });
        assert_eq!((late, began.elapsed()), (Err(Unanswered::Late), PATIENCE.at_most), "but not forever");
    }

    #[tokio::test]
    async fn initialize_is_never_cancelled() {
        let (connection, mut far) = connected_pair();
        let max_wait = AnswerTimeouts::from_duration(Duration::from_millis(10));
        assert_eq!(connection.send_request("initialize", json!({}), max_wait).await, Err(Unanswered::Late));
        assert_eq!(far.receive_message().await["method"], "initialize");
        assert!(connection.send_notification("{\"method\":\"x\"}".to_owned(), Duration::from_secs(1)).await);
        assert_eq!(far.receive_message().await["method"], "x", "nothing was said between");
    }

    #[tokio::test(start_paused = true)]
    async fn server_requests_are_answered_within_limit() {
        let (connection, mut far) = connected_pair();
        connection.shared.may_ask.store(true, Ordering::SeqCst);
        let ask = async {
            for number in 0..100 {
                far.send_message(json!({"jsonrpc": "2.0", "id": number, "method": "ping"})).await;
            }
            for _ in 0..REPLIES_MAX {
                assert_eq!(far.receive_message().await["result"], json!({}));
            }
            far.send_message(json!({"jsonrpc": "2.0", "id": 1, "result": 7})).await;
            assert_eq!(far.receive_message().await["method"], "tools/list", "the rest has no reply");
        };
        let (answer, ()) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                connection.send_request("tools/list", json!({}), PATIENCE).await
            },
            ask
        );
        assert!(answer.is_err() || answer == Ok(RpcResponse::Result(json!(7))));
    }

    #[tokio::test]
    async fn ended_server_answers_nobody() {
        let (connection, far) = connected_pair();
        let request = connection.send_request("tools/call", json!({}), PATIENCE);
        let (answer, ()) = tokio::join!(request, async { drop(far) });
        assert_eq!(answer, Err(Unanswered::Ended));
        assert_eq!(
            connection.send_request("tools/call", json!({}), PATIENCE).await,
            Err(Unanswered::NotSent)
        );
        assert_eq!(connection.connection_end().map(|ended| ended.why).as_deref(), Some("it ended"));
    }

    #[tokio::test(start_paused = true)]
    async fn stateless_server_is_heard_for_subscription() {
        let (connection, mut far) = connected_pair();
        connection.set_revision("2026-07-28");
        assert!(!connection.is_notified());
        assert!(connection.subscribe_list_changes(Duration::from_secs(1)).await && connection.is_notified());
        let listen = far.receive_message().await;
        assert_eq!(
            (&listen["method"], &listen["params"]["notifications"]),
            (&json!(LISTEN), &json!({"toolsListChanged": true}))
        );
        let meta = |of: &Value| json!({"_meta": {"io.modelcontextprotocol/subscriptionId": of}});
        let changed = |params: Value| json!({"jsonrpc": "2.0", "method": LIST_CHANGED, "params": params});
        far.send_message(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
        far.send_message(changed(json!({}))).await;
        far.send_message(changed(meta(&json!(99)))).await;
        let request = async {
            let request = far.receive_message().await;
            assert_eq!(request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
            assert_eq!(request["method"], "tools/call", "the request of the server has no reply");
            assert_eq!(request["params"]["_meta"]["progressToken"], request["id"]);
            assert!(!connection.took_list_change(), "it was unsolicited");
            far.send_message(changed(meta(&listen["id"]))).await;
            far.send_message(
                json!({"jsonrpc": "2.0", "id": listen["id"], "result": {"resultType": "complete"}}),
            )
            .await;
            far.send_message(json!({"jsonrpc": "2.0", "id": request["id"], "result": 7})).await;
        };
        let (answer, ()) = tokio::join!(connection.send_request("tools/call", json!({}), PATIENCE), request);
        assert_eq!(answer, Ok(RpcResponse::Result(json!(7))));
        assert!(
            connection.took_list_change() && !connection.is_notified(),
            "it changed, and the subscription ended"
        );
    }
}
