//! The bridge between the service's connections and a kernel's link: a process of the jail beside the kernel.
//!
//! ```text
//! service ── agent.sock ── bridge ── packets over a socket pair ── kernel ── TCP ── agent
//! ```
//! The link has no other host and no route (see [`super::carrier`] for how packets pass). Each connection of the service becomes
//! a TCP connection to the agent, with bounds: buffers of [`BUFFER_BYTES`] each way, and a side that does not read stops the
//! other one. The kernel and all it sends are untrusted; frames that match no connection are dropped.

use std::io::{self, PipeWriter, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant as Clock};

use protocol::link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, send};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{self, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Cidr};

use super::carrier::KernelLink;
use super::sys;

/// The maximum number of concurrent connections; the service needs one for each of its processes.
const CONNECTIONS_MAX: usize = 16;
/// The buffer of a connection for each direction.
const BUFFER_BYTES: usize = 256 * 1024;
/// The maximum number of frames that are taken from the kernel before connections are served.
const FRAMES_PER_TURN_MAX: u32 = 64;
/// The first port of connections; ports are used in rotation.
const PORT_FIRST: u16 = 49_152;
/// The longest time after which the kernel must have acknowledged sent data.
const SILENCE_TIMEOUT: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);
/// Serves connections until the kernel has exited. Writes a byte to `ready` once the machine has sent its first
/// frame, which it does when its listeners are open. SIGTERM asks the machine to power off.
pub(crate) fn run_bridge(listener: BorrowedFd<'_>, link: KernelLink, ready: PipeWriter) -> io::Result<()> {
    let signals = sys::open_signal_fd()?;
    rustix::io::ioctl_fionbio(listener, true)?;
    let mut bridge = LinkBridge::new(link);
    let mut ready = Some(ready);
    loop {
        let connects = bridge.device.is_up && bridge.clients.len() < CONNECTIONS_MAX;
        let events = bridge.wait_for_events(&signals, connects.then_some(listener))?;
        if events.signalled && sys::received_term(&signals) {
            bridge.power_off();
        }
        if events.connected
            && let Ok(client) = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        {
            bridge.open_tcp(link::AGENT.port(), Some(client));
        }
        bridge.move_data();
        if bridge.device.is_up
            && let Some(mut ready) = ready.take()
        {
            ready.write_all(b"r")?;
        }
        if let Some(closed) = bridge.device.closed.take() {
            return closed;
        }
    }
}

struct BridgeEvents {
    signalled: bool,
    connected: bool,
}

struct LinkBridge {
    device: KernelLink,
    interface: Interface,
    sockets: SocketSet<'static>,
    clients: Vec<BridgeClient>,
    started: Clock,
    ports_used: u16,
}

/// A TCP connection, and the service's connection that it carries. The request to power off carries none.
struct BridgeClient {
    connection: SocketHandle,
    stream: Option<OwnedFd>,
    /// True if the service has ended its side.
    ended: bool,
}

