//! How packets pass between the bridge and a kernel: as Ethernet frames over datagrams to a User Mode Linux kernel, as
//! frames of a stream to the serial port of a QEMU machine. All incoming data is untrusted.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use protocol::link::{self, ASK_TIME, Introduction, MTU, PORT_READY};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::{IpProtocol, Ipv4Packet, UdpPacket};

/// The hardware address of the kernel's end.
pub(crate) const MACHINE_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 2];
const ETHERNET_HEADER: [u8; 14] = {
    let (to, from) = (MACHINE_MAC, link::HOST_MAC);
    [to[0], to[1], to[2], to[3], to[4], to[5], from[0], from[1], from[2], from[3], from[4], from[5], 8, 0]
};
/// The maximum number of bytes that are read of a stream at once, and that it holds unread.
const READ_BYTES: usize = 64 * 1024;

/// The link of a kernel: IP packets over a socket.
pub(crate) struct KernelLink {
    socket: OwnedFd,
    framing: PacketFraming,
    /// Bytes that did not fit into the kernel's queue.
    unsent: Option<Vec<u8>>,
    /// True once the machine has announced that its listeners are open.
    pub(crate) is_up: bool,
    /// The outcome once the kernel has exited, or has broken the rules of the link.
    pub(crate) closed: Option<io::Result<()>>,
}

/// How packets are delimited.
enum PacketFraming {
    Ethernet,
    Port {
        received: Vec<u8>,
        /// True once the machine's first frame was received and answered.
        is_introduced: bool,
    },
}

impl KernelLink {
    /// A link to a User Mode Linux kernel, over a socket that keeps frames apart.
    pub(crate) fn from_ethernet(socket: OwnedFd) -> io::Result<Self> {
        Self::new(socket, PacketFraming::Ethernet)
    }

    /// A link to the serial port of a machine that boots, over a stream.
    pub(crate) fn from_serial_port(socket: OwnedFd) -> io::Result<Self> {
        Self::new(socket, PacketFraming::Port { received: Vec::new(), is_introduced: false })
    }

    /// A link to the serial port of a machine that continues from a saved one: it has already reported that it is
    /// ready, and is introduced at once.
    pub(crate) fn saved_port(socket: OwnedFd) -> io::Result<Self> {
        let mut link = Self::new(socket, PacketFraming::Port { received: Vec::new(), is_introduced: true })?;
        link.send_bytes(link::encode_frame(&new_introduction()?.to_bytes()));
        Ok(link)
    }

    fn new(socket: OwnedFd, framing: PacketFraming) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self { socket, framing, unsent: None, is_up: false, closed: None })
    }

    /// Returns the events that the link waits for.
    pub(crate) const fn poll_flags(&self) -> PollFlags {
        if self.unsent.is_some() { PollFlags::IN.union(PollFlags::OUT) } else { PollFlags::IN }
    }

    /// Returns true if a received packet was not taken yet, which no event announces.
    pub(crate) fn has_packet(&self) -> bool {
        let PacketFraming::Port { received, .. } = &self.framing else { return false };
        self.unsent.is_none() && link::has_frame(received)
    }

    pub(crate) fn flush_unsent(&mut self) {
        if let Some(bytes) = self.unsent.take() {
            self.send_bytes(bytes);
        }
    }

    fn send_packet(&mut self, packet: &[u8]) {
        let frame = match self.framing {
            PacketFraming::Ethernet => [&ETHERNET_HEADER, packet].concat(),
            PacketFraming::Port { .. } => link::encode_frame(packet),
        };
        self.send_bytes(frame);
    }

    fn send_bytes(&mut self, mut bytes: Vec<u8>) {
        match send(&self.socket, &bytes, SendFlags::NOSIGNAL) {
            // A stream may take a part.
            Ok(sent) if sent < bytes.len() => {
                bytes.drain(..sent);
                self.unsent = Some(bytes);
            }
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => self.unsent = Some(bytes),
            Err(_) => self.closed = Some(Ok(())),
        }
    }

    fn receive_packet(&mut self) -> Option<Vec<u8>> {
        let packet = match self.framing {
            PacketFraming::Ethernet => self.receive_datagram(),
            PacketFraming::Port { .. } => self.receive_frame(),
        }?;
        self.is_up |= is_announcement(&packet);
        Some(packet)
    }

    fn receive_datagram(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; ETHERNET_HEADER.len() + MTU];
        let length = self.receive_bytes(&mut frame)?;
        frame.truncate(length);
        frame.drain(..ETHERNET_HEADER.len().min(length));
        Some(frame)
    }

    fn receive_frame(&mut self) -> Option<Vec<u8>> {
        loop {
            let PacketFraming::Port { received, is_introduced } = &mut self.framing else { return None };
            match link::take_frame(received) {
                Err(error) => {
                    self.closed = Some(Err(io::Error::other(error)));
                    return None;
                }
                Ok(Some(content)) if *is_introduced && content == ASK_TIME => {
                    if let Err(error) = self.tell_time() {
                        self.closed = Some(Err(error));
                    }
                    if self.closed.is_some() || self.unsent.is_some() {
                        return None;
                    }
                }
                Ok(Some(content)) if *is_introduced => return Some(content),
                Ok(Some(content)) => {
                    *is_introduced = true;
                    if let Err(error) = self.send_introduction(&content) {
                        self.closed = Some(Err(error));
                        return None;
                    }
                }
                Ok(None) => {
                    let mut bytes = vec![0; READ_BYTES];
                    let length = self.receive_bytes(&mut bytes)?;
                    let PacketFraming::Port { received, .. } = &mut self.framing else { return None };
                    received.extend_from_slice(bytes.get(..length).unwrap_or_default());
                }
            }
        }
    }

    fn tell_time(&mut self) -> io::Result<()> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
        let nanos = u64::try_from(time.as_nanos()).map_err(io::Error::other)?;
        self.send_bytes(link::encode_frame(&nanos.to_le_bytes()));
        Ok(())
    }

    /// Answers the machine's first frame with fresh entropy.
    fn send_introduction(&mut self, first: &[u8]) -> io::Result<()> {
        if first != PORT_READY {
            return Err(io::Error::other("the machine did not report that it is ready"));
        }
        self.send_bytes(link::encode_frame(&new_introduction()?.to_bytes()));
        Ok(())
    }

    /// Receives bytes. Returns their number; `None` if nothing is ready.
    fn receive_bytes(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match recv(&self.socket, buffer, RecvFlags::empty()) {
            Ok((0, _)) => {
                self.closed = Some(Ok(()));
                None
            }
            Ok((length, _)) => Some(length),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) => {
                self.closed = Some(Ok(()));
                None
            }
        }
    }
}

