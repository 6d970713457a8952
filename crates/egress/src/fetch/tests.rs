//! Tests the fetcher against a hostile site.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::TITLE_MAX_BYTES;

/// A lookup that returns these lists one after the other, and counts calls.
fn lookup_returning(lists: &'static [&'static [&'static str]]) -> (DnsLookup, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let look_up: DnsLookup = Arc::new(move |_| {
        let list = lists[counted.fetch_add(1, Ordering::SeqCst) % lists.len()];
        Box::pin(async move { Ok(list.iter().map(|address| address.parse().expect("an address")).collect()) })
    });
    (look_up, count)
}

fn new_fetcher(hosts: &[String], look_up: DnsLookup) -> Fetcher {
    let private_hosts = hosts.iter().map(|host| host.parse().expect("a host")).collect();
    Fetcher::with_look_up(FetchConfig { enabled: true, private_hosts }, look_up).expect("it holds")
}

/// A site at a private address, and a fetcher whose operator named it.
async fn start_site() -> (test_support::FakeVendorHandle, Fetcher) {
    let standin = test_support::start_server().await.expect("a port");
    let host = standin.web_url("").trim_start_matches("http://").to_owned();
    (standin, new_fetcher(&[host], guard::system_lookup()))
}

/// Fetches a URL from the user's own words.
async fn fetch_allowed(fetcher: &Fetcher, url: &str) -> Result<Fetched, FetchError> {
    let mut allowed = UrlAllowlist::new();
    allowed.add_words(url);
    fetcher.fetch_url(url, 0, &allowed).await
}