impl LinkBridge {
    fn new(mut device: KernelLink) -> Self {
        let started = Clock::now();
        let mut interface =
            Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::from_micros(0));
        interface.update_ip_addrs(|addresses| {
            // The list is empty and has room for one.
            let _ = addresses.push(IpCidr::Ipv4(Ipv4Cidr::new(link::HOST, link::PREFIX_BITS)));
        });
        Self {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
            clients: Vec::new(),
            started,
            ports_used: 0,
        }
    }

    fn smoltcp_now(&self) -> Instant {
        Instant::from_micros(i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    fn open_tcp(&mut self, port: u16, stream: Option<OwnedFd>) {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_BYTES]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        socket.set_timeout(Some(SILENCE_TIMEOUT));
        let local = PORT_FIRST + self.ports_used;
        self.ports_used = (self.ports_used + 1) % (u16::MAX - PORT_FIRST);
        if socket.connect(self.interface.context(), (link::MACHINE, port), local).is_ok() {
            let connection = self.sockets.add(socket);
            self.clients.push(BridgeClient { connection, stream, ended: false });
        }
    }

    fn power_off(&mut self) {
        self.open_tcp(link::POWER_OFF.port(), None);
    }

    /// Waits for an event.
    fn wait_for_events(
        &mut self,
        signals: &OwnedFd,
        listener: Option<BorrowedFd<'_>>,
    ) -> io::Result<BridgeEvents> {
        let now = self.smoltcp_now();
        let delay = self.interface.poll_delay(now, &self.sockets).map(Duration::from);
        let delay = if self.device.has_packet() { Some(Duration::ZERO) } else { delay };
        let delay =
            delay.map(|delay| Timespec::try_from(delay).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
        let mut fds =
            vec![PollFd::new(signals, PollFlags::IN), PollFd::new(&self.device, self.device.poll_flags())];
        let is_listening = listener.is_some();
        fds.extend(listener.map(|listener| PollFd::from_borrowed_fd(listener, PollFlags::IN)));
        let clients = self.clients.iter().filter_map(|client| {
            let wanted = client.poll_flags(self.sockets.get(client.connection));
            let stream = client.stream.as_ref().filter(|_| !wanted.is_empty())?;
            Some(PollFd::new(stream, wanted))
        });
        fds.extend(clients);
        match poll(&mut fds, delay.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok(BridgeEvents { signalled: is_ready(0), connected: is_listening && is_ready(2) })
    }

    /// Moves all data that is ready in both directions.
    fn move_data(&mut self) {
        self.device.flush_unsent();
        let now = self.smoltcp_now();
        for _ in 0..FRAMES_PER_TURN_MAX {
            let result = self.interface.poll_ingress_single(now, &mut self.device, &mut self.sockets);
            if matches!(result, smoltcp::iface::PollIngressSingleResult::None) {
                break;
            }
        }
        let sockets = &mut self.sockets;
        self.clients.retain_mut(|client| {
            let goes_on = client.move_bytes(sockets.get_mut(client.connection));
            if !goes_on {
                sockets.get_mut::<tcp::Socket<'_>>(client.connection).abort();
            }
            goes_on
        });
        // Aborted connections send their reset here and are forgotten.
        while !matches!(
            self.interface.poll_egress(now, &mut self.device, &mut self.sockets),
            smoltcp::iface::PollResult::None
        ) {}
        let retained: Vec<SocketHandle> = self.clients.iter().map(|client| client.connection).collect();
        let gone: Vec<SocketHandle> = self
            .sockets
            .iter()
            .map(|(handle, _)| handle)
            .filter(|handle| !retained.contains(handle))
            .collect();
        for handle in gone {
            self.sockets.remove(handle);
        }
    }
}

impl BridgeClient {
    fn poll_flags(&self, socket: &tcp::Socket<'_>) -> PollFlags {
        let mut wanted = PollFlags::empty();
        if !self.ended && socket.can_send() {
            wanted |= PollFlags::IN;
        }
        if socket.can_recv() {
            wanted |= PollFlags::OUT;
        }
        wanted
    }

    /// Moves bytes in both directions. Returns false when the connection has ended.
    fn move_bytes(&mut self, socket: &mut tcp::Socket<'_>) -> bool {
        let Some(stream) = &self.stream else { return socket.state() != State::Closed };
        while !self.ended && socket.can_send() {
            match socket.send(|room| consumed_bytes(rustix::io::read(stream, room))) {
                Ok(Ok(0)) => {
                    self.ended = true;
                    socket.close();
                }
                Ok(Ok(_)) => {}
                Ok(Err(Errno::AGAIN | Errno::INTR)) => break,
                Ok(Err(_)) | Err(_) => return false,
            }
        }
        while socket.can_recv() {
            match socket.recv(|bytes| consumed_bytes(send(stream, bytes, SendFlags::NOSIGNAL))) {
                Ok(Ok(_)) => {}
                Ok(Err(Errno::AGAIN | Errno::INTR)) => break,
                Ok(Err(_)) | Err(_) => return false,
            }
        }
        match socket.state() {
            State::Closed | State::TimeWait => false,
            // One side has ended, and all data from the agent was forwarded. HTTP/2 does not continue in one direction.
            State::CloseWait | State::FinWait2 => socket.can_recv(),
            _ => true,
        }
    }
}

/// Returns the number of bytes that a call consumed from a buffer, and its outcome.
fn consumed_bytes(outcome: rustix::io::Result<usize>) -> (usize, rustix::io::Result<usize>) {
    (outcome.unwrap_or(0), outcome)
}
