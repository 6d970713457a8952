//! Paths and queries that cannot be read, answered in the interface's own way.

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// The names in a path. One that cannot be read names nothing: 404.
pub(crate) struct Named<T>(pub(crate) T);

impl<T, S> FromRequestParts<S> for Named<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = Path::<T>::from_request_parts(parts, state).await;
        names.map(|Path(names)| Self(names)).map_err(|_| ApiError::not_found())
    }
}

/// Whether the client says with `If-None-Match` that it has what this entity tag names.
pub(crate) fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// The parameters of a query. What cannot be read is 400.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T, S> FromRequestParts<S> for Parameters<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|error| ApiError::bad_request(error.body_text()))
    }
}
