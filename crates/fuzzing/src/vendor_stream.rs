//! Fuzzes the streams of model servers: the same events for any split into chunks, in order, and within bounds.

use std::collections::{HashSet, VecDeque};

use domain::citation::CITED_MAX;
use domain::limits::CALLS_MAX;
use domain::step::{StepError, StepEvent};
use models::{StepDecoder, StreamProgress, WireFormat};

/// The number of digits that are appended to a generated identifier.
const OWN_DIGITS: usize = 24;

/// Runs one input.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&how, body)) = data.split_first() else { return };
    let format = WireFormat::ALL[usize::from(how >> 6) % WireFormat::ALL.len()];
    let (events, failure) = decode_stream(format, body, body.len().max(1));
    assert_events(&events, body.len());
    match &failure {
        // A finished step must not fail.
        Some(error) => {
            assert!(!events.iter().any(|event| matches!(event, StepEvent::Finished { .. })), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
            assert!(error.to_string().chars().count() < 500, "{error}");
        }
        None => assert!(matches!(events.last(), Some(StepEvent::Finished { .. })), "{events:?}"),
    }
    let (pieces, failed) = decode_stream(format, body, usize::from(how >> 1 & 31) + 1);
    let anonymous = |events: Vec<StepEvent>| events.into_iter().map(without_own_id).collect::<Vec<_>>();
    assert_eq!((anonymous(pieces), failed), (anonymous(events), failure), "by how it arrives");
}

fn decode_stream(format: WireFormat, body: &[u8], size: usize) -> (Vec<StepEvent>, Option<StepError>) {
    let mut decoder = StepDecoder::new(format, HashSet::from(["taken".to_owned()]));
    let mut ready = VecDeque::new();
    for piece in body.chunks(size) {
        match decoder.push_bytes(piece, &mut ready) {
            Ok(StreamProgress::More) => {}
            Ok(StreamProgress::End) => return (ready.into(), None),
            // Another request continues the step.
            Ok(StreamProgress::Pause) => return (ready.into(), Some(StepError::TooLong)),
            Err(error) => return (ready.into(), Some(error)),
        }
    }
    let failure = decoder.end_body(&mut ready).err();
    (ready.into(), failure)
}

fn assert_events(events: &[StepEvent], body_bytes: usize) {
    let mut ids = HashSet::from(["taken"]);
    let (mut said_bytes, mut text_bytes, mut citations) = (0, 0, 0);
    for (index, event) in events.iter().enumerate() {
        match event {
            StepEvent::Text(text) | StepEvent::Reasoning(text) => {
                assert!(!text.is_empty());
                said_bytes += text.len();
                if matches!(event, StepEvent::Text(_)) {
                    text_bytes += text.len();
                }
            }
            StepEvent::Call(call) => {
                assert!(ids.insert(&call.id), "{call:?} twice");
                assert!(!call.id.is_empty() && call.id.len() <= 128 && !call.id.contains(char::is_control));
                assert!(!call.tool.is_empty() && !call.arguments.trim().is_empty(), "{call:?}");
                said_bytes += call.arguments.len();
            }
            StepEvent::Cited(cited) => {
                assert!(cited.at <= text_bytes, "{cited:?} behind {text_bytes} bytes");
                citations += 1;
            }
            StepEvent::Opaque { json, .. } => said_bytes += json.len(),
            StepEvent::WasReasoning => text_bytes = 0,
            StepEvent::Noted(_) => {}
            StepEvent::Finished { .. } => assert_eq!(index + 1, events.len(), "an event after the end"),
        }
    }
    assert!(ids.len() <= CALLS_MAX + 1 && citations <= CITED_MAX);
    // Escapes make JSON longer than its content, except for omitted arguments and bytes that are replaced.
    assert!(said_bytes <= 3 * body_bytes + 2 * CALLS_MAX, "{said_bytes} of {body_bytes} bytes");
}

fn without_own_id(mut event: StepEvent) -> StepEvent {
    if let StepEvent::Call(call) = &mut event {
        let own = call.id.strip_prefix("call_").is_some_and(|digits| {
            digits.len() == OWN_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        if own {
            call.id = "call_".to_owned();
        }
    }
    event
}
