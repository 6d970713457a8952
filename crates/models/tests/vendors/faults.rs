//! Tests the faults that vendors show, each in every format. The outcomes are the same, except where the table lists a
//! difference of the format.

use std::time::Duration;

use domain::step::{StepError, StopReason};
use models::{Format, Timeouts};

use super::stage::{StepResult, request, run_step, script, stage_with};
use super::{HELLO, is_unavailable, waits};

/// The outcome of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// A complete step with this stop reason.
    Whole(StopReason),
    /// A temporary error; the text before it is kept.
    Temporary,
    /// A permanent error that an operator must fix.
    Permanent,
    /// The transcript is too long.
    TooLong,
}

use Outcome::{Permanent, Temporary, TooLong, Whole};

const DONE: Outcome = Whole(StopReason::Done);
const FULL: Outcome = Whole(StopReason::OutputFull);
const REFUSED: Outcome = Whole(StopReason::Refused);
const FILTERED: Outcome = Whole(StopReason::Filtered);

/// A fault: the model or script that triggers it, the expected text before it, and its outcome.
struct Fault {
    name: &'static str,
    script: Option<&'static str>,
    text: &'static str,
    outcome: Outcome,
    /// Formats with other outcomes.
    but: &'static [(Format, Outcome)],
}

const fn played(name: &'static str, text: &'static str, outcome: Outcome) -> Fault {
    Fault { name, script: None, text, outcome, but: &[] }
}

const FAULTS: &[Fault] = &[
    played("cut", HELLO, Temporary),
    played("cut-frame", HELLO, Temporary),
    played("cut-utf8", HELLO, Temporary),
    played("stall", HELLO, Temporary),
    played("stall-first", "", Temporary),
    played("rate-limited", "", Temporary),
    played("overloaded", "", Temporary),
    played("overloaded-mid", HELLO, Temporary),
    played("error-mid", HELLO, Temporary),
    Fault {
        name: "limited in mid-stream",
        script: Some(
            r#"{"steps":[{"actions":[{"say":"x"},{"error":{"message":"slow down","code":"rate_limit_error"}}]}]}"#,
        ),
        text: "x",
        outcome: Temporary,
        but: &[],
    },
    Fault {
        // These report that the model is done before the end marker.
        but: &[(Format::ChatCompletions, DONE), (Format::Anthropic, DONE)],
        ..played("no-done", HELLO, Temporary)
    },
    Fault {
        name: "neither reason nor mark",
        script: Some(r#"{"steps":[{"actions":[{"say":"half"}],"finish":"","done":0}]}"#),
        text: "half",
        outcome: Temporary,
        but: &[],
    },
    played("done-twice", HELLO, DONE),
    played("no-usage", HELLO, DONE),
    played("unknown-fields", HELLO, DONE),
    Fault {
        name: "unknown events",
        script: Some(
            r#"{"steps":[{"actions":[{"raw":"event: response.unheard_of\ndata: {\"type\":\"response.unheard_of\"}\n\nevent: new\ndata: no JSON\n\n"},{"say":"x"}]}]}"#,
        ),
        text: "x",
        outcome: DONE,
        but: &[],
    },
    Fault {
        name: "a frame that is no JSON",
        script: Some(r#"{"steps":[{"actions":[{"say":"x"},{"raw":"data: {\"ty\n\n"},{"say":"y"}]}]}"#),
        text: "x",
        outcome: Temporary,
        but: &[],
    },
    Fault {
        // They tell so by a stop reason, as for what their filters cut off.
        but: &[(Format::Anthropic, FILTERED), (Format::Gemini, FILTERED)],
        ..played("refused", "I cannot help with that.", REFUSED)
    },
    played("filtered", HELLO, FILTERED),
    played("full", HELLO, FULL),
    played("empty", "", DONE),
    played("too-long", "", TooLong),
    played("denied", "", Permanent),
    Fault { name: "no such model", script: None, text: "", outcome: Permanent, but: &[] },
];

fn outcome(result: &StepResult) -> Outcome {
    match (&result.finished, &result.error) {
        (Some((stop, _)), _) => Whole(*stop),
        (_, Some(StepError::Unavailable { .. } | StepError::TimedOut { .. })) => Temporary,
        (_, Some(StepError::Rejected { .. })) => Permanent,
        (_, Some(StepError::TooLong)) => TooLong,
        (None, None) => panic!("{result:?}"),
    }
}

#[tokio::test]
async fn every_fault_comes_to_the_same_in_every_format() {
    let (first_byte, stall) = (Duration::from_millis(500), Duration::from_millis(500));
    let max_wait = Timeouts { first_byte, stall, ..Timeouts::default() };
    for format in Format::ALL {
        let (_standin, vendor) = stage_with(format, max_wait).await;
        for fault in FAULTS {
            let request = match fault.script {
                Some(json) => request("standin", &script(json)),
                None => request(fault.name, "Hello"),
            };
            let result = run_step(&vendor, request).await;
            let but = fault.but.iter().find(|(of, _)| *of == format);
            let expected = but.map_or(fault.outcome, |(_, outcome)| *outcome);
            assert_eq!(outcome(&result), expected, "{format:?}, {}: {result:?}", fault.name);
            assert_eq!(result.text(), fault.text, "{format:?}, {}", fault.name);
        }
    }
}

#[tokio::test]
async fn what_passes_is_answered_the_second_time_and_tells_when_to_come_again() {
    for format in Format::ALL {
        let (_standin, vendor) = stage_with(format, Timeouts::default()).await;
        for (model, wait) in [("rate-limited", Some(Duration::from_secs(1))), ("overloaded", None)] {
            assert_eq!(waits(&run_step(&vendor, request(model, "Hello")).await), wait, "{format:?}");
            assert_eq!(run_step(&vendor, request(model, "Hello")).await.text(), HELLO, "{format:?}");
        }
        for model in ["cut-once", "overloaded-mid"] {
            assert!(is_unavailable(&run_step(&vendor, request(model, "Hello")).await), "{format:?}");
            assert_eq!(
                run_step(&vendor, request(model, "Hello")).await.stop(),
                StopReason::Done,
                "{format:?}"
            );
        }
        let usage = run_step(&vendor, request("no-usage", "Hello")).await.finished.unwrap().1;
        assert_eq!(usage, None, "{format:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_ends_is_given_up() {
    let max_wait = Timeouts { step: Duration::from_millis(100), ..Timeouts::default() };
    for format in Format::ALL {
        let (_standin, vendor) = stage_with(format, max_wait).await;
        let endless = script(r#"{"steps":[{"actions":[{"tokens":{"count":100000,"every_ms":5}}]}]}"#);
        let result = run_step(&vendor, request("standin", &endless)).await;
        assert!(is_unavailable(&result), "{format:?}");
    }
}
