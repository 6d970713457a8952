//! The checks of `causerie doctor` that try this host: its disk, machine drivers and programs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Check, CheckStatus, DiskReserve};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use machine::Driver;
use operator::checks::{failing_check, passing_check, warning_check};
use settings::{MachineDriver, ServiceSettings};

use crate::machine_driver::{self, Chosen, TrialFindings};

/// The programs that tools of the agent use for documents, with the Debian packages that have them.
const TOOL_PROGRAMS: [(&str, &str); 7] = [
    ("python3", "python3"),
    ("pdftotext", "poppler-utils"),
    ("pandoc", "pandoc"),
    ("tesseract", "tesseract-ocr"),
    ("soffice", "libreoffice-writer-nogui"),
    ("rg", "ripgrep"),
    ("bsdtar", "libarchive-tools"),
];

/// The programs that build images.
const IMAGE_PROGRAMS: [(&str, &str); 2] = [("mmdebstrap", "mmdebstrap"), ("mkfs.erofs", "erofs-utils")];

/// The folders of programs in machines, and for operators on the host.
const MACHINE_FOLDERS: [&str; 3] = ["usr/local/bin", "usr/bin", "bin"];

const OPERATOR_FOLDERS: [&str; 4] = ["usr/sbin", "usr/bin", "sbin", "usr/local/bin"];

/// The time limit of all trials of machine drivers: the same as at the service's start, so that both reach the
/// same result.
const TRIALS_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the host's support for the settings, as [`operator::HostChecks`].
pub(crate) fn check_host(settings: &ServiceSettings) -> BoxFuture<'_, Vec<Check>> {
    run_host_checks(settings).boxed()
}

async fn run_host_checks(settings: &ServiceSettings) -> Vec<Check> {
    let mut checks = vec![check_disk(settings)];
    checks.extend(check_machine_drivers(settings).await);
    checks.push(check_tool_programs(settings));
    checks.push(text_recognition(settings));
    checks.push(image_programs());
    checks
}

fn check_disk(settings: &ServiceSettings) -> Check {
    // The folder may not exist yet.
    let Some(existing) = settings.data.ancestors().find(|folder| folder.exists()) else {
        return disk_at(Path::new("."), settings);
    };
    disk_at(if existing.as_os_str().is_empty() { Path::new(".") } else { existing }, settings)
}

fn disk_at(folder: &Path, settings: &ServiceSettings) -> Check {
    let reserve = DiskReserve::new(folder, settings.disk);
    match reserve.free_space() {
        Err(error) => failing_check("disk", format_args!("{}: {error}", folder.display())),
        Ok(free) => {
            let (gibibytes, least) = (free.bytes >> 30, settings.disk.free_min_bytes >> 20);
            if reserve.is_low() {
                let what =
                    format!("{gibibytes} GiB free, questions are refused below {least} MiB: free disk space");
                return failing_check("disk", what);
            }
            passing_check("disk", format_args!("{gibibytes} GiB free for {}", settings.data.display()))
        }
    }
}

/// Tries the drivers in a temporary folder.
async fn check_machine_drivers(settings: &ServiceSettings) -> Vec<Check> {
    let folder = match tempfile::Builder::new().prefix("causerie-doctor-").tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            return vec![failing_check(
                "machines",
                format_args!("creating a temporary folder failed: {error}"),
            )];
        }
    };
    let open = || {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o711))
    };
    if let Err(error) = open() {
        return vec![failing_check("machines", format_args!("creating a temporary folder failed: {error}"))];
    }
    let TrialFindings { drivers, chosen } =
        machine_driver::try_all(folder.path(), settings, TRIALS_TIMEOUT).await;
    let mut checks: Vec<Check> = drivers
        .into_iter()
        // The configured driver reports itself whether it emulates.
        .filter(|(driver, _)| *driver != MachineDriver::Qemu || settings.driver != *driver)
        .map(|(driver, found)| {
            let name = format!("driver_{}", driver.name());
            match found {
                Ok(driver) => passing_check(&name, driver),
                // Another driver can replace it, unless it is configured or the last one.
                Err(why) if settings.driver == driver || driver == MachineDriver::Sandbox => {
                    failing_check(&name, why)
                }
                Err(why) => warning_check(&name, why),
            }
        })
        .collect();
    match chosen {
        Ok(Chosen { driver, reason, remedy, .. }) => checks.extend(chosen_checks(&driver, &reason, remedy)),
        Err(why) => checks.push(failing_check("machines", why)),
    }
    checks
}