async fn fetch_page(fetcher: &Fetcher, url: &str) -> WebPage {
    match fetch_allowed(fetcher, url).await {
        Ok(Fetched::Page(page)) => page,
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test]
async fn fetch_url_returns_passages_and_links() {
    let (standin, fetcher) = start_site().await;
    let url = standin.web_url("/site/notice");
    let page = fetch_page(&fetcher, &url).await;
    assert_eq!((page.url.as_str(), page.title.as_str()), (url.as_str(), "Notice & terms"));
    let place = domain::citation::PassagePlace::Web { url: url.clone(), title: "Notice & terms".to_owned() };
    assert_eq!(page.passages.len(), 1);
    assert_eq!(page.passages[0].place, place);
    assert!(page.passages[0].text.starts_with("# Notice\n") && !page.passages[0].text.contains("Menu"));
    assert_eq!(page.links[0].url.as_str(), standin.web_url("/site/act"));
    assert_eq!(page.next_passage, None);
    let mut allowed = UrlAllowlist::new();
    Fetched::Page(page).add_to(&mut allowed);
    assert!(fetcher.fetch_url(&standin.web_url("/site/act"), 0, &allowed).await.is_ok());
    let request = &standin.web_requests()[0];
    assert_eq!(request.header("user-agent"), Some(crate::USER_AGENT));
    for absent in ["cookie", "referer", "authorization"] {
        assert_eq!(request.header(absent), None);
    }
}

#[tokio::test]
async fn fetch_url_rejects_unlisted_address() {
    let (standin, fetcher) = start_site().await;
    let mut allowed = UrlAllowlist::new();
    allowed.add_words(&format!("Read {}", standin.web_url("/site/notice")));
    let other = standin.web_url("/site/notice?secret=word");
    assert_eq!(fetcher.fetch_url(&other, 0, &allowed).await, Err(FetchError::NotAllowed));
    for none in ["", "notice", "file:///etc/passwd", "ftp://example.org/", "http://u:p@example.org/"] {
        assert_eq!(fetch_allowed(&fetcher, none).await, Err(FetchError::NotAnAddress), "{none}");
    }
    let off = Fetcher::new(FetchConfig { enabled: false, ..FetchConfig::default() }).expect("it holds");
    assert_eq!(fetch_allowed(&off, &standin.web_url("/site/notice")).await, Err(FetchError::Disabled));
    assert!(standin.web_requests().is_empty());
}

#[tokio::test]
async fn fetch_url_rejects_private_hosts() {
    let standin = test_support::start_server().await.expect("a port");
    let port = standin.web_url("").rsplit(':').next().expect("a port").to_owned();
    // No operator allowed it: rejected by its spelling, regardless of the port.
    let nobody = new_fetcher(&[], guard::system_lookup());
    for host in
        ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"]
    {
        let url = format!("http://{host}/site/notice");
        assert_eq!(fetch_allowed(&nobody, &url).await, Err(FetchError::Guarded), "{url}");
        let url = format!("http://{host}:{port}/site/notice");
        assert_eq!(fetch_allowed(&nobody, &url).await, Err(FetchError::Guarded), "{url}");
    }
    // A public name that resolves to a private address.
    const PRIVATE: &[&[&[&str]]] =
        &[&[&["127.0.0.1"]], &[&["10.0.0.1", "::1", "fe80::1"]], &[&["64:ff9b::7f00:1"]], &[&[]]];
    for private in PRIVATE {
        let (look_up, count) = lookup_returning(private);
        let fetcher = new_fetcher(&[], look_up);
        assert_eq!(
            fetch_allowed(&fetcher, "http://rebound.example/").await,
            Err(FetchError::Guarded),
            "{private:?}"
        );
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
    assert!(standin.web_requests().is_empty());
}

#[tokio::test]
async fn fetch_url_resolves_name_once() {
    // A second look-up would return the hidden address, but none is made. Nothing listens at 203.0.113.1, while
    // the site would answer a connection to 127.0.0.1.
    let standin = test_support::start_server().await.expect("a port");
    let port = standin.web_url("").rsplit(':').next().expect("a port").to_owned();
    let (look_up, count) = lookup_returning(&[&["127.0.0.1", "::1"], &["127.0.0.1"]]);
    let resolver = Resolver { hosts: Arc::default(), look_up };
    let client = connections::client_builder().dns_resolver(resolver).build().expect("a client");
    let error =
        client.get(format!("http://rebound.example:{port}/site/notice")).send().await.expect_err("guarded");
    assert!(is_guarded(&error), "{error:?}");
    assert_eq!((count.load(Ordering::SeqCst), standin.web_requests().len()), (1, 0));
    // A host that the operator named may be private.
    let (look_up, _) = lookup_returning(&[&["127.0.0.1"]]);
    let named = new_fetcher(&[format!("wiki.example:{port}")], look_up);
    assert!(fetch_allowed(&named, &format!("http://wiki.example:{port}/site/notice")).await.is_ok());
    assert_eq!(
        fetch_allowed(&named, &format!("http://other.example:{port}/site/notice")).await,
        Err(FetchError::Guarded)
    );
}

#[tokio::test]
async fn fetch_url_checks_each_redirect() {
    let (standin, fetcher) = start_site().await;
    let reached = fetch_page(&fetcher, &standin.web_url("/site/redirect/5")).await;
    assert_eq!(reached.url.as_str(), standin.web_url("/site/notice"));
    assert_eq!(
        fetch_allowed(&fetcher, &standin.web_url("/site/redirect/6")).await,
        Err(FetchError::Redirects)
    );
    assert_eq!(
        fetch_allowed(&fetcher, &standin.web_url("/site/status/302")).await,
        Err(FetchError::Redirects),
        "to nowhere"
    );
    let before = standin.web_requests().len();
    let port = standin.web_url("").rsplit(':').next().expect("a port").to_owned();
    for (target, error) in [
        (format!("http://localhost:{port}/site/notice"), FetchError::Guarded),
        ("http://127.0.0.1/".to_owned(), FetchError::Guarded),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), FetchError::Guarded),
        ("http://[::1]/".to_owned(), FetchError::Guarded),
        ("//10.0.0.1/".to_owned(), FetchError::Guarded),
        ("file:///etc/passwd".to_owned(), FetchError::Redirects),
        ("http://user:word@example.org/".to_owned(), FetchError::Redirects),
    ] {
        let url = standin.web_url(&format!("/site/to/{target}"));
        assert_eq!(fetch_allowed(&fetcher, &url).await, Err(error), "{target}");
    }
    assert_eq!(standin.web_requests().len(), before + 7, "each led nowhere");
}

