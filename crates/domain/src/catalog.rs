//! The catalog: models, their settings, jurisdictions, and the languages of their labels.

use crate::credits::Price;

/// A language of the catalog's labels: Czech, English, Slovak. The interface negotiates it.
///
/// The web application (`app`) and text analysis (`text-analysis`) define separate enums, because the default of
/// the former and the set of the latter differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CatalogLanguage {
    #[default]
    Cs,
    En,
    Sk,
}

impl CatalogLanguage {
    /// Every language, the default first.
    pub const ALL: [Self; 3] = [Self::Cs, Self::En, Self::Sk];

    /// Returns the code of ISO 639-1, as in `Content-Language`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Cs => "cs",
            Self::En => "en",
            Self::Sk => "sk",
        }
    }

    fn of_range(range: &str) -> Option<Self> {
        let primary = range.split('-').next().unwrap_or(range);
        Self::ALL.into_iter().find(|language| language.code().eq_ignore_ascii_case(primary))
    }
}

/// The maximum number of ranges of an `Accept-Language` header that are read.
const ACCEPT_LANGUAGE_RANGES_MAX: usize = 64;

/// Returns the language that an `Accept-Language` header prefers by its weights; the first of equal ones.
/// Czech if the header is empty, malformed, or names no supported language; `*` means the best language that
/// is not excluded.
#[must_use]
pub fn negotiate_language(accept_language: &str) -> CatalogLanguage {
    let ranges: Vec<(&str, u16)> = accept_language
        .split(',')
        .take(ACCEPT_LANGUAGE_RANGES_MAX)
        .filter_map(|range| {
            let mut pieces = range.split(';').map(str::trim);
            let name = pieces.next().filter(|name| !name.is_empty())?;
            let weight = pieces.find_map(|piece| {
                let value = piece.strip_prefix("q=").or_else(|| piece.strip_prefix("Q="))?;
                Some(parse_weight(value.trim()))
            });
            Some((name, weight.unwrap_or(1000)))
        })
        .collect();
    let named = |language: CatalogLanguage| {
        ranges.iter().any(|(name, _)| CatalogLanguage::of_range(name) == Some(language))
    };
    let mut best: Option<(CatalogLanguage, u16)> = None;
    for &(name, weight) in &ranges {
        let language = if name == "*" {
            CatalogLanguage::ALL.into_iter().find(|language| !named(*language))
        } else {
            CatalogLanguage::of_range(name)
        };
        if let Some(language) = language
            && weight > best.map_or(0, |(_, weight)| weight)
        {
            best = Some((language, weight));
        }
    }
    best.map_or(CatalogLanguage::Cs, |(language, _)| language)
}

/// Parses a weight from 0 to 1 with up to three decimals, in thousandths; 0 if it is malformed.
fn parse_weight(value: &str) -> u16 {
    let (whole, decimals) = value.split_once('.').unwrap_or((value, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    match whole {
        "1" => 1000,
        "0" => format!("{decimals:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

/// A text in each of the three languages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Localized {
    pub cs: String,
    pub en: String,
    pub sk: String,
}

impl Localized {
    /// Creates a text from its three translations.
    #[must_use]
    pub fn new(cs: impl Into<String>, en: impl Into<String>, sk: impl Into<String>) -> Self {
        Self { cs: cs.into(), en: en.into(), sk: sk.into() }
    }

    /// Creates a text that is the same in every language, such as a model's name.
    #[must_use]
    pub fn from_untranslated(text: &str) -> Self {
        Self::new(text, text, text)
    }

    /// Returns the text in `language`.
    #[must_use]
    pub fn in_language(&self, language: CatalogLanguage) -> &str {
        match language {
            CatalogLanguage::Cs => &self.cs,
            CatalogLanguage::En => &self.en,
            CatalogLanguage::Sk => &self.sk,
        }
    }
}

/// The vendor whose protocol a model speaks (section 2.2). A closed set of three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProviderName {
    Anthropic,
    /// OpenAI, every compatible server, and the built-in reader.
    OpenAi,
    Google,
}

impl ProviderName {
    /// Returns the value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC",
            Self::OpenAi => "OPENAI",
            Self::Google => "GOOGLE",
        }
    }
}

/// The recent health of a model (section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelStatus {
    Up,
    Degraded,
    Down,
    Unknown,
}

