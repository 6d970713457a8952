//! One server: its session, its list of tools, its calls.
//!
//! ```text
//!            initialize, initialized          tools/list, tools/call
//!   (none) ---------------------------> session -------------------> answer
//!      ^                                   |
//!      +------- 404: it has expired -------+   once for each request, which it did not run
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::citation::Place;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use ::mcp::{Answer, Message, PAGES_MAX, REPLIES_MAX, Tool, VERSIONS, offered};

use super::farewell::{Farewells, Unanswered};
use super::sse::Events;
use super::{McpError, McpOutput, McpServerConfig};
use crate::Secret;
use crate::connections::{self, Connections};
use crate::rest::Rest;

/// How long a session and the list of tools may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a message that wants no answer may take.
pub(super) const TELL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a list of tools is believed.
const LIST_FRESH: Duration = Duration::from_mins(5);
/// The most that one exchange may bring, in bytes.
const ANSWER_MAX_BYTES: usize = 4 * 1024 * 1024;
/// How often a stream that breaks is taken up again.
const RESUMES_MAX: usize = 3;
/// The longest wait before a stream is taken up again, and the wait where the server does not say.
const RESUME_WAIT_MAX: Duration = Duration::from_secs(5);
const RESUME_WAIT: Duration = Duration::from_secs(1);
/// How many calls of a server run at once.
const CALLS_MAX: usize = 16;
/// The longest id of a session or of an event, in bytes.
const ID_MAX_BYTES: usize = 1024;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Headers that an operator set, with what must not be shown of them.
pub(super) type Headers = Vec<(HeaderName, HeaderValue, Secret)>;

/// A server that the operator grants.
#[derive(Debug)]
pub(super) struct Server {
    config: McpServerConfig,
    url: Url,
    headers: Headers,
    connections: Connections,
    numbers: AtomicU64,
    session: Mutex<Option<Arc<Session>>>,
    list: Mutex<Option<(Instant, Arc<[Tool]>)>>,
    /// The server told that its list is another.
    list_changed: AtomicBool,
    /// One asks for the list, the others wait for what it finds.
    listing: Semaphore,
    calls: Semaphore,
    rest: Rest,
    farewells: Farewells,
}

/// What a server and the service agreed on.
#[derive(Debug, PartialEq)]
struct Session {
    id: Option<HeaderValue>,
    version: HeaderValue,
    has_tools: bool,
}

/// Why an exchange ended without an answer.
#[derive(Debug)]
enum Failure {
    /// The session is not known any more; the request was not run.
    Expired,
    /// For the caller. Nothing was run, unless it is [`McpError::Cut`].
    Error(McpError),
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        Self::Error(error)
    }
}

