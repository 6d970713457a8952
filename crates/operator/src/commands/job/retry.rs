//! `causerie job retry`

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// Run a failed job again
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie job retry 0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d")]
pub struct RetryJob {
    /// The job's identifier
    #[serde(rename = "job")]
    job_id: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetriedJob {
    job_id: String,
    retried: bool,
}

impl CommandReply for RetriedJob {}

impl OperatorRequest for RetryJob {
    const NAME: &'static str = "retry_job";
    type Reply = RetriedJob;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<RetriedJob, CliError> {
        let Self { job_id } = self;
        let wrong = || CliError::new("NO_SUCH_JOB", format!("no failed job {job_id:?}"));
        if !context.admin.retry_job(job_id.parse().map_err(|_| wrong())?).await? {
            return Err(wrong());
        }
        Ok(RetriedJob { job_id, retried: true })
    }
}
