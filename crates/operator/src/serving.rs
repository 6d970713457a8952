//! Serves the operators' requests on the admin socket of a running service.

use std::time::Duration;

use control::Admin;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::commands;
use crate::error::CliError;
use crate::request::{ExecutionContext, ServiceFacts};
use crate::socket::{REQUEST_MAX_BYTES, SocketAnswer};

/// The timeout for receiving a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Carries out requests until the service ends.
pub async fn serve_admin_socket(
    listener: UnixListener,
    admin: Admin,
    facts: ServiceFacts,
    shutdown: CancellationToken,
) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return,
        };
        match stream {
            Ok((stream, _)) => {
                tokio::spawn(serve_admin_connection(stream, admin.clone(), facts.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "admin command rejected");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_admin_connection(stream: UnixStream, admin: Admin, facts: ServiceFacts) {
    // Anyone with access to the socket is an operator; the kernel reports which user.
    let admin = match stream.peer_cred() {
        Ok(who) => admin.with_actor(format!("operator uid {}", who.uid())),
        Err(_) => admin,
    };
    let (input, mut output) = stream.into_split();
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(REQUEST_MAX_BYTES));
    let read = tokio::time::timeout(REQUEST_TIMEOUT, input.read_until(b'\n', &mut line)).await;
    if !matches!(read, Ok(Ok(_))) {
        return;
    }
    let answered = execute_line(&line, &ExecutionContext::new(&admin, Some(&facts))).await;
    let answer = answered.map_or_else(SocketAnswer::Failed, SocketAnswer::Done);
    if let Ok(mut line) = serde_json::to_vec(&answer) {
        line.push(b'\n');
        // The caller may have gone; the command was executed nevertheless.
        let _ = output.write_all(&line).await;
    }
}

/// Carries out the request of a line: an object with the name of the request and its parameters.
async fn execute_line(line: &[u8], context: &ExecutionContext<'_>) -> Result<Value, CliError> {
    let request: Option<Map<String, Value>> = serde_json::from_slice(line).ok();
    match request.and_then(|request| request.into_iter().next()) {
        Some((name, parameters)) => commands::execute_by_name(&name, parameters, context).await,
        None => Err(commands::unknown_request_error()),
    }
}
