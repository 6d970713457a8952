//! Checks what is sent back to the vendor: calls with their results, and opaque items. The fake vendor rejects a
//! transcript in which a call has no result, two results, or lacks its reasoning.

use domain::step::{OutputBlock, StopReason, TranscriptItem};
use models::WireFormat;

use super::stage::{VendorStepResult, append_step, question_request, run_step, script_question, start_stage};

/// Returns true for formats with opaque items.
fn keeps_thoughts(format: WireFormat) -> bool {
    match format {
        WireFormat::Anthropic | WireFormat::Gemini | WireFormat::Responses => true,
        WireFormat::ChatCompletions => false,
    }
}

const THINKS_AND_CALLS: &str = r#"{"steps":[
    {"actions":[{"think":"First I look."},"think_hidden",{"say":"I look."},
        {"call":{"tool":"list","arguments":{"path":"/"}}},{"call":{"tool":"list","arguments":{"path":"/b"}}}]},
    {"actions":[{"think":"Now I know."},{"say":"Both came back."}]}]}"#;

#[tokio::test]
async fn thoughts_return_with_results() {
    for format in WireFormat::ALL {
        let (_standin, vendor) = start_stage(format).await;
        let mut request = question_request("standin", &script_question(&THINKS_AND_CALLS.replace('\n', "")));
        let first = run_step(&vendor, request.clone()).await;
        assert_eq!(
            (first.whole_text().as_str(), first.stop_reason()),
            ("I look.", StopReason::Calls),
            "{format:?}"
        );
        assert_eq!(first.whole_reasoning(), "First I look.", "{format:?}");
        let arguments: Vec<_> = first.step_calls().into_iter().map(|call| call.arguments).collect();
        assert_eq!(arguments, [r#"{"path":"/"}"#, r#"{"path":"/b"}"#], "{format:?}");
        assert_eq!(first.opaque_count() > 0, keeps_thoughts(format), "{format:?}: {first:?}");
        append_step(&mut request, &first);
        let second = run_step(&vendor, request.clone()).await;
        assert_eq!(second.whole_text(), "Both came back.", "{format:?}: {second:?}");
        // The next turn of the conversation.
        append_step(&mut request, &second);
        request.transcript.push(TranscriptItem::Question { text: "Thank you".into(), attachments: vec![] });
        request.model = "reasoning".into();
        let third = run_step(&vendor, request).await;
        assert!(third.finished.is_some() && !third.whole_text().is_empty(), "{format:?}: {third:?}");
    }
}

#[tokio::test]
async fn call_without_thoughts_refused() {
    for format in WireFormat::ALL.into_iter().filter(|format| keeps_thoughts(*format)) {
        let (_standin, vendor) = start_stage(format).await;
        let mut request = question_request("standin", &script_question(&THINKS_AND_CALLS.replace('\n', "")));
        let mut first = run_step(&vendor, request.clone()).await;
        first.blocks.retain(|block| !matches!(block, OutputBlock::Opaque { .. }));
        append_step(&mut request, &first);
        assert!(run_step(&vendor, request).await.error.is_some(), "{format:?}: the stand-in must notice");
    }
}

#[tokio::test]
async fn conversation_continues_in_other_format() {
    for from in WireFormat::ALL {
        let (_standin, vendor) = start_stage(from).await;
        let mut begun = question_request("standin", &script_question(&THINKS_AND_CALLS.replace('\n', "")));
        let first = run_step(&vendor, begun.clone()).await;
        append_step(&mut begun, &first);
        append_step(
            &mut begun,
            &VendorStepResult {
                blocks: vec![OutputBlock::Text("So.".into())],
                ..VendorStepResult::default()
            },
        );
        begun.transcript.push(TranscriptItem::Question { text: "And now?".into(), attachments: vec![] });
        // Identifiers must not depend on the vendor.
        let plain = begun.transcript.iter_mut().filter_map(|item| match item {
            TranscriptItem::Step(step) => Some(std::sync::Arc::make_mut(step)),
            _ => None,
        });
        for step in plain {
            for block in &mut step.blocks {
                if let OutputBlock::Call(call) = block {
                    call.id = call.id.replace("thoughtful", "of another");
                }
            }
        }
        let results = begun.transcript.iter_mut().filter_map(|item| match item {
            TranscriptItem::Result(result) => Some(std::sync::Arc::make_mut(result)),
            _ => None,
        });
        for result in results {
            result.call = result.call.replace("thoughtful", "of another");
        }
        for to in WireFormat::ALL.into_iter().filter(|to| *to != from) {
            let (standin, vendor) = start_stage(to).await;
            let result = run_step(&vendor, begun.clone()).await;
            assert_eq!(result.stop_reason(), StopReason::Done, "{from:?} to {to:?}: {result:?}");
            let body = standin.requests()[0].body.to_string();
            assert!(!body.contains("c2VhbA"), "{from:?} to {to:?}: nothing sealed is passed on");
        }
    }
}

#[tokio::test]
async fn invalid_json_arguments_are_answerable() {
    for format in WireFormat::ALL {
        let (_standin, vendor) = start_stage(format).await;
        let mut request = question_request("bad-arguments", "Look");
        let first = run_step(&vendor, request.clone()).await;
        let expected = match format {
            WireFormat::Anthropic | WireFormat::ChatCompletions | WireFormat::Responses => "{\"path\": ",
            // Gemini cannot represent arguments that are not JSON.
            WireFormat::Gemini => "{}",
        };
        assert_eq!(first.step_calls()[0].arguments, expected, "{format:?}");
        append_step(&mut request, &first);
        assert_eq!(run_step(&vendor, request).await.whole_text(), "Both came back.", "{format:?}");
    }
}

#[tokio::test]
async fn call_without_id_gets_one() {
    for format in WireFormat::ALL {
        let (_standin, vendor) = start_stage(format).await;
        let call = r#"{"call":{"tool":"list","id":""}}"#;
        let result = run_step(
            &vendor,
            question_request(
                "standin",
                &script_question(&format!(r#"{{"steps":[{{"actions":[{call},{call}]}}]}}"#)),
            ),
        )
        .await;
        let ids: Vec<_> = result.step_calls().into_iter().map(|call| call.id).collect();
        assert!(ids.len() == 2 && !ids[0].is_empty() && ids[0] != ids[1], "{format:?}: {ids:?}");
    }
}

#[tokio::test]
async fn last_step_without_tools_accepted() {
    for format in WireFormat::ALL {
        let (_standin, vendor) = start_stage(format).await;
        let mut request = question_request("two-calls", "Look");
        let first = run_step(&vendor, request.clone()).await;
        assert_eq!(first.step_calls()[1].arguments, "{\"query\":\"nájem \\\"bytu\\\"\"}", "{format:?}");
        append_step(&mut request, &first);
        request.tools.clear();
        assert_eq!(run_step(&vendor, request).await.whole_text(), "Both came back.", "{format:?}");
    }
}
