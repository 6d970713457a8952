//! The network between a virtual machine and its host: one link, on which TCP connections carry HTTP/2.
//!
//! Nothing is routed. The machine's process 1 opens both listeners and then moves every other process of the machine
//! to a separate network namespace without the link.
//!
//! A User Mode Linux kernel has the link as an Ethernet interface. A machine of QEMU has no network device: process 1 carries the
//! packets of a TUN interface over a serial port, in frames of a length (`u16`, little endian) and that number of bytes. The
//! first frame of the machine is [`PORT_READY`]; the first of the host, an [`Introduction`]. Then the machine requests the time,
//! by [`ASK_TIME`].
//!
//! The first packet of a machine is a datagram with [`ANNOUNCEMENT`] to the host: the listeners are open. Earlier packets come
//! from its kernel (such as IPv6 router solicitations).

use std::net::{Ipv4Addr, SocketAddrV4};

/// Address of the host's end.
pub const HOST: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);
/// Address of the machine's end.
pub const MACHINE: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 2);
/// Length of the prefix that both addresses share, in bits.
pub const PREFIX_BITS: u8 = 30;
/// The largest packet on the link, in bytes.
pub const MTU: usize = 16_000;
/// Hardware address of the host's end.
pub const HOST_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
/// Name of the link's interface in the machine.
pub const INTERFACE: &str = "vec0";
/// Listener of the agent, which speaks HTTP/2.
pub const AGENT: SocketAddrV4 = SocketAddrV4::new(MACHINE, 5000);
/// Listener of process 1. A connection asks the machine to write its files back and to power off.
pub const POWER_OFF: SocketAddrV4 = SocketAddrV4::new(MACHINE, 5001);
/// Argument of the guest program with which a User Mode Linux kernel starts it as process 1.
pub const BOOT_ARGUMENT: &str = "boot";
/// Argument of the guest program with which the kernel of a QEMU machine starts it as process 1, from the initramfs.
pub const INITRAMFS_ARGUMENT: &str = "initramfs";
/// Argument of the program of the system that process 1 of a QEMU machine becomes, if [`INIT`] names one.
pub const BOOT_QEMU_ARGUMENT: &str = "boot-qemu";
/// Environment of the program of the system that process 1 of a QEMU machine becomes once the system is mounted; without
/// it, process 1 stays the program of the initramfs.
pub const INIT: &str = "CAUSERIE_INIT";
/// Mount point of the index in a virtual machine. Only root can open the folder above it.
pub const INDEX: &str = "/index/files";

/// Folder of the initramfs with the modules of the kernel, loaded in the order of their names.
pub const MODULES: &str = "/modules";
/// Device of the serial port in a machine of QEMU.
pub const PORT: &str = "/dev/vport0p1";
/// The first frame of a machine over its port.
pub const PORT_READY: &[u8] = b"ready";
/// A frame of the machine that requests the time. A frame of 8 bytes answers it: nanoseconds since the Unix epoch, little
/// endian. It differs from every packet, which begins with the version of IP.
pub const ASK_TIME: &[u8] = b"time";
/// The content of the datagram that announces the machine, to the port of [`AGENT`] at the host's address.
pub const ANNOUNCEMENT: &[u8] = b"ready";
/// Tags of the folders that QEMU shares by 9P.
pub const SYSTEM_TAG: &str = "system";
pub const WORKSPACE_TAG: &str = "workspace";
pub const INDEX_TAG: &str = "index";
pub const PLUGINS_TAG: &str = "plugins";

/// The first frame of the host over a machine's port: what distinguishes this machine from others that continue the
/// same saved one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Random bytes, with which the machine seeds its random numbers before anything else.
    pub entropy: [u8; 64],
}

impl Introduction {
    /// The length of the frame's content, in bytes.
    pub const BYTES: usize = 64;

    /// Returns the frame's content.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.entropy
    }

    /// Reads the frame's content; `None` if it has another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self { entropy: bytes.try_into().ok()? })
    }
}

/// Takes the first complete frame out of `received`. Returns its content; `None` if more bytes are needed.
///
/// # Errors
/// [`FrameTooLong`] for a frame of more than [`MTU`] bytes.
pub fn take_frame(received: &mut Vec<u8>) -> Result<Option<Vec<u8>>, FrameTooLong> {
    let Some((header, rest)) = received.split_first_chunk() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes(*header));
    if length > MTU {
        return Err(FrameTooLong(length));
    }
    let Some(content) = rest.get(..length) else { return Ok(None) };
    let content = content.to_vec();
    received.drain(..FRAME_HEADER_BYTES + length);
    Ok(Some(content))
}

/// Returns true if [`take_frame`] would not need more bytes.
#[must_use]
pub fn has_frame(received: &[u8]) -> bool {
    received.split_first_chunk().is_some_and(|(header, rest)| {
        let length = usize::from(u16::from_le_bytes(*header));
        length > MTU || rest.len() >= length
    })
}

/// The bytes of a frame before its content.
pub const FRAME_HEADER_BYTES: usize = 2;

/// Returns a frame with this content, which has at most [`MTU`] bytes.
#[must_use]
pub fn encode_frame(content: &[u8]) -> Vec<u8> {
    debug_assert!(content.len() <= MTU, "packets are bounded by the link's MTU");
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    [&length.to_le_bytes(), content].concat()
}

/// A frame that is longer than any packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes exceeds the link's {MTU}")]
pub struct FrameTooLong(pub usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_pieces_are_read_back() {
        let contents = [vec![], vec![7; 1], vec![9; MTU]];
        let sent: Vec<u8> = contents.iter().flat_map(|content| encode_frame(content)).collect();
        for piece in [1, 2, 3, 1000, sent.len()] {
            let (mut received, mut read) = (Vec::new(), Vec::new());
            for bytes in sent.chunks(piece) {
                received.extend_from_slice(bytes);
                while let Some(content) = take_frame(&mut received).unwrap() {
                    read.push(content);
                }
            }
            assert_eq!(read, contents);
            assert!(received.is_empty());
        }
    }

    #[test]
    fn frame_too_long_is_refused_early() {
        let length = u16::try_from(MTU + 1).unwrap();
        assert_eq!(take_frame(&mut length.to_le_bytes().to_vec()), Err(FrameTooLong(MTU + 1)));
    }

    #[test]
    fn introduction_from_bytes_requires_exact_length() {
        let introduction = Introduction { entropy: [5; 64] };
        let bytes = introduction.to_bytes();
        assert_eq!(Introduction::from_bytes(&bytes), Some(introduction));
        assert_eq!(Introduction::from_bytes(&bytes[1..]), None);
        assert_eq!(Introduction::from_bytes(b"ready"), None);
    }
}
