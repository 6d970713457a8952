//! Continues steps that a vendor pauses. The fake vendor rejects a continuation in which its search or its thought is missing.

use domain::step::StopReason;
use models::WireFormat;

use super::stage::{question_request, run_step, script_question, start_stage};

const PAUSED_TWICE: &str = r#"{"steps":[
    {"actions":[{"think":"I should look."},{"say":"I search."},{"search":"rent"}],"finish":"pause_turn"},
    {"actions":[{"say":" Once more."},{"search":"law"}],"finish":"pause_turn"},
    {"actions":[{"say":" Found it."}]}]}"#;

#[tokio::test]
async fn paused_step_resumes_in_place() {
    let (standin, vendor) = start_stage(WireFormat::Anthropic).await;
    let result =
        run_step(&vendor, question_request("standin", &script_question(&PAUSED_TWICE.replace('\n', ""))))
            .await;
    assert_eq!(result.error, None);
    assert_eq!(result.whole_text(), "I search. Once more. Found it.");
    assert_eq!(
        (result.whole_reasoning().as_str(), result.stop_reason()),
        ("I should look.", StopReason::Done)
    );
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
async fn endless_pauses_end_step() {
    let (standin, vendor) = start_stage(WireFormat::Anthropic).await;
    let endless = r#"{"steps":[{"actions":[{"say":"On. "},{"search":"rent"}],"finish":"pause_turn"}]}"#;
    let result = run_step(&vendor, question_request("standin", &script_question(endless))).await;
    assert_eq!((standin.requests().len(), result.stop_reason()), (9, StopReason::OutputFull));
    assert_eq!(result.whole_text(), "On. ".repeat(9));
}
