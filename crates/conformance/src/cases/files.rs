//! Section 4.3, files: upload, download, deletion, and all their errors.

use serde_json::Value;

use super::Case;
use crate::api::{Api, Expect, UploadPart, encode_path, is_time, list_names, uploaded_path};
use crate::http::HttpRequest;

pub(super) const CASES: &[Case] = cases![
    Key:
    an_upload_can_be_listed_downloaded_and_deleted,
    slashes_around_a_path_make_no_difference,
    an_upload_under_a_known_name_replaces_the_file,
    parts_of_a_form_come_in_any_order_and_length_need_not_be_told,
    temporary_files_overwrite_nothing_and_are_deleted_with_their_folder,
    uploads_that_cannot_be_read_are_refused,
    the_folders_in_a_file_name_are_dropped,
    odd_names_survive,
    a_decoded_name_goes_before_the_name_as_written,
    nothing_is_deleted_by_a_path_of_two_entries,
    paths_that_climb_out_are_forbidden,
    downloads_of_what_is_no_file_are_refused,
    downloads_answer_ranges_conditions_and_head,
    a_name_that_looks_like_a_page_is_no_page,
];

fn an_upload_can_be_listed_downloaded_and_deleted(api: &Api) {
    let uploaded = api.upload_file("brief.txt", b"The lease ends in May.").expect_status(201).json();
    assert_eq!(uploaded["name"], "brief.txt");
    assert_eq!(uploaded["path"], "/uploads/brief.txt");
    assert_eq!(uploaded["size"], 22);
    let listing = api.list_directory("/uploads").expect_status(200).json();
    assert_eq!(listing["path"], "/uploads");
    assert_eq!(listing["totalEntries"], 1);
    let entry = &listing["entries"][0];
    assert_eq!(
        (&entry["name"], &entry["path"]),
        (&Value::from("brief.txt"), &Value::from("/uploads/brief.txt"))
    );
    assert_eq!((&entry["type"], &entry["size"]), (&Value::from("FILE"), &Value::from(22)));
    assert!(is_time(&entry["modifiedTime"]), "{entry}");
    assert!(entry["mimeType"].as_str().expect("a media type").starts_with("text/plain"), "{entry}");
    let download = api.download_file("/uploads/brief.txt").expect_status(200);
    assert_eq!(download.body, b"The lease ends in May.");
    assert_eq!(download.header("content-length"), Some("22"));
    assert!(download.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
    assert_eq!(download.header("x-content-type-options"), Some("nosniff"));
    let disposition = download.header("content-disposition").expect("a disposition");
    assert!(disposition.starts_with("attachment") && disposition.contains("brief.txt"), "{disposition}");
    let deleted = api.delete_file("/uploads/brief.txt").expect_status(204);
    assert!(deleted.body.is_empty());
    api.download_file("/uploads/brief.txt").expect_code(404, "NOT_FOUND");
    api.delete_file("/uploads/brief.txt").expect_code(404, "NOT_FOUND");
}

fn slashes_around_a_path_make_no_difference(api: &Api) {
    uploaded_path(api.upload_file("a.txt", b"a"));
    for path in ["/uploads/a.txt", "//uploads//a.txt", "/uploads/a.txt/"] {
        assert_eq!(api.download_file(path).expect_status(200).body, b"a", "{path}");
    }
    for folder in ["/uploads", "/uploads/", "//uploads"] {
        assert_eq!(list_names(api, folder), ["a.txt"], "{folder}");
    }
    for folder in ["uploads", "/uploads/", "//uploads"] {
        let parts = [UploadPart::from_field("destination", folder), UploadPart::from_file("b.txt", b"b")];
        assert_eq!(uploaded_path(api.upload_form(&parts)), "/uploads/b.txt", "{folder}");
    }
}

fn an_upload_under_a_known_name_replaces_the_file(api: &Api) {
    uploaded_path(api.upload_file("a.txt", b"one"));
    uploaded_path(api.upload_file("a.txt", b"another"));
    assert_eq!(api.download_file("/uploads/a.txt").body, b"another");
    assert_eq!(list_names(api, "/uploads"), ["a.txt"]);
}

fn parts_of_a_form_come_in_any_order_and_length_need_not_be_told(api: &Api) {
    api.create_folder("/in").expect_status(201);
    let (file, folder) = (UploadPart::from_file("a.txt", b"a"), UploadPart::from_field("destination", "/in"));
    assert_eq!(uploaded_path(api.upload_form(&[file.clone(), folder.clone()])), "/in/a.txt");
    assert_eq!(uploaded_path(api.upload_form(&[folder.clone(), file.clone()])), "/in/a.txt");
    let not_temporary = UploadPart::from_field("temporary", "false");
    assert_eq!(uploaded_path(api.upload_form(&[not_temporary, file.clone(), folder.clone()])), "/in/a.txt");
    let large = vec![b'x'; 3_000_000];
    let request =
        api.upload_request(&[UploadPart::from_file("large.bin", &large), folder]).with_chunked_body();
    let uploaded = request.send(&api.address).expect_status(201).json();
    assert_eq!(
        (&uploaded["path"], &uploaded["size"]),
        (&Value::from("/in/large.bin"), &Value::from(3_000_000))
    );
    assert!(api.download_file("/in/large.bin").body == large, "every byte came back");
}

fn temporary_files_overwrite_nothing_and_are_deleted_with_their_folder(api: &Api) {
    let parts = [UploadPart::from_file("a.txt", b"one"), UploadPart::from_field("temporary", "true")];
    let first = uploaded_path(api.upload_form(&parts));
    let second = uploaded_path(api.upload_form(&parts));
    assert_ne!(first, second);
    for path in [&first, &second] {
        assert!(path.starts_with("/uploads/.tmp/") && path.ends_with("/a.txt"), "{path}");
        assert_eq!(api.download_file(path).expect_status(200).body, b"one");
    }
    assert!(list_names(api, "/uploads").is_empty(), "hidden files are not listed");
    assert_eq!(api.list_directory("/uploads").json()["totalEntries"], 0, "nor counted");
    api.delete_file(&first).expect_status(204);
    api.download_file(&first).expect_code(404, "NOT_FOUND");
    let folder = first.trim_end_matches("/a.txt");
    api.list_directory(folder).expect_code(404, "NOT_FOUND");
    assert_eq!(api.download_file(&second).expect_status(200).body, b"one");
}

fn uploads_that_cannot_be_read_are_refused(api: &Api) {
    api.create_folder("/in").expect_status(201);
    uploaded_path(api.upload_file("file.txt", b"x"));
    let file = UploadPart::from_file("a.txt", b"a");
    let refused: [(&str, Vec<UploadPart>, u16); 8] = [
        ("no file", vec![UploadPart::from_field("destination", "/in")], 400),
        ("no name", vec![UploadPart::from_disposition("name=\"file\"; filename=\"\"", b"a")], 400),
        ("no file name", vec![UploadPart::from_disposition("name=\"file\"", b"a")], 400),
        ("name of dots", vec![UploadPart::from_file("..", b"a")], 400),
        (
            "both",
            vec![
                file.clone(),
                UploadPart::from_field("destination", "/in"),
                UploadPart::from_field("temporary", "true"),
            ],
            400,
        ),
        ("no boolean", vec![file.clone(), UploadPart::from_field("temporary", "maybe")], 400),
        ("into a file", vec![file.clone(), UploadPart::from_field("destination", "/uploads/file.txt")], 400),
        ("into nothing", vec![file.clone(), UploadPart::from_field("destination", "/none")], 404),
    ];
    for (what, parts, status) in refused {
        let response = api.upload_form(&parts);
        assert_eq!(response.status, status, "{what}: {}", response.text());
        response.expect_refusal(status);
    }
    api.upload_form(&[UploadPart::from_file("a.txt", b"")]).expect_code(400, "EMPTY_FILE");
    api.upload_form(&[file, UploadPart::from_field("destination", "/../out")]).expect_refusal(403);
    let no_form =
        api.new_request("POST", "/api/v1/files").with_header("content-type", "text/plain").with_body("x");
    no_form.send(&api.address).expect_refusal(400);
    let kind = "multipart/form-data; boundary=b";
    let cut = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"cut.txt\"\r\n\r\nhalf";
    let cut = api.new_request("POST", "/api/v1/files").with_header("content-type", kind).with_body(cut);
    cut.send(&api.address).expect_refusal(400);
    assert_eq!(list_names(api, "/uploads"), ["file.txt"], "nothing was stored");
    assert!(list_names(api, "/in").is_empty());
}

fn the_folders_in_a_file_name_are_dropped(api: &Api) {
    for name in ["../../etc/a.txt", "/etc/a.txt", "deep/er/a.txt"] {
        assert_eq!(uploaded_path(api.upload_file(name, b"a")), "/uploads/a.txt", "{name}");
    }
}

fn odd_names_survive(api: &Api) {
    let names = [
        "smlouva o nájmu – příloha č. 1.txt",
        "100 % jistota.txt",
        "100%.txt",
        "a%20b.txt",
        "it's; a=b, c.txt",
        "🦀 krab.md",
        "what?#now&then+plus.txt",
        "(brackets) [and] {braces}.txt",
        "e\u{301}.txt",
        &"ž".repeat(120),
    ];
    for name in names {
        let path = uploaded_path(api.upload_file(name, name.as_bytes()));
        let download = api.download_file(&encode_path(&path)).expect_status(200);
        assert_eq!(download.text(), name, "{name}");
        let disposition = download.header("content-disposition").expect("a disposition").to_owned();
        assert!(disposition.is_ascii(), "{disposition}");
        if !name.is_ascii() {
            let star = encode_path(name).to_lowercase();
            let given = disposition.to_lowercase();
            assert!(given.contains("filename*=utf-8''"), "{disposition}");
            assert!(given.contains(&star[..6]), "{disposition} names {name}");
        }
        assert!(list_names(api, "/uploads").contains(&name.to_owned()), "{name} is listed");
    }
    // Names without reserved characters work unencoded, as the listing shows them.
    for name in ["100%.txt", "a%20b.txt"] {
        assert_eq!(api.download_file(&format!("/uploads/{name}")).expect_status(200).text(), name);
    }
    for name in names {
        api.delete_file(&format!("/uploads/{}", encode_path(name))).expect_status(204);
    }
    assert!(list_names(api, "/uploads").is_empty());
}

fn a_decoded_name_goes_before_the_name_as_written(api: &Api) {
    uploaded_path(api.upload_file("a%20b.txt", b"written"));
    assert_eq!(api.download_file("/uploads/a%20b.txt").expect_status(200).body, b"written");
    uploaded_path(api.upload_file("a b.txt", b"decoded"));
    assert_eq!(api.download_file("/uploads/a%20b.txt").expect_status(200).body, b"decoded");
    assert_eq!(api.download_file("/uploads/a%2520b.txt").expect_status(200).body, b"written");
}

fn nothing_is_deleted_by_a_path_of_two_entries(api: &Api) {
    for name in ["a%20b.txt", "a b.txt"] {
        uploaded_path(api.upload_file(name, name.as_bytes()));
    }
    api.delete_file("/uploads/a%20b.txt").expect_code(409, "AMBIGUOUS_PATH");
    assert_eq!(list_names(api, "/uploads"), ["a b.txt", "a%20b.txt"]);
    api.delete_file("/uploads/a%2520b.txt").expect_status(204);
    api.delete_file("/uploads/a%20b.txt").expect_status(204);
    assert!(list_names(api, "/uploads").is_empty());
}

fn paths_that_climb_out_are_forbidden(api: &Api) {
    for path in [
        "/../x",
        "/..",
        "/../../etc/passwd",
        "/uploads/../../etc/passwd",
        "/none/../../x",
        "/%2e%2e/x",
        "/uploads/..%2f..%2fx",
        "/..%2F..%2Fetc%2Fpasswd",
        "/uploads/%2e%2e/%2e%2e/etc/passwd",
    ] {
        api.download_file(path).expect_refusal(403);
        api.delete_file(path).expect_refusal(403);
        api.list_directory(path).expect_refusal(403);
        api.create_folder(path).expect_refusal(403);
    }
    // Within the workspace they are ordinary paths.
    uploaded_path(api.upload_file("a.txt", b"a"));
    assert_eq!(api.download_file("/uploads/../uploads/./a.txt").expect_status(200).body, b"a");
    api.download_file("/etc/passwd").expect_code(404, "NOT_FOUND");
    api.download_file("/uploads/a%00.txt").expect_code(400, "BAD_REQUEST");
    api.delete_file("/uploads/a%00.txt").expect_code(400, "BAD_REQUEST");
    api.list_directory("/uploads%00").expect_code(400, "BAD_REQUEST");
    api.create_folder("/a%00").expect_code(400, "BAD_REQUEST");
}

fn downloads_of_what_is_no_file_are_refused(api: &Api) {
    api.download_file("/uploads").expect_code(400, "IS_FOLDER");
    api.download_file("/uploads/none.txt").expect_code(404, "NOT_FOUND");
    uploaded_path(api.upload_file("a.txt", b"a"));
    api.download_file("/uploads/a.txt/b.txt").expect_code(404, "NOT_FOUND");
    api.list_directory("/uploads/a.txt").expect_refusal(400);
    api.list_directory("/none").expect_code(404, "NOT_FOUND");
}

fn downloads_answer_ranges_conditions_and_head(api: &Api) {
    let path = uploaded_path(api.upload_file("a.pdf", b"0123456789"));
    let target = format!("/api/v1/files{path}");
    let with =
        |name: &str, value: &str| api.new_request("GET", &target).with_header(name, value).send(&api.address);
    let head = api.call_endpoint("HEAD", &target).expect_status(200);
    assert_eq!((head.header("content-length"), head.body.len()), (Some("10"), 0));
    assert_eq!(head.header("content-type"), Some("application/pdf"));
    for (range, bytes, content_range) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=8-99", "89", "bytes 8-9/10"),
    ] {
        let part = with("range", range).expect_status(206);
        assert_eq!(
            (part.text().as_str(), part.header("content-range")),
            (bytes, Some(content_range)),
            "{range}"
        );
        assert_eq!(part.header("content-length"), Some(bytes.len().to_string().as_str()));
    }
    let beyond = with("range", "bytes=10-");
    assert_eq!(beyond.header("content-range"), Some("bytes */10"));
    beyond.expect_refusal(416);
    for ignored in ["lines=1-2", "bytes=x-y"] {
        assert_eq!(with("range", ignored).expect_status(200).text(), "0123456789", "{ignored}");
    }
    let tag = head.header("etag").expect("an entity tag").to_owned();
    assert!(head.header("last-modified").is_some_and(|time| time.ends_with(" GMT")));
    assert!(with("if-none-match", &tag).expect_status(304).body.is_empty());
    with("if-none-match", "\"another\"").expect_status(200);
    uploaded_path(api.upload_file("a.pdf", b"9876543210"));
    assert_eq!(with("if-none-match", &tag).expect_status(200).text(), "9876543210");
    let whole = with("accept-encoding", "gzip, br, zstd").expect_status(200);
    assert_eq!((whole.header("content-encoding"), whole.header("content-length")), (None, Some("10")));
}

fn a_name_that_looks_like_a_page_is_no_page(api: &Api) {
    let path = uploaded_path(api.upload_file("page.html", b"<script>alert(1)</script>"));
    let download = HttpRequest::new("GET", &format!("/api/v1/files{path}"))
        .with_header("x-api-key", &api.key)
        .with_header("accept", "text/html")
        .send(&api.address);
    assert!(download.header("content-disposition").is_some_and(|value| value.starts_with("attachment")));
    assert_eq!(download.header("x-content-type-options"), Some("nosniff"));
}
