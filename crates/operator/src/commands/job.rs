//! The commands for background jobs.

use clap::Subcommand;

use super::Where;

#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List failed jobs, newest first, with their last error
    List {
        /// The maximum number of jobs
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        at: Where,
    },
    /// Run a failed job again
    Retry {
        /// The job's identifier
        job_id: String,
        #[command(flatten)]
        at: Where,
    },
}
