//! Answers the hot requests without the router: getting an answer and downloading a file.
//!
//! They pass the same authentication and call the same use cases as through the router. The router's boxed services and
//! futures, extensions and owned copies of paths and headers cost more than all of that together.

use std::net::IpAddr;
use std::time::Instant;

use axum::body::HttpBody as _;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, Request, header};
use axum::response::{IntoResponse, Response};
use control::{AnswerService, Authenticator, FileService};
use domain::id::{ConversationId, MessageId};
use http_common::{BudgetHolder, BudgetShare};
use telemetry::trace::SpanContext;

use crate::ApiShutdown;
use crate::key::{AuthLayer, RequestedOperation};
use crate::operations::{OPERATIONS, Operation};
use crate::{chats, files};

/// The fixed parts of the paths: before the ids of a conversation and of an answer, and before the path of a file.
const CHATS: &str = "/api/v1/chats/";
const MESSAGES: &str = "/messages/";
const FILES: &str = "/api/v1/files/";

/// Answers frequent requests without the router.
pub struct Direct {
    pub(crate) layer: AuthLayer,
    pub(crate) answers: AnswerService,
    pub(crate) access: Authenticator,
    pub(crate) files: FileService,
    pub(crate) ending: ApiShutdown,
    pub(crate) collect: &'static Operation,
    pub(crate) download: &'static Operation,
}

/// A request that [`Direct`] answers.
#[derive(Debug, Clone, Copy)]
pub struct DirectCall(DirectCallKind);

#[derive(Debug, Clone, Copy)]
enum DirectCallKind {
    Collect(ConversationId, MessageId),
    Download,
}

/// A response, and the request's shares of budgets until it is sent.
pub struct DirectResponse {
    /// The response.
    pub response: Response,
    /// The holder of the shares, if the request was authenticated.
    pub holder: Option<BudgetHolder>,
    /// The shares.
    pub shares: [Option<BudgetShare>; 2],
}

/// Returns the operation with this id.
pub(crate) fn operation_by_id(id: &str) -> &'static Operation {
    OPERATIONS.iter().find(|operation| operation.id == id).expect("it is listed")
}

/// Returns the call if the request is answered without the router. Traced requests and unusual spellings of paths are not.
#[must_use]
pub fn recognize_direct_call<B>(request: &Request<B>) -> Option<DirectCall> {
    let path = request.uri().path();
    if *request.method() != Method::GET || request.extensions().get::<SpanContext>().is_some() {
        return None;
    }
    if let Some(ids) = path.strip_prefix(CHATS) {
        let (conversation, message) = ids.split_once(MESSAGES)?;
        return Some(DirectCall(DirectCallKind::Collect(conversation.parse().ok()?, message.parse().ok()?)));
    }
    let file = path.strip_prefix(FILES)?;
    (!file.is_empty()).then_some(DirectCall(DirectCallKind::Download))
}

impl Direct {
    /// Answers the request with this head.
    pub async fn answer_call(
        &self,
        DirectCall(call): DirectCall,
        head: &Parts,
        address: IpAddr,
    ) -> DirectResponse {
        let began = Instant::now();
        let asked = RequestedOperation::Known(match call {
            DirectCallKind::Collect(..) => self.collect,
            DirectCallKind::Download => self.download,
        });
        let is_target_too_long = http_common::is_target_too_long(&head.uri);
        let admitted =
            self.layer.admit_request(Some(address), &head.headers, asked, is_target_too_long).await;
        let (mut response, holder, shares) = match admitted {
            Err(refusal) => (refusal, None, [None, None]),
            Ok((principal, shares)) => {
                let answered = match call {
                    DirectCallKind::Collect(conversation, message) => {
                        let of = (conversation, message);
                        chats::collect_answer_as_it_stands(
                            &self.answers,
                            &self.ending,
                            &principal,
                            of,
                            &head.headers,
                        )
                        .await
                    }
                    DirectCallKind::Download => {
                        let Parts { method, uri, headers, .. } = head;
                        files::file_response(
                            &self.files,
                            &self.access,
                            &principal,
                            uri.path(),
                            method,
                            headers,
                        )
                        .await
                    }
                };
                (answered.into_response(), Some(BudgetHolder::Account(principal.account())), shares)
            }
        };
        self.layer.finish_response(&mut response, asked, began);
        // Set as the router would.
        if let Some(size) = response.body().size_hint().exact() {
            response.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(size));
        }
        DirectResponse { response, holder, shares }
    }
}
