//! Answers requests during shutdown and after a panic of a handler.

use std::panic::AssertUnwindSafe;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use control::PublicCode;
use futures_util::FutureExt;

use crate::ApiMetrics;
use crate::error::ApiError;

/// `Retry-After` during shutdown, in seconds: about the time of a restart.
const ENDING_RETRY_AFTER: &str = "5";

/// Awaits the response. Returns 503 instead if the service is `ending`, and 500 if the handler panics. Both are counted
/// here, because they bypass the layer that counts the others.
pub async fn catch_panic<R: From<Response>>(
    ending: bool,
    metrics: &ApiMetrics,
    answered: impl Future<Output = R>,
) -> R {
    let response = if ending {
        let mut response =
            ApiError::new(PublicCode::Unavailable, "the service is restarting; try again").into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(ENDING_RETRY_AFTER));
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    } else {
        // Unwind safe: the handler's values are dropped, and shared values sit behind locks that survive a panic.
        match AssertUnwindSafe(answered).catch_unwind().await {
            Ok(response) => return response,
            Err(_) => ApiError::internal("a handler panicked").into_response(),
        }
    };
    metrics.record_refusal(response.status());
    response.into()
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

    async fn fetch_shielded(shielded: &Shielded, path: &str) -> (StatusCode, Option<String>, String) {
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
    async fn catch_panic_answers_with_retry_after() {
        let broken = get(async || -> &'static str {
            let nothing = std::hint::black_box(None::<&str>);
            nothing.expect("a bug with a secret in its message")
        });
        let router = Router::new().route("/broken", broken).route("/whole", get(async || "well"));
        let mut router = Shielded { router, ending: false, metrics: ApiMetrics::default() };
        let (status, retry, body) = fetch_shielded(&router, "/broken").await;
        assert_eq!((status, retry), (StatusCode::INTERNAL_SERVER_ERROR, None));
        assert!(body.contains("\"INTERNAL\"") && !body.contains("secret"), "{body}");
        assert_eq!(fetch_shielded(&router, "/whole").await.0, StatusCode::OK, "the next one is served");
        router.ending = true;
        let (status, retry, body) = fetch_shielded(&router, "/whole").await;
        assert_eq!((status, retry.as_deref()), (StatusCode::SERVICE_UNAVAILABLE, Some("5")));
        assert!(body.contains("\"UNAVAILABLE\""), "{body}");
        let counted: Vec<_> = router.metrics.request_counts().filter(|(.., count)| *count > 0).collect();
        assert_eq!(counted, [("other", "500".to_owned(), 1), ("other", "503".to_owned(), 1)]);
    }
}