impl ModelStatus {
    /// Returns the value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Degraded => "DEGRADED",
            Self::Down => "DOWN",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// A model of the catalog (section 2.2).
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEntry {
    /// The id that questions use.
    pub id: String,
    pub label: Localized,
    pub description: Localized,
    /// The vendor whose protocol it speaks.
    pub provider: ProviderName,
    /// True for the model of questions that name none. Exactly one entry of a catalog.
    pub default: bool,
    /// True if it still works but should not be chosen.
    pub deprecated: bool,
    /// The available settings; empty when deprecated.
    pub settings: Vec<CatalogSetting>,
    /// Set for the built-in reader, which is not a language model.
    pub builtin: bool,
    pub price: Price,
    /// The context window: input and output tokens together.
    pub context_tokens: u32,
    /// The maximum number of output tokens of one step.
    pub output_max_tokens: u32,
    /// The vendor's name of the model.
    pub vendor_name: String,
    /// True if it accepts images.
    pub sees_images: bool,
    /// False if its server has rejected tools for it, so that it cannot use files.
    pub uses_tools: bool,
}

/// The price and token limits of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelLimits {
    pub price: Price,
    /// The context window: input and output tokens together.
    pub context_tokens: u32,
    /// The maximum number of output tokens of one step.
    pub output_max_tokens: u32,
}

impl ModelEntry {
    /// Returns its price and token limits.
    #[must_use]
    pub const fn model_limits(&self) -> ModelLimits {
        ModelLimits {
            price: self.price,
            context_tokens: self.context_tokens,
            output_max_tokens: self.output_max_tokens,
        }
    }
}

/// The key of the setting for the reasoning effort.
pub const REASONING_EFFORT: &str = "reasoningEffort";

/// A setting of a model (section 2.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogSetting {
    /// The key that questions use.
    pub key: String,
    pub label: Localized,
    /// The accepted values, at least one.
    pub options: Vec<CatalogSettingOption>,
    /// The value for questions that set none.
    pub default_value: String,
}

impl CatalogSetting {
    /// Creates the setting for the reasoning effort: `LOW`, `MEDIUM` (the default) or `HIGH`.
    #[must_use]
    pub fn reasoning_effort() -> Self {
        let option = |value: &str, label| CatalogSettingOption { value: value.to_owned(), label };
        Self {
            key: REASONING_EFFORT.to_owned(),
            label: Localized::new("Míra uvažování", "Reasoning effort", "Miera uvažovania"),
            options: vec![
                option("LOW", Localized::new("Nízká", "Low", "Nízka")),
                option("MEDIUM", Localized::new("Střední", "Medium", "Stredná")),
                option("HIGH", Localized::new("Vysoká", "High", "Vysoká")),
            ],
            default_value: "MEDIUM".to_owned(),
        }
    }
}

/// A value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogSettingOption {
    /// The value that questions use.
    pub value: String,
    pub label: Localized,
}

/// A jurisdiction whose law a question can be about (section 2.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogJurisdiction {
    /// The id that questions use.
    pub id: String,
    pub label: Localized,
}

/// Returns the jurisdictions that are offered unless the operator configures others.
#[must_use]
pub fn builtin_jurisdictions() -> Vec<CatalogJurisdiction> {
    [
        ("CZ", "Česko", "Czechia", "Česko"),
        ("SK", "Slovensko", "Slovakia", "Slovensko"),
        ("EU", "Evropská unie", "European Union", "Európska únia"),
        ("DE", "Německo", "Germany", "Nemecko"),
        ("AT", "Rakousko", "Austria", "Rakúsko"),
        ("PL", "Polsko", "Poland", "Poľsko"),
    ]
    .into_iter()
    .map(|(id, cs, en, sk)| CatalogJurisdiction { id: id.to_owned(), label: Localized::new(cs, en, sk) })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_negotiated_by_weight() {
        for (header, language) in [
            ("", CatalogLanguage::Cs),
            ("en", CatalogLanguage::En),
            ("EN-gb", CatalogLanguage::En),
            ("sk, en", CatalogLanguage::Sk),
            ("en;q=0.5, sk;q=0.8", CatalogLanguage::Sk),
            ("de, fr", CatalogLanguage::Cs),
            ("de, en;q=0.1", CatalogLanguage::En),
            ("en;q=0", CatalogLanguage::Cs),
            ("en ; q=0.3 , sk;q=0.31", CatalogLanguage::Sk),
            ("*", CatalogLanguage::Cs),
            ("cs;q=0, *;q=0.5", CatalogLanguage::En),
            ("en;q=2, sk;q=0.001", CatalogLanguage::Sk),
            (";;;,,,q=1", CatalogLanguage::Cs),
            ("en;q=abc", CatalogLanguage::Cs),
        ] {
            assert_eq!(negotiate_language(header), language, "{header:?}");
        }
    }

    #[test]
    fn every_builtin_label_is_translated() {
        let jurisdictions = builtin_jurisdictions();
        assert_eq!(jurisdictions.len(), 6);
        for jurisdiction in jurisdictions {
            for language in CatalogLanguage::ALL {
                assert!(!jurisdiction.label.in_language(language).is_empty());
            }
        }
    }
}
