//! The places of questions whose clients do not name them.
//!
//! A place is found before the question is checked, and again in the transaction that accepts it: another question with the
//! same history may have been accepted in between, and would otherwise get a conversation of its own.

use domain::id::AccountId;
use store::Sql;
use store::client_histories::{self, HistoryPlace, PlaceLookup};
use store::questions::{AskRefused, NewQuestion, QuestionTarget};

use crate::ask_error::AskError;
use crate::questions::{AskPlace, AskRequest, QuestionService};

impl QuestionService {
    /// Places a question by its lookup, if it has one.
    pub(crate) async fn place_question(
        &self,
        account: AccountId,
        mut request: AskRequest,
    ) -> Result<AskRequest, AskError> {
        let Some(lookup) = request.client.as_ref().and_then(|client| client.lookup.clone()) else {
            return Ok(request);
        };
        let names_answer = matches!(lookup, PlaceLookup::Answer { .. });
        let find = move |tx: &mut dyn Sql| client_histories::find_place(tx, account, &lookup);
        (request.conversation, request.place) = match self.store.read(find).await? {
            None if names_answer => return Err(AskError::Refused(AskRefused::NotFound)),
            None => (None, AskPlace::Next),
            Some(HistoryPlace::After { conversation, answer }) => {
                (Some(conversation), AskPlace::BranchOf(answer))
            }
            Some(HistoryPlace::Instead { conversation, answer }) => {
                (Some(conversation), AskPlace::Version(answer))
            }
        };
        Ok(request)
    }

    /// Refuses a question whose lookup finds another place than its target by now.
    pub(crate) fn check_place(tx: &mut dyn Sql, new: &NewQuestion) -> Result<(), AskRefused> {
        let Some(lookup) = new.client.as_ref().and_then(|client| client.lookup.as_ref()) else {
            return Ok(());
        };
        let expected = match &new.target {
            QuestionTarget::New(_) | QuestionTarget::Existing(_) => None,
            QuestionTarget::BranchOf { conversation, answer } => {
                Some(HistoryPlace::After { conversation: *conversation, answer: *answer })
            }
            QuestionTarget::Version(version) => {
                Some(HistoryPlace::Instead { conversation: version.conversation, answer: version.of })
            }
        };
        let is_same = client_histories::is_still_place(tx, new.account, lookup, expected)?;
        if is_same { Ok(()) } else { Err(AskRefused::OtherPlace) }
    }
}
