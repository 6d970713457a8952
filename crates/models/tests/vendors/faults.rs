//! Tests the faults that vendors show, each in every format. The outcomes are the same, except where the table lists a
//! difference of the format.

use std::time::Duration;

use domain::step::{StepError, StopReason};
use models::{StepTimeouts, WireFormat};

use super::stage::{VendorStepResult, question_request, run_step, script_question, stage_with};
use super::{HELLO, is_unavailable, retry_delay};

/// The outcome of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultOutcome {
    /// A complete step with this stop reason.
    Whole(StopReason),
    /// A temporary error; the text before it is kept.
    Temporary,
    /// A permanent error that an operator must fix.
    Permanent,
    /// The transcript is too long.
    TooLong,
}

use FaultOutcome::{Permanent, Temporary, TooLong, Whole};

const DONE: FaultOutcome = Whole(StopReason::Done);
const FULL: FaultOutcome = Whole(StopReason::OutputFull);
const REFUSED: FaultOutcome = Whole(StopReason::Refused);
const FILTERED: FaultOutcome = Whole(StopReason::Filtered);

/// A fault: the model or script that triggers it, the expected text before it, and its outcome.
struct VendorFault {
    name: &'static str,
    script: Option<&'static str>,
    text: &'static str,
    outcome: FaultOutcome,
    /// Formats with other outcomes.
    but: &'static [(WireFormat, FaultOutcome)],
}

const fn model_fault(name: &'static str, text: &'static str, outcome: FaultOutcome) -> VendorFault {
    VendorFault { name, script: None, text, outcome, but: &[] }
}

const FAULTS: &[VendorFault] = &[
    model_fault("cut", HELLO, Temporary),
    model_fault("cut-frame", HELLO, Temporary),
    model_fault("cut-utf8", HELLO, Temporary),
    model_fault("stall", HELLO, Temporary),
    model_fault("stall-first", "", Temporary),
    model_fault("rate-limited", "", Temporary),
    model_fault("overloaded", "", Temporary),
    model_fault("overloaded-mid", HELLO, Temporary),
    model_fault("error-mid", HELLO, Temporary),
    VendorFault {
        name: "limited in mid-stream",
        script: Some(
            r#"{"steps":[{"actions":[{"say":"x"},{"error":{"message":"slow down","code":"rate_limit_error"}}]}]}"#,
        ),
        text: "x",
        outcome: Temporary,
        but: &[],
    },
    VendorFault {
        // These report that the model is done before the end marker.
        but: &[(WireFormat::ChatCompletions, DONE), (WireFormat::Anthropic, DONE)],
        ..model_fault("no-done", HELLO, Temporary)
    },
    VendorFault {
        name: "neither reason nor mark",
        script: Some(r#"{"steps":[{"actions":[{"say":"half"}],"finish":"","done":0}]}"#),
        text: "half",
        outcome: Temporary,
        but: &[],
    },
    model_fault("done-twice", HELLO, DONE),
    model_fault("no-usage", HELLO, DONE),
    model_fault("unknown-fields", HELLO, DONE),
    VendorFault {
        name: "unknown events",
        script: Some(
            r#"{"steps":[{"actions":[{"raw":"event: response.unheard_of\ndata: {\"type\":\"response.unheard_of\"}\n\nevent: new\ndata: no JSON\n\n"},{"say":"x"}]}]}"#,
        ),
        text: "x",
        outcome: DONE,
        but: &[],
    },
    VendorFault {
        name: "a frame that is no JSON",
        script: Some(r#"{"steps":[{"actions":[{"say":"x"},{"raw":"data: {\"ty\n\n"},{"say":"y"}]}]}"#),
        text: "x",
        outcome: Temporary,
        but: &[],
    },
    VendorFault {
        // They report it by a stop reason, as for output that their filters cut off.
        but: &[(WireFormat::Anthropic, FILTERED), (WireFormat::Gemini, FILTERED)],
        ..model_fault("refused", "I cannot help with that.", REFUSED)
    },
    model_fault("filtered", HELLO, FILTERED),
    model_fault("full", HELLO, FULL),
    model_fault("empty", "", DONE),
    model_fault("too-long", "", TooLong),
    model_fault("denied", "", Permanent),
    VendorFault { name: "no such model", script: None, text: "", outcome: Permanent, but: &[] },
];

fn fault_outcome(result: &VendorStepResult) -> FaultOutcome {
    match (&result.finished, &result.error) {
        (Some((stop, _)), _) => Whole(*stop),
        (_, Some(StepError::Unavailable { .. } | StepError::TimedOut { .. })) => Temporary,
        (_, Some(StepError::Rejected { .. })) => Permanent,
        (_, Some(StepError::TooLong)) => TooLong,
        (None, None) => panic!("{result:?}"),
    }
}

#[tokio::test]
async fn faults_agree_across_formats() {
    let (first_byte, stall) = (Duration::from_millis(500), Duration::from_millis(500));
    let max_wait = StepTimeouts { first_byte, stall, ..StepTimeouts::default() };
    for format in WireFormat::ALL {
        let (_standin, vendor) = stage_with(format, max_wait).await;
        for fault in FAULTS {
            let request = match fault.script {
                Some(json) => question_request("standin", &script_question(json)),
                None => question_request(fault.name, "Hello"),
            };
            let result = run_step(&vendor, request).await;
            let but = fault.but.iter().find(|(of, _)| *of == format);
            let expected = but.map_or(fault.outcome, |(_, outcome)| *outcome);
            assert_eq!(fault_outcome(&result), expected, "{format:?}, {}: {result:?}", fault.name);
            assert_eq!(result.whole_text(), fault.text, "{format:?}, {}", fault.name);
        }
    }
}

#[tokio::test]
async fn temporary_faults_succeed_on_retry() {
    for format in WireFormat::ALL {
        let (_standin, vendor) = stage_with(format, StepTimeouts::default()).await;
        for (model, wait) in [("rate-limited", Some(Duration::from_secs(1))), ("overloaded", None)] {
            assert_eq!(
                retry_delay(&run_step(&vendor, question_request(model, "Hello")).await),
                wait,
                "{format:?}"
            );
            assert_eq!(
                run_step(&vendor, question_request(model, "Hello")).await.whole_text(),
                HELLO,
                "{format:?}"
            );
        }
        for model in ["cut-once", "overloaded-mid"] {
            assert!(is_unavailable(&run_step(&vendor, question_request(model, "Hello")).await), "{format:?}");
            assert_eq!(
                run_step(&vendor, question_request(model, "Hello")).await.stop_reason(),
                StopReason::Done,
                "{format:?}"
            );
        }
        let usage = run_step(&vendor, question_request("no-usage", "Hello")).await.finished.unwrap().1;
        assert_eq!(usage, None, "{format:?}");
    }
}

#[tokio::test]
async fn endless_server_is_given_up() {
    let max_wait = StepTimeouts { step: Duration::from_millis(100), ..StepTimeouts::default() };
    for format in WireFormat::ALL {
        let (_standin, vendor) = stage_with(format, max_wait).await;
        let endless =
            script_question(r#"{"steps":[{"actions":[{"tokens":{"count":100000,"every_ms":5}}]}]}"#);
        let result = run_step(&vendor, question_request("standin", &endless)).await;
        assert!(is_unavailable(&result), "{format:?}");
    }
}
