//! Decodes the event sequences from the vendors' documentation, in `tests/<format>`. Each must decode to the expected
//! result, in chunks of any size, and must not count as complete when it is cut.

use std::collections::{HashSet, VecDeque};

use domain::step::{OutputBlock, StepError, StopReason};
use models::{StepDecoder, StreamProgress, WireFormat};
use proptest::prelude::*;

use super::stage::VendorStepResult;

/// A recorded stream and its expected result: text, reasoning, calls (tool and arguments), the vendor's citations (byte
/// offset in the text, and source), opaque items, input and output tokens, and the stop reason.
#[derive(Clone)]
struct Fixture {
    format: WireFormat,
    name: &'static str,
    bytes: &'static [u8],
    text: &'static str,
    reasoning: &'static str,
    calls: &'static [(&'static str, &'static str)],
    cited: &'static [(usize, &'static str)],
    opaque: usize,
    tokens: (u64, u64),
    stop: StopReason,
}

macro_rules! fixture {
    ($format:ident, $folder:literal, $name:literal) => {
        Fixture {
            format: WireFormat::$format,
            name: concat!($folder, "/", $name),
            bytes: include_bytes!(concat!("../", $folder, "/", $name, ".sse")),
            text: "",
            reasoning: "",
            calls: &[],
            cited: &[],
            opaque: 0,
            tokens: (0, 0),
            stop: StopReason::Done,
        }
    };
}

