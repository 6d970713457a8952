//! Sends files from the kernel's page cache to the socket, without a copy in memory.
//!
//! The HTTP library accepts only bytes. For a download, a plain HTTP/1.1 connection is therefore taken from the
//! library, as for an event stream, and returned for the next request. Over TLS and HTTP/2 a download is the body of
//! its response.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::{Buf, Bytes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use workspace::FileTransfer;

use crate::flow_control::BodyAborted;
use crate::flow_control::Stalled;
use crate::limits::RAW_FILE_MIN_BYTES;
use crate::outgoing::Until;
use crate::raw_head::raw_head;

/// The file behind a response, until it is sent.
#[derive(Clone)]
pub(crate) struct FileSlot(Arc<Mutex<FileTransferSource>>);

struct FileTransferSource {
    transfer: Option<FileTransfer>,
    /// Completes when the transfer must be aborted.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl FileSlot {
    /// Marks a response whose body is this transfer, unless the file is so short that a copy costs less than taking
    /// over the connection.
    pub(crate) fn mark_response(response: &mut Response, transfer: FileTransfer, length: u64) {
        if length >= RAW_FILE_MIN_BYTES {
            let source = FileTransferSource { transfer: Some(transfer), end: None };
            response.extensions_mut().insert(Self(Arc::new(Mutex::new(source))));
        }
    }
}

/// Returns true if the body of the response is part of a file that [`send_file`] can send.
#[must_use]
pub fn is_file(response: &Response) -> bool {
    response.extensions().get::<FileSlot>().is_some()
}

/// Aborts the response when `end` completes, on every path that sends it.
#[must_use]
pub fn abort_response_when<F>(response: Response, end: impl Fn() -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    if let Some(FileSlot(source)) = response.extensions().get() {
        source.lock().unwrap_or_else(PoisonError::into_inner).end = Some(Box::pin(end()));
    }
    response.map(|body| Body::new(Until::new(body, end())))
}

/// Sends a response for which [`is_file`] returned true. If it is the `last` one of its connection, its head says so.
///
/// Sends at most 128 KiB at once. Data that is not in memory is read and sent by another thread.
///
/// # Errors
/// When the connection breaks, the client takes nothing for the whole of `stall_timeout`, the response is aborted, or
/// the file became shorter. The connection must then be closed, because the client has less than was announced.
pub async fn send_file(
    connection: &TcpStream,
    response: Response,
    last: bool,
    stall_timeout: Duration,
) -> io::Result<()> {
    let (parts, _) = response.into_parts();
    let source = parts.extensions.get::<FileSlot>().map(|FileSlot(source)| source.clone());
    let (transfer, end) = source.map_or((None, None), |source| {
        let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
        (source.transfer.take(), source.end.take())
    });
    let Some(transfer) = transfer else { return Err(io::Error::other("the file was sent already")) };
    let sending = send_all(connection, raw_head(parts, last), transfer, stall_timeout);
    let Some(end) = end else { return sending.await };
    tokio::select! {
        sent = sending => sent,
        () = end => Err(io::Error::other(BodyAborted)),
    }
}

async fn send_all(
    connection: &TcpStream,
    mut head: Bytes,
    mut transfer: FileTransfer,
    stall_timeout: Duration,
) -> io::Result<()> {
    while !head.is_empty() {
        // Sent in one packet with the data that follows.
        let sent = || send(connection, &head, SendFlags::MORE | SendFlags::NOSIGNAL).map_err(io::Error::from);
        let sent = in_time(stall_timeout, connection.async_io(Interest::WRITABLE, sent)).await?;
        head.advance(sent);
    }
    while !transfer.is_done() {
        if transfer.is_at_hand() {
            let sent = || transfer.send_piece(connection);
            in_time(stall_timeout, connection.async_io(Interest::WRITABLE, sent)).await?;
            continue;
        }
        let room = || has_room(connection);
        in_time(stall_timeout, connection.async_io(Interest::WRITABLE, room)).await?;
        let socket = connection.as_fd().try_clone_to_owned()?;
        let sending = spawn_blocking(move || {
            let sent = transfer.send_piece(socket);
            (transfer, sent)
        });
        let sent;
        (transfer, sent) = sending.await.map_err(io::Error::other)?;
        match sent {
            Err(full) if full.kind() == io::ErrorKind::WouldBlock => {}
            sent => sent?,
        }
    }
    Ok(())
}

async fn in_time<T>(stall_timeout: Duration, sent: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let stalled = |_| Err(io::Error::new(io::ErrorKind::TimedOut, Stalled));
    timeout(stall_timeout, sent).await.unwrap_or_else(stalled)
}

/// Fails when the socket cannot take any data, regardless of cached readiness.
fn has_room(connection: &TcpStream) -> io::Result<()> {
    let mut sockets = [PollFd::new(connection, PollFlags::OUT)];
    match poll(&mut sockets, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(other) => Err(other.into()),
    }
}
