//! Models configured by the operator: one `[[model]]` table each.

use std::collections::BTreeSet;

use domain::catalog::{Localized, ProviderName};
use models::catalog::READER_ID;
use models::{CONFIGURED_MAX, ModelConfig};

use crate::form::{choice_form, count_form, credits_form, flag_form, object_form, quote_toml, text_form};
use crate::source::SettingSources;

/// The table of the models' tables.
const MODEL: &str = "model";
/// The longest identifier, in bytes; the ledger stores it.
const ID_MAX_BYTES: usize = 256;

const VENDORS: &[(&str, ProviderName)] = &[
    ("anthropic", ProviderName::Anthropic),
    ("openai", ProviderName::OpenAi),
    ("google", ProviderName::Google),
];

/// The configured models.
pub(crate) struct Configured {
    pub(crate) models: Vec<ModelConfig>,
    /// The model marked as default.
    pub(crate) default: Option<String>,
}

/// Reads the tables under `model`.
pub(crate) fn read_models(from: &mut SettingSources) -> Configured {
    let mut names: Vec<String> = from.table_names(MODEL).into_iter().collect();
    // Tables of a list are numbered.
    names.sort_by_key(|name| name.parse::<usize>().unwrap_or(usize::MAX));
    let (mut models, mut ids) = (Vec::new(), BTreeSet::new());
    let mut default: Option<String> = None;
    for name in names {
        let Some((model, is_default)) = read_model(from, &name) else { continue };
        let key = format!("{MODEL}.{name}.id");
        if !ids.insert(model.id.clone()) {
            from.record_problem(&key, format!("duplicate id {}", model.id));
        }
        if is_default && default.replace(model.id.clone()).is_some() {
            from.record_problem(&key, "only one model can be the default");
        }
        models.push(model);
    }
    if models.len() > CONFIGURED_MAX {
        from.record_problem(MODEL, format!("too many models: configure at most {CONFIGURED_MAX}"));
    }
    Configured { models, default }
}

fn read_model(from: &mut SettingSources, name: &str) -> Option<(ModelConfig, bool)> {
    let key = |key: &str| format!("{MODEL}.{name}.{key}");
    let show: fn(&ProviderName) -> String =
        |vendor| quote_toml(VENDORS.iter().find(|(_, known)| known == vendor).map_or("", |(name, _)| name));
    let id = from.optional_value(key("id"), text_form());
    let vendor = from.optional_value(key("vendor"), choice_form(VENDORS, show));
    let vendor_name = from.optional_value(key("name"), text_form());
    let label = read_localized(from, &key("label"));
    let description = read_localized(from, &key("description"));
    let reasoning_effort = from.optional_value(key("reasoning_effort"), flag_form());
    let sees_images = from.optional_value(key("sees_images"), flag_form());
    let base_millis = from.optional_value(key("price.base"), credits_form());
    let input_millis = from.optional_value(key("price.thousand_tokens_read"), credits_form());
    let output_millis = from.optional_value(key("price.thousand_tokens_written"), credits_form());
    let context_tokens = read_token_count(from, key("context_tokens"), 1024..=100_000_000);
    let output_max_tokens = read_token_count(from, key("output_max_tokens"), 1..=1_000_000);
    let default = from.optional_value(key("default"), flag_form()).unwrap_or_default();
    let deprecated = from.optional_value(key("deprecated"), flag_form());
    let hidden = from.optional_value(key("hidden"), flag_form()).unwrap_or_default();
    let options = from.optional_value(key("options"), object_form()).unwrap_or_default();
    let (Some(id), Some(provider)) = (&id, vendor) else {
        for (missing, is_there) in [("id", id.is_some()), ("vendor", vendor.is_some())] {
            if !is_there {
                from.record_problem(&key(missing), "required for every model");
            }
        }
        return None;
    };
    if id.len() > ID_MAX_BYTES || id == READER_ID {
        from.record_problem(
            &key("id"),
            format!("invalid id: use at most {ID_MAX_BYTES} bytes, and not {READER_ID}"),
        );
    }
    if default && hidden {
        from.record_problem(&key("hidden"), "the default model cannot be hidden");
    }
    let model = ModelConfig {
        vendor_name,
        label,
        description,
        reasoning_effort,
        sees_images,
        base_millis,
        input_millis,
        output_millis,
        context_tokens,
        output_max_tokens,
        deprecated,
        hidden,
        options,
        ..ModelConfig::new(id.clone(), provider)
    };
    Some((model, default))
}

fn read_token_count(
    from: &mut SettingSources,
    key: String,
    bounds: std::ops::RangeInclusive<u64>,
) -> Option<u32> {
    from.optional_value(key, count_form(bounds)).and_then(|count| u32::try_from(count).ok())
}

/// Reads one text for all languages, or a text for each.
fn read_localized(from: &mut SettingSources, key: &str) -> Option<Localized> {
    let same = from.optional_value(key.to_owned(), text_form());
    let [cs, en, sk] =
        ["cs", "en", "sk"].map(|language| from.optional_value(format!("{key}.{language}"), text_form()));
    match (same, cs, en, sk) {
        (Some(same), None, None, None) => Some(Localized::from_untranslated(&same)),
        (None, Some(cs), Some(en), Some(sk)) => Some(Localized::new(cs, en, sk)),
        (None, None, None, None) => None,
        _ => {
            from.record_problem(key, "expected one text, or one each for cs, en and sk");
            None
        }
    }
}
