//! The faults that vendors show, each in every format. What comes of one is the same everywhere but where the format
//! itself makes a difference, which the table says.

use std::time::Duration;

use domain::step::{StepError, StopReason};
use models::{Format, Timeouts};

use super::stage::{Said, request, say, script, stage_with};
use super::{HELLO, is_unavailable, waits};

/// What a fault comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// The step is whole, and ended so.
    Whole(StopReason),
    /// Worth trying again; what was said before is given.
    Passing,
    /// An operator must act.
    Lasting,
    /// The exchange does not fit.
    TooLong,
}

use Came::{Lasting, Passing, TooLong, Whole};

const DONE: Came = Whole(StopReason::Done);
const FULL: Came = Whole(StopReason::OutputFull);
const REFUSED: Came = Whole(StopReason::Refused);

/// A fault: the model or the script that plays it, what must have been said before, and what it comes to.
struct Fault {
    name: &'static str,
    script: Option<&'static str>,
    text: &'static str,
    came: Came,
    /// Where a format differs.
    but: &'static [(Format, Came)],
}

const fn played(name: &'static str, text: &'static str, came: Came) -> Fault {
    Fault { name, script: None, text, came, but: &[] }
}

const FAULTS: &[Fault] = &[
    played("cut", HELLO, Passing),
    played("cut-frame", HELLO, Passing),
    played("cut-utf8", HELLO, Passing),
    played("stall", HELLO, Passing),
    played("stall-first", "", Passing),
    played("rate-limited", "", Passing),
    played("overloaded", "", Passing),
    played("overloaded-mid", HELLO, Passing),
    played("error-mid", HELLO, Passing),
    Fault {
        name: "limited in mid-stream",
        script: Some(
            r#"{"steps":[{"actions":[{"say":"x"},{"error":{"message":"slow down","code":"rate_limit_error"}}]}]}"#,
        ),
        text: "x",
        came: Passing,
        but: &[],
    },
    Fault {
        // Chat Completions tells that the model is done before it marks the end.
        but: &[(Format::ChatCompletions, DONE)],
        ..played("no-done", HELLO, Passing)
    },
    Fault {
        name: "neither reason nor mark",
        script: Some(r#"{"steps":[{"actions":[{"say":"half"}],"finish":"","done":0}]}"#),
        text: "half",
        came: Passing,
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
        came: DONE,
        but: &[],
    },
    Fault {
        name: "a frame that is no JSON",
        script: Some(r#"{"steps":[{"actions":[{"say":"x"},{"raw":"data: {\"ty\n\n"},{"say":"y"}]}]}"#),
        text: "x",
        came: Passing,
        but: &[],
    },
    played("refused", "I cannot help with that.", REFUSED),
    played("filtered", HELLO, REFUSED),
    played("full", HELLO, FULL),
    played("empty", "", DONE),
    played("too-long", "", TooLong),
    played("denied", "", Lasting),
    Fault { name: "no such model", script: None, text: "", came: Lasting, but: &[] },
];

fn came(said: &Said) -> Came {
    match (&said.finished, &said.error) {
        (Some((stop, _)), _) => Whole(*stop),
        (_, Some(StepError::Unavailable { .. })) => Passing,
        (_, Some(StepError::Rejected { .. })) => Lasting,
        (_, Some(StepError::TooLong)) => TooLong,
        (None, None) => panic!("{said:?}"),
    }
}

#[tokio::test]
async fn every_fault_comes_to_the_same_in_every_format() {
    let max_wait = Timeouts { stall: Duration::from_millis(500), ..Timeouts::default() };
    for format in Format::ALL {
        let (_standin, vendor) = stage_with(format, max_wait).await;
        for fault in FAULTS {
            let request = match fault.script {
                Some(json) => request("standin", &script(json)),
                None => request(fault.name, "Hello"),
            };
            let said = say(&vendor, request).await;
            let but = fault.but.iter().find(|(of, _)| *of == format);
            let expected = but.map_or(fault.came, |(_, came)| *came);
            assert_eq!(came(&said), expected, "{format:?}, {}: {said:?}", fault.name);
            assert_eq!(said.text(), fault.text, "{format:?}, {}", fault.name);
        }
    }
}

#[tokio::test]
async fn what_passes_is_answered_the_second_time_and_tells_when_to_come_again() {
    for format in Format::ALL {
        let (_standin, vendor) = stage_with(format, Timeouts::default()).await;
        for (model, wait) in [("rate-limited", Some(Duration::from_secs(1))), ("overloaded", None)] {
            assert_eq!(waits(&say(&vendor, request(model, "Hello")).await), wait, "{format:?}");
            assert_eq!(say(&vendor, request(model, "Hello")).await.text(), HELLO, "{format:?}");
        }
        for model in ["cut-once", "overloaded-mid"] {
            assert!(is_unavailable(&say(&vendor, request(model, "Hello")).await), "{format:?}");
            assert_eq!(say(&vendor, request(model, "Hello")).await.stop(), StopReason::Done, "{format:?}");
        }
        let usage = say(&vendor, request("no-usage", "Hello")).await.finished.unwrap().1;
        assert_eq!(usage, None, "{format:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_ends_is_given_up() {
    let max_wait = Timeouts { step: Duration::from_millis(100), ..Timeouts::default() };
    for format in Format::ALL {
        let (_standin, vendor) = stage_with(format, max_wait).await;
        let endless = script(r#"{"steps":[{"actions":[{"tokens":{"count":100000,"every_ms":5}}]}]}"#);
        let said = say(&vendor, request("standin", &endless)).await;
        assert!(is_unavailable(&said), "{format:?}");
    }
}
