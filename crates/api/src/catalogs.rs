//! Operations on the catalogs that a question may choose from (section 4.2).

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Json, Response};
use control::catalogs::CatalogEntry;
use control::{Catalogs, Principal};
use domain::catalog::{CatalogLanguage, negotiate_language};
use domain::scope::Permission::{Ask, Read};
use http_common::list_header;
use serde::Serialize;

use crate::error::ApiResult;
use crate::openapi::error_responses;
use crate::openapi::parameters::InLanguage;
use crate::operations::operation;
use crate::wire::{self, examples};

operation! {
    /// List models
    ///
    /// With their settings and their current health. One of them is the default; deprecated models still work,
    /// but new clients should not use them.
    list_models = get "/api/v1/models" as "listModels" => get_models;
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

pub(crate) async fn get_models(
    State(catalogs): State<Catalogs>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let models = catalogs.list_models(&principal)?;
    Ok(localized_response(&headers, &models, |model, language| {
        wire::Model::from_entry(model, catalogs.model_status(&model.id), language)
    }))
}

operation! {
    /// List jurisdictions
    ///
    /// A question selects by their `id`s in `jurisdictions` whose law it is about.
    list_jurisdictions = get "/api/v1/jurisdictions" as "listJurisdictions" => get_jurisdictions;
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

pub(crate) async fn get_jurisdictions(
    State(catalogs): State<Catalogs>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let jurisdictions = catalogs.list_jurisdictions(&principal)?;
    Ok(localized_response(&headers, &jurisdictions, |one, language| wire::Jurisdiction {
        id: &one.id,
        label: one.label.in_language(language),
    }))
}

operation! {
    /// List skills
    ///
    /// Sorted by use, most used first: selected by the account's questions or opened by the agent.
    list_skills = get "/api/v1/skills" as "listSkills" => get_skills;
    needs: &[Read, Ask];
    schema:
        tag = "Catalogs",
        responses(
            (status = 200, description = "The skills", body = [wire::PluginEntryBody], example = json!(examples::skills())),
            error_responses::Unlikely,
        ),
}

pub(crate) async fn get_skills(
    State(catalogs): State<Catalogs>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<Json<Vec<wire::PluginEntryBody>>> {
    Ok(plugin_entries_json(catalogs.list_skills(&principal).await?))
}

operation! {
    /// List agents
    ///
    /// Sorted by full name. `causerie:assistant` answers if a question does not name an agent.
    list_agents = get "/api/v1/agents" as "listAgents" => get_agents;
    needs: &[Read, Ask];
    schema:
        tag = "Catalogs",
        responses(
            (status = 200, description = "The agents", body = [wire::PluginEntryBody], example = json!(examples::agents())),
            error_responses::Unlikely,
        ),
}

pub(crate) async fn get_agents(
    State(catalogs): State<Catalogs>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<Json<Vec<wire::PluginEntryBody>>> {
    Ok(plugin_entries_json(catalogs.list_agents(&principal)?))
}

/// Converts skills or agents.
fn plugin_entries_json(entries: Vec<CatalogEntry>) -> Json<Vec<wire::PluginEntryBody>> {
    Json(entries.into_iter().map(Into::into).collect())
}

/// Answers with the entries in the client's language.
fn localized_response<'a, E, W: Serialize>(
    headers: &HeaderMap,
    entries: &'a [E],
    write: impl Fn(&'a E, CatalogLanguage) -> W,
) -> Response {
    let language = negotiate_language(&list_header(headers, &header::ACCEPT_LANGUAGE));
    let body: Vec<W> = entries.iter().map(|entry| write(entry, language)).collect();
    let headers = [
        (header::CONTENT_LANGUAGE, HeaderValue::from_static(language.code())),
        (header::VARY, HeaderValue::from_static("Accept-Language")),
    ];
    (headers, Json(body)).into_response()
}
