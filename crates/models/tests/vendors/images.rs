//! Checks that attached images and pages in results are sent in each vendor's documented form.

use std::sync::Arc;

use domain::image::{ImageRef, LoadedImage};
use domain::step::{ATTACHED_FILES, CallResult, StepOutcome, StepRequest, StopReason, TranscriptItem};
use models::WireFormat;
use serde_json::{Value, json};

use super::stage::{append_step, question_request, run_step, start_stage};

/// The first bytes of a PNG file, and their base64.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x07";
const AS_TEXT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAH";

fn sample_image(path: &str) -> LoadedImage {
    LoadedImage { of: ImageRef::from_file(path, PICTURE).unwrap(), bytes: PICTURE.into() }
}

fn page_image(path: &str, page: u32) -> LoadedImage {
    LoadedImage { of: ImageRef::of_page(path, page, PICTURE).unwrap(), bytes: PICTURE.into() }
}

fn attach_image(result: &mut TranscriptItem, image: &LoadedImage) {
    let TranscriptItem::Result(result) = result else { panic!("{result:?}") };
    Arc::make_mut(result).images = vec![image.of.clone()];
}

/// Builds a question with an attached image, and two calls; the first returned the picture of a page.
async fn image_question(
    format: WireFormat,
) -> (test_support::FakeVendorHandle, StepRequest, models::VendorClient) {
    let (standin, vendor) = start_stage(format).await;
    let mut asking = question_request("two-calls", "Look");
    let result = run_step(&vendor, asking.clone()).await;
    let read = CallResult {
        call: "attached".into(),
        tool: ATTACHED_FILES.into(),
        outcome: StepOutcome::Done,
        text: "Attached files:\n- /a.png: image/png".into(),
        passages: vec![],
        written: vec![],
        images: vec![sample_image("/a.png").of],
        unread: Vec::new(),
    };
    asking.transcript.push(TranscriptItem::Result(Arc::new(read)));
    append_step(&mut asking, &result);
    attach_image(&mut asking.transcript[3], &page_image("/b.pdf", 2));
    asking.images = vec![page_image("/b.pdf", 2), sample_image("/a.png")];
    (standin, asking, vendor)
}

/// Returns the image in the vendor's documented form.
fn documented_image(format: WireFormat) -> Value {
    let url = format!("data:image/png;base64,{AS_TEXT}");
    match format {
        WireFormat::Anthropic => {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": AS_TEXT}})
        }
        WireFormat::Responses => json!({"type": "input_image", "image_url": url, "detail": "auto"}),
        WireFormat::ChatCompletions => json!({"type": "image_url", "image_url": {"url": url}}),
        WireFormat::Gemini => json!({"inlineData": {"mimeType": "image/png", "data": AS_TEXT}}),
    }
}

/// Returns the content blocks of all turns, in order.
fn content_blocks(format: WireFormat, body: &Value) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let within = |turns: &Value, name: &str| -> Vec<Value> {
        let each = |turn: &Value| match turn.get(name).and_then(Value::as_array) {
            Some(pieces) => pieces.clone(),
            None => vec![turn.clone()],
        };
        list(turns).iter().flat_map(each).collect()
    };
    match format {
        WireFormat::Anthropic | WireFormat::ChatCompletions => within(&body["messages"], "content"),
        WireFormat::Responses => within(&body["input"], "content"),
        WireFormat::Gemini => within(&body["contents"], "parts"),
    }
}

fn is_result(piece: &Value) -> bool {
    piece["type"] == "tool_result"
        || piece["type"] == "function_call_output"
        || piece["role"] == "tool"
        || piece.get("functionResponse").is_some()
}

#[tokio::test]
async fn images_sent_in_vendor_format() {
    for format in WireFormat::ALL {
        let (standin, asking, vendor) = image_question(format).await;
        let result = run_step(&vendor, asking).await;
        assert!(result.error.is_none(), "{format:?}: {result:?}");
        let body = standin.requests().last().unwrap().body.clone();
        let mut sent = content_blocks(format, &body);
        for piece in &mut sent {
            piece.as_object_mut().unwrap().remove("cache_control");
        }
        let places: Vec<usize> = (0..sent.len()).filter(|at| sent[*at] == documented_image(format)).collect();
        assert_eq!(places.len(), 2, "{format:?}: {body:#}");
        for (place, path) in places.iter().zip(["/a.png", "/b.pdf, page 2"]) {
            let caption = sent[place - 1].to_string();
            assert!(caption.contains(&format!("The image {path}:")), "{format:?}: {caption}");
        }
        let results: Vec<usize> = (0..sent.len()).filter(|at| is_result(&sent[*at])).collect();
        assert_eq!(results.len(), 2, "{format:?}: {body:#}");
        assert!(places[0] < results[0] && results[1] < places[1], "{format:?}: {places:?} {results:?}");
    }
}

#[tokio::test]
async fn blind_model_gets_image_names() {
    for format in WireFormat::ALL {
        let (standin, mut asking, vendor) = image_question(format).await;
        asking.images.clear();
        assert_eq!(run_step(&vendor, asking).await.stop_reason(), StopReason::Done, "{format:?}");
        let body = standin.requests().last().unwrap().body.to_string();
        assert!(!body.contains(AS_TEXT) && body.contains("/a.png: image/png"), "{format:?}: {body}");
    }
}
