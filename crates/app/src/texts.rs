//! The texts of the application in each language, from the Fluent files in `locales`.

use std::sync::LazyLock;

use domain::catalog::Localized;
use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::memoizer::MemoizerKind;
use fluent_bundle::types::FluentNumber;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use unic_langid::LanguageIdentifier;

use crate::language::PageLanguage;

type Bundle = FluentBundle<FluentResource>;

static BUNDLES: LazyLock<[Bundle; 3]> = LazyLock::new(|| PageLanguage::ALL.map(build_bundle));

const fn locale_source(language: PageLanguage) -> &'static str {
    match language {
        PageLanguage::English => include_str!("../locales/en.ftl"),
        PageLanguage::Czech => include_str!("../locales/cs.ftl"),
        PageLanguage::Slovak => include_str!("../locales/sk.ftl"),
    }
}

fn build_bundle(language: PageLanguage) -> Bundle {
    let id: LanguageIdentifier = language.code().parse().expect("the code of a language");
    let mut bundle = FluentBundle::new_concurrent(vec![id]);
    // Marks of direction around arguments are for languages that are written from right to left.
    bundle.set_use_isolating(false);
    bundle.set_formatter(Some(match language {
        PageLanguage::English => format_number::<{ thousands_separator(PageLanguage::English) }, _>,
        PageLanguage::Czech | PageLanguage::Slovak => {
            format_number::<{ thousands_separator(PageLanguage::Czech) }, _>
        }
    }));
    let resource = FluentResource::try_new(locale_source(language).to_owned()).expect("a valid Fluent file");
    bundle.add_resource(resource).expect("each text once");
    bundle
}

const fn thousands_separator(language: PageLanguage) -> char {
    match language {
        PageLanguage::English => ',',
        PageLanguage::Czech | PageLanguage::Slovak => '\u{a0}',
    }
}

/// Returns a number with separators between thousands.
fn group_thousands(number: u64, separator: char) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out
}

/// Formats the counts in texts as [`Texts::number_text`] does.
fn format_number<const SEPARATOR: char, M: MemoizerKind>(value: &FluentValue<'_>, _: &M) -> Option<String> {
    match value {
        FluentValue::Number(FluentNumber { value, .. }) if *value >= 0.0 => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are whole")]
            let count = *value as u64;
            Some(group_thousands(count, SEPARATOR))
        }
        _ => None,
    }
}

/// The texts in one language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Texts(pub(crate) PageLanguage);

