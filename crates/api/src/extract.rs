//! Extractors of paths, queries and bodies. What they reject is answered as an error of the interface.

use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRef, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use control::{Authenticator, Principal, PublicCode};
use domain::excerpt::Excerpt;
use domain::id::{ConversationId, MessageId};
use http_common::{BudgetHolder, BudgetShare, Budgets, JsonBodyError, limited_json_body};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::error::{ApiError, ApiResult, Code};
use crate::key::unauthorized_response;
use crate::operations::{Accepts, Operation};
use crate::{ApiLimits, State};

/// The time after which a body has arrived slowly.
const SLOW_BODY: Duration = Duration::from_secs(1);

/// The JSON body of an operation that [`Accepts::Json`], within its bounds. It is charged to its account until it is
/// dropped.
pub(crate) struct JsonBody {
    raw: Box<RawValue>,
    held: BudgetShare,
}

impl JsonBody {
    /// Parses an object. An array is an error, although serde would accept one by the order of the fields.
    pub(crate) fn parse_object<T: DeserializeOwned>(&self) -> ApiResult<T> {
        parse_json_object(&self.raw)
    }

    /// Returns the body as it was sent.
    pub(crate) fn raw_text(&self) -> &str {
        self.raw.get()
    }

    /// Drops the body and returns its share of the budget, for as long as the parsed values live.
    pub(crate) fn into_share(self) -> BudgetShare {
        self.held
    }
}

impl FromRequest<State> for JsonBody {
    type Rejection = Response;

    /// Reads the body. Fails if the key was revoked while the body arrived.
    async fn from_request(request: Request, state: &State) -> Result<Self, Response> {
        let principal = request.extensions().get::<Principal>().cloned();
        let begun = Instant::now();
        let body = Self::read_from_request(request, state).await.map_err(IntoResponse::into_response)?;
        if let Some(principal) = principal.filter(|_| begun.elapsed() >= SLOW_BODY)
            && !Authenticator::from_ref(state).is_still_valid(&principal).await
        {
            return Err(unauthorized_response());
        }
        Ok(body)
    }
}

impl JsonBody {
    async fn read_from_request(request: Request, state: &State) -> Result<Self, ApiError> {
        let (limits, budgets) = (ApiLimits::from_ref(state), Budgets::from_ref(state));
        let extensions = request.extensions();
        let operation = extensions.get::<&'static Operation>().map(|operation| operation.accepts);
        let (Some(Accepts::Json { max_bytes }), Some(principal)) = (operation, extensions.get::<Principal>())
        else {
            return Err(ApiError::internal("an operation reads a body without declaring it"));
        };
        let is_compressed = |coding: &HeaderValue| !coding.as_bytes().eq_ignore_ascii_case(b"identity");
        if let Some(coding) =
            request.headers().get(header::CONTENT_ENCODING).filter(|coding| is_compressed(coding))
        {
            let coding = String::from_utf8_lossy(coding.as_bytes());
            return Err(ApiError::bad_request(format!(
                "compressed bodies are not supported (Content-Encoding: {}): send the body uncompressed",
                Excerpt(&coding)
            )));
        }
        let mut held = budgets.body_bytes.empty_share(BudgetHolder::Account(principal.account()));
        let read = limited_json_body(request, max_bytes, limits.body_timeout, &mut held);
        Ok(Self { raw: read.await?, held })
    }
}

fn parse_json_object<T: DeserializeOwned>(raw: &RawValue) -> ApiResult<T> {
    if !raw.get().starts_with('{') {
        return Err(ApiError::bad_request("the body is not a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        ApiError::of_json(error.inner(), Some(field.as_str()).filter(|field| *field != "."))
    })
}

impl From<JsonBodyError> for ApiError {
    fn from(error: JsonBodyError) -> Self {
        match error {
            JsonBodyError::TooLarge(_) => Self::new(PublicCode::TooLarge, error),
            JsonBodyError::TooSlow => Self::new(Code::TooSlow, error),
            JsonBodyError::Malformed(error) => Self::of_json(&error, None),
            JsonBodyError::Broken(_) => Self::bad_request(error),
            JsonBodyError::Spent(spent) => spent.into(),
        }
    }
}

/// The conversation in the path. One that is not a UUID does not exist (404).
pub(crate) struct ChatPath(pub(crate) ConversationId);

/// The answer in the path, and its conversation.
pub(crate) struct AnswerPath(pub(crate) ConversationId, pub(crate) MessageId);

/// The call in the path, with its conversation and answer.
pub(crate) struct CallPath(pub(crate) ConversationId, pub(crate) MessageId, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for ChatPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(chat) = path_parameters::<String, S>(parts, state).await?;
        Ok(Self(parse_id_or_not_found(&chat)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AnswerPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path((chat, message)) = path_parameters::<(String, String), S>(parts, state).await?;
        Ok(Self(parse_id_or_not_found(&chat)?, parse_id_or_not_found(&message)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CallPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path((chat, message, call)) =
            path_parameters::<(String, String, String), S>(parts, state).await?;
        Ok(Self(parse_id_or_not_found(&chat)?, parse_id_or_not_found(&message)?, call))
    }
}

async fn path_parameters<T: DeserializeOwned + Send, S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
) -> ApiResult<Path<T>> {
    Path::from_request_parts(parts, state).await.map_err(|_| ApiError::not_found())
}

fn parse_id_or_not_found<T: FromStr>(text: &str) -> ApiResult<T> {
    text.parse().map_err(|_| ApiError::not_found())
}

/// Returns true if `If-None-Match` names this entity tag.
pub(crate) fn if_none_match(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// The parameters of a query. An invalid query is an error (400).
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T, S> FromRequestParts<S> for Parameters<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|error| {
            let text = error.body_text();
            let why = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
            ApiError::bad_request(format!("the query cannot be read: {why}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Question;

    #[test]
    fn a_list_is_no_question() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).expect("JSON");
        let read = parse_json_object::<Question>(&raw("{\"input\":\"a\"}"));
        assert_eq!(read.expect("a question").input.as_deref(), Some("a"));
        let list = raw("[\"a\",null,null,null,null,null,null,null,null]");
        assert!(parse_json_object::<Question>(&list).is_err());
    }
}
