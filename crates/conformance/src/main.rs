//! `causerie-conformance`: runs the cases against a deployment.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use conformance::cases::{self, Case, Needs};
use conformance::run::{CaseOutcome, CaseRun, run_all};
use conformance::{Api, ServiceAddress};

/// Shows that a running service keeps the interface's promises, as far as a key permits. The key's account must be
/// empty and reserved for the suite: it is emptied before each case. Exits with 0 if all cases pass, 1 if one fails,
/// 2 if it could not start.
#[derive(Debug, Parser)]
#[command(name = "causerie-conformance", version)]
struct ConformanceCli {
    /// The service: http:// or https://, with the path before /api/v1, if any.
    #[arg(long, env = "CAUSERIE_BASE_URL", required_unless_present = "list")]
    base_url: Option<String>,
    /// A key of an empty account.
    #[arg(long, env = "CAUSERIE_API_KEY", hide_env_values = true, requires = "base_url")]
    key: Option<String>,
    /// Run only the cases whose subject or name contains this text.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Skip the cases whose subject or name contains this text.
    #[arg(long, value_name = "TEXT")]
    skip: Vec<String>,
    /// The service is behind a proxy: skip the cases that the proxy would answer itself.
    #[arg(long)]
    proxied: bool,
    /// Ask no questions, so that no credits are spent.
    #[arg(long)]
    no_questions: bool,
    /// Do not start and stop the account's machine. Questions start it anyway.
    #[arg(long)]
    no_machine: bool,
    #[arg(long)]
    no_large_files: bool,
    /// List the cases and exit.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let cli = ConformanceCli::parse();
    // Not locked: each case is reported by the thread that ran it.
    let mut out = io::stdout();
    match cli.run_cases(&mut out) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

impl ConformanceCli {
    fn run_cases(&self, out: &mut impl Write) -> Result<ExitCode, String> {
        let failed = |error: io::Error| error.to_string();
        let (chosen, skipped): (Vec<Case>, Vec<Case>) = cases::all_cases()
            .into_iter()
            .filter(|case| self.selects_case(case))
            .partition(|case| self.why_not(case).is_none());
        if self.list {
            for case in &chosen {
                writeln!(out, "{}", case_title(case)).map_err(failed)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let api = self.connect_api()?;
        let runs: Vec<CaseRun<'_>> = chosen.iter().map(|case| prepare_run(case, &api)).collect();
        let outcomes = run_all(&runs, 1, |outcome| {
            let _ = writeln!(io::stdout(), "{}", outcome_line(outcome));
        });
        self.print_report(out, &outcomes, &skipped).map_err(failed)?;
        let held = outcomes.iter().all(|outcome| outcome.failure.is_none());
        Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn connect_api(&self) -> Result<Api, String> {
        let address = ServiceAddress::from_base_url(self.base_url.as_deref().unwrap_or_default())?;
        let key = self.key.clone().ok_or("--key is missing: give a key of an empty account")?;
        let api = Api { address, key };
        let looked = api.new_request("GET", "/api/v1/directories").try_send(&api.address);
        match looked.map_err(|error| format!("{} cannot be reached: {error}", api.address))?.status {
            200 => Ok(api),
            401 => Err("the service refused the key".to_owned()),
            status => Err(format!("the service answers {status} to a listing")),
        }
    }

    fn selects_case(&self, case: &Case) -> bool {
        let name = case_title(case);
        let holds = |text: &String| name.contains(text.as_str());
        (self.only.is_empty() || self.only.iter().any(holds)) && !self.skip.iter().any(holds)
    }

    fn why_not(&self, case: &Case) -> Option<&'static str> {
        match case.needs {
            Needs::Answers if self.no_questions => Some("it asks questions (--no-questions)"),
            Needs::Machine if self.no_machine => Some("it starts and stops the machine (--no-machine)"),
            Needs::Directly if self.proxied => Some("the proxy would answer it (--proxied)"),
            Needs::Room if self.no_large_files => Some("it uploads a large file (--no-large-files)"),
            Needs::Key | Needs::Answers | Needs::Machine | Needs::Directly | Needs::Room => None,
        }
    }

    fn print_report(
        &self,
        out: &mut impl Write,
        outcomes: &[CaseOutcome],
        skipped: &[Case],
    ) -> io::Result<()> {
        let failed: Vec<&CaseOutcome> = outcomes.iter().filter(|outcome| outcome.failure.is_some()).collect();
        for outcome in &failed {
            writeln!(out, "\nFAILED {}\n  {}", outcome.name, outcome.failure.as_deref().unwrap_or_default())?;
        }
        if !skipped.is_empty() {
            writeln!(out, "\nSkipped on request:")?;
        }
        for case in skipped {
            writeln!(out, "  {}: {}", case_title(case), self.why_not(case).unwrap_or_default())?;
        }
        writeln!(out, "\nNot testable from outside, covered by the project's own tests:")?;
        for (what, why) in cases::NOT_FROM_OUTSIDE {
            writeln!(out, "  {what}: {why}")?;
        }
        let held = outcomes.len() - failed.len();
        writeln!(out, "\n{held} cases passed, {} failed, {} skipped", failed.len(), skipped.len())
    }
}

fn prepare_run<'a>(case: &'a Case, api: &'a Api) -> CaseRun<'a> {
    let body = move || {
        api.empty_account();
        (case.run)(api);
    };
    CaseRun { name: case_title(case), body: Box::new(body) }
}

fn case_title(case: &Case) -> String {
    format!("{}: {}", case.subject(), case.name.replace('_', " "))
}

fn outcome_line(outcome: &CaseOutcome) -> String {
    let word = if outcome.failure.is_none() { "ok    " } else { "FAILED" };
    format!("{word} {:>7.2} s  {}", outcome.took.as_secs_f64(), outcome.name)
}
