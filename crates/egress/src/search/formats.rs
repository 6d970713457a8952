//! The formats of the search engines: requests, responses, errors.
//!
//! Each engine supports its own list of countries and languages and rejects or ignores others; so a hint is sent
//! only if the engine supports it.

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};

use super::{Engine, Query, RESULTS_MAX};
use crate::connections::below;

/// The maximum number of results that are read, if an engine returns more than requested.
const PAGES_MAX: usize = 5 * RESULTS_MAX;

/// Countries that Brave supports.
const BRAVE_COUNTRIES: &str = "AR AU AT BE BR CA CL DK FI FR DE HK IN ID IT JP KR MY MX NL NZ NO CN PL PT PH RU SA \
                               ZA ES SE CH TW TR GB US";
/// Two-letter languages that Brave supports.
const BRAVE_LANGUAGES: &str = "ar eu bn bg ca hr cs da nl en et fi fr gl de gu he hi hu is it kn ko lv lt ms ml mr nb pl pa ro ru sr sk sl es \
     sv ta te th tr uk vi";
/// Countries with their names at Tavily and their languages, from which locales for SearXNG are built.
const COUNTRIES: &[(&str, &str, &[&str])] = &[
    ("CZ", "czech republic", &["cs"]),
    ("SK", "slovakia", &["sk"]),
    ("DE", "germany", &["de"]),
    ("AT", "austria", &["de"]),
    ("PL", "poland", &["pl"]),
    ("CH", "switzerland", &["de", "fr", "it"]),
    ("HU", "hungary", &["hu"]),
    ("FR", "france", &["fr"]),
    ("IT", "italy", &["it"]),
    ("ES", "spain", &["es"]),
    ("PT", "portugal", &["pt"]),
    ("NL", "netherlands", &["nl"]),
    ("BE", "belgium", &["nl", "fr"]),
    ("DK", "denmark", &["da"]),
    ("SE", "sweden", &["sv"]),
    ("FI", "finland", &["fi"]),
    ("NO", "norway", &["nb"]),
    ("IE", "ireland", &["en"]),
    ("GB", "united kingdom", &["en"]),
    ("US", "united states", &["en"]),
    ("SI", "slovenia", &["sl"]),
    ("HR", "croatia", &["hr"]),
    ("RO", "romania", &["ro"]),
    ("BG", "bulgaria", &["bg"]),
    ("UA", "ukraine", &["uk"]),
];

/// Returns the default base URL of an engine.
pub(super) fn home(engine: Engine) -> &'static str {
    match engine {
        // There is no public server.
        Engine::Searxng => "http://localhost:8888",
        Engine::Brave => "https://api.search.brave.com",
        Engine::Tavily => "https://api.tavily.com",
    }
}

/// Returns the header of an engine's key and the prefix of its value.
pub(super) fn key_header(engine: Engine) -> (HeaderName, &'static str) {
    match engine {
        Engine::Searxng | Engine::Tavily => (AUTHORIZATION, "Bearer "),
        Engine::Brave => (HeaderName::from_static("x-subscription-token"), ""),
    }
}

/// Builds the request for a query, without the key.
pub(super) fn request(client: &Client, engine: Engine, base: &Url, query: &Query) -> RequestBuilder {
    let request = match engine {
        Engine::Searxng => {
            let mut url = below(base, "/search");
            url.query_pairs_mut()
                .append_pair("q", &query.text)
                .append_pair("format", "json")
                .append_pair("categories", "general")
                .append_pair("language", &locale(query));
            client.get(url)
        }
        Engine::Brave => {
            let mut url = below(base, "/res/v1/web/search");
            url.query_pairs_mut()
                .append_pair("q", &query.text)
                .append_pair("count", &query.count.to_string())
                .append_pair("result_filter", "web")
                .append_pair("text_decorations", "false");
            let known = query.country.as_deref().filter(|country| on(BRAVE_COUNTRIES, country));
            url.query_pairs_mut().append_pair("country", known.unwrap_or("ALL"));
            let spoken = country(query).map(|(_, _, spoken)| spoken[0]);
            let language = query.language.as_deref().or(spoken);
            if let Some(language) = language.filter(|language| on(BRAVE_LANGUAGES, language)) {
                url.query_pairs_mut().append_pair("search_lang", language);
            }
            client.get(url)
        }
        Engine::Tavily => {
            let mut body = json!({
                "query": query.text,
                "max_results": query.count,
                "search_depth": "basic",
                "topic": "general",
                "include_answer": false,
                "include_raw_content": false,
                "include_images": false,
            });
            if let Some((_, name, _)) = country(query) {
                body["country"] = json!(name);
            }
            client
                .post(below(base, "/search"))
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string())
        }
    };
    request.header(ACCEPT, "application/json")
}

