//! A table of the vendors' own models, for properties that their lists omit. More specific names come first.
//!
//! A model that is not listed has the defaults of its vendor, as the newest models do.

use domain::catalog::{Localized, ProviderName};

/// The properties of a family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModelFamily {
    provider: ProviderName,
    /// The prefix of the family's names, up to a date or the end.
    family: &'static str,
    pub(crate) label: &'static str,
    kind: FamilyKind,
    /// The context window, input and output together.
    pub(crate) context_tokens: u32,
    /// The limit of output tokens per step.
    pub(crate) output_max_tokens: u32,
    /// Accepts a reasoning effort.
    pub(crate) reasons: bool,
    pub(crate) sees_images: bool,
    /// The vendor has a newer model in its place.
    pub(crate) deprecated: bool,
}

/// The purpose of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FamilyKind {
    /// The largest and most capable model of its line.
    Large,
    /// Balances capability and price.
    Middle,
    Small,
}

use FamilyKind::{Large, Middle, Small};
use ProviderName::{Anthropic, Google, OpenAi};

/// Reasons and accepts images.
const BOTH: (bool, bool) = (true, true);
/// Accepts images, but no reasoning effort.
const SEES: (bool, bool) = (false, true);
/// Reasons, but accepts only text.
const REASONS: (bool, bool) = (true, false);
const TEXT: (bool, bool) = (false, false);

const GEMINI_CONTEXT: u32 = 1_048_576;

#[rustfmt::skip]
const TABLE: &[ModelFamily] = &[
    known_family(Anthropic, "claude-fable-5-1", "Claude Fable 5.1", Large, 1_000_000, 128_000, BOTH),
    known_family(Anthropic, "claude-fable-5", "Claude Fable 5", Large, 1_000_000, 128_000, BOTH),
    known_family(Anthropic, "claude-opus-5-5", "Claude Opus 5.5", Large, 1_000_000, 128_000, BOTH),
    known_family(Anthropic, "claude-opus-5", "Claude Opus 5", Large, 1_000_000, 128_000, BOTH),
    known_family(Anthropic, "claude-sonnet-5", "Claude Sonnet 5", Middle, 1_000_000, 128_000, BOTH),
    known_family(Anthropic, "claude-opus-4-6", "Claude Opus 4.6", Large, 1_000_000, 128_000, BOTH),
    known_family(Anthropic, "claude-opus-4-5", "Claude Opus 4.5", Large, 200_000, 64_000, BOTH),
    known_family(Anthropic, "claude-opus-4-1", "Claude Opus 4.1", Large, 200_000, 32_000, BOTH),
    known_family(Anthropic, "claude-opus-4", "Claude Opus 4", Large, 200_000, 32_000, BOTH).mark_deprecated(),
    known_family(Anthropic, "claude-sonnet-4-5", "Claude Sonnet 4.5", Middle, 200_000, 64_000, BOTH),
    known_family(Anthropic, "claude-sonnet-4", "Claude Sonnet 4", Middle, 200_000, 64_000, BOTH).mark_deprecated(),
    known_family(Anthropic, "claude-haiku-4-5", "Claude Haiku 4.5", Small, 200_000, 64_000, BOTH),
    known_family(Anthropic, "claude-3-7-sonnet", "Claude Sonnet 3.7", Middle, 200_000, 64_000, BOTH).mark_deprecated(),
    known_family(Anthropic, "claude-3-5-haiku", "Claude Haiku 3.5", Small, 200_000, 8_192, SEES).mark_deprecated(),
    known_family(Anthropic, "claude-3-haiku", "Claude Haiku 3", Small, 200_000, 4_096, SEES).mark_deprecated(),
    known_family(OpenAi, "gpt-5.2", "GPT-5.2", Large, 400_000, 128_000, BOTH),
    known_family(OpenAi, "gpt-5.1", "GPT-5.1", Large, 400_000, 128_000, BOTH),
    known_family(OpenAi, "gpt-5-mini", "GPT-5 mini", Small, 400_000, 128_000, BOTH),
    known_family(OpenAi, "gpt-5-nano", "GPT-5 nano", Small, 400_000, 128_000, BOTH),
    known_family(OpenAi, "gpt-5", "GPT-5", Large, 400_000, 128_000, BOTH),
    known_family(OpenAi, "gpt-4.1-mini", "GPT-4.1 mini", Small, 1_047_576, 32_768, SEES),
    known_family(OpenAi, "gpt-4.1-nano", "GPT-4.1 nano", Small, 1_047_576, 32_768, SEES),
    known_family(OpenAi, "gpt-4.1", "GPT-4.1", Middle, 1_047_576, 32_768, SEES),
    known_family(OpenAi, "gpt-4o-mini", "GPT-4o mini", Small, 128_000, 16_384, SEES),
    known_family(OpenAi, "gpt-4o", "GPT-4o", Middle, 128_000, 16_384, SEES),
    known_family(OpenAi, "gpt-4-turbo", "GPT-4 Turbo", Middle, 128_000, 4_096, SEES).mark_deprecated(),
    known_family(OpenAi, "gpt-4", "GPT-4", Middle, 8_192, 8_192, TEXT).mark_deprecated(),
    known_family(OpenAi, "gpt-3.5-turbo", "GPT-3.5 Turbo", Small, 16_385, 4_096, TEXT).mark_deprecated(),
    known_family(OpenAi, "o4-mini", "o4-mini", Small, 200_000, 100_000, BOTH),
    known_family(OpenAi, "o3-mini", "o3-mini", Small, 200_000, 100_000, REASONS),
    known_family(OpenAi, "o3", "o3", Large, 200_000, 100_000, BOTH),
    known_family(OpenAi, "o1", "o1", Large, 200_000, 100_000, BOTH).mark_deprecated(),
    known_family(Google, "gemini-3-pro-preview", "Gemini 3 Pro", Large, GEMINI_CONTEXT, 65_536, BOTH),
    known_family(Google, "gemini-3-flash-preview", "Gemini 3 Flash", Middle, GEMINI_CONTEXT, 65_536, BOTH),
    known_family(Google, "gemini-2.5-pro", "Gemini 2.5 Pro", Large, GEMINI_CONTEXT, 65_536, BOTH),
    known_family(Google, "gemini-2.5-flash-lite", "Gemini 2.5 Flash-Lite", Small, GEMINI_CONTEXT, 65_536, BOTH),
    known_family(Google, "gemini-2.5-flash", "Gemini 2.5 Flash", Middle, GEMINI_CONTEXT, 65_536, BOTH),
    known_family(Google, "gemini-2.0-flash-lite", "Gemini 2.0 Flash-Lite", Small, GEMINI_CONTEXT, 8_192, SEES).mark_deprecated(),
    known_family(Google, "gemini-2.0-flash", "Gemini 2.0 Flash", Middle, GEMINI_CONTEXT, 8_192, SEES).mark_deprecated(),
];

