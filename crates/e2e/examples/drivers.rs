//! Reports which machine drivers this host can run, for the Makefile:
//!
//! - `drivers try DRIVER` exits with 0 if the built binary can run it;
//! - `drivers skip DRIVER` reads names of tests, one a line, and records that they are not run without it; it fails if
//!   the driver is expected (`CAUSERIE_EXPECT_DRIVERS`);
//! - `drivers summary` prints a line for each missing driver whose tests were not run.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the caller reads both")]

use std::process::ExitCode;

use test_support::drivers;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["try", driver] if drivers::check_availability(&e2e::drivers::doctor_trial(driver)).is_err() => {
            return ExitCode::FAILURE;
        }
        ["try", _] => {}
        ["skip", driver] => {
            let reason = drivers::check_availability(&e2e::drivers::doctor_trial(driver)).err();
            for test in std::io::stdin().lines().map_while(Result::ok) {
                drivers::record_skipped_test(
                    driver,
                    reason.as_deref().unwrap_or("it was left out"),
                    test.trim(),
                );
            }
        }
        ["summary"] => {
            for line in drivers::summarize_skipped_tests() {
                println!("{line}");
            }
        }
        _ => {
            eprintln!("usage: drivers try DRIVER | skip DRIVER | summary");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
