//! Tests that the page is complete, runs its own script alone and loads nothing else.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use futures_util::FutureExt;

use super::super::{build_interface, serve_reference_page};
use super::samples::{LANGUAGES, find_sample};
use super::{SCRIPT, STYLE, render_page};

/// Returns the values of an attribute.
fn attribute_values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    html.split(begin.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn page_links_all_resolve() {
    let document = build_interface();
    let page = render_page(&document);
    let ids = attribute_values(&page, "id");
    let known: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), known.len(), "{ids:?}");
    for link in attribute_values(&page, "href") {
        let inside = link.strip_prefix('#').is_some_and(|id| known.contains(id));
        assert!(inside || ["/openapi.yaml", "/openapi.json"].contains(&link), "{link} leads nowhere");
    }
    let mut operations = 0;
    for item in document.paths.paths.values() {
        for operation in [&item.get, &item.post, &item.put, &item.patch, &item.delete].into_iter().flatten() {
            assert!(known.contains(operation.operation_id.as_deref().unwrap()));
            operations += 1;
        }
    }
    assert!(operations >= 20, "{operations}");
    for name in document.components.unwrap().schemas.keys() {
        assert!(known.contains(format!("schema-{name}").as_str()), "{name}");
    }
}

#[test]
fn page_loads_only_own_script() {
    let page = render_page(&build_interface());
    let own = "<script src=\"/docs/page.js\" defer></script>";
    assert_eq!(page.matches(own).count(), 1);
    let rest = page.replace(own, "");
    for word in [
        "<script",
        "<img",
        "<link",
        "<iframe",
        "<object",
        " src=",
        " style=",
        "http-equiv",
        "@import",
        " onclick=",
        " onload=",
        " onerror=",
        " onsubmit=",
    ] {
        assert!(!rest.contains(word), "{word}");
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains('<'));
}

#[test]
fn page_script_avoids_html_and_keys() {
    for word in [
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "cookie",
        "sessionStorage",
        "http:",
    ] {
        assert!(!SCRIPT.contains(word), "{word}");
    }
    let kept = SCRIPT.split("setting.set(").skip(1).filter_map(|rest| rest.split([',', ')']).next());
    assert_eq!(kept.collect::<Vec<_>>(), ["\"language\"", "\"theme\""]);
    assert_eq!(SCRIPT.matches("localStorage").count(), 2);
}

#[test]
fn page_operations_have_samples_and_form() {
    let document = build_interface();
    let page = render_page(&document);
    let operations = crate::operations::OPERATIONS.len();
    for language in ["curl", "python", "typescript"] {
        let shown = page.matches(&format!("data-panel=\"{language}\"")).count();
        assert_eq!(
            shown,
            operations + 8,
            "{language}: each operation's, the seven guides', and the overview's"
        );
    }
    for operation in &crate::operations::OPERATIONS {
        for (language, _) in LANGUAGES {
            assert!(
                find_sample(operation.id, language).is_some_and(|code| !code.is_empty()),
                "{}",
                operation.id
            );
        }
    }
    assert_eq!(page.matches("<form class=\"try\"").count(), operations);
}

#[test]
fn elements_are_closed_in_order() {
    let page = render_page(&build_interface());
    let mut open = Vec::new();
    for tag in page.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let name = tag.split(' ').next().unwrap();
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "near <{tag}>"),
            None if ["!DOCTYPE", "meta", "br", "input"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn content_security_policy_matches_style() {
    let asked = |tag: Option<&HeaderValue>| {
        let known = tag.map(|tag| (header::IF_NONE_MATCH, tag.clone()));
        serve_reference_page(known.into_iter().collect::<HeaderMap>()).now_or_never().unwrap()
    };
    let first = asked(None);
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(first.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(first.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    let policy = first.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("script-src 'self';"), "{policy}");
    assert_eq!(asked(Some(&first.headers()[header::ETAG])).status(), StatusCode::NOT_MODIFIED);
}
