//! The interface of a virtual machine on the link to its host.
#![expect(unsafe_code, reason = "interfaces are configured by ioctl, which has no safe form")]

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use protocol::link;
use rustix::net::{AddressFamily, SocketType};

/// Creates the interface as one whose packets this process reads from and writes to the returned device.
pub(crate) fn create_interface() -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/net/tun")?;
    let flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI).map_err(io::Error::other)?;
    let mut request = with_flags(flags);
    // SAFETY: the request reads and writes an `ifreq`, which lives through the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mtu = libc::c_int::try_from(link::MTU).map_err(io::Error::other)?;
    let request =
        libc::ifreq { ifr_name: interface_name(), ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: mtu } };
    set_interface(&socket, libc::SIOCSIFMTU, &request)?;
    Ok(device)
}

/// Gives the link its address. Packets to other hosts have no route.
pub(crate) fn configure_interface() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mask = Ipv4Addr::from(u32::MAX << (32 - u32::from(link::PREFIX_BITS)));
    interface_address(&socket, libc::SIOCSIFADDR, link::MACHINE)?;
    interface_address(&socket, libc::SIOCSIFNETMASK, mask)?;
    // There is one host at the other end, so address resolution is unnecessary.
    let flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_NOARP).map_err(io::Error::other)?;
    set_interface(&socket, libc::SIOCSIFFLAGS, &with_flags(flags))
}

fn with_flags(flags: libc::c_short) -> libc::ifreq {
    libc::ifreq { ifr_name: interface_name(), ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags } }
}

fn interface_name() -> [libc::c_char; libc::IFNAMSIZ] {
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(link::INTERFACE.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    name
}

fn interface_address(socket: &OwnedFd, request: libc::Ioctl, address: Ipv4Addr) -> io::Result<()> {
    let [a, b, c, d] = address.octets();
    let family = libc::sa_family_t::try_from(libc::AF_INET).map_err(io::Error::other)?;
    // A `sockaddr_in`: the port, then the address in network order.
    let bytes = [0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0].map(|byte| libc::c_char::from_ne_bytes([byte]));
    let address = libc::sockaddr { sa_family: family, sa_data: bytes };
    let ifreq = libc::ifreq {
        ifr_name: interface_name(),
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_addr: address },
    };
    set_interface(socket, request, &ifreq)
}

fn set_interface(socket: &OwnedFd, request: libc::Ioctl, ifreq: &libc::ifreq) -> io::Result<()> {
    // SAFETY: these requests read an `ifreq`, which lives through the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), request, std::ptr::from_ref(ifreq)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
