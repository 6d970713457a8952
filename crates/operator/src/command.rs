//! A command of operators: arguments, from which its request comes.

use clap::Args;

use crate::carry_out::carry_out_at;
use crate::error::CliError;
use crate::location::Where;
use crate::request::{CommandReply, OperatorRequest};

/// A command of operators. Its request is itself if the arguments need no conversion.
pub(crate) trait OperatorCommand: Args + Send {
    /// The request that it makes.
    type Request: OperatorRequest;

    /// Converts the arguments, and reads from the terminal what they leave out.
    ///
    /// # Errors
    /// Invalid arguments.
    fn into_request(self) -> Result<Self::Request, CliError>;

    /// Runs the command: the service or, without one, this process carries out the request, and the reply is printed.
    fn run(self, at: &Where) -> impl Future<Output = Result<(), CliError>> + Send {
        async { run_request(self.into_request()?, at).await }
    }
}

/// Has a request carried out, and prints its reply.
pub(crate) async fn run_request(request: impl OperatorRequest, at: &Where) -> Result<(), CliError> {
    let reply = carry_out_at(at, request).await?;
    reply.print(at.json);
    reply.failure().map_or(Ok(()), Err)
}

impl<R: OperatorRequest + Args> OperatorCommand for R {
    type Request = Self;

    fn into_request(self) -> Result<Self, CliError> {
        Ok(self)
    }
}

// A command with the options of all commands. A doc comment would replace the help of the command.
#[derive(Debug, Args)]
pub struct Located<C: Args> {
    #[command(flatten)]
    pub command: C,
    #[command(flatten)]
    pub at: Where,
}

/// A command, or a group of commands.
pub(crate) trait CommandNode {
    /// Returns the location of the chosen command.
    fn location(&self) -> &Where;

    /// Runs the chosen command.
    fn run(self) -> impl Future<Output = Result<(), CliError>> + Send;
}

impl<C: OperatorCommand> CommandNode for Located<C> {
    fn location(&self) -> &Where {
        &self.at
    }

    async fn run(self) -> Result<(), CliError> {
        let Self { command, at } = self;
        Box::pin(command.run(&at)).await
    }
}
