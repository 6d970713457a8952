//! Section 4.3, folders: creation, listing, deletion.

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, UploadPart, is_time};

pub(super) const CASES: &[Case] = cases![
    Key:
    the_home_folder_holds_the_upload_folder_from_the_start,
    a_listing_has_one_level_folders_first_and_nothing_hidden,
    a_folder_is_created_once_and_only_in_one_that_exists,
    what_was_created_is_a_destination_as_it_is_shown,
    a_folder_that_is_not_empty_is_deleted_only_recursively,
    the_home_folder_cannot_be_deleted,
];

fn the_home_folder_holds_the_upload_folder_from_the_start(api: &Api) {
    let home = api.list_home().expect_status(200).json();
    assert_eq!(home["path"], "/");
    assert_eq!(home["totalEntries"], 1);
    let uploads = &home["entries"][0];
    let shown = json!({ "name": "uploads", "path": "/uploads", "type": "DIRECTORY", "size": 0,
        "mimeType": "inode/directory", "modifiedTime": uploads["modifiedTime"] });
    assert_eq!(uploads, &shown);
    assert!(is_time(&uploads["modifiedTime"]));
    assert_eq!(api.list_directory("/").expect_status(200).json(), home);
}

fn a_listing_has_one_level_folders_first_and_nothing_hidden(api: &Api) {
    for folder in ["/box", "/box/zeta", "/box/alpha", "/box/alpha/inner", "/box/.hidden"] {
        api.create_folder(folder).expect_status(201);
    }
    for name in ["b.txt", "a.bin", ".secret"] {
        let parts = [UploadPart::from_file(name, b"x"), UploadPart::from_field("destination", "/box")];
        api.upload_form(&parts).expect_status(201);
    }
    let listing = api.list_directory("/box").expect_status(200).json();
    let names: Vec<&Value> =
        listing["entries"].as_array().expect("entries").iter().map(|e| &e["name"]).collect();
    assert_eq!(names, ["alpha", "zeta", "a.bin", "b.txt"]);
    assert_eq!(listing["totalEntries"], 4);
    assert_eq!(listing["entries"][1]["path"], "/box/zeta");
    let inner = api.list_directory("/box/alpha").expect_status(200).json();
    assert_eq!(inner["entries"][0]["path"], "/box/alpha/inner");
}

fn a_folder_is_created_once_and_only_in_one_that_exists(api: &Api) {
    let created = api.create_folder("/new").expect_status(201).json();
    assert_eq!(created, json!({ "name": "new", "path": "/new" }));
    api.create_folder("/new").expect_refusal(409);
    api.create_folder("/none/new").expect_code(404, "NOT_FOUND");
    api.upload_file("file.txt", b"x").expect_status(201);
    api.create_folder("/uploads/file.txt").expect_refusal(409);
    let below = api.create_folder("/uploads/file.txt/new");
    assert!(matches!(below.status, 400 | 404), "{}", below.text());
}

fn what_was_created_is_a_destination_as_it_is_shown(api: &Api) {
    for (target, name) in [
        ("/p%C5%99%C3%ADloha%201", "příloha 1"),
        ("/quo%22te", "quo\"te"),
        ("/new%0Aline", "new\nline"),
        ("/%F0%9F%A6%80", "🦀"),
        ("/100%25", "100%"),
        // Bytes that are not UTF-8 are shown percent-encoded.
        ("/caf%E9", "caf%E9"),
    ] {
        let created = api.create_folder(target).expect_status(201).json();
        assert_eq!(created["name"], name, "{target}");
        let path = created["path"].as_str().expect("a path");
        let parts = [UploadPart::from_field("destination", path), UploadPart::from_file("a.txt", b"a")];
        let uploaded = api.upload_form(&parts).expect_status(201).json();
        assert_eq!(uploaded["path"], format!("{path}/a.txt"), "{target}");
        let listing = api.list_directory(target).expect_status(200).json();
        assert_eq!(listing["entries"][0]["name"], "a.txt", "{target}");
        assert_eq!(api.download_file(&format!("{target}/a.txt")).expect_status(200).body, b"a");
        let home = api.list_home().json();
        let shown = home["entries"].as_array().expect("entries").iter().any(|e| e["path"] == path);
        assert!(shown, "{target} in {home}");
    }
}

fn a_folder_that_is_not_empty_is_deleted_only_recursively(api: &Api) {
    for folder in ["/full", "/full/deep", "/empty"] {
        api.create_folder(folder).expect_status(201);
    }
    api.delete_file("/empty").expect_status(204);
    api.delete_file("/full").expect_code(409, "NOT_EMPTY");
    api.delete_file("/full?recursive=false").expect_refusal(409);
    api.list_directory("/full/deep").expect_status(200);
    api.delete_file("/full?recursive=true").expect_status(204);
    api.list_directory("/full").expect_code(404, "NOT_FOUND");
    api.delete_file("/full?recursive=true").expect_code(404, "NOT_FOUND");
    for odd in ["perhaps", "true&recursive=false", "%FF"] {
        api.delete_file(&format!("/uploads?recursive={odd}")).expect_refusal(400);
    }
}

fn the_home_folder_cannot_be_deleted(api: &Api) {
    for path in ["/?recursive=true", "/uploads/..?recursive=true", "/.?recursive=true"] {
        api.delete_file(path).expect_code(403, "FORBIDDEN");
    }
    api.list_directory("/uploads").expect_status(200);
}
