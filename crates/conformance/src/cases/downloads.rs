//! Section 4.3: range requests, conditional requests and HEAD.

use super::Case;
use crate::api::{Api, Expect, uploaded_path};
use crate::http::HttpResponse;

pub(super) const CASES: &[Case] = cases![
    Key:
    ranges_are_answered_as_the_standard_says,
    a_range_of_another_file_is_the_whole_file,
    conditions_are_read_as_lists_and_times,
    a_head_tells_what_a_get_would;
    Room:
    a_large_file_comes_back_as_it_went;
];

const DIGITS: &[u8] = b"0123456789";
/// Larger than any buffer on the way, and not a multiple of one.
const LARGE_BYTES: u64 = 64 * 1024 * 1024 + 17;

fn get_with_headers(api: &Api, target: &str, headers: &[(&str, &str)]) -> HttpResponse {
    let request = headers
        .iter()
        .fold(api.new_request("GET", target), |request, (name, value)| request.with_header(name, value));
    request.send(&api.address)
}

fn ranges_are_answered_as_the_standard_says(api: &Api) {
    let target = format!("/api/v1/files{}", uploaded_path(api.upload_file("d.txt", DIGITS)));
    for (range, status, bytes, content_range) in [
        ("bytes=0-0", 206, "0", Some("bytes 0-0/10")),
        ("bytes=0-9", 206, "0123456789", Some("bytes 0-9/10")),
        ("bytes=9-", 206, "9", Some("bytes 9-9/10")),
        ("bytes=-1", 206, "9", Some("bytes 9-9/10")),
        ("bytes=-10", 206, "0123456789", Some("bytes 0-9/10")),
        ("bytes=-99", 206, "0123456789", Some("bytes 0-9/10")),
        ("bytes=3-99999999999999999999999999", 206, "3456789", Some("bytes 3-9/10")),
        ("BYTES=3-4", 206, "34", Some("bytes 3-4/10")),
        // Several ranges, and invalid ones: the whole file.
        ("bytes=0-1,4-5", 200, "0123456789", None),
        ("bytes=0-1, 0-1, 0-1", 200, "0123456789", None),
        ("bytes=5-3", 200, "0123456789", None),
        ("bytes=-", 200, "0123456789", None),
        ("bytes=a-b", 200, "0123456789", None),
        ("bytes=+1-2", 200, "0123456789", None),
        ("lines=0-1", 200, "0123456789", None),
        ("bytes", 200, "0123456789", None),
        ("", 200, "0123456789", None),
    ] {
        let response = get_with_headers(api, &target, &[("range", range)]).expect_status(status);
        assert_eq!(
            (response.text().as_str(), response.header("content-range")),
            (bytes, content_range),
            "{range:?}"
        );
        assert_eq!(response.header("content-length"), Some(bytes.len().to_string().as_str()), "{range:?}");
        assert_eq!(response.header("accept-ranges"), Some("bytes"));
    }
    for beyond in ["bytes=10-", "bytes=10-20", "bytes=99999999999999999999999-", "bytes=-0"] {
        let response = get_with_headers(api, &target, &[("range", beyond)]);
        assert_eq!(response.header("content-range"), Some("bytes */10"), "{beyond}");
        response.expect_code(416, "RANGE_NOT_SATISFIABLE");
    }
}

fn a_range_of_another_file_is_the_whole_file(api: &Api) {
    let target = format!("/api/v1/files{}", uploaded_path(api.upload_file("d.txt", DIGITS)));
    let first = api.call_endpoint("HEAD", &target).expect_status(200);
    let (tag, time) = (first.header("etag").expect("a tag"), first.header("last-modified").expect("a time"));
    let part =
        |condition: &str| get_with_headers(api, &target, &[("range", "bytes=1-2"), ("if-range", condition)]);
    assert_eq!(part(tag).expect_status(206).text(), "12");
    // A file may change twice within the second of its time.
    for other in ["\"another\"", &format!("W/{tag}"), time, "Sat, 01 Jan 2000 00:00:00 GMT", "nonsense", ""] {
        assert_eq!(part(other).expect_status(200).body, DIGITS, "{other:?}");
    }
    uploaded_path(api.upload_file("d.txt", b"abcdefghij"));
    assert_eq!(part(tag).expect_status(200).text(), "abcdefghij", "parts of two files are not mixed");
}

fn conditions_are_read_as_lists_and_times(api: &Api) {
    let target = format!("/api/v1/files{}", uploaded_path(api.upload_file("d.txt", DIGITS)));
    let first = get_with_headers(api, &target, &[]).expect_status(200);
    let tag = first.header("etag").expect("a tag").to_owned();
    let time = first.header("last-modified").expect("a time").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "a strong tag: {tag}");
    for known in [tag.clone(), format!("\"x\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
        let response = get_with_headers(api, &target, &[("if-none-match", &known)]).expect_status(304);
        assert!(response.body.is_empty() && response.header("etag") == Some(&tag), "{known}");
    }
    get_with_headers(api, &target, &[("if-modified-since", &time)]).expect_status(304);
    for headers in [
        &[("if-none-match", "\"x\"")][..],
        &[("if-modified-since", "Sat, 01 Jan 2000 00:00:00 GMT")],
        &[("if-modified-since", "nonsense")],
        // `If-None-Match` takes precedence over `If-Modified-Since`.
        &[("if-none-match", "\"x\""), ("if-modified-since", &time)],
    ] {
        get_with_headers(api, &target, headers).expect_status(200);
    }
}

fn a_head_tells_what_a_get_would(api: &Api) {
    let path = uploaded_path(api.upload_file("d.pdf", DIGITS));
    let target = format!("/api/v1/files{path}");
    let (head, whole) =
        (api.call_endpoint("HEAD", &target).expect_status(200), api.call_endpoint("GET", &target));
    assert!(head.body.is_empty());
    for name in
        ["content-type", "content-length", "content-disposition", "etag", "last-modified", "accept-ranges"]
    {
        assert_eq!(head.header(name), whole.header(name), "{name}");
        assert!(head.header(name).is_some(), "{name}");
    }
    for target in ["/api/v1/vm", "/api/v1/models", "/api/v1/directories", "/api/v1/chats"] {
        let (head, whole) = (api.call_endpoint("HEAD", target), api.call_endpoint("GET", target));
        assert_eq!((head.status, head.body.len()), (whole.status, 0), "{target}");
        assert_eq!(head.header("content-type"), whole.header("content-type"), "{target}");
    }
    assert_eq!(api.call_endpoint("HEAD", "/api/v1/files/none.txt").status, 404);
}

fn a_large_file_comes_back_as_it_went(api: &Api) {
    crate::large::check_large_file_round_trip(api, LARGE_BYTES);
}
