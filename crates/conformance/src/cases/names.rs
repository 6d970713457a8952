//! Section 4.3: unusual names in upload forms and URLs.

use super::Case;
use crate::api::{Api, Expect, UploadPart, encode_path, list_names, uploaded_path};

pub(super) const CASES: &[Case] = cases![
    Key:
    odd_names_come_back_as_they_were,
    names_that_are_no_text_are_shown_encoded_and_found_so,
    composed_and_decomposed_letters_are_one_name,
    names_end_at_255_bytes,
    names_that_are_none_are_refused,
    a_name_is_read_in_every_form_of_its_header,
    a_percent_sign_that_encodes_nothing_is_itself,
    question_marks_and_hashes_are_encoded_by_the_client,
];

/// Creates a file part whose name has its quotes and backslashes escaped by backslashes.
fn backslash_quoted_part(name: &[u8], content: &[u8]) -> UploadPart {
    let mut disposition = b"name=\"file\"; filename=\"".to_vec();
    for byte in name {
        if matches!(byte, b'"' | b'\\') {
            disposition.push(b'\\');
        }
        disposition.push(*byte);
    }
    disposition.push(b'"');
    UploadPart::from_disposition(disposition, content)
}

/// Creates a file part whose name is in the extended form (RFC 8187), which can represent any name.
fn extended_name_part(name: &[u8], content: &[u8]) -> UploadPart {
    let digits: String = name.iter().map(|byte| format!("%{byte:02X}")).collect();
    UploadPart::from_disposition(format!("name=\"file\"; filename*=UTF-8''{digits}"), content)
}

/// Returns the file name in the extended form of a download's `Content-Disposition`.
fn file_name_in(disposition: &str) -> Vec<u8> {
    let (_, rest) = disposition.split_once("filename*=UTF-8''").expect("the name in UTF-8");
    let rest = rest.split(';').next().unwrap_or_default().trim().as_bytes();
    let (mut name, mut at) = (Vec::new(), 0);
    while let Some(byte) = rest.get(at) {
        let digits = rest.get(at + 1..at + 3).and_then(|two| str::from_utf8(two).ok());
        match digits.filter(|_| *byte == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(decoded) => {
                name.push(decoded);
                at += 3;
            }
            None => {
                name.push(*byte);
                at += 1;
            }
        }
    }
    name
}

fn odd_names_come_back_as_they_were(api: &Api) {
    let names = [
        "a \"quoted\" name.txt",
        "it's 'single'.txt",
        "two\nlines.txt",
        "carriage\rreturn.txt",
        "tab\there.txt",
        "bell\u{7}escape\u{1b}[2J.txt",
        "delete\u{7f}.txt",
        "🦀🇨🇿👩‍👩‍👧.txt",
        "right\u{202e}txt.exe",
        "zero\u{200b}width\u{feff}.txt",
        ".hidden",
        "..two",
        "...",
        ". .",
        "trailing dot.",
        " spaces around ",
        "semi;colon=equals,comma.txt",
        "%",
        "%%",
        "100%",
        "%zz%4",
        "%2e%2e%2fup.txt",
        "a%2Fb.txt",
        "-rf",
        "~",
        "$(id) `id` ${HOME} | & > <.txt",
        "CON",
        "*?.txt",
        "no-suffix",
        "\u{e000}private.txt",
    ];
    for (at, name) in names.iter().enumerate() {
        let content = format!("content {at}");
        let uploaded = api
            .upload_form(&[extended_name_part(name.as_bytes(), content.as_bytes())])
            .expect_status(201)
            .json();
        assert_eq!(
            (&uploaded["name"], &uploaded["path"]),
            (&(*name).into(), &format!("/uploads/{name}").into())
        );
        let download = api.download_file(&encode_path(&format!("/uploads/{name}"))).expect_status(200);
        assert_eq!(download.text(), content, "{name:?}");
        let disposition = download.header("content-disposition").expect("a disposition");
        assert!(disposition.is_ascii() && disposition.chars().all(|c| !c.is_control()), "{disposition:?}");
        assert_eq!(file_name_in(disposition), name.as_bytes(), "{disposition}");
    }
    let shown = list_names(api, "/uploads");
    for name in names {
        assert_eq!(shown.iter().any(|one| one == name), !name.starts_with('.'), "{name:?} in {shown:?}");
        api.delete_file(&encode_path(&format!("/uploads/{name}"))).expect_status(204);
    }
    assert!(list_names(api, "/uploads").is_empty());
}

fn names_that_are_no_text_are_shown_encoded_and_found_so(api: &Api) {
    for (name, shown) in
        [(&b"caf\xe9.txt"[..], "caf%E9.txt"), (b"\xff\xfe%", "%FF%FE%25"), (b"half \xc5", "half %C5")]
    {
        for part in [backslash_quoted_part(name, b"x"), extended_name_part(name, b"x")] {
            let uploaded = api.upload_form(&[part]).expect_status(201).json();
            assert_eq!(uploaded["name"], shown);
            assert_eq!(uploaded["path"], format!("/uploads/{shown}"));
        }
        assert_eq!(list_names(api, "/uploads"), [shown]);
        let as_shown = format!("/uploads/{shown}").replace(' ', "%20");
        assert_eq!(api.download_file(&as_shown).expect_status(200).body, b"x");
        api.delete_file(&as_shown).expect_status(204);
    }
}

