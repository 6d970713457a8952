//! The key of a call (section 5): looked at before anything else.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::Access;
use control::access::AccessError;

use crate::error::ApiError;

/// The header that carries the key.
const API_KEY: &str = "x-api-key";

/// Lets a call with a valid key in, as its caller; answers any other 401 with an empty body.
pub(crate) async fn let_in(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let key = request.headers().get(API_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
    match access.resolve(key).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(AccessError::Unauthorized) => {
            let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey"))];
            (StatusCode::UNAUTHORIZED, challenge).into_response()
        }
        Err(AccessError::Store(error)) => ApiError::internal(error).into_response(),
    }
}
