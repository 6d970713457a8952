//! `causerie image`: builds, lists, inspects and removes images of machines. Needs no service.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use control::privileges;
use domain::time::Timestamp;
use machine_image::{
    BuildRequest, Cancel, ImageError, Images, Installed, Origin, Outcome, PackageName, Profile, Source,
    read_packages_file,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::Where;
use crate::error::CliError;
use crate::image_options::{BuildOptions, ImageCommand, Place, ProfileName};
use crate::{config, output, settings};

/// The digits of a digest in tables.
const DIGITS_SHOWN: usize = 12;

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Base => Self::Base,
            ProfileName::Small => Self::Small,
            ProfileName::Full => Self::Full,
        }
    }
}

/// Executes the command and prints its result.
pub(crate) async fn run(command: ImageCommand) -> Result<(), CliError> {
    let as_json = command.place().json;
    let images = images(&at(&command))?;
    match command {
        ImageCommand::Build(options) => {
            let built = build(images, *options).await?;
            output::print(&with_unchanged(&built), as_json);
        }
        ImageCommand::List { .. } => {
            let rows: Vec<Value> = images.list()?.iter().map(listed).collect();
            if as_json {
                output::line(json!({ "images": rows }));
            } else {
                let rows: Vec<Value> = rows.iter().map(for_people).collect();
                output::table(
                    &["name", "digest", "current", "inUse", "mib", "packages", "created", "system"],
                    &rows,
                );
            }
        }
        ImageCommand::Inspect { image, .. } => {
            let found = images.find(&image.parse()?)?;
            output::print(&inspected(&found), as_json);
        }
        ImageCommand::Remove { image, old, .. } => {
            let removed = images.remove(&image.parse()?, old)?;
            let removed: Vec<Value> = removed
                .iter()
                .map(|version| json!({ "name": version.manifest.name, "digest": version.manifest.digest }))
                .collect();
            output::print(&json!({ "removed": removed }), as_json);
        }
    }
    Ok(())
}

/// Returns the data folder of the command.
pub(crate) fn at(command: &ImageCommand) -> Where {
    let Place { data, config, json } = command.place().clone();
    Where { data, config, json, database: None }
}

/// Reads the folder of images as the caller, who must be able to read the settings.
fn images(at: &Where) -> Result<Images, CliError> {
    let read = privileges::as_caller(|| {
        settings::images_folder(settings::sources(at.config.as_deref(), at.arguments()))
            .map_err(config::invalid)
    });
    let folder = read.map_err(|error| CliError::new("INVALID_CONFIGURATION", error.to_string()))??;
    let folder = std::path::absolute(&folder).map_err(|error| unreadable(&folder, &error))?;
    Ok(Images::at(folder))
}

fn unreadable(path: &Path, error: &io::Error) -> CliError {
    CliError::new("IMAGE_FAILED", format!("{}: {error}", path.display()))
}