/// A page in an engine's response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundPage {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

/// Parses the pages of a response, best first; `None` if it is malformed. Skips results that are not pages.
pub(super) fn pages(engine: Engine, body: &[u8]) -> Option<Vec<FoundPage>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let (list, snippet) = match engine {
        Engine::Searxng | Engine::Tavily => (body.get("results")?, "content"),
        // A search without results has no `web` but still the type of a search.
        Engine::Brave => match body.get("web") {
            Some(web) if !web.is_null() => (web.get("results")?, "description"),
            None | Some(_) if body.get("type").and_then(Value::as_str) == Some("search") => {
                return Some(Vec::new());
            }
            None | Some(_) => return None,
        },
    };
    let page = |result: &Value| {
        let text = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        FoundPage { title: text("title"), url: text("url"), snippet: text(snippet) }
    };
    Some(list.as_array()?.iter().take(PAGES_MAX).map(page).collect())
}

/// Returns the error message of an engine.
pub(super) fn complaint(engine: Engine, status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let message = match engine {
        Engine::Searxng if status == StatusCode::FORBIDDEN => {
            return "it does not give JSON; its settings must list json under search.formats".to_owned();
        }
        Engine::Searxng => body.get("error"),
        Engine::Brave => body.pointer("/error/detail"),
        Engine::Tavily => body.pointer("/detail/error").or_else(|| body.get("detail")),
    };
    message.and_then(Value::as_str).unwrap_or("").to_owned()
}

fn on(list: &str, wanted: &str) -> bool {
    list.split_whitespace().any(|one| one == wanted)
}

fn country(query: &Query) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    let wanted = query.country.as_deref()?;
    COUNTRIES.iter().find(|(code, _, _)| *code == wanted)
}

/// Returns the locale of a query: language and country if they match, otherwise the language, otherwise the
/// country's own.
fn locale(query: &Query) -> String {
    match (query.language.as_deref(), country(query)) {
        (Some(language), Some((code, _, spoken))) if spoken.contains(&language) => {
            format!("{language}-{code}")
        }
        (Some(language), _) => language.to_owned(),
        (None, Some((code, _, spoken))) => format!("{}-{code}", spoken[0]),
        (None, None) => "all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(language: Option<&str>, country: Option<&str>) -> Query {
        Query {
            text: "nájem bytu".to_owned(),
            count: 5,
            language: language.map(ToOwned::to_owned),
            country: country.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn hints_are_sent_only_where_the_engine_knows_them() {
        for (language, country, wanted) in [
            (Some("cs"), Some("CZ"), "cs-CZ"),
            (Some("cs"), Some("AT"), "cs"),
            (None, Some("AT"), "de-AT"),
            (Some("cs"), Some("EU"), "cs"),
            (None, None, "all"),
        ] {
            assert_eq!(locale(&query(language, country)), wanted);
        }
        let client = crate::connections::builder().build().expect("a client");
        let base = Url::parse("http://engine.test/").expect("an address");
        let url = |engine, language, country| {
            let built = request(&client, engine, &base, &query(language, country)).build();
            built.expect("a request").url().query().unwrap_or("").to_owned()
        };
        assert!(url(Engine::Brave, Some("sk"), Some("DE")).ends_with("&country=DE&search_lang=sk"));
        assert!(url(Engine::Brave, Some("xx"), Some("CZ")).ends_with("&country=ALL"));
        assert!(url(Engine::Brave, None, Some("CZ")).ends_with("&country=ALL&search_lang=cs"));
        assert!(url(Engine::Searxng, None, None).starts_with("q=n%C3%A1jem+bytu&format=json"));
    }

    #[test]
    fn an_answer_of_another_form_is_none() {
        for engine in [Engine::Searxng, Engine::Brave, Engine::Tavily] {
            for body in ["", "[]", "{}", "<html>", r#"{"results":{}}"#, r#"{"web":{"results":"x"}}"#] {
                assert_eq!(pages(engine, body.as_bytes()), None, "{engine:?} {body}");
            }
        }
        let odd = br#"{"results":[1,null,{"url":7},{"url":"https://a.example/","title":null}]}"#;
        assert_eq!(pages(Engine::Searxng, odd).map(|pages| pages.len()), Some(4));
        assert_eq!(pages(Engine::Brave, br#"{"type":"search","query":{}}"#), Some(Vec::new()));
        assert_eq!(pages(Engine::Brave, br#"{"type":"search","web":null}"#), Some(Vec::new()));
    }
}
