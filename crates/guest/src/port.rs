//! The serial port of a QEMU machine, which carries the packets of its link to and from the host.
#![expect(unsafe_code, reason = "random numbers are seeded by ioctl, and the clock is set")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use protocol::link::{self, ASK_TIME, Introduction, MTU, PORT, PORT_READY, encode_frame, take_frame};
use tokio::sync::mpsc;

use crate::link_interface;

/// The longest time in which the port appears.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);
/// The interval of checks for the port.
const APPEARS_POLL: Duration = Duration::from_millis(2);
/// The accepted clock error, and the maximum number of time requests until it is reached.
const CLOCK_ERROR_MAX: Duration = Duration::from_millis(5);
const CLOCK_QUESTIONS_MAX: u32 = 8;

/// The serial port, and the interface of the link whose packets it carries.
#[derive(Debug)]
pub struct Port {
    pub(crate) port: File,
    pub(crate) interface: File,
}

impl Port {
    /// Opens the port, which appears soon after its driver was loaded, and creates the interface.
    ///
    /// # Errors
    /// Fails if the port is missing after ten seconds, or the interface cannot be created.
    pub(crate) fn open_port() -> io::Result<Self> {
        let interface = link_interface::create_interface()?;
        let began = Instant::now();
        loop {
            match File::options().read(true).write(true).open(PORT) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && began.elapsed() < APPEARS_WITHIN => {
                    thread::sleep(APPEARS_POLL);
                }
                opened => return Ok(Self { port: opened?, interface }),
            }
        }
    }

    /// Tells the host that the machine is ready, and waits for the introduction.
    ///
    /// # Errors
    /// Fails if the port fails, or the host sends something else.
    pub(crate) fn receive_introduction(&mut self) -> io::Result<Introduction> {
        self.port.write_all(&encode_frame(PORT_READY))?;
        let content = self.read_frame(Introduction::BYTES)?;
        Introduction::from_bytes(&content)
            .ok_or_else(|| io::Error::other("the host did not introduce this machine"))
    }

    /// Sets the clock to the host's. The fastest answer is the most exact one: its error is at most half of the round trip.
    ///
    /// # Errors
    /// Fails if the port fails, or the host sends something else.
    pub(crate) fn set_clock(&mut self) -> io::Result<()> {
        let mut best: Option<HostTime> = None;
        for _ in 0..CLOCK_QUESTIONS_MAX {
            let asked = Instant::now();
            self.port.write_all(&encode_frame(ASK_TIME))?;
            let content = self.read_frame(size_of::<u64>())?;
            let answered = Instant::now();
            let nanos =
                content.try_into().map_err(|_| io::Error::other("the host did not answer with the time"))?;
            let (nanos, taken) = (u64::from_le_bytes(nanos), answered - asked);
            if best.as_ref().is_none_or(|best| taken < best.taken) {
                best = Some(HostTime {
                    at: answered,
                    since_epoch: Duration::from_nanos(nanos) + taken / 2,
                    taken,
                });
            }
            if taken <= CLOCK_ERROR_MAX * 2 {
                break;
            }
        }
        best.map_or(Ok(()), |host| set_clock(host.since_epoch + host.at.elapsed()))
    }

    /// Reads a frame with a content of this length. Later bytes belong to the interface and are not read.
    fn read_frame(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut received = Vec::new();
        loop {
            let wanted = (link::FRAME_HEADER_BYTES + length).saturating_sub(received.len());
            if wanted == 0 {
                return Err(io::Error::other("the host sent a frame of another length"));
            }
            read_some(&mut self.port, &mut received, wanted)?;
            if let Some(content) = take_frame(&mut received).map_err(io::Error::other)? {
                return Ok(content);
            }
        }
    }

    /// Starts the threads that carry packets in both directions. The first error of one of them is received from the
    /// channel; it stays empty while the machine works.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub(crate) fn forward_packets(self) -> io::Result<mpsc::Receiver<io::Error>> {
        let (failed, failures) = mpsc::channel(2);
        let (mut port, mut interface) = (self.port.try_clone()?, self.interface.try_clone()?);
        let failed_too = failed.clone();
        thread::Builder::new().name("packets-in".to_owned()).spawn(move || {
            let _ = failed.try_send(from_host(&mut port, &mut interface));
        })?;
        let Self { mut port, mut interface } = self;
        thread::Builder::new().name("packets-out".to_owned()).spawn(move || {
            let _ = failed_too.try_send(to_host(&mut interface, &mut port));
        })?;
        Ok(failures)
    }
}

/// The host's time at a moment, and how long the answer with it took.
struct HostTime {
    at: Instant,
    since_epoch: Duration,
    taken: Duration,
}

/// Seeds the kernel's random numbers. A machine that was saved would otherwise return the same random bytes as every other
/// machine that continues it.
///
/// # Errors
/// Fails if the kernel refuses.
pub(crate) fn seed_kernel_random(introduction: &Introduction) -> io::Result<()> {
    /// `struct rand_pool_info` of the kernel.
    #[repr(C)]
    struct RandomPool {
        entropy_bits: libc::c_int,
        bytes: libc::c_int,
        buffer: [u8; 64],
    }
    const RNDADDENTROPY: libc::Ioctl = 0x4008_5203;
    const RNDRESEEDCRNG: libc::Ioctl = 0x5207;
    let random = File::options().write(true).open("/dev/urandom")?;
    let pool = RandomPool { entropy_bits: 512, bytes: 64, buffer: introduction.entropy };
    // SAFETY: the kernel reads the structure, which lives through the call.
    if unsafe { libc::ioctl(random.as_raw_fd(), RNDADDENTROPY, &raw const pool) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: this request has no argument.
    if unsafe { libc::ioctl(random.as_raw_fd(), RNDRESEEDCRNG) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn set_clock(since_epoch: Duration) -> io::Result<()> {
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(since_epoch.as_secs()).map_err(io::Error::other)?,
        tv_nsec: since_epoch.subsec_nanos().into(),
    };
    // SAFETY: the kernel reads the structure, which lives through the call.
    match unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn read_some(port: &mut File, received: &mut Vec<u8>, most: usize) -> io::Result<()> {
    let before = received.len();
    received.resize(before + most, 0);
    let length = loop {
        match port.read(received.get_mut(before..).unwrap_or_default()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    received.truncate(before + length.as_ref().unwrap_or(&0));
    match length? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Carries packets from the host until something fails.
fn from_host(port: &mut File, interface: &mut File) -> io::Error {
    let mut received = Vec::new();
    loop {
        if let Err(error) = read_some(port, &mut received, MTU) {
            return error;
        }
        loop {
            match take_frame(&mut received) {
                Ok(None) => break,
                // The kernel drops a packet that it cannot use.
                Ok(Some(packet)) => drop(interface.write(&packet)),
                Err(error) => return io::Error::other(error),
            }
        }
    }
}

/// Carries packets to the host until something fails.
fn to_host(interface: &mut File, port: &mut File) -> io::Error {
    let mut packet = vec![0; MTU];
    loop {
        let sent = interface.read(&mut packet).and_then(|length| {
            let packet = packet.get(..length).unwrap_or_default();
            port.write_all(&encode_frame(packet))
        });
        match sent {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return error,
            Ok(()) | Err(_) => {}
        }
    }
}
