//! Uploads.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue};
use futures_util::stream;
use http_common::limits::STALL_TIMEOUT;
use http_common::limits::{FORM_FIELD_MAX_BYTES, FORM_PARTS_MAX};
use http_common::{UploadError, receive_upload};
use workspace::{NameError, PlacedUpload, Quota, WorkspaceError};

use crate::WorkspaceFixture;

/// A form part: its name, the rest of its header, its content.
type Part<'a> = (&'a str, &'a str, &'a str);

const FILE: Part<'_> = ("file", "; filename=\"a č.txt\"", "content\r\n--\r\n of the file");

fn form_text(parts: &[Part<'_>]) -> String {
    let parts: String = parts
        .iter()
        .map(|(name, more, content)| {
            format!("--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n")
        })
        .collect();
    parts + "--XyZ--\r\n"
}

fn form_headers() -> HeaderMap {
    let content_type = HeaderValue::from_static("multipart/form-data; boundary=XyZ");
    HeaderMap::from_iter([(axum::http::header::CONTENT_TYPE, content_type)])
}

async fn send_upload(host: &WorkspaceFixture, parts: &[Part<'_>]) -> Result<PlacedUpload, UploadError> {
    // Chunks of an odd size, like on a network.
    let text = form_text(parts).into_bytes();
    let pieces: Vec<_> = text.chunks(11).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    receive_upload(
        &host.workspace,
        &form_headers(),
        Body::from_stream(stream::iter(pieces)),
        None,
        STALL_TIMEOUT,
    )
    .await
}

/// Asserts that a rejected upload left nothing behind.
async fn assert_untouched(host: &WorkspaceFixture) {
    assert_eq!(std::fs::read_dir(host.workspace.host_dir()).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(host.workspace.host_dir().join("uploads")).unwrap().count(), 0);
}

#[tokio::test]
async fn the_parts_come_in_any_order() {
    let host = WorkspaceFixture::new().await;
    std::fs::create_dir(host.workspace.host_dir().join("to")).unwrap();
    let (to, not) = (("destination", "", "/to/"), ("temporary", "", "false"));
    for parts in [[FILE, to, not], [to, not, FILE], [not, FILE, to]] {
        let up = send_upload(&host, &parts).await.unwrap();
        assert_eq!((&*up.path.to_string(), &*up.name, up.size), ("/to/a č.txt", "a č.txt", 25));
        assert_eq!(host.read_file("to/a č.txt"), FILE.2.as_bytes());
    }
    let up = send_upload(&host, &[FILE, ("other", "", "x"), ("destination", "", "")]).await.unwrap();
    assert_eq!(up.path.to_string(), "/uploads/a č.txt");
    let up = send_upload(&host, &[("temporary", "", "TRUE"), FILE]).await.unwrap();
    assert!(up.path.to_string().starts_with("/uploads/.tmp/"), "{}", up.path);
    let up = send_upload(&host, &[("file", "; filename=\"C:\\x\\b.txt\"", "x")]).await.unwrap();
    assert_eq!(up.path.to_string(), "/uploads/b.txt");
}

#[tokio::test]
async fn receive_upload_rejects_invalid_form() {
    let host = WorkspaceFixture::new().await;
    host.write_file("f", b"x");
    let long = "x".repeat(FORM_FIELD_MAX_BYTES + 1);
    let many = vec![("x", "", ""); FORM_PARTS_MAX + 1];
    let refused = |parts: Vec<Part<'static>>| {
        let host = &host;
        async move { format!("{:?}", send_upload(host, &parts).await.unwrap_err()) }
    };
    for (parts, expected) in [
        (vec![], "FileMissing"),
        (vec![("destination", "", "/")], "FileMissing"),
        (vec![FILE, FILE], "Duplicate(\"file\")"),
        (vec![("temporary", "", "true"), FILE, ("temporary", "", "true")], "Duplicate(\"temporary\")"),
        (vec![("destination", "", "/"), ("destination", "", "/"), FILE], "Duplicate(\"destination\")"),
        (vec![("temporary", "", "yes"), FILE], "InvalidTemporary"),
        (vec![FILE, ("temporary", "", "true"), ("destination", "", "/")], "TemporaryWithDestination"),
        (vec![("file", "; filename=\"a\"", "")], "Workspace(Empty)"),
        (vec![("file", "", "content")], "Workspace(InvalidName(Missing))"),
        (vec![("file", "; filename=\"\"", "content")], "Workspace(InvalidName(Missing))"),
        (vec![("file", "; filename=\"..\"", "content")], "Workspace(InvalidName(NotAllowed))"),
        (vec![FILE, ("destination", "", "/../x")], "Workspace(Outside)"),
        (vec![FILE, ("destination", "", "/none")], "Workspace(NotFound)"),
        (vec![FILE, ("destination", "", "/f")], "Workspace(NotAFolder)"),
    ] {
        assert_eq!(refused(parts.clone()).await, expected, "{parts:?}");
    }
    assert!(matches!(send_upload(&host, &[FILE, ("x", "", &long)]).await, Err(UploadError::PartTooLarge(_))));
    assert!(matches!(send_upload(&host, &many).await, Err(UploadError::TooManyParts)));
    std::fs::remove_file(host.workspace.host_dir().join("f")).unwrap();
    assert_untouched(&host).await;
    let name = send_upload(&host, &[("file", &format!("; filename=\"{}\"", "x".repeat(256)), "x")]).await;
    let Err(UploadError::Workspace(WorkspaceError::InvalidName(NameError::TooLong))) = name else {
        panic!("{name:?}")
    };
}

#[tokio::test]
async fn malformed_and_incomplete_forms_are_rejected() {
    let host = WorkspaceFixture::new().await;
    let receive = |headers: HeaderMap, body: Body| {
        let host = &host;
        async move { receive_upload(&host.workspace, &headers, body, Some(1_000), STALL_TIMEOUT).await }
    };
    let whole = form_text(&[FILE]);
    for content_type in ["application/json", "multipart/form-data", ""] {
        let value = HeaderValue::from_static(content_type);
        let other = HeaderMap::from_iter([(axum::http::header::CONTENT_TYPE, value)]);
        assert!(matches!(receive(other, whole.clone().into()).await, Err(UploadError::NotAForm)));
    }
    for cut in [0, 3, 20, 60, 100, whole.len() - 30, whole.len() - 7] {
        let refused = receive(form_headers(), whole[..cut].to_owned().into()).await;
        assert!(matches!(refused, Err(UploadError::Malformed(_))), "{cut}: {refused:?}");
    }
    let broken = stream::iter([Ok(whole[..100].to_owned()), Err(std::io::Error::other("gone"))]);
    let refused = receive(form_headers(), Body::from_stream(broken)).await;
    assert!(matches!(refused, Err(UploadError::Broken)), "{refused:?}");
    let large = form_text(&[("file", "; filename=\"a\"", &"x".repeat(1_001))]);
    let refused = receive(form_headers(), large.into()).await;
    assert!(matches!(refused, Err(UploadError::TooLarge(1_000))), "{refused:?}");
    let mut announced = form_headers();
    announced.insert("content-length", HeaderValue::from_static("99999999999"));
    let refused = receive(announced, Body::empty()).await;
    assert!(matches!(refused, Err(UploadError::TooLarge(1_000))), "{refused:?}");
    assert_untouched(&host).await;
}

#[tokio::test]
async fn headers_without_end_are_not_held() {
    let host = WorkspaceFixture::new().await;
    let beginnings = ["", "--XyZ\r\n", "--XyZ\r\nContent-Disposition: form-data; name=\"x\"; y=\""];
    for beginning in beginnings {
        let mut pulled = 0;
        let chunks = stream::iter(
            std::iter::once(beginning.to_owned()).chain(std::iter::repeat_with(|| "x".repeat(1 << 10))),
        );
        let endless = futures_util::StreamExt::map(chunks, move |chunk| {
            pulled += chunk.len();
            // This much is read after the rejection, and no more.
            assert!(pulled < 10 << 20);
            Ok::<_, std::io::Error>(chunk)
        });
        let refused =
            receive_upload(&host.workspace, &form_headers(), Body::from_stream(endless), None, STALL_TIMEOUT)
                .await;
        assert!(matches!(refused, Err(UploadError::Malformed(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn a_full_workspace_refuses() {
    let host =
        WorkspaceFixture::with_quota(Quota { bytes_max: 10, disk_free_min_bytes: 0, ..Quota::default() })
            .await;
    let refused = send_upload(&host, &[FILE]).await;
    assert!(matches!(refused, Err(UploadError::Workspace(WorkspaceError::QuotaExceeded(_)))), "{refused:?}");
    assert_untouched(&host).await;
}

#[tokio::test(start_paused = true)]
async fn receive_upload_times_out_silent_client() {
    let host = WorkspaceFixture::new().await;
    let began = form_text(&[FILE])[..100].to_owned();
    let silent =
        futures_util::StreamExt::chain(stream::iter([Ok::<_, std::io::Error>(began)]), stream::pending());
    let refused =
        receive_upload(&host.workspace, &form_headers(), Body::from_stream(silent), None, STALL_TIMEOUT)
            .await;
    assert!(matches!(refused, Err(UploadError::TooSlow)), "{refused:?}");
    assert_untouched(&host).await;
}
