//! `causerie restore`: for a service that is not running.

use std::path::PathBuf;

use clap::Args;
use control::ServiceEnvironment;
use control::backup::{Exclusions, OpenAnswers, RestoreReport, Summary, restore_backup};
use serde::{Deserialize, Serialize};
use settings::DataLocations;

use crate::error::CliError;
use crate::location::{Where, load_locations_as_caller};
use crate::output;

/// Restore a backup to a missing or empty data folder and an empty database
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n\
\x20 causerie restore /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie\n\
\x20 causerie restore /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie --continue-answers")]
pub struct RestoreArgs {
    /// The file written by `backup`
    file: PathBuf,
    /// Continue the answers that were in progress, instead of ending them: their actions after the backup
    /// are repeated
    #[arg(long)]
    continue_answers: bool,
}

/// The contents of a backup, in numbers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackupContents {
    files: u64,
    bytes: u64,
    chunks: u64,
    changed: u64,
    left_out: u64,
}

impl From<Summary> for BackupContents {
    fn from(summary: Summary) -> Self {
        let Summary { files, bytes, chunks, changed, left_out } = summary;
        Self { files, bytes, chunks, changed, left_out }
    }
}

/// A file that a backup or a restore has left out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NamedFile {
    path: String,
    reason: String,
}

impl From<Exclusions> for NamedFile {
    fn from(Exclusions { path, reason }: Exclusions) -> Self {
        Self { path, reason }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RestoredBackup {
    file: PathBuf,
    #[serde(flatten)]
    contents: BackupContents,
    interrupted_answers: u64,
    skipped: u64,
    skipped_files: Vec<NamedFile>,
}

impl RestoreArgs {
    /// Restores the backup and prints its contents.
    ///
    /// # Errors
    /// When the data folder or the database is not empty, or the backup cannot be read.
    pub async fn run(self, at: &Where) -> Result<(), CliError> {
        let answers = if self.continue_answers { OpenAnswers::Continue } else { OpenAnswers::End };
        let DataLocations { data, database, .. } = load_locations_as_caller(at)?;
        let environment = ServiceEnvironment::system();
        let restored = restore_backup(&self.file, &data, database.as_ref(), answers, &environment).await?;
        let RestoreReport { summary, interrupted_answers, skipped, skipped_files } = restored;
        let restored = RestoredBackup {
            file: self.file,
            contents: summary.into(),
            interrupted_answers,
            skipped,
            skipped_files: skipped_files.into_iter().map(NamedFile::from).collect(),
        };
        output::print_reply(&restored, at.json);
        Ok(())
    }
}
