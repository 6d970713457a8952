//! The checks of `doctor` that need neither the database nor its lock: by the command, or by the running service.

use control::{CauserieService, Check, CheckStatus};
use domain::catalog::ModelStatus;
use egress::{SearchClient, SearchQuery};
use settings::ServiceSettings;

use super::super::models::{ModelList, VendorState};
use crate::checks::{failing_check, passing_check, warning_check};
use crate::output::count_with_noun;
use crate::request::HostChecks;

/// Runs the checks of the running service: of its settings, its models, and failed readiness checks.
pub(super) async fn check_service(
    settings: &ServiceSettings,
    service: &CauserieService,
    host_checks: HostChecks,
) -> Vec<Check> {
    let mut checks = host_checks(settings).await;
    checks.extend(check_models(Ok(ModelList::from_catalog(&service.catalog, None))));
    checks.push(check_web_search(settings).await);
    // These are among the checks above, with their remedies.
    let is_above = |name: &str| name.starts_with("vendor_") || name.starts_with("machine_limit_");
    let readiness = service.run_checks().await.into_iter();
    checks.extend(readiness.filter(|check| check.status != CheckStatus::Pass && !is_above(&check.name)));
    checks
}

pub(super) fn check_host() -> Check {
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
pub(super) fn check_models(listed: Result<ModelList, String>) -> Vec<Check> {
    let listed = match listed {
        Ok(listed) => listed,
        Err(why) => return vec![failing_check("models", why)],
    };
    let mut checks: Vec<Check> = listed.vendors.iter().map(check_vendor).collect();
    checks.push(match listed.default_model() {
        Some(model) if listed.vendors.is_empty() => warning_check(
            "models",
            format_args!(
                "{} quotes passages and needs no key; for a model that writes answers, set ANTHROPIC_API_KEY, \
                 OPENAI_API_KEY, GEMINI_API_KEY or OPENAI_BASE_URL",
                model.id
            ),
        ),
        Some(model) if !model.uses_tools => warning_check(
            "models",
            format_args!(
                "{}, the default, accepts no tools, so that its answers cannot use files: start vLLM with \
                 --enable-auto-tool-choice and --tool-call-parser, llama.cpp with --jinja, or choose a model that Ollama \
                 lists with tools",
                model.id
            ),
        ),
        Some(model) => passing_check(
            "models",
            format_args!("{}, {} by default", count_with_noun(listed.models.len(), "model"), model.id),
        ),
        None => failing_check("models", "no default model is available"),
    });
    checks
}

fn check_vendor(vendor: &VendorState) -> Check {
    let name = format!("vendor_{}", vendor.vendor.to_ascii_lowercase());
    let (address, status) = (&vendor.base_url, &vendor.status);
    if status == ModelStatus::Up.as_str() {
        let models = count_with_noun(vendor.models, "model");
        return passing_check(&name, format_args!("{address} answers, {models}"));
    }
    let why = vendor.trouble_in_words().unwrap_or_else(|| "it was not asked yet".to_owned());
    failing_check(&name, format_args!("{address} is {status}: {why}"))
}

/// Searches once.
pub(super) async fn check_web_search(settings: &ServiceSettings) -> Check {
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
