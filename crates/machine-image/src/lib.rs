//! Images of machines: read-only root file systems, built from Debian packages or taken from an archive.
//!
//! ```text
//! mmdebstrap ──tar──┐
//!                   ├── unpack ── layout ── digest ── erofs ── images/<name>/<digest>/{root/, root.erofs, manifest.json}
//! a container's tar ┘
//! ```
//! Both sources are processed in the same way, and neither is trusted: nothing is written outside the new folder,
//! everything belongs to the service's user, and no set-id bit or device remains. A version is assembled under
//! another name and then renamed. A user of a version holds a shared lock on its manifest, which prevents its
//! removal.
//!
//! # Where to look
//!
//! - Contents of a profile: `profile.rs`; the build: `build.rs`.
//! - Entries that are kept: `layout.rs`, `unpack.rs`. The machine shows an image in the crate `machine`, `sandbox/root.rs`.

mod archive;
mod build;
mod cancel;
mod digest;
mod error;
mod images;
mod layout;
mod manifest;
mod metadata;
mod name;
mod profile;
mod programs;
mod unpack;

pub use self::build::{BuildOutcome, BuildRequest, ImageSource, build_image};
pub use self::cancel::{Cancel, Progress};
pub use self::error::MachineImageError;
pub use self::images::{Images, Installed};
pub use self::manifest::{ErofsFile, ImageOrigin, InstalledPackage, Manifest};
pub use self::name::{ImageName, PackageName, Reference, Suite};
pub use self::profile::{PACKAGES_MAX, PackageProfile, read_packages_file};
