//! Formats the catalog of models and the health of their vendors.

use control::{Catalog, ProbeError, VendorHealth};
use domain::catalog::ModelStatus;
use domain::step::StepError;
use serde_json::{Value, json};

/// Returns the catalog as one JSON object, with the reason why a vendor could not list its models.
pub(crate) fn to_json(catalog: &Catalog, failure: Option<&StepError>) -> Value {
    let models: Vec<Value> = catalog
        .model_entries()
        .iter()
        .map(|entry| {
            json!({
                "id": entry.id,
                "label": entry.label.en,
                "vendor": entry.provider.as_str(),
                "vendorName": entry.vendor_name,
                "status": catalog.model_status(&entry.id).as_str(),
                "default": entry.default,
                "deprecated": entry.deprecated,
                "builtin": entry.builtin,
                "settings": entry.settings.iter().map(|setting| &setting.key).collect::<Vec<_>>(),
                "seesImages": entry.sees_images,
                "usesTools": entry.uses_tools,
                "contextTokens": entry.context_tokens,
                "outputMaxTokens": entry.output_max_tokens,
                "priceBase": credits_from_millis(entry.price.base_millis),
                "priceThousandTokensRead": credits_from_millis(entry.price.input_millis),
                "priceThousandTokensWritten": credits_from_millis(entry.price.output_millis),
            })
        })
        .collect();
    let vendors: Vec<Value> = catalog.vendors_health().iter().map(vendor_health_json).collect();
    json!({ "vendors": vendors, "models": models, "failure": failure.map(ToString::to_string) })
}

/// Describes the health of a vendor.
fn vendor_health_json(health: &VendorHealth) -> Value {
    let status = match health.up {
        Some(true) => ModelStatus::Up,
        Some(false) => ModelStatus::Down,
        None => ModelStatus::Unknown,
    };
    json!({
        "vendor": health.provider.as_str(),
        "baseUrl": health.base_url,
        "status": status.as_str(),
        "models": health.models,
        "since": health.since.map(|since| since.to_string()),
        "trouble": health.trouble.map(ProbeError::as_str),
        "cause": health.detail,
    })
}

/// Converts thousandths of credits to credits.
fn credits_from_millis(millis: u64) -> f64 {
    // Prices are far below what a double holds exactly.
    f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0
}
