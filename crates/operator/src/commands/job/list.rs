//! `causerie job list`

use clap::Args;
use serde::{Deserialize, Serialize};
use store::jobs::FailedJob;

use crate::error::CliError;
use crate::output::{columns, print_list};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// List failed jobs, newest first, with their last error
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie job list")]
pub struct ListFailedJobs {
    /// The maximum number of jobs
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FailedJobList {
    jobs: Vec<ListedJob>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedJob {
    job_id: String,
    kind: String,
    account_id: Option<String>,
    attempts: u32,
    error: String,
    failed_at: String,
}

impl From<FailedJob> for ListedJob {
    fn from(job: FailedJob) -> Self {
        Self {
            job_id: job.id.to_string(),
            kind: job.kind,
            account_id: job.account.map(|account| account.to_string()),
            attempts: job.attempts,
            error: job.error,
            failed_at: job.failed_at.to_string(),
        }
    }
}

impl CommandReply for FailedJobList {
    fn print_for_people(&self) {
        let columns = columns!(ListedJob: job_id, kind, account_id, attempts, failed_at, error);
        print_list("failed jobs", columns, &self.jobs);
    }
}

impl OperatorRequest for ListFailedJobs {
    const NAME: &'static str = "list_failed_jobs";
    type Reply = FailedJobList;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<FailedJobList, CliError> {
        let jobs = context.admin.list_failed_jobs(self.limit).await?;
        Ok(FailedJobList { jobs: jobs.into_iter().map(ListedJob::from).collect() })
    }
}
