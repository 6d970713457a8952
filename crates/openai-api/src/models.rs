//! The list of models.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Json;
use control::{Authenticator, Catalogs, Principal};
use domain::catalog::{CatalogLanguage, ModelEntry};
use domain::excerpt::Excerpt;
use domain::scope::Permission::{Ask, Read};
use serde::Serialize;

use crate::error::{OpenAiError, OpenAiResult};
use crate::model_id::ModelId;

/// The creation time of every model: the catalog does not know it, and clients require one.
const CREATED: u64 = 1_735_689_600;
/// The owner of agents and of the built-in reader, which belong to no vendor.
const OWN: &str = "causerie";

/// A model in OpenAI's form.
#[derive(Debug, Serialize)]
pub(crate) struct ModelBody {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: String,
    /// Its name for people, which some programs show.
    name: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ModelListBody {
    object: &'static str,
    data: Vec<ModelBody>,
}

/// Lists the models, the agents and the models without an agent.
pub(crate) async fn list_models(
    State(catalogs): State<Catalogs>,
    State(access): State<Authenticator>,
    Extension(principal): Extension<Principal>,
) -> OpenAiResult<Json<ModelListBody>> {
    access.authorize(&principal, &[Read, Ask], "listModels")?;
    Ok(Json(ModelListBody { object: "list", data: model_bodies(&catalogs, &principal)? }))
}

/// Returns one model. Its id may have slashes, encoded or not.
pub(crate) async fn find_model(
    State(catalogs): State<Catalogs>,
    State(access): State<Authenticator>,
    Extension(principal): Extension<Principal>,
    id: Result<Path<String>, PathRejection>,
) -> OpenAiResult<Json<ModelBody>> {
    let Path(id) = id.map_err(|_| OpenAiError::invalid("the model in the path is not UTF-8: encode it"))?;
    access.authorize(&principal, &[Read, Ask], "listModels")?;
    let found = model_bodies(&catalogs, &principal)?.into_iter().find(|model| model.id == id);
    let missing = || {
        OpenAiError::no_such_model(format_args!(
            "there is no model {}: GET /v1/models lists them",
            Excerpt(&id)
        ))
    };
    found.map(Json).ok_or_else(missing)
}

fn model_bodies(catalogs: &Catalogs, principal: &Principal) -> OpenAiResult<Vec<ModelBody>> {
    let models = catalogs.list_models(principal)?;
    let agents = catalogs.list_agents(principal)?;
    let body = |id, owned_by: &str, name| ModelBody {
        id,
        object: "model",
        created: CREATED,
        owned_by: owned_by.to_owned(),
        name,
    };
    let owner = |model: &ModelEntry| {
        if model.builtin { OWN.to_owned() } else { model.provider.as_str().to_ascii_lowercase() }
    };
    let label = |model: &ModelEntry| model.label.in_language(CatalogLanguage::En).to_owned();
    let of_catalog = models.iter().map(|model| body(model.id.clone(), &owner(model), label(model)));
    let of_agents = agents.into_iter().map(|agent| {
        let name = format!("Agent {}", agent.full_name);
        body(ModelId::of_agent(&agent.full_name), OWN, name)
    });
    let plain = models.iter().map(|model| {
        let name = format!("{} without tools", label(model));
        body(ModelId::of_plain(&model.id), &owner(model), name)
    });
    Ok(of_catalog.chain(of_agents).chain(plain).collect())
}