const fn known_family(
    provider: ProviderName,
    family: &'static str,
    label: &'static str,
    kind: FamilyKind,
    context_tokens: u32,
    output_max_tokens: u32,
    (reasons, sees_images): (bool, bool),
) -> ModelFamily {
    ModelFamily {
        provider,
        family,
        label,
        kind,
        context_tokens,
        output_max_tokens,
        reasons,
        sees_images,
        deprecated: false,
    }
}

impl ModelFamily {
    const fn mark_deprecated(self) -> Self {
        Self { deprecated: true, ..self }
    }

    pub(crate) fn description(&self) -> Localized {
        let (cs, en, sk) = match self.kind {
            Large => (
                "Nejschopnější z řady, pro náročné otázky",
                "The most able of its line, for demanding questions",
                "Najschopnejší z radu, pre náročné otázky",
            ),
            Middle => (
                "Vyvážený mezi schopnostmi a cenou",
                "Balanced between ability and price",
                "Vyvážený medzi schopnosťami a cenou",
            ),
            Small => (
                "Rychlý a levný, pro jednodušší otázky",
                "Quick and cheap, for simpler questions",
                "Rýchly a lacný, pre jednoduchšie otázky",
            ),
        };
        Localized::new(cs, en, sk)
    }
}

/// Returns the family of a vendor's own model.
pub(crate) fn find_family(provider: ProviderName, name: &str) -> Option<&'static ModelFamily> {
    TABLE.iter().find(|known| known.provider == provider && is_of(name, known.family))
}

/// Returns the families of a vendor that are not deprecated, in the table's order.
pub(crate) fn current_families(provider: ProviderName) -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(move |known| known.provider == provider && !known.deprecated)
        .map(|known| known.family)
}

/// Returns true for the family's name and its dated versions.
fn is_of(name: &str, family: &str) -> bool {
    let Some(rest) = name.strip_prefix(family) else { return false };
    // "-0" is Anthropic's form, "-001" Google's.
    let version = rest.strip_prefix('-').unwrap_or(rest);
    rest.is_empty()
        || version == "latest"
        || version == "0"
        || (rest.starts_with('-')
            && version.len() >= 3
            && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_family_matches_name_and_date() {
        let label = |provider, name| find_family(provider, name).map(|known| known.label);
        for (provider, name, expected) in [
            (Anthropic, "claude-opus-4-6", Some("Claude Opus 4.6")),
            (Anthropic, "claude-opus-4-5-20251101", Some("Claude Opus 4.5")),
            (Anthropic, "claude-sonnet-4-20250514", Some("Claude Sonnet 4")),
            (Anthropic, "claude-sonnet-4-0", Some("Claude Sonnet 4")),
            (Anthropic, "claude-sonnet-4-9", None),
            (Anthropic, "claude-opus-5-5", Some("Claude Opus 5.5")),
            (Anthropic, "claude-sonnet-5-5", None),
            (Anthropic, "claude-3-7-sonnet-latest", Some("Claude Sonnet 3.7")),
            (OpenAi, "gpt-5-mini-2025-08-07", Some("GPT-5 mini")),
            (OpenAi, "gpt-5", Some("GPT-5")),
            (OpenAi, "gpt-5-pro", None),
            (OpenAi, "gpt-5-chat-latest", None),
            (OpenAi, "gpt-5.9", None),
            (OpenAi, "gpt-4o-2024-11-20", Some("GPT-4o")),
            (Google, "gemini-2.0-flash-001", Some("Gemini 2.0 Flash")),
            (Google, "gemini-2.5-flash-lite", Some("Gemini 2.5 Flash-Lite")),
            (Google, "gpt-5", None),
            (OpenAi, "llama3.2", None),
        ] {
            assert_eq!(label(provider, name), expected, "{name}");
        }
    }

    #[test]
    fn every_family_is_found_by_name() {
        for known in TABLE {
            assert_eq!(
                find_family(known.provider, known.family),
                Some(known),
                "a row before it takes its name"
            );
            assert!(known.output_max_tokens <= known.context_tokens);
            assert!(!known.label.is_empty() && known.label.len() < 64);
        }
    }
}
