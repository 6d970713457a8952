//! `causerie image`: builds, lists, inspects and removes images of machines. Needs no service.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use control::privileges;
use domain::time::Timestamp;
use machine_image::{
    BuildOutcome, BuildRequest, Cancel, ImageOrigin, ImageSource, Images, Installed, MachineImageError,
    Manifest, PackageName, PackageProfile, read_packages_file,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::error::CliError;
use crate::image_options::{BuildOptions, ImageCommand, ImageFolderArgs, ProfileName};
use crate::location::{Where, invalid_configuration_error};
use crate::output::{self, Column, to_cell};

/// The digits of a digest in tables.
const DIGITS_SHOWN: usize = 12;

impl From<ProfileName> for PackageProfile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Base => Self::Base,
            ProfileName::Small => Self::Small,
            ProfileName::Full => Self::Full,
        }
    }
}

/// Executes the command and prints its result.
pub async fn run_image_command(command: ImageCommand) -> Result<(), CliError> {
    let as_json = command.folder_args().json;
    let images = open_images_folder(&image_command_location(&command))?;
    match command {
        ImageCommand::Build(options) => {
            let built = build_image(images, *options).await?;
            output::print_reply(&with_unchanged(&built), as_json);
        }
        ImageCommand::List { .. } => {
            let versions = images.list_versions()?;
            if as_json {
                let rows: Vec<Value> = versions.iter().map(image_summary_json).collect();
                output::print_line(json!({ "images": rows }));
            } else {
                output::print_table(&image_columns(), &versions);
            }
        }
        ImageCommand::Inspect { image, .. } => {
            let found = images.find_version(&image.parse()?)?;
            output::print_reply(&image_details_json(&found), as_json);
        }
        ImageCommand::Remove { image, old, .. } => {
            let removed = images.remove_versions(&image.parse()?, old)?;
            let removed: Vec<Value> = removed
                .iter()
                .map(|version| json!({ "name": version.manifest.name, "digest": version.manifest.digest }))
                .collect();
            output::print_reply(&json!({ "removed": removed }), as_json);
        }
    }
    Ok(())
}

/// Returns the data folder of the command.
pub fn image_command_location(command: &ImageCommand) -> Where {
    let ImageFolderArgs { data, config, json } = command.folder_args().clone();
    Where { data, config, json, database: None }
}

/// Reads the folder of images as the caller, who must be able to read the settings.
fn open_images_folder(at: &Where) -> Result<Images, CliError> {
    let read = privileges::as_caller(|| {
        settings::images_folder(settings::command_sources(at.config.as_deref(), at.setting_arguments()))
            .map_err(invalid_configuration_error)
    });
    let folder = read.map_err(|error| CliError::new("INVALID_CONFIGURATION", error.to_string()))??;
    let folder = std::path::absolute(&folder).map_err(|error| unreadable_image_error(&folder, &error))?;
    Ok(Images::from_folder(folder))
}

fn unreadable_image_error(path: &Path, error: &io::Error) -> CliError {
    CliError::new("IMAGE_FAILED", format!("{}: {error}", path.display()))
}

async fn build_image(images: Images, options: BuildOptions) -> Result<BuildOutcome, CliError> {
    let quiet = options.place.json;
    let cancel = Arc::new(Cancel::default());
    let request = new_build_request(options, &cancel)?;
    // Both are installed before there is something to clean up.
    let failed = |error: io::Error| CliError::new("IMAGE_FAILED", error.to_string());
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let building = tokio::task::spawn_blocking({
        let cancel = Arc::clone(&cancel);
        move || {
            let progress = if quiet { |_: &str| {} } else { |said: &str| output::error_line(said) };
            let spawn = |command: &mut std::process::Command| privileges::as_caller(|| command.spawn())?;
            machine_image::build_image(&images, request, spawn, progress, &cancel)
        }
    });
    let mut building = std::pin::pin!(building);
    let mut signals = 0;
    let built = loop {
        tokio::select! {
            built = &mut building => break built,
            _ = interrupted.recv() => signals += 1,
            _ = terminated.recv() => signals += 1,
        }
        if signals > 1 {
            return Err(CliError::new(
                "IMAGE_FAILED",
                "second signal: exiting immediately; the next build cleans up",
            ));
        }
        cancel.cancel();
    };
    Ok(built.map_err(|error| failed(error.into()))??)
}

fn new_build_request(options: BuildOptions, cancel: &Arc<Cancel>) -> Result<BuildRequest, CliError> {
    let BuildOptions { name, profile, packages, packages_file, suite, mirrors, from_tar, no_erofs, place: _ } =
        options;
    let name = name.as_deref().or_else(|| profile.map(|profile| PackageProfile::from(profile).name()));
    let name = name.unwrap_or_default().parse()?;
    let source = if let Some(path) = from_tar {
        archive_source(&path, cancel)?
    } else {
        let mut packages: Vec<PackageName> =
            packages.iter().map(|package| package.parse()).collect::<Result<_, MachineImageError>>()?;
        if let Some(file) = packages_file {
            packages.extend(as_caller(&file, || read_packages_file(&file))??);
        }
        let profile = profile.map_or(PackageProfile::Base, PackageProfile::from);
        ImageSource::Debian { profile, packages, suite: suite.parse()?, mirrors }
    };
    Ok(BuildRequest { name, source, erofs: !no_erofs })
}

