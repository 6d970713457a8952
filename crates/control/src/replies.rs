//! Takes replies to the calls of paused answers (section 4.4 of the interface).

use domain::id::{ConversationId, MessageId};
use domain::limits::REPLY_MAX_BYTES;
use domain::pause::CallReply;
use domain::scope::Permission;
use store::turns::{self, NewReply, ReplyOutcome, ReplyRefused};
use store::{Sql, StoreError, machines};

use crate::error::UseCaseError;
use crate::principal::Principal;
use crate::questions::QuestionService;

impl QuestionService {
    /// Takes the reply to a call. With the last one the answer goes on, and its machine is started as for a question. The
    /// first reply to a call counts; an equal one changes nothing.
    ///
    /// # Errors
    /// [`UseCaseError`]; nothing was changed then.
    pub async fn give_reply(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        answer: MessageId,
        call: String,
        reply: CallReply,
    ) -> Result<(), UseCaseError> {
        principal.require_any(&[Permission::Ask])?;
        principal.require_licence()?;
        let size = match &reply {
            CallReply::Output { text, .. } => text.len(),
            CallReply::Refused { reason } => reason.len(),
            CallReply::Approved => 0,
        };
        if size > REPLY_MAX_BYTES {
            let message = format!("the reply is too long: send at most {REPLY_MAX_BYTES} bytes");
            return Err(UseCaseError::invalid(message));
        }
        let (account, now) = (principal.account(), self.environment.now());
        let new = NewReply { account, conversation, answer, call, reply, now };
        // Dropping the future must not leave an answer that goes on with a machine that is never started.
        let given = self.background.see_through(self.clone().submit_reply(new)).await;
        given.unwrap_or(Err(StoreError::Panicked.into()))?;
        Ok(())
    }

    async fn submit_reply(self, new: NewReply) -> Result<(), ReplyRefused> {
        let (account, answer, call) = (new.account, new.answer, new.call.clone());
        let starts_machine = self.machine_started;
        let write = move |tx: &mut dyn Sql| {
            let outcome = turns::give_reply(tx, &new)?;
            if starts_machine && outcome == ReplyOutcome::Resumes {
                machines::request_start(tx, new.account)?;
            }
            Ok::<_, ReplyRefused>(outcome)
        };
        let given = self.store.write(write).await;
        if given.is_ok()
            && let Some(live) = self.live.get(answer)
        {
            live.note_reply(&call);
        }
        match given {
            // It may have been stored: then it must not wait for a machine that is never started.
            Ok(ReplyOutcome::Resumes) | Err(ReplyRefused::Store(StoreError::Uncertain(_)))
                if starts_machine =>
            {
                self.start_machine(account).await;
            }
            Ok(ReplyOutcome::Resumes) => self.dispatch.claim_accepted(account),
            _ => {}
        }
        given.map(drop)
    }
}
