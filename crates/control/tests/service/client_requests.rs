//! Use cases for clients that keep their histories themselves.

use control::admin::KeyRestrictions;
use control::client_histories::{HistoryLookup, PlaceLookup};
use control::plain_steps::{PlainRefusal, PlainRequest};
use control::{ErrorKind, PublicCode};
use domain::scope::{Permission, Scope};

use super::{EMAIL, ServiceStage, ask_question, error_code, start_stage};

#[tokio::test]
async fn client_use_cases_want_permission_to_ask() {
    let ServiceStage { service, principal, data: _data, .. } = start_stage().await;
    let live = ask_question(&service, &principal).await;
    let (chat, message) = (live.meta().conversation, live.meta().answer);
    let restrictions = KeyRestrictions {
        scope: Scope::from_permissions(&[Permission::Read]).expect("some"),
        ..KeyRestrictions::default()
    };
    let key = service.admin.create_key(EMAIL, "narrow", restrictions).await.expect("a key").key;
    let reader = service.access.resolve_key(key.reveal()).await.expect("it is valid");
    let refused = Some((ErrorKind::Forbidden, PublicCode::KeyScope));
    let histories = &service.client_histories;
    let lookup = PlaceLookup::History(HistoryLookup { name: None, is_name_unique: false, hashes: None });
    assert_eq!(error_code(histories.find_place(&reader, lookup).await), refused);
    assert_eq!(error_code(histories.find_repeated(&reader, [0; 32]).await), refused);
    assert_eq!(error_code(histories.record_sent_answer(&reader, message, [0; 32]).await), refused);
    assert_eq!(error_code(histories.stop_abandoned(&reader, message).await), refused);
    assert_eq!(error_code(service.answers.answer_bill(&reader, chat, message).await), refused);
    let step = service.plain_steps.begin_step(&reader, PlainRequest::default()).await;
    let refusal = match step {
        Err(PlainRefusal::UseCase(error)) => Some((error.kind(), error.code())),
        Err(PlainRefusal::TooLong { .. }) | Ok(_) => None,
    };
    assert_eq!(refusal, refused);
    service.shutdown().await;
}