async fn build(images: Images, options: BuildOptions) -> Result<Outcome, CliError> {
    let quiet = options.place.json;
    let cancel = Arc::new(Cancel::default());
    let request = request(options, &cancel)?;
    // Both are installed before there is something to clean up.
    let failed = |error: io::Error| CliError::new("IMAGE_FAILED", error.to_string());
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let building = tokio::task::spawn_blocking({
        let cancel = Arc::clone(&cancel);
        move || {
            let progress = if quiet { |_: &str| {} } else { |said: &str| output::error_line(said) };
            let spawn = |command: &mut std::process::Command| privileges::as_caller(|| command.spawn())?;
            machine_image::build(&images, request, spawn, progress, &cancel)
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

fn request(options: BuildOptions, cancel: &Arc<Cancel>) -> Result<BuildRequest, CliError> {
    let BuildOptions { name, profile, packages, packages_file, suite, mirrors, from_tar, no_erofs, place: _ } =
        options;
    let name = name.as_deref().or_else(|| profile.map(|profile| Profile::from(profile).name()));
    let name = name.unwrap_or_default().parse()?;
    let source = if let Some(path) = from_tar {
        archive(&path, cancel)?
    } else {
        let mut packages: Vec<PackageName> =
            packages.iter().map(|package| package.parse()).collect::<Result<_, ImageError>>()?;
        if let Some(file) = packages_file {
            packages.extend(as_caller(&file, || read_packages_file(&file))??);
        }
        let profile = profile.map_or(Profile::Base, Profile::from);
        Source::Debian { profile, packages, suite: suite.parse()?, mirrors }
    };
    Ok(BuildRequest { name, source, erofs: !no_erofs })
}

fn as_caller<T>(file: &Path, work: impl FnOnce() -> T) -> Result<T, CliError> {
    privileges::as_caller(work).map_err(|error| unreadable(file, &error))
}

fn archive(path: &Path, cancel: &Arc<Cancel>) -> Result<Source, CliError> {
    if path == Path::new("-") {
        let archive = Box::new(StandardInput { cancel: Arc::clone(cancel) });
        return Ok(Source::Archive { archive, file: "standard input".to_owned(), bytes: None });
    }
    let file = as_caller(path, || File::open(path))?.map_err(|error| unreadable(path, &error))?;
    let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Source::Archive { archive: Box::new(file), file: name, bytes })
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

fn created(image: &Installed) -> String {
    let micros = i64::try_from(image.manifest.created).unwrap_or(0).saturating_mul(1_000_000);
    Timestamp::from_micros(micros).to_string()
}

fn listed(image: &Installed) -> Value {
    let manifest = &image.manifest;
    json!({
        "name": manifest.name,
        "digest": manifest.digest,
        "current": image.current,
        "inUse": image.in_use(),
        "bytes": manifest.bytes,
        "erofsBytes": manifest.erofs.as_ref().map(|file| file.bytes),
        "packages": manifest.packages.len(),
        "created": created(image),
        "system": manifest.system,
    })
}

/// A row of the table: sizes in MiB, a short digest.
fn for_people(row: &Value) -> Value {
    let yes = |name: &str| Value::from(if row[name] == true { "yes" } else { "-" });
    let bytes = row["bytes"].as_u64().unwrap_or(0) + row["erofsBytes"].as_u64().unwrap_or(0);
    let digest = row["digest"].as_str().unwrap_or_default().trim_start_matches("sha256:");
    json!({
        "name": row["name"],
        "digest": digest.chars().take(DIGITS_SHOWN).collect::<String>(),
        "current": yes("current"),
        "inUse": yes("inUse"),
        "mib": bytes >> 20,
        "packages": row["packages"],
        "created": row["created"],
        "system": row["system"],
    })
}

fn inspected(image: &Installed) -> Value {
    let manifest = &image.manifest;
    let mut shown = json!({
        "name": manifest.name,
        "digest": manifest.digest,
        "current": image.current,
        "inUse": image.in_use(),
        "created": created(image),
        "system": manifest.system,
        "bytes": manifest.bytes,
        "entries": manifest.entries,
        "erofs": manifest.erofs,
        "folder": image.folder,
        "tools": manifest.tools,
        "leftOut": manifest.left_out_count,
    });
    let origin = match &manifest.origin {
        Origin::Debian { profile, suite, mirrors, requested, mode } => json!({
            "source": "debian", "profile": profile, "suite": suite, "mirrors": mirrors, "mode": mode,
            "requested": requested.join(" "),
        }),
        Origin::Archive { file, sha256 } => json!({ "source": "archive", "file": file, "sha256": sha256 }),
    };
    if let (Value::Object(shown), Value::Object(origin)) = (&mut shown, origin) {
        shown.extend(origin);
        let leftovers = manifest.left_out.iter().map(|entry| json!({ "entry": entry }));
        shown.insert("leftOutFirst".to_owned(), leftovers.collect());
        shown.insert("packages".to_owned(), json!(manifest.packages));
    }
    shown
}

fn with_unchanged(built: &Outcome) -> Value {
    let mut shown = listed(&built.image);
    if let Value::Object(fields) = &mut shown {
        fields.insert("leftOut".to_owned(), built.image.manifest.left_out_count.into());
        fields.insert("unchanged".to_owned(), built.unchanged.into());
        fields.insert("folder".to_owned(), json!(built.image.folder));
    }
    shown
}
