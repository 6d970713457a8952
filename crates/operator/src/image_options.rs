//! The arguments of `causerie image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// The default suite of images.
const SUITE: &str = "bookworm";

#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build an image from Debian packages or an archive, and make it the current version of its name
    Build(Box<BuildOptions>),
    /// List all versions of all images
    List {
        #[command(flatten)]
        place: ImageFolderArgs,
    },
    /// Show the manifest of an image: digest, source, size, packages with versions
    Inspect {
        /// NAME or NAME@DIGEST
        image: String,
        #[command(flatten)]
        place: ImageFolderArgs,
    },
    /// Remove an unused image
    Remove {
        /// NAME, or NAME@DIGEST for one version
        image: String,
        /// Remove only the versions that are neither current nor in use
        #[arg(long)]
        old: bool,
        #[command(flatten)]
        place: ImageFolderArgs,
    },
}

#[derive(Debug, Args)]
pub struct BuildOptions {
    /// The name of the image; by default that of the profile
    #[arg(required_unless_present = "profile")]
    pub name: Option<String>,
    /// The packages to begin with
    #[arg(long, value_enum)]
    pub profile: Option<ProfileName>,
    /// An additional package, NAME or NAME=VERSION; may be repeated
    #[arg(long = "package", value_name = "PACKAGE")]
    pub packages: Vec<String>,
    /// A file of additional packages, one per line
    #[arg(long, value_name = "FILE")]
    pub packages_file: Option<PathBuf>,
    /// The suite of Debian
    #[arg(long, default_value = SUITE)]
    pub suite: String,
    /// A mirror, or a line of sources.list; may be repeated; the suite's usual ones by default
    #[arg(long = "mirror", value_name = "MIRROR")]
    pub mirrors: Vec<String>,
    /// Take the root file system from this tar archive, such as `docker export` writes; `-` for standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["profile", "packages", "packages_file", "suite", "mirrors"]
    )]
    pub from_tar: Option<PathBuf>,
    /// Create only the tree, without the file root.erofs
    #[arg(long)]
    pub no_erofs: bool,
    #[command(flatten)]
    pub place: ImageFolderArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// The essential packages of Debian
    Base,
    /// Python and small programs
    Small,
    /// Documents, tables, text recognition, office formats
    Full,
}

/// The folder of images.
#[derive(Debug, Clone, Args)]
pub struct ImageFolderArgs {
    /// The data folder [env: CAUSERIE_DATA] [default: data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The configuration file that specifies the folder [env: CAUSERIE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl ImageCommand {
    /// Returns the command's locations.
    pub fn folder_args(&self) -> &ImageFolderArgs {
        match self {
            Self::Build(options) => &options.place,
            Self::List { place } | Self::Inspect { place, .. } | Self::Remove { place, .. } => place,
        }
    }
}