impl Texts {
    /// Returns the code of the language.
    pub(crate) fn language(self) -> &'static str {
        self.0.code()
    }

    /// Returns the text of a key; the key itself if it has no text, which a test excludes.
    pub(crate) fn get(self, key: &str) -> String {
        self.find_text(key, None).unwrap_or_else(|| key.to_owned())
    }

    /// Returns the text of a key, if there is one.
    pub(crate) fn optional(self, key: &str) -> Option<String> {
        self.find_text(key, None)
    }

    /// Returns the text of a key with the value of its argument.
    pub(crate) fn with<'a>(self, key: &str, argument: &'a str, value: impl Into<FluentValue<'a>>) -> String {
        let arguments = FluentArgs::from_iter([(argument, value)]);
        self.find_text(key, Some(&arguments)).unwrap_or_else(|| key.to_owned())
    }

    /// Returns the form of a catalog's text in this language.
    pub(crate) fn in_language(self, text: &Localized) -> String {
        match self.0 {
            PageLanguage::English => text.en.clone(),
            PageLanguage::Czech => text.cs.clone(),
            PageLanguage::Slovak => text.sk.clone(),
        }
    }

    /// Returns a number with separators between thousands.
    pub(crate) fn number_text(self, number: u64) -> String {
        group_thousands(number, thousands_separator(self.0))
    }

    fn find_text(self, key: &str, arguments: Option<&FluentArgs<'_>>) -> Option<String> {
        let bundle = &BUNDLES[self.0 as usize];
        let pattern = bundle.get_message(key)?.value()?;
        let mut errors = Vec::new();
        Some(bundle.format_pattern(pattern, arguments, &mut errors).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::Path;

    use domain::answer::ErrorCode;
    use domain::audit::AuditAction;

    use super::*;
    use crate::answer::failure_key;
    use crate::operator::action_key;

    /// The keys of a file with the arguments that their texts use.
    fn locale_keys(language: PageLanguage) -> BTreeMap<String, BTreeSet<String>> {
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        let mut key = String::new();
        for line in locale_source(language).lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, _)) =
                line.split_once('=').filter(|_| line.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                key = name.trim().to_owned();
                found.entry(key.clone()).or_default();
            }
            for used in line.split('$').skip(1) {
                let name = used.chars().take_while(|c| c.is_ascii_lowercase()).collect();
                found.entry(key.clone()).or_default().insert(name);
            }
        }
        found
    }

    /// The templates and the sources without their tests.
    fn template_and_source_texts() -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let within = |folder: &str| fs::read_dir(root.join(folder)).expect("a folder");
        let files = ["templates", "src", "src/files", "src/operator"].into_iter().flat_map(within);
        let files = files.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
        let text = |file| fs::read_to_string(file).expect("a text");
        files.map(text).map(|text| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()).collect()
    }

    /// The keys that files name: `get("key")`, `t("key")`, `with("key"`.
    fn named_keys() -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for text in template_and_source_texts() {
            for call in ["get(\"", ".t(\"", "with(\"", "optional(\""] {
                let calls = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(calls.filter(|key| !key.contains(['/', '{'])).map(ToOwned::to_owned));
            }
        }
        found
    }

    #[test]
    fn locales_share_keys_and_arguments() {
        let english = locale_keys(PageLanguage::English);
        assert!(english.len() > 50, "keys are found by how they are written: {}", english.len());
        for language in [PageLanguage::Czech, PageLanguage::Slovak] {
            assert_eq!(locale_keys(language), english, "{language:?}");
        }
    }

    #[test]
    fn every_text_that_is_named_exists() {
        let english = locale_keys(PageLanguage::English);
        let named = named_keys();
        assert!(named.len() > 40, "calls are found by how they are written: {}", named.len());
        let missing: Vec<_> = named.iter().filter(|key| !english.contains_key(*key)).collect();
        assert_eq!(missing, Vec::<&String>::new());
    }

    #[test]
    fn every_text_is_used() {
        let files = template_and_source_texts();
        let is_named = |key: &str| files.iter().any(|text| text.contains(&format!("\"{key}\"")));
        // These keys are derived from names.
        let is_derived = |key: &str| {
            key.starts_with("tool-")
                || key.starts_with("audit-")
                || ErrorCode::ALL.iter().any(|code| failure_key(*code) == key)
        };
        let unused =
            locale_keys(PageLanguage::English).into_keys().filter(|key| !is_derived(key) && !is_named(key));
        assert_eq!(unused.collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn audit_actions_are_translated() {
        let texts = locale_keys(PageLanguage::English).into_keys().filter(|key| key.starts_with("audit-"));
        let actions = AuditAction::ALL.iter().map(|action| action_key(*action));
        assert_eq!(texts.collect::<BTreeSet<_>>(), actions.collect());
    }

    #[test]
    fn numbers_have_plural_forms_and_separators() {
        let texts = Texts(PageLanguage::Czech);
        let count = |number: u64| texts.with("files-count", "count", number);
        assert_eq!([1, 3, 5].map(count), ["Jedna položka", "3 položky", "5 položek"]);
        assert_eq!(count(26_700), "26\u{a0}700 položek");
        assert_eq!(texts.number_text(1_234_567), "1\u{a0}234\u{a0}567");
        assert_eq!(Texts(PageLanguage::English).number_text(999), "999");
        assert_eq!(Texts(PageLanguage::English).number_text(10_000), "10,000");
    }
}
