//! The checks of `causerie doctor` that need neither the database nor its lock: by the command, or by the running service.

use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Catalog, Check, CheckStatus, DiskReserve, Environment, Service};
use domain::catalog::ModelStatus;
use egress::{Query, Search};
use machine::Driver;
use serde_json::Value;

use crate::machine_driver::{self, Chosen, Findings};
use crate::model_list;
use crate::output::counted;
use crate::printers::vendor_trouble;
use crate::settings::{MachineDriver, Settings};

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

/// The folders of programs that machines show, and that hold those for operators.
const MACHINE_FOLDERS: [&str; 3] = ["usr/local/bin", "usr/bin", "bin"];

const OPERATOR_FOLDERS: [&str; 4] = ["usr/sbin", "usr/bin", "sbin", "usr/local/bin"];

/// The longest time of all trials of machine drivers: what the service gives one at its start, so that both find the same.
const TRIALS_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn passed(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Pass, reason.to_string())
}

pub(crate) fn warned(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Warn, reason.to_string())
}

pub(crate) fn failed(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Fail, reason.to_string())
}

/// Runs the checks of the running service: of its settings, its models, and its readiness where something is amiss.
pub(crate) async fn of_service(settings: &Settings, service: &Service) -> Vec<Check> {
    let mut checks = host_checks(settings).await;
    checks.extend(models(Ok(model_list::to_json(&service.catalog, None))));
    checks.push(web(settings).await);
    // Those are among the checks above, with what to mend.
    let is_above = |name: &str| name.starts_with("vendor_") || name.starts_with("machine_limit_");
    let readiness = service.checks().await.into_iter();
    checks.extend(readiness.filter(|check| check.status != CheckStatus::Pass && !is_above(&check.name)));
    checks
}

/// Tries what the settings need of the host.
pub(crate) async fn host_checks(settings: &Settings) -> Vec<Check> {
    let mut checks = vec![disk(settings)];
    checks.extend(machines(settings).await);
    checks.push(programs(settings));
    checks.push(text_recognition(settings));
    checks.push(image_programs());
    checks
}

pub(crate) fn host() -> Check {
    let name = rustix::system::uname();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = rustix::system::sysinfo();
    let gibibytes = u64::from(memory.mem_unit).saturating_mul(memory.totalram) >> 30;
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let (release, machine) = (text(name.release()), text(name.machine()));
    passed(
        "host",
        format_args!(
            "Linux {release}, {machine}, {}, {gibibytes} GiB of memory",
            counted(processors, "processor")
        ),
    )
}

fn disk(settings: &Settings) -> Check {
    // The folder may not exist yet.
    let Some(existing) = settings.data.ancestors().find(|folder| folder.exists()) else {
        return disk_at(Path::new("."), settings);
    };
    disk_at(if existing.as_os_str().is_empty() { Path::new(".") } else { existing }, settings)
}

fn disk_at(folder: &Path, settings: &Settings) -> Check {
    let reserve = DiskReserve::new(folder, settings.disk);
    match reserve.free() {
        Err(error) => failed("disk", format_args!("{}: {error}", folder.display())),
        Ok(free) => {
            let (gibibytes, least) = (free.bytes >> 30, settings.disk.free_min_bytes >> 20);
            if reserve.is_low() {
                let what =
                    format!("{gibibytes} GiB free, questions are refused below {least} MiB: free some");
                return failed("disk", what);
            }
            passed("disk", format_args!("{gibibytes} GiB free for {}", settings.data.display()))
        }
    }
}

/// Tries the drivers in a folder of their own.
async fn machines(settings: &Settings) -> Vec<Check> {
    let folder = match tempfile::Builder::new().prefix("causerie-doctor-").tempdir() {
        Ok(folder) => folder,
        Err(error) => return vec![failed("machines", format_args!("a temporary folder: {error}"))],
    };
    let open = || {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o711))
    };
    if let Err(error) = open() {
        return vec![failed("machines", format_args!("a temporary folder: {error}"))];
    }
    let Findings { drivers, chosen } = machine_driver::try_all(folder.path(), settings, TRIALS_TIMEOUT).await;
    let mut checks: Vec<Check> = drivers
        .into_iter()
        // The driver that is set says itself whether it emulates.
        .filter(|(driver, _)| *driver != MachineDriver::Qemu || settings.driver != *driver)
        .map(|(driver, found)| {
            let name = format!("driver_{}", driver.name());
            match found {
                Ok(driver) => passed(&name, driver),
                // Without it there is another, unless it is the one that is set or the last.
                Err(why) if settings.driver == driver || driver == MachineDriver::Sandbox => {
                    failed(&name, why)
                }
                Err(why) => warned(&name, why),
            }
        })
        .collect();
    match chosen {
        Ok(Chosen { driver, reason, remedy, .. }) => checks.extend(chosen_checks(&driver, &reason, remedy)),
        Err(why) => checks.push(failed("machines", why)),
    }
    checks
}

/// Reports the driver that the service would choose, and the limits that the host's kernel does not enforce.
fn chosen_checks(driver: &Driver, reason: &str, remedy: Option<String>) -> Vec<Check> {
    let checks = machine_driver::checks(driver, reason, remedy.as_deref()).into_iter();
    let checks = checks.map(|check| match check.name.as_str() {
        "machine_driver" => Check { name: "machines".to_owned(), ..check },
        _ => check,
    });
    checks.filter(|check| check.name == "machines" || check.status != CheckStatus::Pass).collect()
}

