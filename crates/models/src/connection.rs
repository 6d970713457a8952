//! Connections to one vendor's server, each polled by the task that reads its response.
//!
//! Usually an HTTP client runs a task for each connection, which passes on one chunk of a body each time it wakes. Here
//! the reader of a response polls the connection itself, takes all chunks that have arrived, and wakes once for them.
//! Only idle connections have tasks, which notice when the server closes them.

use std::collections::VecDeque;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// Bounds the connection setup.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle connections are closed after this time.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Limits the idle connections per server.
pub(crate) const IDLE_MAX: usize = 64;
/// The interval of TCP keepalive probes, and how many may stay unanswered.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;
/// Bounds how long sent data may stay unacknowledged.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

type BoxError = Box<dyn Error + Send + Sync>;

/// A failed request or response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VendorConnectionError {
    #[error("connect timed out")]
    Timeout,
    #[error("connect failed")]
    Connect(#[source] BoxError),
    /// The connection broke, or the response is not HTTP.
    #[error("the connection broke")]
    Broken(#[from] hyper::Error),
    /// The body is not in the compression that its header names.
    #[error("the compressed response is unreadable")]
    Unreadable,
    #[error("the proxied request failed")]
    Proxied(#[from] reqwest::Error),
}

/// Opens connections to one server and reuses idle ones. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ConnectionPool {
    connector: HttpConnector,
    tls: Option<TlsConnector>,
    idle: Arc<Idle>,
}

#[derive(Default)]
struct Idle(Mutex<VecDeque<Parked>>);

/// An HTTP/1.1 connection.
struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    /// Reads and writes; completes when the connection is closed.
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    closed: bool,
}

/// A response whose head has arrived. Reading its body polls its connection. Dropping it before the end of the body
/// closes the connection.
pub(crate) struct HttpExchange {
    body: Incoming,
    connection: Option<PooledConnection>,
    waker: Arc<DriverWaker>,
    driver_waker: Waker,
    idle: Arc<Idle>,
}

/// A byte stream, encrypted or not.
trait TransportStream: Read + Write + Send + Unpin {}
impl<T: Read + Write + Send + Unpin> TransportStream for T {}

impl ConnectionPool {
    /// Creates a pool that connects in clear text, or over TLS when `tls` is given.
    pub(crate) fn new(tls: Option<rustls::ClientConfig>) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEPALIVE));
        connector.set_keepalive_interval(Some(KEEPALIVE));
        connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
        let tls = tls.map(|mut config| {
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            TlsConnector::from(Arc::new(config))
        });
        Self { connector, tls, idle: Arc::default() }
    }

    /// Sends a request and waits for the head of its response. When a reused connection was closed before anything was
    /// sent, retries on another one.
    pub(crate) async fn send_request(
        &self,
        uri: &Uri,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<HttpExchange>, VendorConnectionError> {
        loop {
            let (mut connection, reused) = match self.idle.take_ready() {
                Some(connection) => (connection, true),
                None => (self.connect(uri).await?, false),
            };
            match connection.send_request(request).await {
                Ok(response) => {
                    let waker = Arc::new(DriverWaker::default());
                    let driver_waker = Waker::from(waker.clone());
                    let (idle, connection) = (self.idle.clone(), Some(connection));
                    return Ok(response.map(|body| HttpExchange {
                        body,
                        connection,
                        waker,
                        driver_waker,
                        idle,
                    }));
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if reused => request = unsent,
                    _ => return Err(failed.into_error().into()),
                },
            }
        }
    }

    async fn connect(&self, uri: &Uri) -> Result<PooledConnection, VendorConnectionError> {
        let connecting = timeout(CONNECT_TIMEOUT, self.connect_wire(uri)).await;
        let wire = connecting
            .map_err(|_| VendorConnectionError::Timeout)?
            .map_err(VendorConnectionError::Connect)?;
        let (sender, driver) = http1::handshake(wire).await?;
        // The response's future or body reports how the connection ended.
        let driver = Box::pin(async move { drop(driver.await) });
        Ok(PooledConnection { sender, driver, closed: false })
    }

    async fn connect_wire(&self, uri: &Uri) -> Result<Box<dyn TransportStream>, BoxError> {
        let mut connector = self.connector.clone();
        poll_fn(|context| connector.poll_ready(context)).await?;
        let stream = connector.call(uri.clone()).await?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())?;
        Ok(Box::new(TokioIo::new(tls.connect(name, stream.into_inner()).await?)))
    }
}

