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

fn fetcher(hosts: &[String], look_up: DnsLookup) -> Fetcher {
    let private_hosts = hosts.iter().map(|host| host.parse().expect("a host")).collect();
    Fetcher::with_look_up(FetchConfig { enabled: true, private_hosts }, look_up).expect("it holds")
}

/// A site at a private address, and a fetcher whose operator named it.
async fn site() -> (test_support::Handle, Fetcher) {
    let standin = test_support::start().await.expect("a port");
    let host = standin.web_url("").trim_start_matches("http://").to_owned();
    (standin, fetcher(&[host], guard::system()))
}

/// Fetches a URL from the user's own words.
async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Fetched, FetchError> {
    let mut allowed = UrlAllowlist::new();
    allowed.add_words(url);
    fetcher.fetch(url, 0, &allowed).await
}

async fn page(fetcher: &Fetcher, url: &str) -> Page {
    match fetch(fetcher, url).await {
        Ok(Fetched::Page(page)) => page,
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test]
async fn a_page_comes_as_passages_with_its_links() {
    let (standin, fetcher) = site().await;
    let url = standin.web_url("/site/notice");
    let page = page(&fetcher, &url).await;
    assert_eq!((page.url.as_str(), page.title.as_str()), (url.as_str(), "Notice & terms"));
    let place = domain::citation::Place::Web { url: url.clone(), title: "Notice & terms".to_owned() };
    assert_eq!(page.passages.len(), 1);
    assert_eq!(page.passages[0].place, place);
    assert!(page.passages[0].text.starts_with("# Notice\n") && !page.passages[0].text.contains("Menu"));
    assert_eq!(page.links[0].url.as_str(), standin.web_url("/site/act"));
    assert_eq!(page.next_passage, None);
    let mut allowed = UrlAllowlist::new();
    Fetched::Page(page).add_to(&mut allowed);
    assert!(fetcher.fetch(&standin.web_url("/site/act"), 0, &allowed).await.is_ok());
    let request = &standin.web_requests()[0];
    assert_eq!(request.header("user-agent"), Some(crate::USER_AGENT));
    for absent in ["cookie", "referer", "authorization"] {
        assert_eq!(request.header(absent), None);
    }
}

#[tokio::test]
async fn an_address_that_nobody_gave_is_not_asked() {
    let (standin, fetcher) = site().await;
    let mut allowed = UrlAllowlist::new();
    allowed.add_words(&format!("Read {}", standin.web_url("/site/notice")));
    let other = standin.web_url("/site/notice?secret=word");
    assert_eq!(fetcher.fetch(&other, 0, &allowed).await, Err(FetchError::NotAllowed));
    for none in ["", "notice", "file:///etc/passwd", "ftp://example.org/", "http://u:p@example.org/"] {
        assert_eq!(fetch(&fetcher, none).await, Err(FetchError::NotAnAddress), "{none}");
    }
    let off = Fetcher::new(FetchConfig { enabled: false, ..FetchConfig::default() }).expect("it holds");
    assert_eq!(fetch(&off, &standin.web_url("/site/notice")).await, Err(FetchError::Disabled));
    assert!(standin.web_requests().is_empty());
}

#[tokio::test]
async fn private_hosts_are_not_asked_however_they_are_reached() {
    let standin = test_support::start().await.expect("a port");
    let port = standin.web_url("").rsplit(':').next().expect("a port").to_owned();
    // No operator allowed it: rejected by its spelling, regardless of the port.
    let nobody = fetcher(&[], guard::system());
    for host in
        ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"]
    {
        let url = format!("http://{host}/site/notice");
        assert_eq!(fetch(&nobody, &url).await, Err(FetchError::Guarded), "{url}");
        let url = format!("http://{host}:{port}/site/notice");
        assert_eq!(fetch(&nobody, &url).await, Err(FetchError::Guarded), "{url}");
    }
    // A public name that resolves to a private address.
    const PRIVATE: &[&[&[&str]]] =
        &[&[&["127.0.0.1"]], &[&["10.0.0.1", "::1", "fe80::1"]], &[&["64:ff9b::7f00:1"]], &[&[]]];
    for private in PRIVATE {
        let (look_up, count) = lookup_returning(private);
        let fetcher = fetcher(&[], look_up);
        assert_eq!(fetch(&fetcher, "http://rebound.example/").await, Err(FetchError::Guarded), "{private:?}");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
    assert!(standin.web_requests().is_empty());
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_its_private_addresses_are_not_tried() {
    // The second look-up would give what the first one hid: there is none. Nothing listens at 203.0.113.1, but a
    // connection to 127.0.0.1 would be answered by the site.
    let standin = test_support::start().await.expect("a port");
    let port = standin.web_url("").rsplit(':').next().expect("a port").to_owned();
    let (look_up, count) = lookup_returning(&[&["127.0.0.1", "::1"], &["127.0.0.1"]]);
    let resolver = Resolver { hosts: Arc::default(), look_up };
    let client = connections::builder().dns_resolver(resolver).build().expect("a client");
    let error =
        client.get(format!("http://rebound.example:{port}/site/notice")).send().await.expect_err("guarded");
    assert!(is_guarded(&error), "{error:?}");
    assert_eq!((count.load(Ordering::SeqCst), standin.web_requests().len()), (1, 0));
    // A host that the operator named may be private.
    let (look_up, _) = lookup_returning(&[&["127.0.0.1"]]);
    let named = fetcher(&[format!("wiki.example:{port}")], look_up);
    assert!(fetch(&named, &format!("http://wiki.example:{port}/site/notice")).await.is_ok());
    assert_eq!(
        fetch(&named, &format!("http://other.example:{port}/site/notice")).await,
        Err(FetchError::Guarded)
    );
}

#[tokio::test]
async fn each_place_that_an_address_leads_to_is_looked_at() {
    let (standin, fetcher) = site().await;
    let reached = page(&fetcher, &standin.web_url("/site/redirect/5")).await;
    assert_eq!(reached.url.as_str(), standin.web_url("/site/notice"));
    assert_eq!(fetch(&fetcher, &standin.web_url("/site/redirect/6")).await, Err(FetchError::Redirects));
    assert_eq!(
        fetch(&fetcher, &standin.web_url("/site/status/302")).await,
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
        assert_eq!(fetch(&fetcher, &url).await, Err(error), "{target}");
    }
    assert_eq!(standin.web_requests().len(), before + 7, "each led nowhere");
}

#[tokio::test]
async fn bodies_are_bounded_as_they_come_and_unpacked() {
    let (standin, fetcher) = site().await;
    for path in ["/site/huge", "/site/long", "/site/bomb"] {
        assert_eq!(fetch(&fetcher, &standin.web_url(path)).await, Err(FetchError::TooLarge), "{path}");
    }
    assert!(page(&fetcher, &standin.web_url("/site/gzip")).await.passages[0].text.contains("packed"));
    let cut = fetch(&fetcher, &standin.web_url("/site/cut")).await;
    assert!(matches!(cut, Err(FetchError::Unavailable { .. })), "{cut:?}");
    let titled = page(&fetcher, &standin.web_url("/site/title")).await;
    assert!(titled.title.len() <= TITLE_MAX_BYTES && titled.passages.len() <= PASSAGES_MAX);
}

#[tokio::test]
async fn what_is_no_page_is_distinguished() {
    let (standin, fetcher) = site().await;
    match fetch(&fetcher, &standin.web_url("/site/document")).await {
        Ok(Fetched::Document(document)) => {
            assert_eq!(document.kind, DocumentKind::Pdf);
            assert!(document.bytes.starts_with(b"%PDF-"));
        }
        other => panic!("{other:?}"),
    }
    let image = fetch(&fetcher, &standin.web_url("/site/image")).await;
    assert_eq!(image, Err(FetchError::Unsupported { mime: "image/png".to_owned() }));
    let missing = fetch(&fetcher, &standin.web_url("/site/status/404")).await;
    assert_eq!(missing, Err(FetchError::Refused { status: 404 }));
    for status in [429, 500, 503] {
        let error = fetch(&fetcher, &standin.web_url(&format!("/site/status/{status}"))).await;
        let wait = Some(Duration::from_secs(7));
        assert!(
            matches!(error, Err(FetchError::Unavailable { retry_after, .. }) if retry_after == wait),
            "{error:?}"
        );
    }
    let act = page(&fetcher, &standin.web_url("/site/act")).await;
    assert!(act.passages[0].text.starts_with("§ 1"), "a plain text is its lines");
}

#[tokio::test(start_paused = true)]
async fn a_site_that_never_answers_is_given_up() {
    let (standin, fetcher) = site().await;
    let error = fetch(&fetcher, &standin.web_url("/site/stall")).await.expect_err("timeout");
    assert_eq!(error.to_string(), "the page is not available: timeout");
}

#[tokio::test]
async fn only_so_many_fetches_are_made_at_once() {
    let (standin, fetcher) = site().await;
    let stalled = || {
        let (fetcher, url) = (fetcher.clone(), standin.web_url("/site/stall"));
        tokio::spawn(async move { fetch(&fetcher, &url).await })
    };
    let running: Vec<_> = (0..AT_ONCE_MAX).map(|_| stalled()).collect();
    standin.until_web(|asked| asked.len() == AT_ONCE_MAX).await;
    let (later, url) = (fetcher.clone(), standin.web_url("/site/notice"));
    let waiting = tokio::spawn(async move { fetch(&later, &url).await });
    assert!(fetcher.at_once.try_acquire().is_err());
    running.into_iter().for_each(|one| one.abort());
    assert!(waiting.await.expect("it ends").is_ok(), "whoever is dropped makes room");
}
