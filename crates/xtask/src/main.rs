//! `cargo xtask tidy`.

use std::path::Path;
use std::process::ExitCode;

use xtask::tidy;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for people")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some("tidy") || arguments.next().is_some() {
        eprintln!("usage: cargo xtask tidy");
        return ExitCode::from(2);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match tidy::check_tree(&root) {
        Ok(report) if report.complaints.is_empty() => {
            println!("tidy: {} files, no violations", report.files);
            ExitCode::SUCCESS
        }
        Ok(report) => {
            for complaint in &report.complaints {
                println!("{complaint}");
            }
            println!("tidy: {} violations", report.complaints.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::from(2)
        }
    }
}
