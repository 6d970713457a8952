//! Section 4.3: variants of the upload form.

use serde_json::json;

use super::Case;
use crate::api::{Api, Expect, UploadPart, list_names, uploaded_path};
use crate::http::HttpResponse;

pub(super) const CASES: &[Case] = cases![
    Key:
    parts_come_in_any_order,
    a_form_may_be_framed_as_the_standard_lets_it,
    a_form_without_a_length_is_taken,
    forms_that_say_a_thing_twice_or_too_much_are_refused,
    every_word_for_temporary_is_read_or_refused,
    an_upload_does_not_replace_a_folder,
    a_temporary_upload_is_deleted_with_its_folder,
];

fn parts_come_in_any_order(api: &Api) {
    api.create_folder("/in").expect_status(201);
    let part = |which: usize, name: &str| match which {
        0 => UploadPart::from_file(name, name.as_bytes()),
        1 => UploadPart::from_field("destination", "/in"),
        2 => UploadPart::from_field("temporary", "false"),
        _ => UploadPart::from_field("unknown", "passed over"),
    };
    let mut count = 0;
    for code in 0..256_usize {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
        if (0..4).all(|which| order.contains(&which)) {
            count += 1;
            let name = format!("{code}.txt");
            let parts: Vec<UploadPart> = order.iter().map(|which| part(*which, &name)).collect();
            assert_eq!(uploaded_path(api.upload_form(&parts)), format!("/in/{name}"), "{order:?}");
            assert_eq!(api.download_file(&format!("/in/{name}")).expect_status(200).text(), name);
        }
    }
    assert_eq!((count, list_names(api, "/in").len()), (24, 24));
    for order in [["temporary", "destination"], ["destination", "temporary"]] {
        for file_first in [false, true] {
            let mut parts: Vec<UploadPart> = order
                .iter()
                .map(|name| UploadPart::from_field(name, if *name == "temporary" { "true" } else { "/in" }))
                .collect();
            parts.insert(if file_first { 0 } else { 2 }, UploadPart::from_file("both.txt", b"x"));
            api.upload_form(&parts).expect_refusal(400);
        }
    }
    assert_eq!(list_names(api, "/in").len(), 24, "rejected uploads left nothing");
}

fn upload_with_type(api: &Api, kind: &str, body: &str) -> HttpResponse {
    let request = api.new_request("POST", "/api/v1/files").with_header("content-type", kind);
    request.with_body(body).send(&api.address)
}

fn a_form_may_be_framed_as_the_standard_lets_it(api: &Api) {
    let file = "content-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nx";
    for (kind, body) in [
        ("multipart/form-data; boundary=b", format!("--b\r\n{file}\r\n--b--\r\n")),
        ("multipart/form-data; boundary=\"b\"", format!("--b\r\n{file}\r\n--b--\r\n")),
        ("Multipart/Form-Data; Boundary=b", format!("--b\r\n{file}\r\n--b--\r\n")),
        ("multipart/form-data;boundary=b;charset=utf-8", format!("--b\r\n{file}\r\n--b--")),
        ("multipart/form-data; charset=utf-8; boundary=b", format!("--b\r\n{file}\r\n--b--\r\nafterwards")),
        ("multipart/form-data; boundary=\"a b'c\"", format!("--a b'c\r\n{file}\r\n--a b'c--\r\n")),
        (
            "multipart/form-data; boundary=b",
            format!("--b\r\nContent-Type: text/plain\r\nX-Other: y\r\n{file}\r\n--b--\r\n"),
        ),
    ] {
        assert_eq!(uploaded_path(upload_with_type(api, kind, &body)), "/uploads/a.txt", "{kind} {body:?}");
        assert_eq!(api.download_file("/uploads/a.txt").expect_status(200).body, b"x", "{kind} {body:?}");
        api.delete_file("/uploads/a.txt").expect_status(204);
    }
    // Text that resembles the boundary stays in the file.
    let near = "--bb\r\n-b\r\n\r\n --b\r\n--";
    let body = format!("--b\r\n{}{near}\r\n--b--\r\n", file.trim_end_matches('x'));
    uploaded_path(upload_with_type(
        api,
        "multipart/form-data; boundary=bx",
        &body.replace("--b\r\nc", "--bx\r\nc").replace("--b--", "--bx--"),
    ));
    assert_eq!(api.download_file("/uploads/a.txt").expect_status(200).text(), near);
}

