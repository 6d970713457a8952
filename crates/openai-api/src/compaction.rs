//! `POST /v1/responses/compact`: a summary in place of a long input, as an item that stands for it in later requests.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use control::Principal;
use control::plain_steps::PlainRequest;
use domain::credits::AnswerCost;
use domain::scope::Permission::Ask;
use domain::step::{StepEvent, TranscriptItem};
use serde_json::json;

use crate::body::ParsedBody;
use crate::chat::{ChatService, json_response};
use crate::error::{OpenAiError, OpenAiResult};
use crate::messages::{Message, MessageRole};
use crate::model_id::ModelId;
use crate::readers::restart_error;
use crate::response_request::ResponseRequest;
use crate::response_wire::usage_body;
use crate::summary::encode_summary;

/// The instructions of the model that summarizes.
const PROMPT: &str = "Summarize the conversation for an assistant that continues it without having read it. Keep what was \
                      asked, decided and found, names, numbers, dates, file paths, and what is still open. Write in the \
                      language of the conversation. Write the summary alone.";

/// Summarizes the input.
pub(crate) async fn compact_input(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "compactInput")?;
    let parse = |body: &str| {
        let mut request = ResponseRequest::parse(body)?;
        let input = request.take_input()?;
        Ok((request, input))
    };
    let parsed = chat.bodies.parse_body(&principal, &chat.access, request, parse).await?;
    let ParsedBody { value: (request, input), held, .. } = parsed;
    let Some(model) = request.model.as_deref().filter(|model| !model.is_empty()) else {
        return Err(OpenAiError::invalid_field("model", "model is missing"));
    };
    if request.names_place() || input.after.is_some() {
        let message = "only the input is summarized: send all of it, without ids of responses";
        return Err(OpenAiError::invalid_field("input", message));
    }
    let models = chat.asker.catalogs.list_models(&principal)?;
    let model = match ModelId::parse(model, |id| models.iter().any(|model| model.id == id)) {
        ModelId::Model(model) | ModelId::Plain(model) => Some(model),
        ModelId::Agent(_) => None,
    };
    let is_meant = |entry: &domain::catalog::ModelEntry| match &model {
        Some(model) => entry.id == *model,
        None => entry.default,
    };
    let text = transcript_text(&input.messages);
    if text.is_empty() {
        return Err(OpenAiError::invalid_field("input", "there is nothing to summarize: send messages"));
    }
    let (summary, cost) = if models.iter().any(|entry| is_meant(entry) && entry.builtin) {
        // The built-in reader writes no texts of its own, so nothing is left out.
        (text, AnswerCost::default())
    } else {
        chat.summarize(&principal, model, text).await.map_err(OpenAiError::of_input)?
    };
    drop(held);
    let id = format!("{:032x}", chat.asker.histories.new_message_id().bits());
    let item = json!({"id": format!("cmp_{id}"), "type": "compaction",
        "encrypted_content": encode_summary(&summary)});
    let body = json!({"id": format!("resp_{id}"), "object": "response.compaction",
        "created_at": chat.asker.histories.now_seconds(), "output": [item], "usage": usage_body(cost)});
    Ok(json_response(body.to_string()))
}

/// Returns the messages as one text.
fn transcript_text(messages: &[Message]) -> String {
    let texts = messages.iter().filter(|message| !message.text.trim().is_empty()).map(|message| {
        let author = match message.role {
            MessageRole::System => "Instructions",
            MessageRole::User => "User",
            MessageRole::Assistant => "Assistant",
            MessageRole::Tool => "Result of a tool",
        };
        format!("{author}:\n{}", message.text)
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

impl ChatService {
    /// Has a model summarize a text.
    async fn summarize(
        &self,
        principal: &Principal,
        model: Option<String>,
        text: String,
    ) -> OpenAiResult<(String, AnswerCost)> {
        let request = PlainRequest {
            model,
            instructions: PROMPT.to_owned(),
            transcript: vec![TranscriptItem::Question { text, attachments: Vec::new() }],
            ..PlainRequest::default()
        };
        let mut step = self.plain_steps.begin_step(principal, request).await?;
        let mut summary = String::new();
        loop {
            let event = tokio::select! {
                event = step.next_event() => event,
                () = self.shutdown.cancelled() => return Err(restart_error()),
            };
            match event {
                Some(Ok(StepEvent::Text(text))) => summary.push_str(&text),
                Some(Ok(StepEvent::WasReasoning)) => summary.clear(),
                Some(Ok(StepEvent::Finished { .. })) if summary.trim().is_empty() => {
                    return Err(OpenAiError::unavailable("the model wrote no summary: try again"));
                }
                Some(Ok(StepEvent::Finished { .. })) => return Ok((summary, step.bill())),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err((&error).into()),
                None => return Err(OpenAiError::unavailable("the model's answer was cut off: try again")),
            }
        }
    }
}
