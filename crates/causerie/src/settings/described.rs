//! Models configured by the operator: one `[[model]]` table each.

use std::collections::BTreeSet;

use domain::catalog::{Localized, ProviderName};
use models::catalog::READER_ID;
use models::{CONFIGURED_MAX, ModelConfig};

use super::form::{choice, count, credits, flag, object, quoted, text};
use super::source::Sources;

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
pub(super) struct Configured {
    pub(super) models: Vec<ModelConfig>,
    /// The model marked as default.
    pub(super) default: Option<String>,
}

/// Reads the tables under `model`.
pub(super) fn read(from: &mut Sources) -> Configured {
    let mut names: Vec<String> = from.names(MODEL).into_iter().collect();
    // Tables of a list are numbered.
    names.sort_by_key(|name| name.parse::<usize>().unwrap_or(usize::MAX));
    let (mut models, mut ids) = (Vec::new(), BTreeSet::new());
    let mut default: Option<String> = None;
    for name in names {
        let Some((model, is_default)) = one(from, &name) else { continue };
        let key = format!("{MODEL}.{name}.id");
        if !ids.insert(model.id.clone()) {
            from.refuse(&key, format!("duplicate id {}", model.id));
        }
        if is_default && default.replace(model.id.clone()).is_some() {
            from.refuse(&key, "only one model can be the default");
        }
        models.push(model);
    }
    if models.len() > CONFIGURED_MAX {
        from.refuse(MODEL, format!("at most {CONFIGURED_MAX} models are configured"));
    }
    Configured { models, default }
}

fn one(from: &mut Sources, name: &str) -> Option<(ModelConfig, bool)> {
    let key = |key: &str| format!("{MODEL}.{name}.{key}");
    let show: fn(&ProviderName) -> String =
        |vendor| quoted(VENDORS.iter().find(|(_, known)| known == vendor).map_or("", |(name, _)| name));
    let id = from.optional(key("id"), text());
    let vendor = from.optional(key("vendor"), choice(VENDORS, show));
    let vendor_name = from.optional(key("name"), text());
    let label = localized(from, &key("label"));
    let description = localized(from, &key("description"));
    let reasoning_effort = from.optional(key("reasoning_effort"), flag());
    let sees_images = from.optional(key("sees_images"), flag());
    let base_millis = from.optional(key("price.base"), credits());
    let input_millis = from.optional(key("price.thousand_tokens_read"), credits());
    let output_millis = from.optional(key("price.thousand_tokens_written"), credits());
    let context_tokens = tokens(from, key("context_tokens"), 1024..=100_000_000);
    let output_max_tokens = tokens(from, key("output_max_tokens"), 1..=1_000_000);
    let default = from.optional(key("default"), flag()).unwrap_or_default();
    let deprecated = from.optional(key("deprecated"), flag());
    let hidden = from.optional(key("hidden"), flag()).unwrap_or_default();
    let options = from.optional(key("options"), object()).unwrap_or_default();
    let (Some(id), Some(provider)) = (&id, vendor) else {
        for (missing, is_there) in [("id", id.is_some()), ("vendor", vendor.is_some())] {
            if !is_there {
                from.refuse(&key(missing), "required for every model");
            }
        }
        return None;
    };
    if id.len() > ID_MAX_BYTES || id == READER_ID {
        from.refuse(&key("id"), format!("an id has at most {ID_MAX_BYTES} bytes and is not {READER_ID}"));
    }
    if default && hidden {
        from.refuse(&key("hidden"), "the default model cannot be hidden");
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

fn tokens(from: &mut Sources, key: String, bounds: std::ops::RangeInclusive<u64>) -> Option<u32> {
    from.optional(key, count(bounds)).and_then(|count| u32::try_from(count).ok())
}

/// Reads one text for all languages, or a text for each.
fn localized(from: &mut Sources, key: &str) -> Option<Localized> {
    let same = from.optional(key.to_owned(), text());
    let [cs, en, sk] = ["cs", "en", "sk"].map(|language| from.optional(format!("{key}.{language}"), text()));
    match (same, cs, en, sk) {
        (Some(same), None, None, None) => Some(Localized::same(&same)),
        (None, Some(cs), Some(en), Some(sk)) => Some(Localized::new(cs, en, sk)),
        (None, None, None, None) => None,
        _ => {
            from.refuse(key, "expected one text, or one each for cs, en and sk");
            None
        }
    }
}