/// Returns fresh random bytes for a machine that has just reported that it is ready.
fn new_introduction() -> io::Result<Introduction> {
    let mut entropy = [0; 64];
    File::open("/dev/urandom")?.read_exact(&mut entropy)?;
    Ok(Introduction { entropy })
}

/// Returns true for the datagram that announces the machine. Other packets may come before it, from the machine's kernel.
fn is_announcement(packet: &[u8]) -> bool {
    let Ok(ip) = Ipv4Packet::new_checked(packet) else { return false };
    if (ip.dst_addr(), ip.next_header()) != (link::HOST, IpProtocol::Udp) {
        return false;
    }
    UdpPacket::new_checked(ip.payload())
        .is_ok_and(|udp| udp.dst_port() == link::AGENT.port() && udp.payload() == link::ANNOUNCEMENT)
}

impl AsFd for KernelLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl phy::Device for KernelLink {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        if self.unsent.is_some() {
            return None; // a packet may have to be answered
        }
        let packet = self.receive_packet()?;
        Some((Received(packet), Sending(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        if self.unsent.is_some() || self.closed.is_some() { None } else { Some(Sending(self)) }
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        // Frames pass through memory; the kernel checks received frames, as always.
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}

pub(crate) struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, use_packet: F) -> R {
        use_packet(&self.0)
    }
}

pub(crate) struct Sending<'a>(&'a mut KernelLink);

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut packet = vec![0; length];
        let result = fill(&mut packet);
        self.0.send_packet(&packet);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a datagram of IPv4.
    fn ipv4_datagram(to: [u8; 4], port: u16, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(28 + content.len()).expect("short").to_be_bytes();
        let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 17, 0, 0, 169, 254, 77, 2];
        packet.extend(to);
        packet.extend([0x30, 0x39]);
        packet.extend(port.to_be_bytes());
        packet.extend(u16::try_from(8 + content.len()).expect("short").to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(content);
        packet
    }

    #[test]
    fn is_announcement_rejects_other_datagrams() {
        let (host, port) = (link::HOST.octets(), link::AGENT.port());
        assert!(is_announcement(&ipv4_datagram(host, port, link::ANNOUNCEMENT)));
        assert!(
            !is_announcement(&ipv4_datagram([224, 0, 0, 22], port, link::ANNOUNCEMENT)),
            "to another host"
        );
        assert!(!is_announcement(&ipv4_datagram(host, port + 1, link::ANNOUNCEMENT)), "to another port");
        assert!(!is_announcement(&ipv4_datagram(host, port, b"other")));
        // A kernel looks for routers of IPv6 once the interface is up.
        assert!(!is_announcement(&[&[0x60, 0, 0, 0, 0, 8, 58, 255][..], &[0; 40]].concat()));
        assert!(!is_announcement(b""));
    }
}
