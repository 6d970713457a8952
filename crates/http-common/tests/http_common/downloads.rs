//! Tests the downloads of files.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::Response;
use http_common::{RangeNotSatisfiable, download_response};

use crate::{WorkspaceFixture, asked_path, body_bytes, header_text};

async fn get_download(
    host: &WorkspaceFixture,
    method: Method,
    asked_headers: &[(&str, &str)],
) -> Result<Response, RangeNotSatisfiable> {
    let file = host.workspace.open_file(&asked_path("/smlouva č. 1.pdf")).await.unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in asked_headers {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    download_response(&file, &method, &headers)
}

async fn workspace_with_file(content: &[u8]) -> WorkspaceFixture {
    let host = WorkspaceFixture::new().await;
    host.write_file("smlouva č. 1.pdf", content);
    host
}

#[tokio::test]
async fn download_response_has_name_type_length() {
    for content in [b"0123456789".repeat(50_000), b"0123456789".to_vec(), Vec::new()] {
        let host = workspace_with_file(&content).await;
        let response = get_download(&host, Method::GET, &[]).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(header_text(&response, "content-length"), content.len().to_string());
        assert_eq!(header_text(&response, "content-type"), "application/pdf");
        assert_eq!(header_text(&response, "x-content-type-options"), "nosniff");
        assert_eq!(header_text(&response, "accept-ranges"), "bytes");
        assert_eq!(
            header_text(&response, "content-disposition"),
            "attachment; filename=\"smlouva _. 1.pdf\"; filename*=UTF-8''smlouva%20%C4%8D.%201.pdf"
        );
        assert_eq!(body_bytes(response.into_body()).await, content);

        let head = get_download(&host, Method::HEAD, &[("range", "bytes=0-1")]).await.unwrap();
        assert_eq!(head.status(), 200);
        assert_eq!(header_text(&head, "content-length"), content.len().to_string());
        assert!(body_bytes(head.into_body()).await.is_empty());
    }
}

#[tokio::test]
async fn download_response_serves_single_range_only() {
    let content: Vec<u8> = (0..700_000u32).map(|at| at as u8).collect();
    let host = workspace_with_file(&content).await;
    let part = get_download(&host, Method::GET, &[("range", "bytes=65000-600000")]).await.unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(header_text(&part, "content-range"), "bytes 65000-600000/700000");
    assert_eq!(header_text(&part, "content-length"), "535001");
    assert_eq!(body_bytes(part.into_body()).await, &content[65_000..=600_000]);
    let end = get_download(&host, Method::GET, &[("range", "bytes=-1")]).await.unwrap();
    assert_eq!(body_bytes(end.into_body()).await, &content[699_999..]);
    for whole in ["bytes=0-1,5-6", "bytes=9-3", "lines=1-2", ""] {
        let whole = get_download(&host, Method::GET, &[("range", whole)]).await.unwrap();
        assert_eq!((whole.status().as_u16(), header_text(&whole, "content-length")), (200, "700000"));
    }
    for beyond in ["bytes=700000-", "bytes=-0"] {
        let refused = get_download(&host, Method::GET, &[("range", beyond)]).await.unwrap_err();
        assert_eq!(refused.content_range(), "bytes */700000");
    }
}

#[tokio::test]
async fn download_response_skips_unchanged_file() {
    let host = workspace_with_file(b"one").await;
    let first = get_download(&host, Method::GET, &[]).await.unwrap();
    let (tag, modified) =
        (header_text(&first, "etag").to_owned(), header_text(&first, "last-modified").to_owned());
    let list = format!("\"other\", W/{tag}");
    let known: [&[(&str, &str)]; 5] = [
        &[("if-none-match", &tag)],
        &[("if-none-match", "*")],
        &[("if-none-match", "\"a\""), ("if-none-match", &list)],
        &[("if-modified-since", &modified)],
        &[("if-none-match", &tag), ("range", "bytes=900-")],
    ];
    for asked in known {
        let response = get_download(&host, Method::GET, asked).await.unwrap();
        assert_eq!((response.status().as_u16(), header_text(&response, "etag")), (304, &*tag), "{asked:?}");
        assert!(body_bytes(response.into_body()).await.is_empty());
    }
    let unknown: [&[(&str, &str)]; 3] = [
        &[("if-none-match", "\"a\"")],
        &[("if-none-match", "\"a\""), ("if-modified-since", &modified)],
        &[("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT")],
    ];
    for asked in unknown {
        assert_eq!(get_download(&host, Method::GET, asked).await.unwrap().status(), 200, "{asked:?}");
    }
    let range = ("range", "bytes=0-0");
    for (if_range, status) in [(&*tag, 206), (&*modified, 200), ("\"old\"", 200)] {
        let response = get_download(&host, Method::GET, &[range, ("if-range", if_range)]).await.unwrap();
        assert_eq!(response.status(), status, "{if_range}");
    }
    host.write_file("smlouva č. 1.pdf", b"other");
    let changed = get_download(&host, Method::GET, &[("if-none-match", &tag)]).await.unwrap();
    assert_eq!(body_bytes(changed.into_body()).await, b"other");
}
