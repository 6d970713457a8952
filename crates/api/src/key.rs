//! The key of a call (section 5): looked at before anything else.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::Access;
use control::access::{AccessError, Caller};
use domain::scope::Scope;

use crate::error::{ApiError, Code};
use crate::operations::Operation;

/// The header that carries the key.
const API_KEY: &str = "x-api-key";

/// Lets a call with a valid key in, as its caller; answers any other 401 with an empty body. What the key may not
/// do goes no further.
pub(crate) async fn let_in(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    let key = request.headers().get(API_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
    let caller = match access.resolve(key).await {
        Ok(caller) => caller,
        Err(AccessError::Unauthorized) => {
            let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey"))];
            return (StatusCode::UNAUTHORIZED, challenge).into_response();
        }
        Err(AccessError::Store(error)) => return ApiError::of_store(&error).into_response(),
    };
    if !may(&caller, &request) {
        return ApiError::new(Code::KeyScope, "the key's scope does not hold this").into_response();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Whether the caller's key may do what the request asks for. A path that is none of the interface's goes on: it is
/// refused as such.
fn may(caller: &Caller, request: &Request) -> bool {
    if caller.scope == Scope::ALL {
        return true;
    }
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let Some(path) = path.filter(|path| path.starts_with("/api/v1/")) else { return true };
    // What is not in the table is nothing for a key that may not do everything.
    Operation::of(request.method(), path).is_some_and(|operation| operation.allowed(caller.scope))
}
