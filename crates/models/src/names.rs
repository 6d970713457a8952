//! Derives properties of models from their names when vendors do not report them.

use std::cmp::Reverse;

use domain::catalog::{Localized, ProviderName};

use crate::format::WireFormat;
use crate::listing::Discovered;

/// The default context window.
const CONTEXT_TOKENS: u32 = 32_768;
/// The default limit of output for models whose server names no limits.
pub(crate) const OUTPUT_MAX_TOKENS: u32 = 4096;
/// The default for OpenAI's own models.
const OPENAI_CONTEXT_TOKENS: u32 = 128_000;
/// The default for Anthropic's models.
const ANTHROPIC_CONTEXT_TOKENS: u32 = 200_000;

/// Returns the default context window.
pub(crate) fn context_tokens(format: WireFormat, own: bool) -> u32 {
    match format.provider() {
        ProviderName::Anthropic => ANTHROPIC_CONTEXT_TOKENS,
        ProviderName::OpenAi if own => OPENAI_CONTEXT_TOKENS,
        ProviderName::OpenAi | ProviderName::Google => CONTEXT_TOKENS,
    }
}

/// Describes a model by its vendor.
pub(crate) fn vendor_description(format: WireFormat, own: bool) -> Localized {
    let vendor = match format.provider() {
        ProviderName::Anthropic => "Anthropic",
        ProviderName::Google => "Google",
        ProviderName::OpenAi => "OpenAI",
    };
    if own {
        return Localized::new(
            format!("Jazykový model {vendor}"),
            format!("Language model by {vendor}"),
            format!("Jazykový model {vendor}"),
        );
    }
    Localized::new(
        "Jazykový model na serveru, který nastavil správce",
        "Language model on a server that the operator configured",
        "Jazykový model na serveri, ktorý nastavil správca",
    )
}

/// Selects the models that hold conversations. Orders a vendor's own models, best first; keeps the order of other
/// servers.
pub(crate) fn best_first(models: Vec<Discovered>, format: WireFormat, own: bool) -> Vec<Discovered> {
    let openai = own && format.provider() == ProviderName::OpenAi;
    let mut models: Vec<_> = models.into_iter().filter(|model| can_converse(&model.name, openai)).collect();
    models.dedup_by(|one, other| one.name == other.name);
    match format.provider() {
        ProviderName::OpenAi if own => {
            models.sort_by_key(|model| Reverse((openai_rank(&model.name), model.created)))
        }
        ProviderName::Anthropic if own => {
            models.sort_by_key(|model| Reverse(generation_rank(&model.name, &["haiku"])))
        }
        ProviderName::Google if own => {
            models.retain(|model| model.name.starts_with("gemini-"));
            models.sort_by_key(|model| Reverse(generation_rank(&model.name, &["flash", "lite", "nano"])));
        }
        ProviderName::OpenAi | ProviderName::Anthropic | ProviderName::Google => {}
    }
    models
}

/// Orders by generation, then full models before small ones, then releases before previews.
fn generation_rank(name: &str, small: &[&str]) -> (u32, u32, bool, bool) {
    // Dates are numbers too, but larger ones.
    let mut numbers =
        name.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    let mut version = || numbers.find(|number| *number < 100).unwrap_or(0);
    let (major, minor) = (version(), version());
    (major, minor, !small.iter().any(|kind| name.contains(kind)), !name.contains("preview"))
}

/// Words in the names of models that do not hold conversations.
const OTHER_KINDS: [&str; 36] = [
    "whisper",
    "tts",
    "dall",
    "moderation",
    "rerank",
    "reranker",
    "transcribe",
    "image",
    "audio",
    "realtime",
    "imagen",
    "veo",
    "aqa",
    "live",
    "robotics",
    "bge",
    "minilm",
    "gte",
    "e5",
    "colbert",
    "splade",
    "labse",
    "paraphrase",
    "ocr",
    "clip",
    "siglip",
    "diffusion",
    "sdxl",
    "flux",
    "kokoro",
    "parakeet",
    "vae",
    "asr",
    "sora",
    "voyage",
    "musicgen",
];

/// Returns true for models that hold conversations. Servers also list others, and some give paths for names: the last part of
/// a name counts, by its words.
fn can_converse(name: &str, own: bool) -> bool {
    let name = name.to_lowercase();
    let last = name.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or("");
    let words: Vec<&str> = last.split(|letter: char| !letter.is_alphanumeric()).collect();
    let is_other =
        |word: &&str| word.contains("embed") || word.contains("rerank") || OTHER_KINDS.contains(word);
    if last.is_empty() || words.iter().any(is_other) || last.contains("computer-use") {
        return false;
    }
    let family = ["gpt-", "chatgpt-", "o1", "o3", "o4"].iter().any(|family| name.starts_with(family));
    !own || (family
        && !["instruct", "search", "codex", "deep-research", "sora"].iter().any(|kind| name.contains(kind)))
}

