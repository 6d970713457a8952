//! The paths and the descriptors that the processes in a jail find.

/// The descriptor number of the agent's listening socket.
pub(crate) const LISTENER: i32 = 3;
/// The path of the kernel in the jail: the program of a User Mode Linux kernel, or the kernel that QEMU boots. The
/// machine mounts its own file system over `/run`.
pub(crate) const PROGRAM: &str = "run/kernel";
/// The folder in the jail of the libraries that a kernel needs instead of the host's.
pub(crate) const LIBRARIES: &str = "run/kernel-lib";
/// The path of the initramfs in the jail.
pub(crate) const INITRAMFS: &str = "run/initramfs";
/// The path in the jail of the system that the machine shows, if it is not the jail's root: an image, or the folder that
/// QEMU shares.
pub(crate) const SYSTEM: &str = "run/system";

/// The descriptor numbers that QEMU inherits to be saved, or to continue; the link is [`LISTENER`].
pub(crate) mod descriptor {
    pub(crate) const MONITOR: i32 = 4;
    pub(crate) const MEMORY: i32 = 5;
}
