//! Finds the pages of the web application by following its links.

use std::collections::{BTreeSet, VecDeque};

/// The maximum number of pages that are requested.
const REQUESTS_MAX: usize = 500;

/// Returns the pages that links lead to from `seeds`, one of each kind, the seeds first. Pages are of one kind if they differ only in
/// identifiers, in the path of a file, or in the values of the query.
///
/// `fetch` returns the HTML of a page, or `None` if it is no page of the application.
///
/// # Panics
/// Panics if the links do not end.
pub fn crawl_pages(seeds: &[&str], fetch: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut queue: VecDeque<String> = seeds.iter().map(|path| (*path).to_owned()).collect();
    let mut seen = BTreeSet::new();
    let mut pages = Vec::new();
    while let Some(path) = queue.pop_front() {
        if !seen.insert(page_kind(&path)) {
            continue;
        }
        assert!(seen.len() <= REQUESTS_MAX, "too many kinds of pages: {seen:?}");
        if let Some(html) = fetch(&path) {
            queue.extend(page_links(&path, &html));
            pages.push(path);
        }
    }
    pages
}

/// Returns the page's address without what distinguishes pages of one kind.
fn page_kind(address: &str) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let path = if path.starts_with("/files/") { "/files/…" } else { path };
    let segments = path.split('/').map(|segment| if is_identifier(segment) { "…" } else { segment });
    let names: BTreeSet<_> = query.split('&').filter_map(|pair| pair.split('=').next()).collect();
    format!("{}?{}", segments.collect::<Vec<_>>().join("/"), names.into_iter().collect::<Vec<_>>().join("&"))
}

fn is_identifier(segment: &str) -> bool {
    segment.len() == 36 && segment.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Returns the addresses within the service that the links of a page lead to, without downloads.
fn page_links(page: &str, html: &str) -> Vec<String> {
    let tags = html.split("<a ").skip(1).filter_map(|rest| rest.split('>').next());
    let addresses = tags
        .filter(|tag| !tag.split_whitespace().any(|word| word == "download"))
        .filter_map(|tag| tag.split("href=\"").nth(1)?.split('"').next());
    let path = page.split('?').next().unwrap_or_default();
    let own = addresses.filter_map(|address| {
        let address = address.replace("&amp;", "&").replace("&#38;", "&");
        let address = address.split('#').next().unwrap_or_default();
        match address.bytes().next()? {
            b'/' if !address.starts_with("//") => Some(address.to_owned()),
            b'?' => Some(format!("{path}{address}")),
            _ => None,
        }
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crawl_follows_links_to_each_kind_once() {
        let one = "/c/0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d";
        let other = "/c/0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7e";
        let fetch = |path: &str| match path {
            "/" => Some(format!(
                "<a href=\"{one}\">1</a><a class=\"x\" href=\"{other}\">2</a><a href=\"/f.csv\" download>3</a>\
                 <a href=\"https://example.org\">4</a><a href=\"#main\">5</a><a href=\"/picture\">6</a>"
            )),
            _ if path == one => Some("<a href=\"?a=1&amp;b=2#x\">7</a><a\n>".to_owned()),
            _ if path.starts_with(one) => Some("<a href=\"?b=3&amp;a=4\">8</a>".to_owned()),
            "/picture" => None,
            _ => panic!("{path} is not followed"),
        };
        assert_eq!(crawl_pages(&["/"], fetch), ["/", one, &format!("{one}?a=1&b=2")]);
    }
}
