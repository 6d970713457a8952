//! `causerie demo`: asks a question about real documents and prints the answer.

use std::io::{self, Write};
use std::path::Path;

use control::admin::{AdminError, KeyRestrictions};
use control::passwords::Password;
use control::{Principal, ServiceEnvironment};
use domain::credits::Credits;
use domain::machine::MachineStatus;
use settings::{ServiceSettings, SettingSources};
use terminal::{AskOptions, AskSummary, ServiceConnection};

use crate::commands::{DemoOptions, ServeOptions};
use crate::serve;

/// Embeds a file of the examples with its name.
macro_rules! document {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../../examples/documents/", $name)))
    };
}

/// The account of the demonstration.
const EMAIL: &str = "demo@example.com";
const KEY_NAME: &str = "demo";
const CREDITS: u64 = 10_000;
/// The question, and another one to try, for a language of the locale.
struct DemoQuestions {
    first: &'static str,
    next: &'static str,
}

const CZECH: DemoQuestions = DemoQuestions {
    first: "Jaká je výpovědní doba nájmu bytu?",
    next: "Kdo může nájem vypovědět?",
};
const ENGLISH: DemoQuestions = DemoQuestions {
    first: "What is the notice period after probation?",
    next: "How many days of leave does the employee have?",
};
/// The example documents that are uploaded: name and content.
const DOCUMENTS: &[(&str, &[u8])] = &[
    document!("najemni-smlouva-byt.pdf"),
    document!("employment-contract.docx"),
    document!("domovni-rad.txt"),
    document!("rent-roll.xlsx"),
];
/// The polling interval and timeout for the machine to stop.
const STOP_POLL: std::time::Duration = std::time::Duration::from_millis(20);
const STOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// The validity of the licence.
const LICENCE: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);

/// Starts the service, asks the question, prints the answer, and continues to serve unless `--once` is set.
pub(crate) async fn run_demo(options: DemoOptions) -> Result<(), String> {
    print_line("Starting the service with all its data in one folder …");
    let once = options.once;
    let arguments = ServeOptions {
        data: Some(options.data),
        database: options.database,
        listen: Some(options.listen),
        machine_driver: Some(options.machine_driver),
        ..ServeOptions::default()
    };
    // Ignores configuration files and the configured database, so that the demonstration is the same for everybody.
    let environment =
        settings::environment_variables().filter(|(name, _)| !name.starts_with("CAUSERIE_DATABASE"));
    let sources = SettingSources::new(arguments.setting_arguments(), environment);
    let loaded = ServiceSettings::load(sources).map_err(|error| error.to_string())?;
    let mut running = serve::start_service(loaded).await.map_err(|error| error.to_string())?;
    let outcome = match running.choose_driver().await {
        Ok(()) => ask_demo_question(&running).await,
        Err(error) => Err(error.to_string()),
    };
    if outcome.is_ok() && !once {
        print_line("\nThe service keeps running; press Ctrl-C to stop it.");
        serve::wait_for_signal().await;
    }
    stop_machine(&running).await;
    running.shut_down().await;
    outcome
}

/// Stops the machine, because machines would outlive the service.
async fn stop_machine(running: &serve::StartedService) {
    let Ok(account) = running.service.admin.find_account(EMAIL).await else { return };
    let Ok(principal) = Principal::for_service(&account, ServiceEnvironment::system().now()) else { return };
    let vm = &running.service.vm;
    if vm.stop_machine(&principal).await.is_ok() {
        let stopped = async {
            while !matches!(vm.machine_status(&principal).await, Ok(MachineStatus::Stopped) | Err(_)) {
                tokio::time::sleep(STOP_POLL).await;
            }
        };
        // The machine is killed if it does not stop, and ends itself eventually.
        let _ = tokio::time::timeout(STOP_TIMEOUT, stopped).await;
    }
}

/// Returns the questions in the language of the locale; Slovaks read Czech. All others get English ones.
fn questions_for_locale(variable: impl Fn(&str) -> Option<String>) -> DemoQuestions {
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"]
        .into_iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()));
    match locale.as_deref().and_then(|locale| locale.get(..2)) {
        Some("cs" | "sk") => CZECH,
        _ => ENGLISH,
    }
}

