//! The checks of `doctor` that need neither the database nor its lock: by the command, or by the running service.

use control::{Catalog, CauserieService, Check, CheckStatus, ServiceEnvironment};
use domain::catalog::ModelStatus;
use egress::{SearchClient, SearchQuery};
use futures_util::future::BoxFuture;
use serde_json::Value;
use settings::ServiceSettings;

use crate::model_list;
use crate::output::count_with_noun;
use crate::printers::vendor_trouble;

/// Checks the host's support for settings: disk, machine drivers, programs. The program that contains the guest program
/// provides it, because trying a driver starts a machine.
pub type HostChecks = for<'a> fn(&'a ServiceSettings) -> BoxFuture<'a, Vec<Check>>;

pub fn passing_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Pass, reason.to_string())
}

pub fn warning_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Warn, reason.to_string())
}

pub fn failing_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Fail, reason.to_string())
}

/// Runs the checks of the running service: of its settings, its models, and failed readiness checks.
pub async fn check_service(
    settings: &ServiceSettings,
    service: &CauserieService,
    host_checks: HostChecks,
) -> Vec<Check> {
    let mut checks = host_checks(settings).await;
    checks.extend(check_models(Ok(model_list::to_json(&service.catalog, None))));
    checks.push(check_web_search(settings).await);
    // These are among the checks above, with their remedies.
    let is_above = |name: &str| name.starts_with("vendor_") || name.starts_with("machine_limit_");
    let readiness = service.run_checks().await.into_iter();
    checks.extend(readiness.filter(|check| check.status != CheckStatus::Pass && !is_above(&check.name)));
    checks
}

pub fn check_host() -> Check {
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

/// Checks the vendors and the catalog of models.
pub fn check_models(answer: Result<Value, String>) -> Vec<Check> {
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

pub async fn ask_vendors(settings: &ServiceSettings) -> Result<Value, String> {
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
pub async fn check_web_search(settings: &ServiceSettings) -> Check {
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