fn documented_fixtures() -> Vec<Fixture> {
    vec![
        Fixture { text: "Hello!", tokens: (25, 15), ..fixture!(Anthropic, "anthropic", "text") },
        Fixture {
            text: "Okay, let's check the weather for San Francisco, CA:",
            calls: &[
                ("get_weather", r#"{"location": "San Francisco, CA", "unit": "fahrenheit"}"#),
                ("get_time", r#"{"zone": "PST"}"#),
            ],
            tokens: (472, 89),
            stop: StopReason::Calls,
            ..fixture!(Anthropic, "anthropic", "tools")
        },
        Fixture {
            text: "27 * 453 = 12,231",
            reasoning: "Let me solve this step by step:\n\n1. First break down 27 * 453",
            cited: &[(17, "T, page 1")],
            opaque: 2,
            tokens: (1045, 60),
            ..fixture!(Anthropic, "anthropic", "thinking")
        },
        Fixture {
            text: "příliš žluťoučký",
            reasoning: "I think.",
            tokens: (9, 4),
            ..fixture!(ChatCompletions, "chat_completions", "text")
        },
        Fixture {
            calls: &[("list", r#"{"path":"/"}"#), ("search", r#"{"query":"rent"}"#)],
            tokens: (30, 20),
            stop: StopReason::Calls,
            ..fixture!(ChatCompletions, "chat_completions", "tools")
        },
        Fixture {
            text: "Hi there!",
            cited: &[(2, "Example <https://example.org/>")],
            opaque: 1,
            tokens: (37, 11),
            ..fixture!(Responses, "responses", "text")
        },
        Fixture {
            reasoning: "**Looking up**\n\nI need both.",
            calls: &[("get_weather", r#"{"location":"Paris, France"}"#), ("get_time", r#"{"zone":"CET"}"#)],
            opaque: 3,
            tokens: (120, 80),
            stop: StopReason::Calls,
            ..fixture!(Responses, "responses", "tools")
        },
        Fixture {
            text: "I'm sorry.",
            opaque: 1,
            tokens: (10, 5),
            stop: StopReason::Refused,
            ..fixture!(Responses, "responses", "refusal")
        },
        Fixture {
            text: "AI learns from příklady.",
            cited: &[(9, "example.org <https://vertexaisearch.cloud.google.com/grounding-api-redirect/x>")],
            tokens: (4, 30),
            ..fixture!(Gemini, "gemini", "text")
        },
        Fixture {
            text: "I check.",
            reasoning: "**Planning**\n\nTwo cities.",
            calls: &[("get_temperature", r#"{"city":"Paris"}"#), ("get_temperature", r#"{"city":"London"}"#)],
            opaque: 2,
            tokens: (60, 75),
            stop: StopReason::Calls,
            ..fixture!(Gemini, "gemini", "tools")
        },
    ]
}

/// Returns the streams with the vendor's citations.
fn with_citations() -> Vec<Fixture> {
    vec![
        Fixture {
            text: "The facts: Shannon was born in 1916, říká encyklopedie. The grass is green and water is wet",
            cited: &[
                (57, "Claude Shannon <https://en.example.org/wiki/Claude_Shannon>"),
                (77, "/uploads/My Document.txt"),
                (94, "wet.pdf, page 5"),
                (94, "blocks"),
                (94, "API <https://docs.example.org/api>"),
            ],
            tokens: (10682, 510),
            ..fixture!(Anthropic, "anthropic", "citations")
        },
        Fixture {
            text: "Příběh roku: Causerie opens ([news.example](https://news.example/a?utm_source=openai)). See the statute. At once.",
            cited: &[
                (89, "Opening <https://news.example/a?utm_source=openai>"),
                (107, "statute.pdf"),
                (9, "plot.csv"),
                (115, "B <https://b.example/>"),
            ],
            opaque: 2,
            tokens: (328, 356),
            ..fixture!(Responses, "responses", "citations")
        },
        Fixture {
            text: "Žluté zprávy [a.example](https://a.example/x). And more.",
            cited: &[(49, "A <https://a.example/x>"), (59, "B <https://b.example/>")],
            tokens: (9, 4),
            ..fixture!(ChatCompletions, "chat_completions", "citations")
        },
        Fixture {
            text: "Španělsko vyhrálo Euro 2024, beating England 2-1. It is **law**.",
            reasoning: "Let me think.",
            cited: &[
                (30, "aljazeera.example <https://vertexaisearch.example/grounding-api-redirect/A>"),
                (52, "aljazeera.example <https://vertexaisearch.example/grounding-api-redirect/A>"),
                (52, "uefa.example <https://vertexaisearch.example/grounding-api-redirect/B>"),
                (67, "law.pdf"),
                (11, " <https://recited.example/>"),
            ],
            tokens: (12, 30),
            ..fixture!(Gemini, "gemini", "citations")
        },
    ]
}

fn all_fixtures() -> Vec<Fixture> {
    [documented_fixtures(), with_citations()].concat()
}

fn decode_chunks(format: WireFormat, pieces: &[&[u8]]) -> VendorStepResult {
    let mut decoder = StepDecoder::new(format, HashSet::new());
    let (mut result, mut ready) = (VendorStepResult::default(), VecDeque::new());
    let take = |result: &mut VendorStepResult, ready: &mut VecDeque<_>| {
        ready.drain(..).for_each(|event| result.apply_event(Ok(event)))
    };
    for piece in pieces {
        let next = decoder.push_bytes(piece, &mut ready);
        take(&mut result, &mut ready);
        match next {
            Ok(StreamProgress::More) => {}
            Ok(StreamProgress::End | StreamProgress::Pause) => return result,
            Err(error) => {
                result.apply_event(Err(error));
                return result;
            }
        }
    }
    let ended = decoder.end_body(&mut ready);
    take(&mut result, &mut ready);
    if let Err(error) = ended {
        result.apply_event(Err(error));
    }
    result
}

/// Replaces generated identifiers, which differ on each run.
fn without_own_ids(mut result: VendorStepResult) -> VendorStepResult {
    for block in &mut result.blocks {
        if let OutputBlock::Call(call) = block {
            call.id.clear();
        }
    }
    result
}

#[test]
fn documented_streams_decode_as_expected() {
    for fixture in all_fixtures() {
        let result = decode_chunks(fixture.format, &[fixture.bytes]);
        let name = fixture.name;
        assert_eq!(
            (result.whole_text().as_str(), result.stop_reason()),
            (fixture.text, fixture.stop),
            "{name}"
        );
        assert_eq!(result.whole_reasoning(), fixture.reasoning, "{name}");
        let calls: Vec<_> = result.step_calls().into_iter().map(|call| (call.tool, call.arguments)).collect();
        let calls: Vec<_> = calls.iter().map(|(tool, arguments)| (&**tool, &**arguments)).collect();
        assert_eq!(calls, fixture.calls, "{name}");
        assert_eq!(result.opaque_count(), fixture.opaque, "{name}: {result:?}");
        let cited: Vec<_> = result.cited.iter().map(|cited| (cited.at, cited.place.to_string())).collect();
        let cited: Vec<_> = cited.iter().map(|(at, place)| (*at, &**place)).collect();
        assert_eq!(cited, fixture.cited, "{name}");
        let usage = result.finished.unwrap().1.unwrap_or_default();
        assert_eq!((usage.input_tokens, usage.output_tokens), fixture.tokens, "{name}");
    }
}

#[test]
fn every_format_has_its_all() {
    for format in WireFormat::ALL {
        assert!(all_fixtures().iter().filter(|fixture| fixture.format == format).count() >= 2, "{format:?}");
        assert!(all_fixtures().iter().any(|fixture| fixture.format == format && !fixture.cited.is_empty()));
    }
}

#[test]
fn truncated_stream_never_misread() {
    for fixture in all_fixtures() {
        let whole = without_own_ids(decode_chunks(fixture.format, &[fixture.bytes]));
        for end in 0..fixture.bytes.len() {
            let result = without_own_ids(decode_chunks(fixture.format, &[&fixture.bytes[..end]]));
            let name = fixture.name;
            match &result.error {
                Some(error) => assert!(matches!(error, StepError::Unavailable { .. }), "{name} at {end}"),
                // Only the end marker or the usage after the stop reason is missing then.
                None => {
                    assert_eq!(
                        (&result.blocks, &result.cited),
                        (&whole.blocks, &whole.cited),
                        "{name} at {end}"
                    );
                }
            }
            assert!(whole.whole_text().starts_with(&result.whole_text()), "{name} at {end}");
        }
    }
}

proptest! {
    #[test]
    fn chunking_does_not_change_result(
        which in any::<prop::sample::Index>(),
        mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let fixtures = all_fixtures();
        let fixture = which.get(&fixtures);
        let mut places: Vec<_> = cuts.drain(..).map(|cut| cut.index(fixture.bytes.len())).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut begin = 0;
        for place in places {
            pieces.push(&fixture.bytes[begin..place]);
            begin = place;
        }
        pieces.push(&fixture.bytes[begin..]);
        let whole = without_own_ids(decode_chunks(fixture.format, &[fixture.bytes]));
        prop_assert_eq!(without_own_ids(decode_chunks(fixture.format, &pieces)), whole);
    }
}
