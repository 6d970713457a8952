//! The languages of the application, and the selection of a visitor's: the chosen one, or else the browser's.

use axum::Form;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

use crate::paths;
use crate::session_cookie::{cookie_value, set_cookie};

/// The cookie that keeps the chosen language.
const COOKIE: &str = "causerie-language";
/// The lifetime of that cookie, in seconds.
const COOKIE_SECONDS: u32 = 365 * 24 * 3600;

/// A language of the application's texts: English, Czech, Slovak.
///
/// Labels of the catalog (`domain`, Czech by default) and documents (`text-analysis`, also German) have
/// separate enums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PageLanguage {
    #[default]
    English,
    Czech,
    Slovak,
}

impl PageLanguage {
    pub(crate) const ALL: [Self; 3] = [Self::English, Self::Czech, Self::Slovak];

    /// Returns the code, as in ISO 639-1.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Czech => "cs",
            Self::Slovak => "sk",
        }
    }

    /// Returns the language's own name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Czech => "Čeština",
            Self::Slovak => "Slovenčina",
        }
    }

    fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.code() == code)
    }

    /// Returns the language of a request.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let chosen = cookie_value(headers, COOKIE).and_then(Self::of_code);
        let accepted = || http_common::list_header(headers, &header::ACCEPT_LANGUAGE);
        chosen.or_else(|| Self::parse_accept_language(&accepted())).unwrap_or_default()
    }

    /// Returns the language of `Accept-Language` with the highest weight; the first of equal ones.
    fn parse_accept_language(accepted: &str) -> Option<Self> {
        let ranges = accepted.split(',').filter_map(|range| {
            let mut parts = range.split(';');
            let code = parts.next()?.trim().split('-').next()?.to_ascii_lowercase();
            let weight = parts.find_map(|part| part.trim().strip_prefix("q=")?.parse::<f32>().ok());
            Some((Self::of_code(&code)?, weight.unwrap_or(1.0)))
        });
        let best = |best: Option<(Self, f32)>, (language, weight): (Self, f32)| match best {
            Some((_, heaviest)) if heaviest >= weight => best,
            _ if weight > 0.0 => Some((language, weight)),
            _ => best,
        };
        ranges.fold(None, best).map(|(language, _)| language)
    }
}

/// The form that chooses a language.
#[derive(Deserialize)]
pub(crate) struct LanguageForm {
    language: String,
    #[serde(default)]
    next: String,
}

/// Keeps the chosen language and returns to the page.
pub(crate) async fn choose_language(Form(choice): Form<LanguageForm>) -> Response {
    let next = paths::own_address(&choice.next).unwrap_or(if choice.next == paths::SIGN_IN {
        paths::SIGN_IN
    } else {
        "/"
    });
    let mut response = Redirect::to(next).into_response();
    if let Some(language) = PageLanguage::of_code(&choice.language) {
        let kept = set_cookie(COOKIE, language.code(), COOKIE_SECONDS, false);
        response.headers_mut().append(header::SET_COOKIE, kept);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_known_language_is_taken() {
        for (accepted, language) in [
            ("cs", Some(PageLanguage::Czech)),
            ("sk-SK,cs;q=0.8,en;q=0.5", Some(PageLanguage::Slovak)),
            ("de-DE, en;q=0.3, CS-cz;q=0.7", Some(PageLanguage::Czech)),
            ("en, cs", Some(PageLanguage::English)),
            ("de", None),
            ("cs;q=0", None),
            (";;,q=,", None),
        ] {
            assert_eq!(PageLanguage::parse_accept_language(accepted), language, "{accepted}");
        }
    }

    #[test]
    fn a_choice_outweighs_the_browser() {
        let mut headers = HeaderMap::new();
        headers.append(header::ACCEPT_LANGUAGE, "de".parse().expect("a value"));
        headers.append(header::ACCEPT_LANGUAGE, "cs".parse().expect("a value"));
        assert_eq!(PageLanguage::from_headers(&headers), PageLanguage::Czech);
        headers.insert(header::COOKIE, "a=b; causerie-language=sk".parse().expect("a value"));
        assert_eq!(PageLanguage::from_headers(&headers), PageLanguage::Slovak);
        headers.insert(header::COOKIE, "causerie-language=xx".parse().expect("a value"));
        assert_eq!(PageLanguage::from_headers(&headers), PageLanguage::Czech);
    }
}
