//! The search against engines that speak their formats to the letter.

use std::time::Duration;

use egress::{KeyedEngine, SearchClient, SearchConfig, SearchEngine, SearchError, SearchQuery, Secret};

async fn start_fake_vendors() -> test_support::FakeVendorHandle {
    test_support::start_server().await.expect("a port")
}

fn keyed_engine(standin: &test_support::FakeVendorHandle, engine: &str, key: &str) -> Option<KeyedEngine> {
    Some(KeyedEngine { key: Secret::new(key), base_url: Some(standin.web_url(&format!("/{engine}"))) })
}

/// All three engines, or one of them.
fn new_search(standin: &test_support::FakeVendorHandle, only: Option<SearchEngine>) -> SearchClient {
    let config = SearchConfig {
        searxng: Some(standin.web_url("/searxng/")),
        brave: keyed_engine(standin, "brave", "brave-key"),
        tavily: keyed_engine(standin, "tavily", "tavily-key"),
        only,
    };
    SearchClient::new(config).expect("it holds")
}

fn text_query(text: &str) -> SearchQuery {
    SearchQuery { text: text.to_owned(), count: 10, ..SearchQuery::default() }
}

const ENGINES: [SearchEngine; 3] = [SearchEngine::Searxng, SearchEngine::Brave, SearchEngine::Tavily];

#[tokio::test]
async fn search_web_results_equal_across_engines() {
    let standin = start_fake_vendors().await;
    for engine in ENGINES {
        let found =
            new_search(&standin, Some(engine)).search_web(&text_query("notice period")).await.expect("pages");
        let titles: Vec<&str> = found.iter().map(|page| page.title.as_str()).collect();
        assert_eq!(titles, ["Notice periods", "The lease act", "Elsewhere"], "{engine:?}");
        assert_eq!(found[0].snippet, "This page tells of notice & terms.", "{engine:?}");
        assert_eq!(found[2].url.as_str(), "https://elsewhere.example/a?b=c");
        let nothing = new_search(&standin, Some(engine)).search_web(&text_query("nothing")).await;
        assert_eq!(nothing, Ok(Vec::new()), "{engine:?}");
    }
}

#[tokio::test]
async fn search_web_sends_keys_and_hints() {
    let standin = start_fake_vendors().await;
    let asked = SearchQuery {
        text: "nájem".to_owned(),
        count: 3,
        language: Some("cs".to_owned()),
        country: Some("CZ".to_owned()),
    };
    for engine in ENGINES {
        new_search(&standin, Some(engine)).search_web(&asked).await.expect("pages");
    }
    let requests = standin.web_requests();
    let of = |server: &str| requests.iter().find(|asked| asked.server == server).expect("it was asked");
    assert_eq!(of("searxng").parameters["language"], "cs-CZ");
    assert_eq!(of("brave").header("x-subscription-token"), Some("brave-key"));
    assert_eq!(
        (&of("brave").parameters["country"], &of("brave").parameters["search_lang"]),
        (&"ALL".into(), &"cs".into())
    );
    assert_eq!(of("tavily").header("authorization"), Some("Bearer tavily-key"));
    assert_eq!(
        (&of("tavily").parameters["country"], &of("tavily").parameters["max_results"]),
        (&"czech republic".into(), &3.into())
    );
    for asked in &requests {
        assert!(!asked.parameters.to_string().contains("-key"), "{asked:?}");
        assert_eq!(asked.header("user-agent"), Some(egress::USER_AGENT));
        assert!(asked.header("cookie").or(asked.header("referer")).is_none());
    }
    assert!(!format!("{:?}", new_search(&standin, None)).contains("-key"), "no secret is shown");
}

#[tokio::test]
async fn search_web_bounds_query_and_results() {
    let standin = start_fake_vendors().await;
    for engine in ENGINES {
        let search = new_search(&standin, Some(engine));
        let long = SearchQuery { text: "word ".repeat(10_000), count: 1000, ..SearchQuery::default() };
        assert!(search.search_web(&long).await.is_ok(), "{engine:?}");
        let letters = SearchQuery { text: "č".repeat(10_000), count: 0, ..SearchQuery::default() };
        assert_eq!(search.search_web(&letters).await.map(|found| found.len()), Ok(1), "{engine:?}");
        for empty in ["", " \n\u{200b}\u{0} "] {
            assert_eq!(search.search_web(&text_query(empty)).await, Err(SearchError::EmptyQuery));
        }
        let found = search.search_web(&text_query("odd")).await.expect("pages");
        let urls: Vec<&str> = found.iter().map(|page| page.url.as_str()).collect();
        assert_eq!(urls, ["https://untitled.example/", "https://long.example/"], "{engine:?}");
        assert_eq!(found[0].title, "https://untitled.example/");
        assert_eq!(found[0].snippet, "[31mred <b>");
        assert!(
            found[1].title.len() <= egress::TITLE_MAX_BYTES
                && found[1].snippet.len() <= egress::SNIPPET_MAX_BYTES
        );
    }
    assert!(standin.web_requests().iter().all(|asked| !asked.parameters.to_string().contains('\u{0}')));
}

