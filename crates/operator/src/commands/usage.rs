//! `causerie usage`

use clap::Args;
use control::usage::UsageTotal;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::command::OperatorCommand;
use crate::error::CliError;
use crate::output::{self, columns, print_table};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};
use crate::times::parse_start_time;

/// Show the credits and tokens used by an account's answers: by day, by model, and in total
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  causerie usage --account ada@example.org --since 2027-01-01")]
pub struct ShowUsageArgs {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
    /// Start of the period: a day in UTC, such as 2027-12-31, or a time in RFC 3339; unlimited by default
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
}

impl OperatorCommand for ShowUsageArgs {
    type Request = ShowUsage;

    fn into_request(self) -> Result<ShowUsage, CliError> {
        let since = self.since.as_deref().map(parse_start_time).transpose()?;
        Ok(ShowUsage { account: self.account, since })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShowUsage {
    account: String,
    since: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AccountUsage {
    complete: bool,
    days: Vec<DayUsage>,
    models: Vec<ModelUsage>,
    since: Option<String>,
    total: UsageSum,
}

#[derive(Debug, Serialize, Deserialize)]
struct DayUsage {
    day: String,
    #[serde(flatten)]
    sum: UsageSum,
}

#[derive(Debug, Serialize, Deserialize)]
struct ModelUsage {
    /// `None` for ledger entries without a model.
    model: Option<String>,
    #[serde(flatten)]
    sum: UsageSum,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageSum {
    steps: u64,
    credits: u64,
    summaries: u64,
    summary_credits: u64,
    input_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
    reasoning_tokens: u64,
    estimated_tokens: u64,
}

impl From<&UsageTotal> for UsageSum {
    fn from(total: &UsageTotal) -> Self {
        Self {
            steps: total.steps,
            credits: total.credits.0,
            summaries: total.summaries,
            summary_credits: total.summary_credits.0,
            input_tokens: total.tokens.input_tokens,
            cached_tokens: total.tokens.cached_tokens,
            output_tokens: total.tokens.output_tokens,
            reasoning_tokens: total.tokens.reasoning_tokens,
            estimated_tokens: total.estimated_tokens,
        }
    }
}

impl CommandReply for AccountUsage {
    fn print_for_people(&self) {
        if !self.complete {
            output::print_line("the oldest days are left out; --since limits the period\n");
        }
        let days = self.days.iter().map(|day| UsageRow { of: Some(day.day.clone()), sum: day.sum });
        let models = self.models.iter().map(|model| UsageRow { of: model.model.clone(), sum: model.sum });
        let total = UsageRow { of: Some("total".to_owned()), sum: self.total };
        let rows: Vec<UsageRow> = days.chain(models).chain([total]).collect();
        let columns = columns!(
            UsageRow: of, sum.steps, sum.credits, sum.summaries, sum.summary_credits, sum.input_tokens, sum.cached_tokens,
            sum.output_tokens, sum.reasoning_tokens, sum.estimated_tokens
        );
        print_table(columns, &rows);
    }
}

/// A row of the table: the usage of a day, of a model, or in total.
struct UsageRow {
    of: Option<String>,
    sum: UsageSum,
}

impl OperatorRequest for ShowUsage {
    const NAME: &'static str = "show_usage";
    type Reply = AccountUsage;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<AccountUsage, CliError> {
        let since = self.since.map(Timestamp::from_micros);
        let from = since.unwrap_or(Timestamp::from_micros(0));
        let report = context.admin.account_usage(&self.account, from).await?;
        let days = report.days.iter().map(|(day, sum)| {
            let time = day.to_string();
            DayUsage { day: time.split('T').next().unwrap_or_default().to_owned(), sum: sum.into() }
        });
        let models =
            report.models.iter().map(|(model, sum)| ModelUsage { model: model.clone(), sum: sum.into() });
        Ok(AccountUsage {
            complete: report.complete,
            days: days.collect(),
            models: models.collect(),
            since: since.map(|since| since.to_string()),
            total: (&report.total).into(),
        })
    }
}
