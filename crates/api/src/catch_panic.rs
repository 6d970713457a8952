//! What holds for every request, whatever its route: nobody waits for a service that is ending, and no fault of a
//! handler leaves a client without an answer.

use std::panic::AssertUnwindSafe;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::ApiMetrics;
use crate::error::{ApiError, Code};

/// When to come again to a service that is ending, in seconds: about the time of a restart.
const ENDING_RETRY_AFTER: &str = "5";

/// The response that is `answered`; 503 from the moment on in which the service was told to end, and 500 when a
/// handler panics. Those two never reach, or never leave, the interface's own count, and are counted here.
pub async fn catch_panic(
    ending: bool,
    metrics: &ApiMetrics,
    answered: impl Future<Output = Response>,
) -> Response {
    let response = if ending {
        let mut response =
            ApiError::new(Code::Unavailable, "the service is restarting; try again").into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(ENDING_RETRY_AFTER));
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    } else {
        // What the handler held is dropped with it; what others share is kept whole by its own locks.
        match AssertUnwindSafe(answered).catch_unwind().await {
            Ok(response) => return response,
            Err(_) => ApiError::internal("a handler panicked").into_response(),
        }
    };
    metrics.refused(response.status());
    response
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    struct Shielded {
        router: Router,
        ending: bool,
        metrics: ApiMetrics,
    }

    async fn told(shielded: &Shielded, path: &str) -> (StatusCode, Option<String>, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let answered = shielded.router.clone().oneshot(request).map(|answered| answered.expect("an answer"));
        let response = catch_panic(shielded.ending, &shielded.metrics, answered).await;
        let retry = response.headers().get(header::RETRY_AFTER);
        let retry = retry.map(|value| value.to_str().expect("text").to_owned());
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 4096).await.expect("a body");
        (status, retry, String::from_utf8(body.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_an_ending_service_says_when_to_come_again() {
        let broken = get(async || -> &'static str {
            let nothing = std::hint::black_box(None::<&str>);
            nothing.expect("a bug with a secret in its message")
        });
        let router = Router::new().route("/broken", broken).route("/whole", get(async || "well"));
        let mut router = Shielded { router, ending: false, metrics: ApiMetrics::default() };
        let (status, retry, body) = told(&router, "/broken").await;
        assert_eq!((status, retry), (StatusCode::INTERNAL_SERVER_ERROR, None));
        assert!(body.contains("\"INTERNAL\"") && !body.contains("secret"), "{body}");
        assert_eq!(told(&router, "/whole").await.0, StatusCode::OK, "the next one is served");
        router.ending = true;
        let (status, retry, body) = told(&router, "/whole").await;
        assert_eq!((status, retry.as_deref()), (StatusCode::SERVICE_UNAVAILABLE, Some("5")));
        assert!(body.contains("\"UNAVAILABLE\""), "{body}");
        let counted: Vec<_> = router.metrics.requests().filter(|(.., count)| *count > 0).collect();
        assert_eq!(counted, [("other", "500".to_owned(), 1), ("other", "503".to_owned(), 1)]);
    }
}