/// Reports the driver that the service would choose, and the limits that the host's kernel does not enforce.
fn chosen_checks(driver: &Driver, reason: &str, remedy: Option<String>) -> Vec<Check> {
    let checks = machine_driver::driver_checks(driver, reason, remedy.as_deref()).into_iter();
    let checks = checks.map(|check| match check.name.as_str() {
        "machine_driver" => Check { name: "machines".to_owned(), ..check },
        _ => check,
    });
    checks.filter(|check| check.name == "machines" || check.status != CheckStatus::Pass).collect()
}

/// Looks for the programs that tools use, in the image or on the host.
fn check_tool_programs(settings: &ServiceSettings) -> Check {
    const NAME: &str = "tool_programs";
    let (root, place) = match machine_driver::find_image(settings) {
        Err(why) => return failing_check(NAME, why),
        Ok(Some(image)) => (image.tree, "the image has"),
        Ok(None) => (PathBuf::from("/"), "machines find"),
    };
    let missing = missing_programs(&root, &MACHINE_FOLDERS, &TOOL_PROGRAMS);
    if missing.is_empty() {
        let names: Vec<&str> = TOOL_PROGRAMS.iter().map(|(program, _)| *program).collect();
        return passing_check(NAME, format_args!("{place} {}", names.join(", ")));
    }
    let words: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mend = if settings.image.is_some() {
        "`causerie image build --profile full` has them".to_owned()
    } else {
        format!("{}, or use an image (`causerie image build --profile full`)", apt_install_command(&missing))
    };
    warning_check(NAME, format_args!("tools that need {} do not work: {mend}", words.join(", ")))
}

/// Looks for the program that recognizes the text of scans, and for its languages, in the image or on the host.
fn text_recognition(settings: &ServiceSettings) -> Check {
    const NAME: &str = "text_recognition";
    const PROGRAM: [(&str, &str); 1] = [("tesseract", "tesseract-ocr")];
    let (root, place) = match machine_driver::find_image(settings) {
        Err(why) => return failing_check(NAME, why),
        Ok(Some(image)) => (image.tree, "to the image"),
        Ok(None) => (PathBuf::from("/"), "to the host"),
    };
    let mut languages = recognized_languages(&root.join("usr/share/tesseract-ocr"));
    languages.sort_unstable();
    if missing_programs(&root, &MACHINE_FOLDERS, &PROGRAM).is_empty() && !languages.is_empty() {
        return passing_check(NAME, format_args!("scans are read in {}", languages.join(", ")));
    }
    warning_check(
        NAME,
        format_args!(
            "scanned documents and images are not read: add {place} the packages tesseract-ocr and one for each \
             language, such as tesseract-ocr-ces"
        ),
    )
}

/// Returns the languages below a folder that has a folder for each version of the program.
fn recognized_languages(folder: &Path) -> Vec<String> {
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let data = entries(folder.to_owned()).flat_map(|version| entries(version.path().join("tessdata")));
    let names = data.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| name.strip_suffix(".traineddata").map(str::to_owned))
        .filter(|name| name != "osd")
        .collect()
}

fn image_programs() -> Check {
    let missing = missing_programs(Path::new("/"), &OPERATOR_FOLDERS, &IMAGE_PROGRAMS);
    if missing.is_empty() {
        return passing_check("image_programs", "images can be built");
    }
    warning_check("image_programs", format_args!("images cannot be built: {}", apt_install_command(&missing)))
}

fn missing_programs(
    root: &Path,
    folders: &[&str],
    programs: &'static [(&'static str, &'static str)],
) -> Vec<&'static (&'static str, &'static str)> {
    let is_there = |program: &str| {
        // A link of the image leads to a place inside it.
        folders.iter().any(|folder| root.join(folder).join(program).symlink_metadata().is_ok())
    };
    programs.iter().filter(|(program, _)| !is_there(program)).collect()
}

fn apt_install_command(missing: &[&(&str, &str)]) -> String {
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    format!("`apt-get install {}`", packages.join(" "))
}