#[tokio::test]
async fn search_web_errors_tell_remedy() {
    let standin = start_fake_vendors().await;
    for engine in ENGINES {
        let failing = |text: &'static str| {
            let search = new_search(&standin, Some(engine));
            async move { search.search_web(&text_query(text)).await.expect_err("it fails") }
        };
        let wait = Some(Duration::from_secs(7));
        for again in ["status-429", "status-503", "status-500"] {
            let error = failing(again).await;
            assert!(
                matches!(&error, SearchError::Unavailable { retry_after, .. } if *retry_after == wait),
                "{engine:?} {error:?}"
            );
        }
        for never in ["status-400", "status-401", "status-403", "status-432"] {
            assert!(matches!(failing(never).await, SearchError::Rejected { .. }), "{engine:?} {never}");
        }
        for broken in ["malformed", "huge", "status-302"] {
            let error = failing(broken).await;
            let unusable = matches!(error, SearchError::Unavailable { retry_after: None, .. });
            assert!(unusable || broken == "status-302", "{engine:?} {error:?}");
        }
    }
    let nowhere = SearchConfig { searxng: Some("http://127.0.0.1:9".to_owned()), ..SearchConfig::default() };
    let error = SearchClient::new(nowhere)
        .expect("it holds")
        .search_web(&text_query("x"))
        .await
        .expect_err("nobody is there");
    assert!(matches!(error, SearchError::Unavailable { .. }), "{error:?}");
    assert!(!error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn search_web_times_out_stalled_engine() {
    let standin = start_fake_vendors().await;
    let search = new_search(&standin, Some(SearchEngine::Searxng));
    let error = search.search_web(&text_query("stall")).await.expect_err("timeout");
    assert_eq!(error.to_string(), "the search engine is not available: timeout");
}

#[tokio::test]
async fn search_web_redacts_wrong_key() {
    let standin = start_fake_vendors().await;
    for (brave, tavily) in
        [(keyed_engine(&standin, "brave", "wrong"), None), (None, keyed_engine(&standin, "tavily", "wrong"))]
    {
        let search =
            SearchClient::new(SearchConfig { brave, tavily, ..SearchConfig::default() }).expect("it holds");
        let error = search.search_web(&text_query("x")).await.expect_err("refused");
        assert!(matches!(error, SearchError::Rejected { .. }), "{error:?}");
        assert!(error.to_string().contains("invalid") && !error.to_string().contains("wrong"), "{error}");
    }
    let odd = SearchConfig { brave: keyed_engine(&standin, "brave", "a\nb"), ..SearchConfig::default() };
    assert!(SearchClient::new(odd).is_err());
}

#[tokio::test]
async fn search_web_falls_back_and_pauses() {
    let standin = start_fake_vendors().await;
    let config = SearchConfig {
        searxng: Some("http://127.0.0.1:9".to_owned()),
        brave: keyed_engine(&standin, "brave", "wrong"),
        tavily: keyed_engine(&standin, "tavily", "tavily-key"),
        only: None,
    };
    let all = SearchClient::new(config).expect("it holds");
    assert_eq!(all.search_web(&text_query("x")).await.map(|found| found.len()), Ok(3));
    let servers: Vec<&str> = standin.web_requests().iter().map(|asked| asked.server).collect();
    assert_eq!(servers, ["brave", "tavily"]);

    let one = new_search(&standin, Some(SearchEngine::Searxng));
    one.search_web(&text_query("status-429")).await.expect_err("it is tired");
    let before = standin.web_requests().len();
    let error = one.search_web(&text_query("x")).await.expect_err("it rests");
    assert!(matches!(error, SearchError::Unavailable { retry_after: Some(_), .. }), "{error:?}");
    assert_eq!(standin.web_requests().len(), before, "it was not asked");
}

#[tokio::test]
async fn without_an_engine_nothing_is_searched() {
    let none = SearchClient::new(SearchConfig::default()).expect("it holds");
    assert!(!none.is_configured());
    assert_eq!(none.search_web(&text_query("x")).await, Err(SearchError::NotConfigured));
    let chosen = SearchConfig { only: Some(SearchEngine::Brave), ..SearchConfig::default() };
    assert_eq!(
        SearchClient::new(chosen).expect_err("refused").to_string(),
        "brave is selected but not configured: set its URL or key"
    );
}
