//! The search against engines that speak their formats to the letter.

use std::time::Duration;

use egress::{Engine, KeyedEngine, Query, Search, SearchConfig, SearchError, Secret};

async fn standin() -> test_support::Handle {
    test_support::start().await.expect("a port")
}

fn keyed(standin: &test_support::Handle, engine: &str, key: &str) -> Option<KeyedEngine> {
    Some(KeyedEngine { key: Secret::new(key), base_url: Some(standin.web_url(&format!("/{engine}"))) })
}

/// All three engines, or one of them.
fn search(standin: &test_support::Handle, only: Option<Engine>) -> Search {
    let config = SearchConfig {
        searxng: Some(standin.web_url("/searxng/")),
        brave: keyed(standin, "brave", "brave-key"),
        tavily: keyed(standin, "tavily", "tavily-key"),
        only,
    };
    Search::new(config).expect("it holds")
}

fn query(text: &str) -> Query {
    Query { text: text.to_owned(), count: 10, ..Query::default() }
}

const ENGINES: [Engine; 3] = [Engine::Searxng, Engine::Brave, Engine::Tavily];

#[tokio::test]
async fn every_engine_gives_the_same_pages_as_plain_text() {
    let standin = standin().await;
    for engine in ENGINES {
        let found = search(&standin, Some(engine)).search(&query("notice period")).await.expect("pages");
        let titles: Vec<&str> = found.iter().map(|page| page.title.as_str()).collect();
        assert_eq!(titles, ["Notice periods", "The lease act", "Elsewhere"], "{engine:?}");
        assert_eq!(found[0].snippet, "This page tells of notice & terms.", "{engine:?}");
        assert_eq!(found[2].url.as_str(), "https://elsewhere.example/a?b=c");
        let nothing = search(&standin, Some(engine)).search(&query("nothing")).await;
        assert_eq!(nothing, Ok(Vec::new()), "{engine:?}");
    }
}

#[tokio::test]
async fn keys_stand_in_headers_and_hints_where_they_are_known() {
    let standin = standin().await;
    let asked = Query {
        text: "nájem".to_owned(),
        count: 3,
        language: Some("cs".to_owned()),
        country: Some("CZ".to_owned()),
    };
    for engine in ENGINES {
        search(&standin, Some(engine)).search(&asked).await.expect("pages");
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
    assert!(!format!("{:?}", search(&standin, None)).contains("-key"), "no secret is shown");
}

#[tokio::test]
async fn what_is_asked_and_what_comes_back_is_bounded() {
    let standin = standin().await;
    for engine in ENGINES {
        let search = search(&standin, Some(engine));
        let long = Query { text: "word ".repeat(10_000), count: 1000, ..Query::default() };
        assert!(search.search(&long).await.is_ok(), "{engine:?}");
        let letters = Query { text: "č".repeat(10_000), count: 0, ..Query::default() };
        assert_eq!(search.search(&letters).await.map(|found| found.len()), Ok(1), "{engine:?}");
        for empty in ["", " \n\u{200b}\u{0} "] {
            assert_eq!(search.search(&query(empty)).await, Err(SearchError::EmptyQuery));
        }
        let found = search.search(&query("odd")).await.expect("pages");
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
async fn failures_tell_what_to_do_about_them() {
    let standin = standin().await;
    for engine in ENGINES {
        let failing = |text: &'static str| {
            let search = search(&standin, Some(engine));
            async move { search.search(&query(text)).await.expect_err("it fails") }
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
    let error =
        Search::new(nowhere).expect("it holds").search(&query("x")).await.expect_err("nobody is there");
    assert!(matches!(error, SearchError::Unavailable { .. }), "{error:?}");
    assert!(!error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_never_answers_is_given_up() {
    let standin = standin().await;
    let search = search(&standin, Some(Engine::Searxng));
    let error = search.search(&query("stall")).await.expect_err("timeout");
    assert_eq!(error.to_string(), "the search engine is not available: timeout");
}

#[tokio::test]
async fn a_wrong_key_is_reported_and_not_shown() {
    let standin = standin().await;
    for (brave, tavily) in
        [(keyed(&standin, "brave", "wrong"), None), (None, keyed(&standin, "tavily", "wrong"))]
    {
        let search =
            Search::new(SearchConfig { brave, tavily, ..SearchConfig::default() }).expect("it holds");
        let error = search.search(&query("x")).await.expect_err("refused");
        assert!(matches!(error, SearchError::Rejected { .. }), "{error:?}");
        assert!(error.to_string().contains("invalid") && !error.to_string().contains("wrong"), "{error}");
    }
    let odd = SearchConfig { brave: keyed(&standin, "brave", "a\nb"), ..SearchConfig::default() };
    assert!(Search::new(odd).is_err());
}

#[tokio::test]
async fn the_next_engine_is_asked_when_one_fails_and_that_one_rests() {
    let standin = standin().await;
    let config = SearchConfig {
        searxng: Some("http://127.0.0.1:9".to_owned()),
        brave: keyed(&standin, "brave", "wrong"),
        tavily: keyed(&standin, "tavily", "tavily-key"),
        only: None,
    };
    let all = Search::new(config).expect("it holds");
    assert_eq!(all.search(&query("x")).await.map(|found| found.len()), Ok(3));
    let servers: Vec<&str> = standin.web_requests().iter().map(|asked| asked.server).collect();
    assert_eq!(servers, ["brave", "tavily"]);

    let one = search(&standin, Some(Engine::Searxng));
    one.search(&query("status-429")).await.expect_err("it is tired");
    let before = standin.web_requests().len();
    let error = one.search(&query("x")).await.expect_err("it rests");
    assert!(matches!(error, SearchError::Unavailable { retry_after: Some(_), .. }), "{error:?}");
    assert_eq!(standin.web_requests().len(), before, "it was not asked");
}

#[tokio::test]
async fn without_an_engine_nothing_is_searched() {
    let none = Search::new(SearchConfig::default()).expect("it holds");
    assert!(!none.is_configured());
    assert_eq!(none.search(&query("x")).await, Err(SearchError::NotConfigured));
    let chosen = SearchConfig { only: Some(Engine::Brave), ..SearchConfig::default() };
    assert_eq!(Search::new(chosen).expect_err("refused").to_string(), "brave is selected but not configured");
}