fn a_form_without_a_length_is_taken(api: &Api) {
    let content: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let parts = [UploadPart::from_field("temporary", "true"), UploadPart::from_file("chunks.bin", &content)];
    let path = uploaded_path(api.upload_request(&parts).with_chunked_body().send(&api.address));
    assert_eq!(api.download_file(&path).expect_status(200).body, content);
}

fn forms_that_say_a_thing_twice_or_too_much_are_refused(api: &Api) {
    let file = || UploadPart::from_file("a.txt", b"x");
    let field = UploadPart::from_field;
    api.upload_form(&[file(), file()]).expect_refusal(400);
    api.upload_form(&[field("destination", "/uploads"), field("destination", "/uploads"), file()])
        .expect_refusal(400);
    api.upload_form(&[field("temporary", "true"), file(), field("temporary", "true")]).expect_refusal(400);
    let many: Vec<UploadPart> = (0..40).map(|n| field(&format!("x{n}"), "y")).chain([file()]).collect();
    api.upload_form(&many).expect_refusal(400);
    api.upload_form(&[field("unknown", &"y".repeat(200_000)), file()]).expect_refusal(400);
    api.upload_form(&[UploadPart::from_disposition("name=\"destination\"", b"/caf\xe9"), file()])
        .expect_refusal(400);
    api.upload_form(&[]).expect_refusal(400);
    upload_with_type(api, "multipart/form-data", "--b\r\n").expect_refusal(400);
    upload_with_type(api, "multipart/form-data; boundary=", "").expect_refusal(400);
    upload_with_type(
        api,
        "multipart/form-data; boundary=b",
        &format!("--b\r\nx: {}\r\n\r\n", "y".repeat(100_000)),
    )
    .expect_refusal(400);
    assert!(list_names(api, "/uploads").is_empty());
}

fn every_word_for_temporary_is_read_or_refused(api: &Api) {
    for (word, temporary) in [("true", true), ("TRUE", true), ("false", false), ("False", false), ("", false)]
    {
        let path =
            uploaded_path(api.upload_form(&[
                UploadPart::from_file("t.txt", b"x"),
                UploadPart::from_field("temporary", word),
            ]));
        assert_eq!(path.starts_with("/uploads/.tmp/"), temporary, "{word:?}: {path}");
    }
    for word in ["yes", "maybe", "truee", "2"] {
        api.upload_form(&[UploadPart::from_file("t.txt", b"x"), UploadPart::from_field("temporary", word)])
            .expect_refusal(400);
    }
}

fn an_upload_does_not_replace_a_folder(api: &Api) {
    api.create_folder("/uploads/taken").expect_status(201);
    api.upload_file("taken", b"x").expect_code(409, "ALREADY_EXISTS");
    api.list_directory("/uploads/taken").expect_status(200);
    let into = |folder: &str| {
        api.upload_form(&[
            UploadPart::from_field("destination", folder),
            UploadPart::from_file("a.txt", b"x"),
        ])
    };
    into("/nowhere").expect_code(404, "NOT_FOUND");
    into("/../out").expect_code(403, "OUTSIDE_WORKSPACE");
    uploaded_path(api.upload_file("file.txt", b"x"));
    into("/uploads/file.txt").expect_code(400, "NOT_A_FOLDER");
}

fn a_temporary_upload_is_deleted_with_its_folder(api: &Api) {
    let upload = || {
        uploaded_path(api.upload_form(&[
            UploadPart::from_file("t.txt", b"x"),
            UploadPart::from_field("temporary", "true"),
        ]))
    };
    let (one, other) = (upload(), upload());
    assert_ne!(one, other, "neither overwrites the other");
    let folder = one.strip_suffix("/t.txt").expect("a folder of its own").to_owned();
    assert_eq!(list_names(api, &folder), ["t.txt"]);
    let attached = api.send_question(&json!({ "input": " ", "filePaths": [one] }));
    attached.expect_refusal(400);
    api.delete_file(&one).expect_status(204);
    api.list_directory(&folder).expect_code(404, "NOT_FOUND");
    assert_eq!(api.download_file(&other).expect_status(200).body, b"x");
    api.delete_file(&other).expect_status(204);
}
