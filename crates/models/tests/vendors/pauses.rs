//! Continues steps that a vendor pauses. The fake vendor rejects a continuation in which its search or its thought is missing.

use domain::step::StopReason;
use models::Format;

use super::stage::{request, run_step, script, stage};

const PAUSED_TWICE: &str = r#"{"steps":[
    {"actions":[{"think":"I should look."},{"say":"I search."},{"search":"rent"}],"finish":"pause_turn"},
    {"actions":[{"say":" Once more."},{"search":"law"}],"finish":"pause_turn"},
    {"actions":[{"say":" Found it."}]}]}"#;

#[tokio::test]
async fn a_paused_step_goes_on_where_it_was() {
    let (standin, vendor) = stage(Format::Anthropic).await;
    let result = run_step(&vendor, request("standin", &script(&PAUSED_TWICE.replace('\n', "")))).await;
    assert_eq!(result.error, None);
    assert_eq!(result.text(), "I search. Once more. Found it.");
    assert_eq!((result.reasoning().as_str(), result.stop()), ("I should look.", StopReason::Done));
    let requests = standin.requests();
    assert_eq!(requests.len(), 3);
    // The fake vendor counts four bytes of a request as a token.
    let read: usize = requests.iter().map(|request| request.body.to_string().len() / 4).sum();
    let usage = result.finished.unwrap().1.unwrap();
    assert_eq!(usage.input_tokens, u64::try_from(read).unwrap());
    let said = requests[2].body["messages"][1]["content"].to_string();
    assert!(said.contains("I search.") && said.contains(r#"{"query":"law"}"#), "{said}");
}

#[tokio::test]
async fn a_step_that_is_paused_for_ever_is_ended() {
    let (standin, vendor) = stage(Format::Anthropic).await;
    let endless = r#"{"steps":[{"actions":[{"say":"On. "},{"search":"rent"}],"finish":"pause_turn"}]}"#;
    let result = run_step(&vendor, request("standin", &script(endless))).await;
    assert_eq!((standin.requests().len(), result.stop()), (9, StopReason::OutputFull));
    assert_eq!(result.text(), "On. ".repeat(9));
}