fn composed_and_decomposed_letters_are_one_name(api: &Api) {
    let (composed, decomposed) = ("p\u{159}\u{ed}loha.txt", "pr\u{30c}i\u{301}loha.txt");
    uploaded_path(api.upload_file(composed, b"composed"));
    uploaded_path(api.upload_file(decomposed, b"decomposed"));
    assert_eq!(list_names(api, "/uploads").len(), 1);
    for name in [composed, decomposed] {
        assert_eq!(api.download_file(&encode_path(&format!("/uploads/{name}"))).body, b"decomposed");
    }
}

fn names_end_at_255_bytes(api: &Api) {
    for longest in ["x".repeat(255), format!("{}.x", "ž".repeat(126)), format!("xxx{}", "🦀".repeat(63))] {
        assert!(longest.len() <= 255);
        let path = uploaded_path(api.upload_file(&longest, b"x"));
        assert_eq!(api.download_file(&encode_path(&path)).expect_status(200).body, b"x");
        api.upload_file(&format!("{longest}{longest}"), b"x").expect_refusal(400);
    }
    api.upload_file(&"x".repeat(256), b"x").expect_refusal(400);
    let folder = "y".repeat(255);
    api.create_folder(&format!("/{folder}")).expect_status(201);
    api.create_folder(&format!("/{folder}y")).expect_refusal(400);
    assert_eq!(list_names(api, "/uploads").len(), 3, "rejected uploads left nothing");
}

fn names_that_are_none_are_refused(api: &Api) {
    for name in ["", ".", "..", "/", "a/", "a/..", "\\", "nul\0.txt"] {
        api.upload_form(&[extended_name_part(name.as_bytes(), b"x")]).expect_refusal(400);
    }
    api.upload_form(&[UploadPart::from_disposition("name=\"file\"", b"x")]).expect_refusal(400);
    assert!(list_names(api, "/uploads").is_empty());
}

fn a_name_is_read_in_every_form_of_its_header(api: &Api) {
    for (disposition, name) in [
        ("name=\"file\"; filename=\"plain.txt\"", "plain.txt"),
        ("filename=\"before.txt\"; name=\"file\"", "before.txt"),
        ("name=file; filename=bare.txt", "bare.txt"),
        ("name=\"file\";filename=\"tight.txt\"", "tight.txt"),
        ("Name=\"file\"; FileName=\"capitals.txt\"", "capitals.txt"),
        ("name=\"file\"; filename=\"C:\\docs\\windows.txt\"", "windows.txt"),
        ("name=\"file\"; filename=\"a\\\"b.txt\"", "a\"b.txt"),
        ("name=\"file\"; filename=\"raw ž.txt\"", "raw ž.txt"),
        ("name=\"file\"; filename=\"plain\"; filename*=UTF-8''%C5%BE.txt", "ž.txt"),
        ("name=\"file\"; filename*=utf-8'cs'%C5%BE2.txt; filename=\"plain\"", "ž2.txt"),
        ("name=\"file\"; filename*=ISO-8859-1''caf%E9.txt", "café.txt"),
        ("name=\"file\"; filename*=UTF-8''..%2F..%2Fup.txt", "up.txt"),
    ] {
        let uploaded =
            api.upload_form(&[UploadPart::from_disposition(disposition, b"x")]).expect_status(201).json();
        assert_eq!(uploaded["name"], name, "{disposition}");
        assert_eq!(uploaded["path"], format!("/uploads/{name}"), "{disposition}");
    }
}

fn a_percent_sign_that_encodes_nothing_is_itself(api: &Api) {
    for name in ["%", "100%", "%zz", "50%2", "%e"] {
        uploaded_path(api.upload_file(name, name.as_bytes()));
        // Both as shown in the listing, and encoded.
        assert_eq!(api.download_file(&format!("/uploads/{name}")).expect_status(200).text(), name);
        assert_eq!(
            api.download_file(&encode_path(&format!("/uploads/{name}"))).expect_status(200).text(),
            name
        );
    }
    // Creation uses the decoded name, too.
    api.create_folder("/a%20b").expect_status(201);
    assert_eq!(api.create_folder("/90%").expect_status(201).json()["name"], "90%");
    assert_eq!(list_names(api, ""), ["90%", "a b", "uploads"]);
}

fn question_marks_and_hashes_are_encoded_by_the_client(api: &Api) {
    uploaded_path(api.upload_file("what?now#then.txt", b"x"));
    assert_eq!(api.download_file("/uploads/what%3Fnow%23then.txt").expect_status(200).body, b"x");
    api.download_file("/uploads/what?now").expect_code(404, "NOT_FOUND");
    uploaded_path(api.upload_file("what", b"y"));
    assert_eq!(
        api.download_file("/uploads/what?now%23then.txt").expect_status(200).body,
        b"y",
        "the rest is a query"
    );
}
