//! Checks what is sent back to the vendor: calls with their results, and opaque items. The fake vendor rejects a
//! transcript in which a call has no result, two results, or lacks its reasoning.

use domain::step::{Block, Item, StopReason};
use models::Format;

use super::stage::{StepResult, append_step, request, run_step, script, stage};

/// Returns true for formats with opaque items.
fn keeps_thoughts(format: Format) -> bool {
    match format {
        Format::Anthropic | Format::Gemini | Format::Responses => true,
        Format::ChatCompletions => false,
    }
}

const THINKS_AND_CALLS: &str = r#"{"steps":[
    {"actions":[{"think":"First I look."},"think_hidden",{"say":"I look."},
        {"call":{"tool":"list","arguments":{"path":"/"}}},{"call":{"tool":"list","arguments":{"path":"/b"}}}]},
    {"actions":[{"think":"Now I know."},{"say":"Both came back."}]}]}"#;

#[tokio::test]
async fn thoughts_come_apart_from_text_and_go_back_with_the_results() {
    for format in Format::ALL {
        let (_standin, vendor) = stage(format).await;
        let mut request = request("standin", &script(&THINKS_AND_CALLS.replace('\n', "")));
        let first = run_step(&vendor, request.clone()).await;
        assert_eq!((first.text().as_str(), first.stop()), ("I look.", StopReason::Calls), "{format:?}");
        assert_eq!(first.reasoning(), "First I look.", "{format:?}");
        let arguments: Vec<_> = first.calls().into_iter().map(|call| call.arguments).collect();
        assert_eq!(arguments, [r#"{"path":"/"}"#, r#"{"path":"/b"}"#], "{format:?}");
        assert_eq!(first.opaque() > 0, keeps_thoughts(format), "{format:?}: {first:?}");
        append_step(&mut request, &first);
        let second = run_step(&vendor, request.clone()).await;
        assert_eq!(second.text(), "Both came back.", "{format:?}: {second:?}");
        // The next turn of the conversation.
        append_step(&mut request, &second);
        request.transcript.push(Item::Question { text: "Thank you".into(), attachments: vec![] });
        request.model = "reasoning".into();
        let third = run_step(&vendor, request).await;
        assert!(third.finished.is_some() && !third.text().is_empty(), "{format:?}: {third:?}");
    }
}

#[tokio::test]
async fn a_call_without_its_thoughts_is_refused() {
    for format in Format::ALL.into_iter().filter(|format| keeps_thoughts(*format)) {
        let (_standin, vendor) = stage(format).await;
        let mut request = request("standin", &script(&THINKS_AND_CALLS.replace('\n', "")));
        let mut first = run_step(&vendor, request.clone()).await;
        first.blocks.retain(|block| !matches!(block, Block::Opaque { .. }));
        append_step(&mut request, &first);
        assert!(run_step(&vendor, request).await.error.is_some(), "{format:?}: the stand-in must notice");
    }
}

#[tokio::test]
async fn what_one_format_said_can_be_gone_on_with_in_every_other() {
    for from in Format::ALL {
        let (_standin, vendor) = stage(from).await;
        let mut begun = request("standin", &script(&THINKS_AND_CALLS.replace('\n', "")));
        let first = run_step(&vendor, begun.clone()).await;
        append_step(&mut begun, &first);
        append_step(
            &mut begun,
            &StepResult { blocks: vec![Block::Text("So.".into())], ..StepResult::default() },
        );
        begun.transcript.push(Item::Question { text: "And now?".into(), attachments: vec![] });
        // Identifiers must not depend on the vendor.
        let plain = begun.transcript.iter_mut().filter_map(|item| match item {
            Item::Step(step) => Some(std::sync::Arc::make_mut(step)),
            _ => None,
        });
        for step in plain {
            for block in &mut step.blocks {
                if let Block::Call(call) = block {
                    call.id = call.id.replace("thoughtful", "of another");
                }
            }
        }
        let results = begun.transcript.iter_mut().filter_map(|item| match item {
            Item::Result(result) => Some(std::sync::Arc::make_mut(result)),
            _ => None,
        });
        for result in results {
            result.call = result.call.replace("thoughtful", "of another");
        }
        for to in Format::ALL.into_iter().filter(|to| *to != from) {
            let (standin, vendor) = stage(to).await;
            let result = run_step(&vendor, begun.clone()).await;
            assert_eq!(result.stop(), StopReason::Done, "{from:?} to {to:?}: {result:?}");
            let body = standin.requests()[0].body.to_string();
            assert!(!body.contains("c2VhbA"), "{from:?} to {to:?}: nothing sealed is passed on");
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_can_be_answered() {
    for format in Format::ALL {
        let (_standin, vendor) = stage(format).await;
        let mut request = request("bad-arguments", "Look");
        let first = run_step(&vendor, request.clone()).await;
        let expected = match format {
            Format::Anthropic | Format::ChatCompletions | Format::Responses => "{\"path\": ",
            // Gemini cannot represent arguments that are not JSON.
            Format::Gemini => "{}",
        };
        assert_eq!(first.calls()[0].arguments, expected, "{format:?}");
        append_step(&mut request, &first);
        assert_eq!(run_step(&vendor, request).await.text(), "Both came back.", "{format:?}");
    }
}

#[tokio::test]
async fn a_call_without_an_identifier_gets_one() {
    for format in Format::ALL {
        let (_standin, vendor) = stage(format).await;
        let call = r#"{"call":{"tool":"list","id":""}}"#;
        let result = run_step(
            &vendor,
            request("standin", &script(&format!(r#"{{"steps":[{{"actions":[{call},{call}]}}]}}"#))),
        )
        .await;
        let ids: Vec<_> = result.calls().into_iter().map(|call| call.id).collect();
        assert!(ids.len() == 2 && !ids[0].is_empty() && ids[0] != ids[1], "{format:?}: {ids:?}");
    }
}

#[tokio::test]
async fn the_last_step_without_tools_is_taken() {
    for format in Format::ALL {
        let (_standin, vendor) = stage(format).await;
        let mut request = request("two-calls", "Look");
        let first = run_step(&vendor, request.clone()).await;
        assert_eq!(first.calls()[1].arguments, "{\"query\":\"nájem \\\"bytu\\\"\"}", "{format:?}");
        append_step(&mut request, &first);
        request.tools.clear();
        assert_eq!(run_step(&vendor, request).await.text(), "Both came back.", "{format:?}");
    }
}
