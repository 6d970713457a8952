//! `causerie audit list`

use clap::Args;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use store::audit::AuditEntry;

use crate::command::OperatorCommand;
use crate::error::CliError;
use crate::output::{self, columns, print_list};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};
use crate::times::parse_start_time;

/// List entries, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n\
\x20 causerie audit list --since 2027-01-01\n\
\x20 causerie audit list --account ada@example.org --json")]
pub struct ListAuditArgs {
    /// The account: email or identifier; all by default
    #[arg(long)]
    account: Option<String>,
    /// Start of the period: a day in UTC, such as 2027-12-31, or a time in RFC 3339
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// List entries before this number, as reported by the previous page
    #[arg(long, value_name = "ENTRY")]
    before: Option<i64>,
    /// The maximum number of entries
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

impl OperatorCommand for ListAuditArgs {
    type Request = ListAudit;

    fn into_request(self) -> Result<ListAudit, CliError> {
        let Self { account, since, before, limit } = self;
        let since = since.as_deref().map(parse_start_time).transpose()?;
        Ok(ListAudit { account, since, before, limit })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ListAudit {
    account: Option<String>,
    since: Option<i64>,
    before: Option<i64>,
    limit: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AuditPage {
    entries: Vec<ListedAuditEntry>,
    /// The number before which the next page begins, if this one is full.
    next: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedAuditEntry {
    entry: i64,
    at: String,
    account_id: Option<String>,
    actor: String,
    action: String,
    subject: String,
    detail: String,
}

impl From<(i64, AuditEntry)> for ListedAuditEntry {
    fn from((number, entry): (i64, AuditEntry)) -> Self {
        Self {
            entry: number,
            at: entry.at.to_string(),
            account_id: entry.account.map(|account| account.to_string()),
            actor: entry.actor,
            action: entry.action,
            subject: entry.subject,
            detail: entry.detail,
        }
    }
}

impl CommandReply for AuditPage {
    fn print_for_people(&self) {
        let columns = columns!(ListedAuditEntry: entry, at, actor, action, subject, detail);
        print_list("entries", columns, &self.entries);
        if let Some(next) = self.next {
            output::print_line(format_args!("\nmore: --before {next}"));
        }
    }
}

impl OperatorRequest for ListAudit {
    const NAME: &'static str = "list_audit";
    type Reply = AuditPage;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<AuditPage, CliError> {
        let since = self.since.map(Timestamp::from_micros);
        let (account, limit) = (self.account.as_deref(), self.limit);
        let entries = context.admin.list_audit_entries(account, since, self.before, limit).await?;
        let full = entries.len() == limit as usize;
        let next = entries.last().filter(|_| full).map(|(number, _)| *number);
        Ok(AuditPage { entries: entries.into_iter().map(ListedAuditEntry::from).collect(), next })
    }
}