impl Server {
    pub(super) fn new(
        config: McpServerConfig,
        url: Url,
        headers: Headers,
        connections: Connections,
        farewells: Farewells,
    ) -> Self {
        Self {
            config,
            url,
            headers,
            connections,
            numbers: AtomicU64::new(1),
            session: Mutex::default(),
            list: Mutex::default(),
            list_changed: AtomicBool::new(false),
            listing: Semaphore::new(1),
            calls: Semaphore::new(CALLS_MAX),
            rest: Rest::default(),
            farewells,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn is_repeatable(&self, tool: &str) -> bool {
        self.config.read_only.iter().any(|original| offered(self.name(), original) == tool)
    }

    /// The tools that may be called.
    pub(super) async fn tools(&self) -> Result<Arc<[Tool]>, McpError> {
        let _turn = self.listing.acquire().await.map_err(|_| unavailable("it is closed"))?;
        if let Some(list) = self.fresh() {
            return Ok(list);
        }
        self.awake()?;
        self.list_changed.store(false, Ordering::SeqCst);
        let listed = timeout(LIST_TIMEOUT, self.list()).await;
        match listed.unwrap_or_else(|_| Err(unavailable("it took too long"))) {
            Ok(list) => {
                self.rest.answered();
                let list: Arc<[Tool]> = list.into();
                *lock(&self.list) = Some((Instant::now(), list.clone()));
                Ok(list)
            }
            Err(error) => {
                tracing::warn!(server = self.name(), %error, "the tools of an MCP server are missing");
                self.rest.failed(wait(&error));
                *lock(&self.list) = None;
                // Asking for a list runs nothing.
                Err(match error {
                    McpError::Cut { reason } => McpError::Unavailable { reason, retry_after: None },
                    other => other,
                })
            }
        }
    }

    fn fresh(&self) -> Option<Arc<[Tool]>> {
        let list = lock(&self.list);
        let (at, tools) = list.as_ref()?;
        (at.elapsed() < LIST_FRESH && !self.list_changed.load(Ordering::SeqCst)).then(|| tools.clone())
    }

    async fn list(&self) -> Result<Vec<Tool>, McpError> {
        let mut tools: Vec<Tool> = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES_MAX {
            if !self.session().await?.has_tools {
                break;
            }
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let page = self.request("tools/list", &params).await?;
            cursor = ::mcp::tools_of_page(self.name(), &page, |tool| self.grants(tool), &mut tools)
                .map_err(|::mcp::NoPage| no_protocol())?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(tools)
    }

    fn grants(&self, tool: &str) -> bool {
        self.config.tools.as_ref().is_none_or(|granted| granted.iter().any(|one| one == tool))
    }

    /// Calls the tool that is offered under this name.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<McpOutput, McpError> {
        let tools = self.tools().await?;
        let tool = tools.iter().find(|one| one.spec.name == tool).ok_or(McpError::UnknownTool)?;
        self.awake()?;
        let waited = timeout(CALL_TIMEOUT, self.calls.acquire()).await;
        let Ok(Ok(_turn)) = waited else { return Err(unavailable("too many calls are under way")) };
        let params = json!({ "name": tool.original, "arguments": arguments });
        let called = self.request("tools/call", &params).await;
        match &called {
            Ok(_) | Err(McpError::Failed { .. }) => self.rest.answered(),
            Err(McpError::Unavailable { .. } | McpError::Cut { .. }) => {
                self.rest.failed(called.as_ref().err().and_then(wait))
            }
            Err(McpError::Rejected { .. } | McpError::UnknownTool | McpError::Arguments) => {}
        }
        // It has run, though it does not say what came of it.
        let strange = || McpError::Failed { message: "its answer is not of the protocol".to_owned() };
        let mut output = ::mcp::output(&called?, None).ok_or_else(strange)?;
        output.text = self.redact(&output.text);
        for passage in &mut output.passages {
            passage.text = self.redact(&passage.text);
            if let Place::Web { url, title } = &mut passage.place {
                (*url, *title) = (self.redact(url), self.redact(title));
            }
        }
        Ok(output)
    }

    fn awake(&self) -> Result<(), McpError> {
        self.rest.left().map_or(Ok(()), |left| {
            let reason = "it failed lately and is left alone for a while".to_owned();
            Err(McpError::Unavailable { reason, retry_after: Some(left) })
        })
    }

    /// Asks within a session; once more in a new one when that has expired.
    async fn request(&self, method: &str, params: &Value) -> Result<Value, McpError> {
        for _ in 0..2 {
            let session = self.session().await?;
            match self.exchange(Some(&session), method, params).await {
                Ok((answer, _)) => return answer,
                Err(Failure::Error(error)) => return Err(error),
                Err(Failure::Expired) => {
                    let mut current = lock(&self.session);
                    if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &session)) {
                        *current = None;
                    }
                }
            }
        }
        Err(unavailable("its sessions end as soon as they begin"))
    }

    async fn session(&self) -> Result<Arc<Session>, McpError> {
        if let Some(session) = lock(&self.session).clone() {
            return Ok(session);
        }
        let begun = self.exchange(None, "initialize", &::mcp::initialize()).await;
        let (answer, headers) = begun.map_err(|failure| match failure {
            // Beginning a session runs nothing.
            Failure::Error(McpError::Cut { reason }) => McpError::Unavailable { reason, retry_after: None },
            Failure::Error(error) => error,
            Failure::Expired => rejected("there is nothing at its address"),
        })?;
        let answer = answer?;
        let said = answer.get("protocolVersion").and_then(Value::as_str).unwrap_or("");
        let version = VERSIONS.iter().find(|version| **version == said);
        let version = version.ok_or_else(|| rejected("it speaks another version of the protocol"))?;
        let id = headers.get(SESSION).filter(|id| id.len() <= ID_MAX_BYTES).cloned().map(|mut id| {
            id.set_sensitive(true);
            id
        });
        let has_tools = answer.pointer("/capabilities/tools").is_some_and(|tools| !tools.is_null());
        let session = Arc::new(Session { id, version: HeaderValue::from_static(version), has_tools });
        let told = self.tell(&session, &::mcp::notification("notifications/initialized", &Value::Null)).await;
        if let Err(error) = told {
            // Nobody will use it.
            self.farewells.say(self.ending(&session));
            return Err(error);
        }
        *lock(&self.session) = Some(session.clone());
        Ok(session)
    }