/// Looks for the programs that tools use, in the image or on the host.
fn programs(settings: &Settings) -> Check {
    const NAME: &str = "tool_programs";
    let (root, place) = match machine_driver::image(settings) {
        Err(why) => return failed(NAME, why),
        Ok(Some(image)) => (image.tree, "the image has"),
        Ok(None) => (PathBuf::from("/"), "machines find"),
    };
    let missing = missing(&root, &MACHINE_FOLDERS, &TOOL_PROGRAMS);
    if missing.is_empty() {
        let names: Vec<&str> = TOOL_PROGRAMS.iter().map(|(program, _)| *program).collect();
        return passed(NAME, format_args!("{place} {}", names.join(", ")));
    }
    let words: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mend = if settings.image.is_some() {
        "`causerie image build --profile full` has them".to_owned()
    } else {
        format!("{}, or use an image (`causerie image build --profile full`)", install(&missing))
    };
    warned(NAME, format_args!("tools that need {} do not work: {mend}", words.join(", ")))
}

/// Looks for the program that recognizes the text of scans, and for its languages, in the image or on the host.
fn text_recognition(settings: &Settings) -> Check {
    const NAME: &str = "text_recognition";
    const PROGRAM: [(&str, &str); 1] = [("tesseract", "tesseract-ocr")];
    let (root, place) = match machine_driver::image(settings) {
        Err(why) => return failed(NAME, why),
        Ok(Some(image)) => (image.tree, "to the image"),
        Ok(None) => (PathBuf::from("/"), "to the host"),
    };
    let mut languages = recognized_languages(&root.join("usr/share/tesseract-ocr"));
    languages.sort_unstable();
    if missing(&root, &MACHINE_FOLDERS, &PROGRAM).is_empty() && !languages.is_empty() {
        return passed(NAME, format_args!("scans are read in {}", languages.join(", ")));
    }
    warned(
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
    let missing = missing(Path::new("/"), &OPERATOR_FOLDERS, &IMAGE_PROGRAMS);
    if missing.is_empty() {
        return passed("image_programs", "images can be built");
    }
    warned("image_programs", format_args!("images cannot be built: {}", install(&missing)))
}

fn missing(
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

fn install(missing: &[&(&str, &str)]) -> String {
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    format!("`apt-get install {}`", packages.join(" "))
}

/// Judges the vendors and the catalog of models.
pub(crate) fn models(answer: Result<Value, String>) -> Vec<Check> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return vec![failed("models", why)],
    };
    let vendors = answer["vendors"].as_array().map_or(&[][..], Vec::as_slice);
    let mut checks: Vec<Check> = vendors.iter().map(vendor).collect();
    let models = answer["models"].as_array().map_or(&[][..], Vec::as_slice);
    let default = models.iter().find(|model| model["default"] == true);
    checks.push(match default.and_then(|model| model["id"].as_str()) {
        Some(id) if vendors.is_empty() => warned(
            "models",
            format_args!(
                "{id} quotes passages and needs no key; for a model that writes answers, set ANTHROPIC_API_KEY, \
                 OPENAI_API_KEY, GEMINI_API_KEY or OPENAI_BASE_URL"
            ),
        ),
        Some(id) if default.is_some_and(|model| model["usesTools"] == false) => warned(
            "models",
            format_args!(
                "{id}, the default, accepts no tools, so that its answers cannot use files: start vLLM with \
                 --enable-auto-tool-choice and --tool-call-parser, llama.cpp with --jinja, or choose a model that Ollama \
                 lists with tools"
            ),
        ),
        Some(id) => passed("models", format_args!("{}, {id} by default", counted(models.len(), "model"))),
        None => failed("models", "there is no default model"),
    });
    checks
}

pub(crate) async fn ask_vendors(settings: &Settings) -> Result<Value, String> {
    let catalog = Catalog::new(settings.vendors.clone(), Environment::system().clock());
    let catalog = catalog.map_err(|error| error.to_string())?;
    let failure = catalog.refresh().await.err();
    Ok(model_list::to_json(&catalog, failure.as_ref()))
}

fn vendor(vendor: &Value) -> Check {
    let text = |name: &str| vendor[name].as_str().unwrap_or_default().to_owned();
    let (address, status) = (text("baseUrl"), text("status"));
    let name = format!("vendor_{}", text("vendor").to_ascii_lowercase());
    if status == ModelStatus::Up.as_str() {
        let models = vendor["models"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        return passed(&name, format_args!("{address} answers, {}", counted(models, "model")));
    }
    let why = vendor_trouble(vendor).unwrap_or_else(|| "it was not asked yet".to_owned());
    failed(&name, format_args!("{address} is {status}: {why}"))
}

/// Searches once.
pub(crate) async fn web(settings: &Settings) -> Check {
    const NAME: &str = "web_search";
    let search = match Search::new(settings.web.search.clone()) {
        Ok(search) => search.through(&settings.web.outgoing),
        Err(error) => return failed(NAME, error),
    };
    if !search.is_configured() {
        return warned(NAME, "none is set: SEARXNG_URL, BRAVE_API_KEY or TAVILY_API_KEY");
    }
    let query = Query { text: "Debian".to_owned(), ..Query::default() };
    match search.search(&query).await {
        Ok(found) => passed(NAME, format_args!("answers, {}", counted(found.len(), "result"))),
        Err(error) => failed(NAME, error),
    }
}