async fn ask_demo_question(running: &serve::StartedService) -> Result<(), String> {
    let (key, password) = create_demo_access(running).await.map_err(|error| error.to_string())?;
    let url = format!("http://{}", serve::local_address(running.address));
    print_line(&format!("The agent's machine: {}", describe_demo_machine(running).await?));
    let attached = upload_demo_documents(&url, &key).await?;
    print_line(&format!("{} documents are in the workspace: {}\n", attached.len(), attached.join(", ")));
    let DemoQuestions { first, next } = questions_for_locale(|name| std::env::var(name).ok());
    print_line(&format!("> {first}\n"));
    let connection = ServiceConnection { url: url.clone(), key: key.clone(), certificates: None };
    let question = AskOptions { connection, text: first.to_owned(), grows: true, ..AskOptions::default() };
    match terminal::ask_and_print(question).await {
        Ok(AskSummary { error: None, .. }) => {}
        Ok(AskSummary { error: Some(code), .. }) => return Err(format!("the answer failed: {code}")),
        Err(error) => return Err(error.message()),
    }
    print_line("\nAsk another one from a second terminal:\n");
    print_line(&format!("  export CAUSERIE_URL={url}\n  export CAUSERIE_API_KEY={key}"));
    print_line(&format!("  {} ask \"{next}\"", program_invocation()));
    print_line(&format!("  curl -H \"X-Api-Key: $CAUSERIE_API_KEY\" {url}/api/v1/chats"));
    print_line(&format!("\nOr go on in a browser: {url}/ (email {EMAIL}, password {password})"));
    Ok(())
}

/// Describes the driver of the machine and what isolates it.
async fn describe_demo_machine(running: &serve::StartedService) -> Result<String, String> {
    let account = running.service.admin.find_account(EMAIL).await.map_err(|error| error.to_string())?;
    let principal = Principal::for_service(&account, ServiceEnvironment::system().now())
        .map_err(|error| error.to_string())?;
    let described =
        running.service.vm.describe_machine(&principal).await.map_err(|error| error.to_string())?;
    Ok(format!("{}, {}", described.driver, described.isolation))
}

/// Returns the command that runs this program from the current folder.
fn program_invocation() -> String {
    let called = std::env::args().next().unwrap_or_else(|| "causerie".to_owned());
    let here = std::env::current_dir().unwrap_or_default();
    Path::new(&called).strip_prefix(here).map_or(called.clone(), |below| below.display().to_string())
}

/// Creates a key and a password for the demonstration's account, and revokes the keys of earlier runs.
async fn create_demo_access(running: &serve::StartedService) -> Result<(String, String), AdminError> {
    let (admin, environment) = (&running.service.admin, ServiceEnvironment::system());
    let until = environment.now().saturating_add(LICENCE);
    match admin.create_account(EMAIL, Some(until), Credits(CREDITS), None, true).await {
        Ok(_) | Err(AdminError::EmailTaken) => {}
        Err(error) => return Err(error),
    }
    let password = format!("{:016x}", environment.random_bits() >> 64);
    if let Ok(password) = Password::parse(&password) {
        admin.set_password(EMAIL, password).await?;
    }
    for earlier in admin.list_keys(EMAIL).await? {
        admin.revoke_key(earlier.id).await?;
    }
    let key = admin.create_key(EMAIL, KEY_NAME, KeyRestrictions::default()).await?.key;
    Ok((key.reveal().to_owned(), password))
}

/// Uploads the example documents and returns their paths.
async fn upload_demo_documents(url: &str, key: &str) -> Result<Vec<String>, String> {
    let client = client::Client::new(url, key).map_err(|error| error.to_string())?;
    let mut paths = Vec::new();
    for (name, content) in DOCUMENTS {
        let uploaded =
            client.upload_bytes(name, content.to_vec()).await.map_err(|error| error.to_string())?;
        paths.push(uploaded.path);
    }
    Ok(paths)
}

/// Prints a line. Ignores a closed output: the demonstration continues.
fn print_line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_for_locale_follow_language() {
        let asked = |locale: &'static [(&str, &str)]| {
            let value = |name: &str| {
                let found = locale.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            questions_for_locale(value).first
        };
        assert_eq!(asked(&[("LANG", "cs_CZ.UTF-8")]), CZECH.first);
        assert_eq!(asked(&[("LANG", "cs_CZ.UTF-8"), ("LC_ALL", "sk_SK")]), CZECH.first);
        assert_eq!(asked(&[("LANG", "cs_CZ.UTF-8"), ("LC_ALL", "C.UTF-8")]), ENGLISH.first);
        assert_eq!(asked(&[("LANG", "C"), ("LC_ALL", "")]), ENGLISH.first);
        assert_eq!(asked(&[("LANG", "de_DE.UTF-8")]), ENGLISH.first);
        assert_eq!(asked(&[]), ENGLISH.first);
    }
}
