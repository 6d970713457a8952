//! A machine whose calls never return.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use domain::id::MessageId;
use domain::turn::HostFrame;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use machine::Driver;
use machine::simulated::{Simulated, SimulatedConnection};
use protocol::index::{CHANGED_PATH, INDEX_PATH};
use protocol::session::read_host_line;
use tokio::sync::mpsc;

/// The frames that a machine received, by session.
pub(crate) type Sessions = Arc<Mutex<Vec<TakeoverSession>>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct TakeoverSession {
    pub(crate) answer: Option<MessageId>,
    pub(crate) runs: u32,
    pub(crate) cancels: u32,
    pub(crate) over: bool,
}

/// Runs a machine whose calls never return.
pub(crate) async fn run_guest(connection: SimulatedConnection, sessions: Sessions) {
    let instance = connection.instance;
    let service = service_fn(move |request: Request<Incoming>| {
        let sessions = sessions.clone();
        async move {
            let mut response = Response::builder();
            let path = request.uri().path();
            let body = if [INDEX_PATH, CHANGED_PATH].contains(&path) {
                response = response.status(404);
                Full::default().boxed_unsync()
            } else if path == "/hello" {
                let hello = format!("{{\"version\":{},\"instance\":\"{instance}\"}}", protocol::VERSION);
                Full::new(Bytes::from(hello)).boxed_unsync()
            } else {
                // The response ends when the host has ended its side.
                let (open, ended) = mpsc::channel::<Bytes>(1);
                tokio::spawn(serve_session(request.into_body(), open, sessions));
                let lines = stream::unfold(ended, async |mut ended| {
                    let line = ended.recv().await?;
                    Some((Ok::<_, std::convert::Infallible>(Frame::data(line)), ended))
                });
                StreamBody::new(lines).boxed_unsync()
            };
            Ok::<_, std::convert::Infallible>(response.body(body).expect("a response"))
        }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The host closes the connection.
    let _ = server.serve_connection(TokioIo::new(connection.stream), service).await;
}

/// Returns a driver of such machines.
pub(crate) fn guest_driver(sessions: &Sessions) -> Driver {
    let sessions = sessions.clone();
    Driver::Simulated(Simulated::new(move |connection| run_guest(connection, sessions.clone())))
}

pub(crate) async fn serve_session(mut body: Incoming, open: mpsc::Sender<Bytes>, sessions: Sessions) {
    let index = {
        let mut sessions = sessions.lock().expect("whole");
        sessions.push(TakeoverSession::default());
        sessions.len() - 1
    };
    let mut buffer = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let session = &mut sessions.lock().expect("whole")[index];
            match read_host_line(&line).expect("a line of the host") {
                HostFrame::Open(open) => session.answer = Some(open.answer),
                HostFrame::Run(_) => session.runs += 1,
                HostFrame::Cancel { .. } => session.cancels += 1,
                HostFrame::Ack { .. } => {}
            }
        }
    }
    sessions.lock().expect("whole")[index].over = true;
    drop(open);
}