fn as_caller<T>(file: &Path, work: impl FnOnce() -> T) -> Result<T, CliError> {
    privileges::as_caller(work).map_err(|error| unreadable_image_error(file, &error))
}

fn archive_source(path: &Path, cancel: &Arc<Cancel>) -> Result<ImageSource, CliError> {
    if path == Path::new("-") {
        let archive = Box::new(StandardInput { cancel: Arc::clone(cancel) });
        return Ok(ImageSource::Archive { archive, file: "standard input".to_owned(), bytes: None });
    }
    let file = as_caller(path, || File::open(path))?.map_err(|error| unreadable_image_error(path, &error))?;
    let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(ImageSource::Archive { archive: Box::new(file), file: name, bytes })
}

/// Standard input, which a stopped build does not wait for.
struct StandardInput {
    cancel: Arc<Cancel>,
}

impl io::Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        /// The longest time until a stopped build ends.
        const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let input = io::stdin();
        loop {
            if self.cancel.is_cancelled() {
                return Err(io::Error::other("interrupted"));
            }
            let mut ready = [PollFd::new(&input, PollFlags::IN)];
            match poll(&mut ready, Some(&LOOK_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(&input, &mut *buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn creation_time(image: &Installed) -> String {
    let micros = i64::try_from(image.manifest.created).unwrap_or(0).saturating_mul(1_000_000);
    Timestamp::from_micros(micros).to_string()
}

fn image_summary_json(image: &Installed) -> Value {
    let manifest = &image.manifest;
    json!({
        "name": manifest.name,
        "digest": manifest.digest,
        "current": image.current,
        "inUse": image.in_use(),
        "bytes": manifest.bytes,
        "erofsBytes": manifest.erofs.as_ref().map(|file| file.bytes),
        "packages": manifest.packages.len(),
        "created": creation_time(image),
        "system": manifest.system,
    })
}

/// The columns of the table: sizes in MiB, a short digest.
fn image_columns() -> [Column<Installed>; 8] {
    [
        Column { name: "name", cell: |image| to_cell(&image.manifest.name) },
        Column { name: "digest", cell: |image| Value::from(shorten_digest(&image.manifest)) },
        Column { name: "current", cell: |image| yes_or_dash(image.current) },
        Column { name: "inUse", cell: |image| yes_or_dash(image.in_use()) },
        Column { name: "mib", cell: |image| Value::from(manifest_bytes(&image.manifest) >> 20) },
        Column { name: "packages", cell: |image| Value::from(image.manifest.packages.len()) },
        Column { name: "created", cell: |image| Value::from(creation_time(image)) },
        Column { name: "system", cell: |image| to_cell(&image.manifest.system) },
    ]
}

fn yes_or_dash(flag: bool) -> Value {
    Value::from(if flag { "yes" } else { "-" })
}

fn shorten_digest(manifest: &Manifest) -> String {
    let digest = manifest.digest.to_string();
    digest.trim_start_matches("sha256:").chars().take(DIGITS_SHOWN).collect()
}

/// Returns the bytes of the tree and of its file.
fn manifest_bytes(manifest: &Manifest) -> u64 {
    manifest.bytes + manifest.erofs.as_ref().map_or(0, |file| file.bytes)
}

fn image_details_json(image: &Installed) -> Value {
    let manifest = &image.manifest;
    let mut shown = json!({
        "name": manifest.name,
        "digest": manifest.digest,
        "current": image.current,
        "inUse": image.in_use(),
        "created": creation_time(image),
        "system": manifest.system,
        "bytes": manifest.bytes,
        "entries": manifest.entries,
        "erofs": manifest.erofs,
        "folder": image.folder,
        "tools": manifest.tools,
        "leftOut": manifest.left_out_count,
    });
    let origin = match &manifest.origin {
        ImageOrigin::Debian { profile, suite, mirrors, requested, mode } => json!({
            "source": "debian", "profile": profile, "suite": suite, "mirrors": mirrors, "mode": mode,
            "requested": requested.join(" "),
        }),
        ImageOrigin::Archive { file, sha256 } => {
            json!({ "source": "archive", "file": file, "sha256": sha256 })
        }
    };
    if let (Value::Object(shown), Value::Object(origin)) = (&mut shown, origin) {
        shown.extend(origin);
        let leftovers = manifest.left_out.iter().map(|entry| json!({ "entry": entry }));
        shown.insert("leftOutFirst".to_owned(), leftovers.collect());
        shown.insert("packages".to_owned(), json!(manifest.packages));
    }
    shown
}

fn with_unchanged(built: &BuildOutcome) -> Value {
    let mut shown = image_summary_json(&built.image);
    if let Value::Object(fields) = &mut shown {
        fields.insert("leftOut".to_owned(), built.image.manifest.left_out_count.into());
        fields.insert("unchanged".to_owned(), built.unchanged.into());
        fields.insert("folder".to_owned(), json!(built.image.folder));
    }
    shown
}
