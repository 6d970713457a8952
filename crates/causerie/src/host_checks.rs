//! The checks of `causerie doctor` that need neither the database nor its lock: by the command, or by the running service.

use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Catalog, CauserieService, Check, CheckStatus, DiskReserve, ServiceEnvironment};
use domain::catalog::ModelStatus;
use egress::{SearchClient, SearchQuery};
use machine::Driver;
use serde_json::Value;
use settings::{MachineDriver, ServiceSettings};

use crate::machine_driver::{self, Chosen, TrialFindings};
use crate::model_list;
use crate::output::count_with_noun;
use crate::printers::vendor_trouble;

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

pub(crate) fn passing_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Pass, reason.to_string())
}

pub(crate) fn warning_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Warn, reason.to_string())
}

pub(crate) fn failing_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Fail, reason.to_string())
}

/// Runs the checks of the running service: of its settings, its models, and failed readiness checks.
pub(crate) async fn of_service(settings: &ServiceSettings, service: &CauserieService) -> Vec<Check> {
    let mut checks = host_checks(settings).await;
    checks.extend(check_models(Ok(model_list::to_json(&service.catalog, None))));
    checks.push(check_web_search(settings).await);
    // These are among the checks above, with their remedies.
    let is_above = |name: &str| name.starts_with("vendor_") || name.starts_with("machine_limit_");
    let readiness = service.run_checks().await.into_iter();
    checks.extend(readiness.filter(|check| check.status != CheckStatus::Pass && !is_above(&check.name)));
    checks
}

/// Checks the host's support for the settings.
pub(crate) async fn host_checks(settings: &ServiceSettings) -> Vec<Check> {
    let mut checks = vec![check_disk(settings)];
    checks.extend(check_machine_drivers(settings).await);
    checks.push(check_tool_programs(settings));
    checks.push(text_recognition(settings));
    checks.push(image_programs());
    checks
}

pub(crate) fn check_host() -> Check {
    let name = rustix::system::uname();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = rustix::system::sysinfo();
    let gibibytes = u64::from(memory.mem_unit).saturating_mul(memory.totalram) >> 30;
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let (release, machine) = (text(name.release()), text(name.machine()));
    passing_check(
        "host",
        format_args!(
            "Linux {release}, {machine}, {}, {gibibytes} GiB of memory",
            count_with_noun(processors, "processor")
        ),
    )
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

/// Checks the vendors and the catalog of models.
pub(crate) fn check_models(answer: Result<Value, String>) -> Vec<Check> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return vec![failing_check("models", why)],
    };
    let vendors = answer["vendors"].as_array().map_or(&[][..], Vec::as_slice);
    let mut checks: Vec<Check> = vendors.iter().map(check_vendor).collect();
    let models = answer["models"].as_array().map_or(&[][..], Vec::as_slice);
    let default = models.iter().find(|model| model["default"] == true);
    checks.push(match default.and_then(|model| model["id"].as_str()) {
        Some(id) if vendors.is_empty() => warning_check(
            "models",
            format_args!(
                "{id} quotes passages and needs no key; for a model that writes answers, set ANTHROPIC_API_KEY, \
                 OPENAI_API_KEY, GEMINI_API_KEY or OPENAI_BASE_URL"
            ),
        ),
        Some(id) if default.is_some_and(|model| model["usesTools"] == false) => warning_check(
            "models",
            format_args!(
                "{id}, the default, accepts no tools, so that its answers cannot use files: start vLLM with \
                 --enable-auto-tool-choice and --tool-call-parser, llama.cpp with --jinja, or choose a model that Ollama \
                 lists with tools"
            ),
        ),
        Some(id) => passing_check("models", format_args!("{}, {id} by default", count_with_noun(models.len(), "model"))),
        None => failing_check("models", "no default model is available"),
    });
    checks
}

pub(crate) async fn ask_vendors(settings: &ServiceSettings) -> Result<Value, String> {
    let catalog = Catalog::new(settings.vendors.clone(), ServiceEnvironment::system().clock());
    let catalog = catalog.map_err(|error| error.to_string())?;
    let failure = catalog.refresh_models().await.err();
    Ok(model_list::to_json(&catalog, failure.as_ref()))
}

fn check_vendor(vendor: &Value) -> Check {
    let text = |name: &str| vendor[name].as_str().unwrap_or_default().to_owned();
    let (address, status) = (text("baseUrl"), text("status"));
    let name = format!("vendor_{}", text("vendor").to_ascii_lowercase());
    if status == ModelStatus::Up.as_str() {
        let models = vendor["models"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        return passing_check(&name, format_args!("{address} answers, {}", count_with_noun(models, "model")));
    }
    let why = vendor_trouble(vendor).unwrap_or_else(|| "it was not asked yet".to_owned());
    failing_check(&name, format_args!("{address} is {status}: {why}"))
}

/// Searches once.
pub(crate) async fn check_web_search(settings: &ServiceSettings) -> Check {
    const NAME: &str = "web_search";
    let search = match SearchClient::new(settings.web.search.clone()) {
        Ok(search) => search.with_outgoing(&settings.web.outgoing),
        Err(error) => return failing_check(NAME, error),
    };
    if !search.is_configured() {
        return warning_check(
            NAME,
            "no search engine configured: set SEARXNG_URL, BRAVE_API_KEY or TAVILY_API_KEY",
        );
    }
    let query = SearchQuery { text: "Debian".to_owned(), ..SearchQuery::default() };
    match search.search_web(&query).await {
        Ok(found) => passing_check(NAME, format_args!("answers, {}", count_with_noun(found.len(), "result"))),
        Err(error) => failing_check(NAME, error),
    }
}