impl PooledConnection {
    /// Sends a request and drives the connection until the head of the response arrives.
    async fn send_request(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let mut sending = std::pin::pin!(self.sender.try_send_request(request));
        let (driver, closed) = (&mut self.driver, &mut self.closed);
        poll_fn(|context| {
            if let Poll::Ready(sent) = sending.as_mut().poll(context) {
                return Poll::Ready(sent);
            }
            if !*closed {
                *closed = driver.as_mut().poll(context).is_ready();
            }
            sending.as_mut().poll(context)
        })
        .await
    }

    /// Completes when the connection is closed.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.closed {
            ready!(self.driver.as_mut().poll(context));
            self.closed = true;
        }
        Poll::Ready(())
    }

    /// Returns true when the connection accepts a request.
    fn is_ready(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.poll_closed(&mut context).is_pending() && self.sender.is_ready()
    }
}

impl HttpExchange {
    /// Polls the next chunk of the body; `None` at its end, after which the connection can be reused.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, hyper::Error>> {
        if let Poll::Ready(chunk) = self.poll_handed_over() {
            return Poll::Ready(chunk);
        }
        self.waker.begin_poll(context.waker());
        if let Some(connection) = &mut self.connection {
            // A closed connection reports its error through the body.
            let _ = connection.poll_closed(&mut Context::from_waker(&self.driver_waker));
        }
        let handed_over = self.poll_handed_over();
        if self.waker.end_poll() && handed_over.is_pending() {
            context.waker().wake_by_ref();
        }
        handed_over
    }

    /// Takes a chunk that the connection has passed on. Needs no waker: it is called after each poll of the connection.
    fn poll_handed_over(&mut self) -> Poll<Result<Option<Bytes>, hyper::Error>> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(&mut context)) {
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Poll::Ready(Ok(Some(chunk)));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    return Poll::Ready(Err(error));
                }
                None => {
                    if let Some(connection) = self.connection.take() {
                        self.idle.park_connection(connection);
                    }
                    return Poll::Ready(Ok(None));
                }
            }
        }
    }
}

/// Wakes the task that reads a response, except while that task polls the connection: it sees the effects anyway.
#[derive(Default)]
struct DriverWaker {
    polling: AtomicBool,
    woken: AtomicBool,
    task: AtomicWaker,
}

impl DriverWaker {
    fn begin_poll(&self, task: &Waker) {
        self.task.register(task);
        self.polling.store(true, Ordering::SeqCst);
        self.woken.store(false, Ordering::SeqCst);
    }

    /// Ends a poll. Returns true if the connection was woken during it.
    fn end_poll(&self) -> bool {
        self.polling.store(false, Ordering::SeqCst);
        self.woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

/// An idle connection, and the task that closes it.
struct Parked {
    slot: Arc<Mutex<Option<PooledConnection>>>,
    watch: AbortHandle,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Idle {
    /// Keeps a connection for reuse until it times out or the server closes it.
    fn park_connection(&self, mut connection: PooledConnection) {
        // Reads the rest of the body, if any.
        if !connection.is_ready() {
            return;
        }
        let slot = Arc::new(Mutex::new(Some(connection)));
        let watched = slot.clone();
        let watch = tokio::spawn(async move {
            let closed = poll_fn(|context| match &mut *lock_unpoisoned(&watched) {
                Some(connection) => connection.poll_closed(context),
                None => Poll::Ready(()),
            });
            let _either_way = timeout(IDLE_TIMEOUT, closed).await;
            drop(lock_unpoisoned(&watched).take());
        });
        let mut idle = lock_unpoisoned(&self.0);
        idle.retain(|parked| lock_unpoisoned(&parked.slot).is_some());
        if idle.len() >= IDLE_MAX {
            idle.pop_front();
        }
        idle.push_back(Parked { slot, watch: watch.abort_handle() });
    }

    /// Takes the last used connection that accepts a request.
    fn take_ready(&self) -> Option<PooledConnection> {
        loop {
            let parked = lock_unpoisoned(&self.0).pop_back()?;
            let connection = lock_unpoisoned(&parked.slot).take();
            if let Some(mut connection) = connection
                && connection.is_ready()
            {
                return Some(connection);
            }
        }
    }
}

fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