#[tokio::test]
async fn fetch_url_bounds_and_decompresses_bodies() {
    let (standin, fetcher) = start_site().await;
    for path in ["/site/huge", "/site/long", "/site/bomb"] {
        assert_eq!(
            fetch_allowed(&fetcher, &standin.web_url(path)).await,
            Err(FetchError::TooLarge),
            "{path}"
        );
    }
    assert!(fetch_page(&fetcher, &standin.web_url("/site/gzip")).await.passages[0].text.contains("packed"));
    let cut = fetch_allowed(&fetcher, &standin.web_url("/site/cut")).await;
    assert!(matches!(cut, Err(FetchError::Unavailable { .. })), "{cut:?}");
    let titled = fetch_page(&fetcher, &standin.web_url("/site/title")).await;
    assert!(titled.title.len() <= TITLE_MAX_BYTES && titled.passages.len() <= PASSAGES_MAX);
}

#[tokio::test]
async fn what_is_no_page_is_distinguished() {
    let (standin, fetcher) = start_site().await;
    match fetch_allowed(&fetcher, &standin.web_url("/site/document")).await {
        Ok(Fetched::Document(document)) => {
            assert_eq!(document.kind, DocumentKind::Pdf);
            assert!(document.bytes.starts_with(b"%PDF-"));
        }
        other => panic!("{other:?}"),
    }
    let image = fetch_allowed(&fetcher, &standin.web_url("/site/image")).await;
    assert_eq!(image, Err(FetchError::Unsupported { mime: "image/png".to_owned() }));
    let missing = fetch_allowed(&fetcher, &standin.web_url("/site/status/404")).await;
    assert_eq!(missing, Err(FetchError::Refused { status: 404 }));
    for status in [429, 500, 503] {
        let error = fetch_allowed(&fetcher, &standin.web_url(&format!("/site/status/{status}"))).await;
        let wait = Some(Duration::from_secs(7));
        assert!(
            matches!(error, Err(FetchError::Unavailable { retry_after, .. }) if retry_after == wait),
            "{error:?}"
        );
    }
    let act = fetch_page(&fetcher, &standin.web_url("/site/act")).await;
    assert!(act.passages[0].text.starts_with("§ 1"), "a plain text is its lines");
}

#[tokio::test(start_paused = true)]
async fn fetch_url_times_out_stalled_site() {
    let (standin, fetcher) = start_site().await;
    let error = fetch_allowed(&fetcher, &standin.web_url("/site/stall")).await.expect_err("timeout");
    assert_eq!(error.to_string(), "the page is not available: timeout");
}

#[tokio::test]
async fn fetch_url_bounds_concurrent_fetches() {
    let (standin, fetcher) = start_site().await;
    let stalled = || {
        let (fetcher, url) = (fetcher.clone(), standin.web_url("/site/stall"));
        tokio::spawn(async move { fetch_allowed(&fetcher, &url).await })
    };
    let running: Vec<_> = (0..AT_ONCE_MAX).map(|_| stalled()).collect();
    standin.until_web(|asked| asked.len() == AT_ONCE_MAX).await;
    let (later, url) = (fetcher.clone(), standin.web_url("/site/notice"));
    let waiting = tokio::spawn(async move { fetch_allowed(&later, &url).await });
    assert!(fetcher.at_once.try_acquire().is_err());
    running.into_iter().for_each(|one| one.abort());
    assert!(waiting.await.expect("it ends").is_ok(), "whoever is dropped makes room");
}
