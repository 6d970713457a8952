//! Catalogs (section 4.2): what a question may choose from, in the caller's language.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Json, Response};
use control::access::Caller;
use control::{Catalog, Catalogs};
use domain::catalog::{Jurisdiction, Language, negotiate};
use domain::scope::Permission::{Ask, Read};
use serde::Serialize;

use crate::error::{ApiError, ApiResult};
use crate::openapi::parameters::InLanguage;
use crate::openapi::{error_responses, examples};
use crate::operations::operation;
use crate::wire;

operation! {
    /// Lists the models that a question may name
    ///
    /// With what each can be set to, and how its calls have fared lately. One of them is the default; deprecated ones
    /// still work, but are not for new clients.
    list_models = get "/api/v1/models" as "listModels" => models;
    needs: &[Read, Ask];
    headers: &[(&["200"], &["Content-Language", "Vary"])];
    schema:
        tag = "Catalogs",
        params(InLanguage),
        responses(
            (status = 200, description = "The models", body = [wire::Model<'static>], example = json!(examples::models())),
            error_responses::Unlikely,
        ),
}

pub(crate) async fn models(State(catalog): State<Arc<Catalog>>, headers: HeaderMap) -> Response {
    let language = language_of(&headers);
    let entries = catalog.entries();
    let models: Vec<wire::Model<'_>> =
        entries.iter().map(|entry| wire::Model::of(entry, catalog.status(&entry.id), language)).collect();
    localized(&models, language)
}

operation! {
    /// Lists the jurisdictions that a question may name
    ///
    /// They say whose law a question is about, by the `id`s in `jurisdictions`.
    list_jurisdictions = get "/api/v1/jurisdictions" as "listJurisdictions" => jurisdictions;
    needs: &[Read, Ask];
    headers: &[(&["200"], &["Content-Language", "Vary"])];
    schema:
        tag = "Catalogs",
        params(InLanguage),
        responses(
            (status = 200, description = "The jurisdictions", body = [wire::Jurisdiction<'static>]),
            error_responses::Unlikely,
        ),
}

pub(crate) async fn jurisdictions(
    State(jurisdictions): State<Arc<Vec<Jurisdiction>>>,
    headers: HeaderMap,
) -> Response {
    let language = language_of(&headers);
    let listed: Vec<wire::Jurisdiction<'_>> = jurisdictions
        .iter()
        .map(|one| wire::Jurisdiction { id: &one.id, label: one.label.in_language(language) })
        .collect();
    localized(&listed, language)
}

operation! {
    /// Lists the skills that a question may name
    ///
    /// Those that the account has used most come first: chosen by its questions, or opened by the agent.
    list_skills = get "/api/v1/skills" as "listSkills" => skills;
    needs: &[Read, Ask];
    schema:
        tag = "Catalogs",
        responses(
            (status = 200, description = "The skills", body = [wire::Listed], example = json!(examples::skills())),
            error_responses::Unlikely,
        ),
}

pub(crate) async fn skills(
    State(catalogs): State<Catalogs>,
    Extension(caller): Extension<Caller>,
) -> ApiResult<Json<Vec<wire::Listed>>> {
    let skills = catalogs.skills(caller.account).await.map_err(ApiError::internal)?;
    Ok(Json(skills.into_iter().map(Into::into).collect()))
}

operation! {
    /// Lists the agents that a question may name
    ///
    /// By full name. `causerie:assistant` answers when a question names none.
    list_agents = get "/api/v1/agents" as "listAgents" => agents;
    needs: &[Read, Ask];
    schema:
        tag = "Catalogs",
        responses(
            (status = 200, description = "The agents", body = [wire::Listed], example = json!(examples::agents())),
            error_responses::Unlikely,
        ),
}

pub(crate) async fn agents(State(catalogs): State<Catalogs>) -> Json<Vec<wire::Listed>> {
    Json(catalogs.agents().into_iter().map(Into::into).collect())
}

fn language_of(headers: &HeaderMap) -> Language {
    negotiate(headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()))
}

fn localized(body: &impl Serialize, language: Language) -> Response {
    let headers = [
        (header::CONTENT_LANGUAGE, HeaderValue::from_static(language.code())),
        (header::VARY, HeaderValue::from_static("Accept-Language")),
    ];
    (headers, Json(body)).into_response()
}
