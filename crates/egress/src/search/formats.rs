//! The formats of the search engines: requests, responses, errors.
//!
//! Each engine supports its own list of countries and languages and rejects or ignores others; so a hint is sent
//! only if the engine supports it.

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};

use super::{RESULTS_MAX, SearchEngine, SearchQuery};
use crate::connections::append_path;

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
pub(super) fn default_base_url(engine: SearchEngine) -> &'static str {
    match engine {
        // No public server exists.
        SearchEngine::Searxng => "http://localhost:8888",
        SearchEngine::Brave => "https://api.search.brave.com",
        SearchEngine::Tavily => "https://api.tavily.com",
    }
}

/// Returns the header of an engine's key and the prefix of its value.
pub(super) fn key_header(engine: SearchEngine) -> (HeaderName, &'static str) {
    match engine {
        SearchEngine::Searxng | SearchEngine::Tavily => (AUTHORIZATION, "Bearer "),
        SearchEngine::Brave => (HeaderName::from_static("x-subscription-token"), ""),
    }
}

/// Builds the request for a query, without the key.
pub(super) fn build_request(
    client: &Client,
    engine: SearchEngine,
    base: &Url,
    query: &SearchQuery,
) -> RequestBuilder {
    let request = match engine {
        SearchEngine::Searxng => {
            let mut url = append_path(base, "/search");
            url.query_pairs_mut()
                .append_pair("q", &query.text)
                .append_pair("format", "json")
                .append_pair("categories", "general")
                .append_pair("language", &query_locale(query));
            client.get(url)
        }
        SearchEngine::Brave => {
            let mut url = append_path(base, "/res/v1/web/search");
            url.query_pairs_mut()
                .append_pair("q", &query.text)
                .append_pair("count", &query.count.to_string())
                .append_pair("result_filter", "web")
                .append_pair("text_decorations", "false");
            let known = query.country.as_deref().filter(|country| list_contains(BRAVE_COUNTRIES, country));
            url.query_pairs_mut().append_pair("country", known.unwrap_or("ALL"));
            let spoken = find_country(query).map(|(_, _, spoken)| spoken[0]);
            let language = query.language.as_deref().or(spoken);
            if let Some(language) = language.filter(|language| list_contains(BRAVE_LANGUAGES, language)) {
                url.query_pairs_mut().append_pair("search_lang", language);
            }
            client.get(url)
        }
        SearchEngine::Tavily => {
            let mut body = json!({
                "query": query.text,
                "max_results": query.count,
                "search_depth": "basic",
                "topic": "general",
                "include_answer": false,
                "include_raw_content": false,
                "include_images": false,
            });
            if let Some((_, name, _)) = find_country(query) {
                body["country"] = json!(name);
            }
            client
                .post(append_path(base, "/search"))
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
pub(super) fn parse_pages(engine: SearchEngine, body: &[u8]) -> Option<Vec<FoundPage>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let (list, snippet) = match engine {
        SearchEngine::Searxng | SearchEngine::Tavily => (body.get("results")?, "content"),
        // A search without results has no `web` but still the type of a search.
        SearchEngine::Brave => match body.get("web") {
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
pub(super) fn error_message(engine: SearchEngine, status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let message = match engine {
        SearchEngine::Searxng if status == StatusCode::FORBIDDEN => {
            return "it does not return JSON: add json to search.formats in its settings".to_owned();
        }
        SearchEngine::Searxng => body.get("error"),
        SearchEngine::Brave => body.pointer("/error/detail"),
        SearchEngine::Tavily => body.pointer("/detail/error").or_else(|| body.get("detail")),
    };
    message.and_then(Value::as_str).unwrap_or("").to_owned()
}

fn list_contains(list: &str, wanted: &str) -> bool {
    list.split_whitespace().any(|one| one == wanted)
}

fn find_country(
    query: &SearchQuery,
) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
    let wanted = query.country.as_deref()?;
    COUNTRIES.iter().find(|(code, _, _)| *code == wanted)
}

/// Returns the locale of a query: language and country if they match, otherwise the language, otherwise the
/// country's own.
fn query_locale(query: &SearchQuery) -> String {
    match (query.language.as_deref(), find_country(query)) {
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

    fn query_with(language: Option<&str>, country: Option<&str>) -> SearchQuery {
        SearchQuery {
            text: "nájem bytu".to_owned(),
            count: 5,
            language: language.map(ToOwned::to_owned),
            country: country.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn query_hints_follow_engine_support() {
        for (language, country, wanted) in [
            (Some("cs"), Some("CZ"), "cs-CZ"),
            (Some("cs"), Some("AT"), "cs"),
            (None, Some("AT"), "de-AT"),
            (Some("cs"), Some("EU"), "cs"),
            (None, None, "all"),
        ] {
            assert_eq!(query_locale(&query_with(language, country)), wanted);
        }
        let client = crate::connections::client_builder().build().expect("a client");
        let base = Url::parse("http://engine.test/").expect("an address");
        let url = |engine, language, country| {
            let built = build_request(&client, engine, &base, &query_with(language, country)).build();
            built.expect("a request").url().query().unwrap_or("").to_owned()
        };
        assert!(url(SearchEngine::Brave, Some("sk"), Some("DE")).ends_with("&country=DE&search_lang=sk"));
        assert!(url(SearchEngine::Brave, Some("xx"), Some("CZ")).ends_with("&country=ALL"));
        assert!(url(SearchEngine::Brave, None, Some("CZ")).ends_with("&country=ALL&search_lang=cs"));
        assert!(url(SearchEngine::Searxng, None, None).starts_with("q=n%C3%A1jem+bytu&format=json"));
    }

    #[test]
    fn parse_pages_rejects_other_forms() {
        for engine in [SearchEngine::Searxng, SearchEngine::Brave, SearchEngine::Tavily] {
            for body in ["", "[]", "{}", "<html>", r#"{"results":{}}"#, r#"{"web":{"results":"x"}}"#] {
                assert_eq!(parse_pages(engine, body.as_bytes()), None, "{engine:?} {body}");
            }
        }
        let odd = br#"{"results":[1,null,{"url":7},{"url":"https://a.example/","title":null}]}"#;
        assert_eq!(parse_pages(SearchEngine::Searxng, odd).map(|pages| pages.len()), Some(4));
        assert_eq!(parse_pages(SearchEngine::Brave, br#"{"type":"search","query":{}}"#), Some(Vec::new()));
        assert_eq!(parse_pages(SearchEngine::Brave, br#"{"type":"search","web":null}"#), Some(Vec::new()));
    }
}