    /// One request and its answer, with the headers that came with it.
    async fn exchange(
        &self,
        session: Option<&Session>,
        method: &str,
        params: &Value,
    ) -> Result<(Result<Value, McpError>, HeaderMap), Failure> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let body = ::mcp::request(number, method, params);
        let mut unanswered = Unanswered::new(&self.farewells);
        if let Some(session) = session {
            // Whoever drops this waits no more: the server may stop. What begins a session is never cancelled.
            unanswered.tell(self.message(Some(session), ::mcp::cancelled(number, "nobody waits for it")));
        }
        let answered = timeout(CALL_TIMEOUT, async {
            let response = self.post(session, body).await?;
            let headers = response.headers().clone();
            Ok((self.answer(session, response, number).await?, headers))
        });
        let (answer, headers) = match answered.await {
            Ok(Ok(answered)) => {
                unanswered.answered();
                answered
            }
            // A connection that breaks cancels nothing: the call may still run.
            Ok(Err(failure @ Failure::Error(McpError::Cut { .. }))) => return Err(failure),
            Ok(Err(failure)) => {
                unanswered.answered();
                return Err(failure);
            }
            Err(_) => return Err(cut("it took too long").into()),
        };
        match answer {
            Answer::Result(result) => Ok((Ok(result), headers)),
            Answer::Error(message) => Ok((Err(McpError::Failed { message: self.redact(&message) }), headers)),
        }
    }

    /// A message on its way.
    fn message(&self, session: Option<&Session>, body: String) -> Option<RequestBuilder> {
        let request = self.connections.client().ok()?.post(self.url.clone()).headers(self.head(session));
        let request = request.header(CONTENT_TYPE, "application/json");
        Some(request.header(ACCEPT, "application/json, text/event-stream").body(body))
    }

    /// What ends a session, if it has a name by which it can be ended.
    fn ending(&self, session: &Session) -> Option<RequestBuilder> {
        session.id.as_ref()?;
        let client = self.connections.client().ok()?;
        Some(client.delete(self.url.clone()).headers(self.head(Some(session))))
    }

    /// Sends a message; the answer's status is looked at, its body not yet.
    async fn post(&self, session: Option<&Session>, body: String) -> Result<Response, Failure> {
        self.connections.client().map_err(|error| unavailable(&connections::reason(error)))?;
        let request = self.message(session, body).ok_or_else(|| unavailable("nothing can be sent"))?;
        let response = request.send().await.map_err(|error| {
            // Without a connection nothing was sent.
            let sent = !error.is_connect();
            let reason = connections::reason(error);
            if sent { cut(&reason) } else { unavailable(&reason) }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::NOT_FOUND && session.is_some_and(|session| session.id.is_some()) {
            return Err(Failure::Expired);
        }
        let retry_after = connections::retry_after(response.headers());
        let reason = status.to_string();
        Err(match status.as_u16() {
            429 | 503 => McpError::Unavailable { reason, retry_after },
            // Of what failed in its middle nobody knows how far it came.
            408 | 500..=599 => McpError::Cut { reason },
            _ => McpError::Rejected { reason },
        }
        .into())
    }

    fn head(&self, session: Option<&Session>) -> HeaderMap {
        let mut head = HeaderMap::new();
        for (name, value, _) in &self.headers {
            head.insert(name.clone(), value.clone());
        }
        if let Some(session) = session {
            head.insert(VERSION, session.version.clone());
            if let Some(id) = &session.id {
                head.insert(SESSION, id.clone());
            }
        }
        head
    }

    /// The answer to the request of this number, in whichever form it comes.
    async fn answer(
        &self,
        session: Option<&Session>,
        response: Response,
        number: u64,
    ) -> Result<Answer, Failure> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.to_ascii_lowercase().starts_with("text/event-stream") {
            return Ok(self.streamed(session, response, number).await?);
        }
        let body = connections::body(response, ANSWER_MAX_BYTES).await.map_err(|error| match error {
            connections::BodyError::TooLarge => {
                McpError::Failed { message: "its answer is too long".to_owned() }
            }
            connections::BodyError::Cut => cut("the connection broke"),
        })?;
        let answers = ::mcp::messages(&body).into_iter().find_map(|message| match message {
            Message::Answer(of, answer) if of == number => Some(answer),
            Message::Answer(..) | Message::Request(..) | Message::Notification(..) => None,
        });
        Ok(answers.ok_or_else(|| cut("its answer is not of the protocol"))?)
    }

    /// The answer in a stream of events, which is taken up again where it breaks, if the server lets it.
    async fn streamed(
        &self,
        session: Option<&Session>,
        first: Response,
        number: u64,
    ) -> Result<Answer, McpError> {
        let mut left = ANSWER_MAX_BYTES;
        let mut replies = REPLIES_MAX;
        let mut last: Option<String> = None;
        let mut wait = RESUME_WAIT;
        let mut response = first;
        for _ in 0..=RESUMES_MAX {
            let mut events = Events::default();
            while let Ok(Some(piece)) = response.chunk().await {
                left = left
                    .checked_sub(piece.len())
                    .ok_or_else(|| McpError::Failed { message: "its answer is too long".to_owned() })?;
                for event in events.feed(&piece) {
                    wait = event.retry.unwrap_or(wait).min(RESUME_WAIT_MAX);
                    last = event.id.filter(|id| !id.is_empty() && id.len() <= ID_MAX_BYTES).or(last);
                    for message in ::mcp::messages(event.data.as_bytes()) {
                        if let Some(answer) = self.heard(session, message, number, &mut replies).await {
                            return Ok(answer);
                        }
                    }
                }
            }
            let Some(last) = &last else { break };
            tokio::time::sleep(wait).await;
            let Some(next) = self.resume(session, last).await else { break };
            response = next;
        }
        Err(cut("the stream ended before the answer"))
    }

    /// Takes a message of a stream in; the answer, if it is that.
    async fn heard(
        &self,
        session: Option<&Session>,
        message: Message,
        number: u64,
        replies: &mut usize,
    ) -> Option<Answer> {
        match message {
            Message::Answer(of, answer) => return (of == number).then_some(answer),
            Message::Notification(method, _) if method == ::mcp::LIST_CHANGED => {
                self.list_changed.store(true, Ordering::SeqCst);
            }
            Message::Notification(..) => {}
            Message::Request(id, method) => {
                if let (Some(session), Some(left)) = (session, replies.checked_sub(1)) {
                    *replies = left;
                    let _told = self.tell(session, &::mcp::reply(&id, &method)).await;
                }
            }
        }
        None
    }

    async fn resume(&self, session: Option<&Session>, last: &str) -> Option<Response> {
        let client = self.connections.client().ok()?;
        let request = client
            .get(self.url.clone())
            .headers(self.head(session))
            .header(ACCEPT, "text/event-stream")
            .header(LAST_EVENT, HeaderValue::from_str(last).ok()?);
        let response = request.send().await.ok()?;
        response.status().is_success().then_some(response)
    }

    /// Sends a message that wants no answer.
    async fn tell(&self, session: &Session, message: &str) -> Result<(), McpError> {
        let told = timeout(TELL_TIMEOUT, self.post(Some(session), message.to_owned())).await;
        match told {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Failure::Error(McpError::Cut { reason }))) => Err(unavailable(&reason)),
            Ok(Err(Failure::Error(error))) => Err(error),
            Ok(Err(Failure::Expired)) => Err(unavailable("its sessions end as soon as they begin")),
            Err(_) => Err(unavailable("it took too long")),
        }
    }

    /// Ends the session.
    pub(super) async fn close(&self) {
        let session = lock(&self.session).take();
        if let Some(request) = session.and_then(|session| self.ending(&session)) {
            // A server need not know how to end a session.
            let _ended = timeout(TELL_TIMEOUT, request.send()).await;
        }
    }

    /// A server's words without the operator's secrets, should it have repeated them.
    fn redact(&self, words: &str) -> String {
        self.headers.iter().fold(words.to_owned(), |words, (.., secret)| secret.redact(&words))
    }
}

/// How long a server wants to be left alone.
fn wait(error: &McpError) -> Option<Duration> {
    match error {
        McpError::Unavailable { retry_after, .. } => *retry_after,
        _ => None,
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unavailable(reason: &str) -> McpError {
    McpError::Unavailable { reason: reason.to_owned(), retry_after: None }
}

fn rejected(reason: &str) -> McpError {
    McpError::Rejected { reason: reason.to_owned() }
}

fn cut(reason: &str) -> McpError {
    McpError::Cut { reason: reason.to_owned() }
}

fn no_protocol() -> McpError {
    rejected("its answer is not of the protocol")
}
