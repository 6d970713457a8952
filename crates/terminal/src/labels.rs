//! The words around an answer, in its language.

/// A language of the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelLanguage {
    Czech,
    English,
    Slovak,
}

/// The minimum number of letters to recognize the language of a text.
const LETTERS_MIN: usize = 12;

impl LabelLanguage {
    /// Returns the language of the user's locale; English if the language has no labels.
    pub(crate) fn from_locale() -> Self {
        let set = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
        Self::from_locale_name(&set.into_iter().find(|value| !value.is_empty()).unwrap_or_default())
    }

    fn from_locale_name(locale: &str) -> Self {
        match locale.split(['_', '.', '-', '@']).next() {
            Some("cs") => Self::Czech,
            Some("sk") => Self::Slovak,
            _ => Self::English,
        }
    }

    /// Returns the language of a text by its letters; `otherwise` if it is too short to tell.
    pub(crate) fn from_text(text: &str, otherwise: Self) -> Self {
        let count = |letters: &str| text.chars().filter(|c| letters.contains(*c)).count();
        if count("čšžťďňřěľČŠŽŤĎŇŘĚĽ") == 0 {
            let letters = text.chars().filter(|c| c.is_alphabetic()).take(LETTERS_MIN).count();
            return if letters < LETTERS_MIN { otherwise } else { Self::English };
        }
        match count("řěůŘĚŮ").cmp(&count("ľĺŕôäĽĹŔÔÄ")) {
            std::cmp::Ordering::Greater => Self::Czech,
            std::cmp::Ordering::Less => Self::Slovak,
            std::cmp::Ordering::Equal if otherwise == Self::English => Self::Czech,
            std::cmp::Ordering::Equal => otherwise,
        }
    }

    /// Returns a label.
    pub(crate) const fn label(self, label: Label) -> &'static str {
        let [cs, en, sk] = label.in_languages();
        match self {
            Self::Czech => cs,
            Self::English => en,
            Self::Slovak => sk,
        }
    }
}

/// A label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    Sources,
    Page,
    Slide,
    Sheet,
    Section,
    File,
    Row,
    Rows,
    Line,
    Lines,
    NotProven,
    NotSaid,
    Repeated,
    AnswerFailed,
    Failed,
    Tool,
    WebSearch,
    Skill,
    Agent,
    Conversation,
    Uploading,
    Uploaded,
    Downloaded,
    ReadingFile,
    PagesRead,
    Stopping,
}

impl Label {
    /// Returns it in Czech, English and Slovak.
    const fn in_languages(self) -> [&'static str; 3] {
        match self {
            Self::Sources => ["Zdroje:", "Sources:", "Zdroje:"],
            Self::Page => ["strana", "page", "strana"],
            Self::Slide => ["snímek", "slide", "snímka"],
            Self::Sheet => ["list", "sheet", "hárok"],
            Self::Section => ["oddíl", "section", "oddiel"],
            Self::File => ["soubor", "file", "súbor"],
            Self::Row => ["řádek", "row", "riadok"],
            Self::Rows => ["řádky", "rows", "riadky"],
            Self::Line => ["řádek", "line", "riadok"],
            Self::Lines => ["řádky", "lines", "riadky"],
            Self::NotProven => ["nedoloženo", "not proven", "nedoložené"],
            Self::NotSaid => ["úryvek to neříká", "the passage does not say it", "úryvok to nehovorí"],
            Self::Repeated => [
                "[pokus byl přerušen; odtud znovu]",
                "[the attempt was interrupted; repeated from here]",
                "[pokus bol prerušený; odtiaľto znova]",
            ],
            Self::AnswerFailed => ["odpověď selhala", "the answer failed", "odpoveď zlyhala"],
            Self::Failed => ["selhalo", "failed", "zlyhalo"],
            Self::Tool => ["nástroj", "tool", "nástroj"],
            Self::WebSearch => ["hledání na webu", "web search", "hľadanie na webe"],
            Self::Skill => ["dovednost", "skill", "zručnosť"],
            Self::Agent => ["agent", "agent", "agent"],
            Self::Conversation => ["konverzace", "conversation", "konverzácia"],
            Self::Uploading => ["nahrává se", "uploading", "nahráva sa"],
            Self::Uploaded => ["nahráno", "uploaded", "nahrané"],
            Self::Downloaded => ["staženo", "downloaded", "stiahnuté"],
            Self::ReadingFile => ["čte se", "reading", "číta sa"],
            Self::PagesRead => ["stran", "pages", "strán"],
            Self::Stopping => [
                "odpověď se zastavuje; další Ctrl-C skončí hned",
                "stopping the answer; press Ctrl-C again to leave at once",
                "odpoveď sa zastavuje; ďalšie Ctrl-C skončí hneď",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_language_of_text() {
        for (text, locale, language) in [
            ("Nájemné činí 18 500 Kč měsíčně.", "C", LabelLanguage::Czech),
            ("Nájomné je splatné k piatemu dňu, najneskôr v pondelok.", "cs_CZ.UTF-8", LabelLanguage::Slovak),
            ("The rent is 18,500 crowns.", "cs_CZ.UTF-8", LabelLanguage::English),
            ("Die Miete beträgt 900 Euro.", "C", LabelLanguage::English),
            ("18 500", "sk_SK", LabelLanguage::Slovak),
            ("", "cs", LabelLanguage::Czech),
            ("", "de_DE.UTF-8", LabelLanguage::English),
        ] {
            assert_eq!(
                LabelLanguage::from_text(text, LabelLanguage::from_locale_name(locale)),
                language,
                "{text}"
            );
        }
    }
}
