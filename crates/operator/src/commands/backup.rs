//! `causerie backup`

use std::path::PathBuf;

use clap::Args;
use control::backup::BackupReport;
use serde::{Deserialize, Serialize};

use super::restore::{BackupContents, NamedFile};
use crate::command::OperatorCommand;
use crate::error::CliError;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// Copy the database and files to one file while the service runs
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  causerie backup /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie"
)]
pub struct BackupArgs {
    /// The file to write; must not exist
    file: PathBuf,
}

impl OperatorCommand for BackupArgs {
    type Request = WriteBackup;

    fn into_request(self) -> Result<WriteBackup, CliError> {
        // The service has a different working folder.
        let file = std::path::absolute(&self.file)
            .map_err(|error| CliError::new("USAGE", format!("{}: {error}", self.file.display())))?;
        Ok(WriteBackup { file })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WriteBackup {
    file: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenBackup {
    file: PathBuf,
    #[serde(flatten)]
    contents: BackupContents,
    left_out_files: Vec<NamedFile>,
}

impl CommandReply for WrittenBackup {}

impl OperatorRequest for WriteBackup {
    const NAME: &'static str = "backup";
    type Reply = WrittenBackup;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<WrittenBackup, CliError> {
        let BackupReport { summary, left_out_files } = context.admin.write_backup(&self.file).await?;
        let left_out_files = left_out_files.into_iter().map(NamedFile::from).collect();
        Ok(WrittenBackup { file: self.file, contents: summary.into(), left_out_files })
    }
}
