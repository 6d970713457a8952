//! The network between a virtual machine and its host: one Ethernet link, on which TCP connections carry HTTP/2.
//!
//! Nothing is routed. The machine's process 1 opens both listeners and then gives every other process of the machine a
//! network of its own, in which the link does not exist.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Address of the host's end.
pub const HOST: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);
/// Address of the machine's end.
pub const MACHINE: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 2);
/// Length of the prefix that both addresses share, in bits.
pub const PREFIX_BITS: u8 = 30;
/// Hardware address of the host's end.
pub const HOST_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
/// Name of the link's interface in the machine.
pub const INTERFACE: &str = "vec0";
/// Listener of the agent, which speaks HTTP/2.
pub const AGENT: SocketAddrV4 = SocketAddrV4::new(MACHINE, 5000);
/// Listener of process 1. A connection asks the machine to write its files back and to power off.
pub const POWER_OFF: SocketAddrV4 = SocketAddrV4::new(MACHINE, 5001);
/// Argument of the guest program with which a kernel starts it as process 1.
pub const BOOT_ARGUMENT: &str = "boot";
/// Mount point of the index in a virtual machine. The folder above it is open to root alone.
pub const INDEX: &str = "/index/files";