/// Returns true for models that accept a reasoning effort.
pub(crate) fn can_reason(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.rsplit('/').next().unwrap_or(&name);
    if name.starts_with("claude-") {
        return ![
            "claude-2",
            "claude-instant",
            "claude-3-opus",
            "claude-3-sonnet",
            "claude-3-haiku",
            "claude-3-5",
        ]
        .iter()
        .any(|family| name.starts_with(family));
    }
    if name.starts_with("gemini-") {
        return !["gemini-1", "gemini-2.0"].iter().any(|family| name.starts_with(family));
    }
    ["o1", "o3", "o4", "gpt-5", "gpt-6"].iter().any(|family| name.starts_with(family))
        || ["gpt-oss", "qwen3", "deepseek-r", "magistral", "thinking", "reasoning"]
            .iter()
            .any(|kind| name.contains(kind))
}

/// Returns true when the vendor has a newer model in its place.
pub(crate) fn is_deprecated(name: &str) -> bool {
    name == "gpt-4" || ["gpt-3.5", "gpt-4-", "o1", "chatgpt-4"].iter().any(|family| name.starts_with(family))
}

/// Ranks OpenAI's models: by generation, then full models before small ones.
fn openai_rank(name: &str) -> (u32, u32, bool, bool) {
    let version = name.strip_prefix("gpt-").unwrap_or("");
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let major = digits(version);
    let minor = version[major.len()..].strip_prefix('.').map(digits).unwrap_or_default();
    let whole = !["mini", "nano", "pro", "chat"].iter().any(|kind| name.contains(kind));
    // A name without a date is the vendor's current version of the model.
    let plain = name.matches('-').count() < 2;
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0), whole, plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_told_from_dates() {
        let mut names = [
            "claude-haiku-4-6",
            "claude-3-5-sonnet-20241022",
            "claude-sonnet-4-20250514",
            "claude-sonnet-4-6",
        ];
        names.sort_by_key(|name| Reverse(generation_rank(name, &["haiku"])));
        let expected = [
            "claude-sonnet-4-6",
            "claude-haiku-4-6",
            "claude-sonnet-4-20250514",
            "claude-3-5-sonnet-20241022",
        ];
        assert_eq!(names, expected);
        let mut names =
            ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-flash-preview", "gemini-3-pro-preview"];
        names.sort_by_key(|name| Reverse(generation_rank(name, &["flash"])));
        assert_eq!(names[0], "gemini-3-pro-preview");
        assert!(can_reason("gemini-2.5-pro") && !can_reason("gemini-2.0-flash"));
        assert!(can_reason("claude-sonnet-4-6") && !can_reason("claude-3-5-sonnet-20241022"));
    }

    #[test]
    fn newest_full_model_ranks_first() {
        let mut names =
            ["gpt-4.1", "gpt-5-mini", "o4-mini", "gpt-5.2", "gpt-5.2-2026-01-01", "gpt-5.2-pro", "gpt-4o"];
        names.sort_by_key(|name| Reverse(openai_rank(name)));
        assert_eq!(names[0], "gpt-5.2");
        assert!(
            can_reason("openai/gpt-oss:20b")
                && can_reason("o4-mini")
                && !can_reason("llama3.2")
                && !can_reason("gpt-4o")
        );
        assert!(!can_converse("nomic-embed-text", false) && can_converse("llama3.2:3b", false));
        for chats in [
            "/data/images/qwen3-8b",
            "/models/embeddings/llama-3.1-8b",
            "tts-lab/mistral-7b",
            "liveness-7b",
            "C:\\audio\\gemma-3-4b.gguf",
            "qwen3:8b",
        ] {
            assert!(can_converse(chats, false), "{chats}");
        }
        for other in [
            "nomic-embed-text:latest",
            "bge-m3",
            "all-minilm:l6-v2",
            "/models/bge-reranker-v2-m3",
            "embeddinggemma",
            "intfloat/multilingual-e5-large",
            "text-embedding-3-small",
            "jina-embeddings-v3",
            "",
        ] {
            assert!(!can_converse(other, false), "{other}");
        }
        assert!(
            !can_converse("davinci-002", true)
                && can_converse("gpt-5", true)
                && !can_converse("gpt-image-1", true)
        );
    }
}
