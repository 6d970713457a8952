//! The listening socket that the machine's driver left open for the agent.
#![expect(unsafe_code, reason = "an inherited file descriptor is taken over by its number")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::Duration;

use domain::id::InstanceId;
use protocol::mcp::PLUGINS;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrAny, getsockname};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use crate::init::log_end_reason;
use crate::mcp::McpServers;
use crate::serve::Guest;
use crate::tools::ToolLimits;

/// Names the descriptor of the listening socket.
pub(crate) const LISTEN_FD: &str = "CAUSERIE_LISTEN_FD";
/// The argument with which the agent waits on its standard input until the machine is introduced.
pub const WAITS_ARGUMENT: &str = "waits";
/// After this time without a connection the machine ends itself, because no service is left to stop it.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);
/// The pause after `accept` fails, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the inherited socket until the machine ends, after the machine's introduction if this process `waits` for it.
#[must_use]
pub fn serve_agent(waits: bool) -> ExitCode {
    let introduced = if waits { wait_for_introduction() } else { Ok(()) };
    match introduced
        .map_err(|error| format!("waiting for the host failed: {error}"))
        .and_then(|()| run_listener())
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            log_end_reason(&reason);
            ExitCode::FAILURE
        }
    }
}

/// Reports that this process waits, and waits for a line on its standard input.
fn wait_for_introduction() -> io::Result<()> {
    let input = rustix::stdio::stdin();
    rustix::io::write(input, &[1])?;
    match rustix::io::read(input, &mut [0])? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn run_listener() -> Result<(), String> {
    let listener = take_inherited_socket()?;
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| error.to_string())?;
    let instance = InstanceId::from_random(u128::from_be_bytes(bits));
    let guest =
        Guest::new(instance, ToolLimits::from_environment(), Some(McpServers::from_folder(PLUGINS.as_ref())));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(accept_connections(listener, guest))
}

async fn accept_connections(listener: OwnedFd, guest: Guest) -> Result<(), String> {
    let listener = Listener::new(listener).map_err(|error| error.to_string())?;
    let connections = watch::Sender::new(0_usize);
    tokio::spawn(guest.clone().keep_index());
    let abandoned = wait_until_abandoned(connections.subscribe());
    tokio::pin!(abandoned);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept_stream() => accepted,
            () = &mut abandoned => return Err("no connection from a service for an hour".to_owned()),
        };
        match accepted {
            Ok(stream) => {
                let (guest, connections) = (guest.clone(), connections.clone());
                connections.send_modify(|open| *open += 1);
                tokio::spawn(async move {
                    guest.serve_connection(stream).await;
                    connections.send_modify(|open| *open -= 1);
                });
            }
            Err(error) => {
                log_end_reason(&format!("accept failed: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits until there has been no connection for [`ABANDONED_AFTER`].
async fn wait_until_abandoned(mut connections: watch::Receiver<usize>) {
    loop {
        // The sender lives as long as the listener.
        let _ = connections.wait_for(|open| *open == 0).await;
        let reconnected = connections.wait_for(|open| *open > 0);
        if tokio::time::timeout(ABANDONED_AFTER, reconnected).await.is_err() {
            return;
        }
    }
}

/// The inherited socket: a Unix socket in a sandbox, TCP over the link to the host in a virtual machine.
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let family = getsockname(&socket).map(|address: SocketAddrAny| address.address_family())?;
        Ok(match family {
            AddressFamily::INET => Self::Tcp(TcpListener::from_std(socket.into())?),
            _ => Self::Unix(UnixListener::from_std(socket.into())?),
        })
    }

    async fn accept_stream(&self) -> io::Result<Box<dyn HostStream>> {
        Ok(match self {
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        })
    }
}

trait HostStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> HostStream for T {}

/// Takes the socket over and hides it, and this process, from the tools.
fn take_inherited_socket() -> Result<OwnedFd, String> {
    let number: RawFd = std::env::var(LISTEN_FD)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|number| *number > 2)
        .ok_or_else(|| format!("{LISTEN_FD} is not a socket; this program is started by a machine driver"))?;
    // SAFETY: the driver opened this descriptor for this process only, and this is its first use: nothing in this
    // process has used a descriptor before.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let text = |error: io::Error| format!("{LISTEN_FD}: {error}");
    fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|error| text(error.into()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| text(error.into()))?;
    rustix::io::ioctl_fionbio(&socket, true).map_err(|error| text(error.into()))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn listener_unused_for_long_is_abandoned() {
        let connections = watch::Sender::new(0);
        let mut end = tokio::spawn(wait_until_abandoned(connections.subscribe()));
        tokio::time::advance(ABANDONED_AFTER / 2).await;
        connections.send_replace(1);
        let waited = tokio::time::timeout(10 * ABANDONED_AFTER, &mut end).await;
        assert!(waited.is_err(), "a machine that is connected is not abandoned");
        connections.send_replace(0);
        let before = tokio::time::Instant::now();
        end.await.expect("it ends");
        assert_eq!(before.elapsed(), ABANDONED_AFTER);
    }
}
