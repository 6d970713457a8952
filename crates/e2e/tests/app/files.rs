//! Files: folders, uploads, previews, archives, deletions, attachments.

use std::io::{Cursor, Read};

use e2e::api::encode_path;
use serde_json::{Value, json};

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};
use crate::conversations::{ask_question, wait_for_completed_page};
use crate::hostile::{PAYLOADS, assert_harmless};

/// The first bytes of a picture in PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
/// More entries than a page shows.
const MANY: usize = 201;

#[test]
fn files_are_uploaded_listed_and_deleted() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let home = browser.get_page("/files").expect_page(200);
    assert!(home.contains("href=\"/files/uploads\"") && home.contains("One entry"), "{home}");
    let made = browser.post_form("/workspace/folder", &[("folder", "/uploads"), ("name", "Leases & co")]);
    made.expect_redirect("/files/uploads/Leases%20%26%20co");
    let folder = "/uploads/Leases & co";
    let files: [(&str, &[u8]); 2] = [("a.txt", b"one"), ("b c.txt", b"three four")];
    browser.upload_files(folder, &files).expect_redirect("/files/uploads/Leases%20%26%20co");
    let page = browser.get_page("/files/uploads/Leases%20%26%20co").expect_page(200);
    assert!(
        page.contains("a.txt") && page.contains("b%20c.txt?view") && page.contains("10\u{a0}B"),
        "{page}"
    );
    assert!(page.contains("2 entries"), "{page}");
    assert_eq!(api.download_file(&encode_path("/uploads/Leases & co/b c.txt")).text(), "three four");
    let again = browser.post_form("/workspace/folder", &[("folder", "/uploads"), ("name", "Leases & co")]);
    assert!(again.expect_page(409).contains("exists already"));
    for kept in ["/uploads/Leases & co", "/uploads/Leases & co/a.txt", "/uploads/none"] {
        let kept = [("path", kept), ("if-empty", "on")];
        assert_eq!(browser.post_form("/workspace/delete", &kept).status, 303, "{kept:?}");
    }
    let deleted = browser.post_form("/workspace/delete", &[("path", "/uploads/Leases & co/a.txt")]);
    deleted.expect_redirect("/files/uploads/Leases%20%26%20co?done=deleted&count=1");
    browser.get_page("/files/uploads/Leases%20%26%20co/a.txt").expect_page(404);
    let done = "/files/uploads?done=deleted&count=1";
    browser.post_form("/workspace/delete", &[("path", folder)]).expect_redirect(done);
    assert!(browser.get_page("/files/uploads").expect_page(200).contains("Nothing here yet."));
}

#[test]
fn attached_file_does_not_replace_namesake() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let attached = |content: &[u8]| {
        let response = browser.attach_files(&[("offer.txt", content)]);
        assert_eq!(response.status, 201, "{}", response.text());
        response.json()["files"][0]["path"].as_str().expect("a path").to_owned()
    };
    assert_eq!(attached(b"Alfa"), "/uploads/offer.txt");
    assert_eq!(attached(b"Beta"), "/uploads/offer (2).txt");
    assert_eq!(attached(b"Alfa"), "/uploads/offer.txt", "it is there already");
    let fields = [("name", "offer.txt"), ("size", "5"), ("destination", ""), ("keep-both", "on")];
    let begun = browser.post_form("/workspace/uploads", &fields).json();
    let path = format!("/workspace/uploads/{}/0", begun["upload"].as_str().expect("an id"));
    let placed = browser.send_bytes(&path, b"Gamma");
    assert_eq!(placed.json()["files"][0]["path"], "/uploads/offer (3).txt", "{}", placed.text());
    for (name, content) in [("offer.txt", "Alfa"), ("offer (2).txt", "Beta"), ("offer (3).txt", "Gamma")] {
        assert_eq!(api.download_file(&encode_path(&format!("/uploads/{name}"))).text(), content);
    }
    browser.upload_files("/uploads", &[("offer.txt", b"Delta")]).expect_redirect("/files/uploads");
    assert_eq!(api.download_file("/uploads/offer.txt").text(), "Delta", "the page of a folder replaces");
}

#[test]
fn same_named_files_show_folders() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for folder in ["A", "B"] {
        let made = browser.post_form("/workspace/folder", &[("folder", "/"), ("name", folder)]);
        made.expect_redirect(&format!("/files/{folder}"));
        let text = format!("The rent of flat {folder} is 14,500 crowns.");
        browser.upload_files(&format!("/{folder}"), &[("lease.txt", text.as_bytes())]);
    }
    let chosen = browser.get_page("/?file=%2FA%2Flease.txt&file=%2FB%2Flease.txt").expect_page(200);
    for name in [">A/lease.txt<", ">B/lease.txt<"] {
        assert!(chosen.contains(name), "{chosen}");
    }
    let alone = browser.get_page("/?file=%2FA%2Flease.txt").expect_page(200);
    assert!(alone.contains(">lease.txt<"), "{alone}");
    let fields = [("input", "What is the rent?"), ("file", "/A/lease.txt"), ("file", "/B/lease.txt")];
    let asked = browser.post_form("/ask", &fields);
    assert_eq!(asked.status, 303, "{}", asked.text());
    let page = wait_for_completed_page(&browser, asked.header("location").expect("a conversation"));
    for name in [">A/lease.txt<", ">B/lease.txt<"] {
        assert!(page.contains(name), "{page}");
    }
}

#[test]
fn blank_and_marked_names_are_visible() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for name in [" ", "a\u{202e}fdp.txt"] {
        browser.upload_files("/uploads", &[(name, b"The rent is due.")]).expect_redirect("/files/uploads");
    }
    let page = browser.get_page("/files/uploads").expect_page(200);
    let link = page.split("href=\"/files/uploads/%20?view\"").nth(1).expect("a link");
    assert!(link.split("</a>").next().unwrap_or_default().contains(">\u{2423}<"), "{page}");
    assert!(page.contains(">a\u{fffd}fdp.txt<"), "{page}");
    let file = browser.get_page("/files/uploads/%20?view").expect_page(200);
    assert!(file.contains("<h1 dir=\"auto\">\u{2423}</h1>"), "{file}");
    let chosen = browser.get_page("/?file=%2Fuploads%2F%20").expect_page(200);
    assert!(chosen.contains(">\u{2423}<"), "{chosen}");
}

#[test]
fn refused_file_change_shows_reason() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let long = "á".repeat(200);
    browser.upload_files("/uploads", &[("taken", b"x")]).expect_redirect("/files/uploads");
    for (name, status, reason) in [
        ("..", 400, "cannot be used: it has a slash"),
        ("a/b", 400, "cannot be used: it has a slash"),
        (" ", 400, "cannot be used: it is empty"),
        (&long, 400, "cannot be used: it is longer than 255 bytes"),
        ("taken", 409, "exists already"),
    ] {
        let page = browser
            .post_form("/workspace/folder", &[("folder", "/uploads"), ("name", name)])
            .expect_page(status);
        let form = page.split("<details class=\"more\" open>").nth(1).expect("the form is open");
        let form = form.split("</form>").next().unwrap_or_default();
        assert!(form.contains("role=\"alert\"") && form.contains(reason), "{name}: {form}");
        assert!(form.contains(&format!("value=\"{name}\"")), "what was typed stays: {form}");
    }
    let done = "/files/uploads?done=deleted&count=1";
    browser.post_form("/workspace/delete", &[("path", "/uploads/taken")]).expect_redirect(done);
    let none = browser.upload_files("/uploads", &[("", b"")]).expect_page(400);
    assert!(none.contains("Choose a file first."), "{none}");
    assert!(
        browser.upload_files("/uploads", &[("x.txt", b"")]).expect_page(400).contains("The file is empty.")
    );
    browser.upload_files("/no/such/folder", &[("x.txt", b"x")]).expect_page(404);
    browser.upload_files("/../..", &[("x.txt", b"x")]).expect_page(403);
    let many: Vec<(String, &[u8])> = (0..101).map(|number| (format!("{number}.txt"), &b"x"[..])).collect();
    let many: Vec<_> = many.iter().map(|(name, content)| (name.as_str(), *content)).collect();
    assert!(browser.upload_files("/uploads", &many).expect_page(400).contains("At most 100 files"));
    browser.post_form("/workspace/delete", &[("path", "/")]).expect_page(403);
    browser.post_form("/workspace/delete", &[("path", "/../../etc")]).expect_page(403);
    browser.post_form("/workspace/delete", &[("path", "/uploads/none")]).expect_page(404);
    let from_elsewhere = browser.with_request_header("origin", "https://evil.example");
    from_elsewhere.post_as_is("/workspace/delete", &[("path", "/uploads")]).expect_page(403);
    browser.get_page("/files/uploads").expect_page(200);
}

#[test]
fn upload_script_gets_path_or_refusal() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser().with_request_header("accept", "application/json");
    let stored = browser.upload_files("", &[("brief.pdf", b"%PDF-1.7")]);
    assert_eq!(stored.status, 201, "{}", stored.text());
    assert_eq!(stored.json(), json!({ "files": [{ "name": "brief.pdf", "path": "/uploads/brief.pdf" }] }));
    let refused = browser.upload_files("", &[("brief.pdf", b"")]);
    assert_eq!((refused.status, refused.json()), (400, json!({ "error": "The file is empty." })));
}

#[test]
fn file_page_never_runs_content() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let script = b"<script>alert(1)</script>";
    let long = "line\n".repeat(100_000);
    let files: [(&str, &[u8]); 8] = [
        ("notes.md", b"# Title\n\n**bold** <script>alert(1)</script>\n\n<details open onclick=alert(1)>\n\n<img src=x onerror=alert(1)>"),
        ("table.csv", b"Name;Rent\n\"Ada; B.\";12\n"),
        ("page.html", script),
        ("picture.svg", b"<svg onload=alert(1)></svg>"),
        ("photo.png", PNG),
        ("fake.png", script),
        ("brief.pdf", b"%PDF-1.7\0"),
        ("long.txt", long.as_bytes()),
    ];
    browser.upload_files("/uploads", &files).expect_redirect("/files/uploads");
    let view = |name: &str| browser.get_page(&format!("/files/uploads/{name}?view")).expect_page(200);
    let markdown = view("notes.md");
    assert!(markdown.contains("<strong>bold</strong>") && !markdown.contains("<script>alert"), "{markdown}");
    assert!(markdown.contains("<details>") && markdown.contains("<p>x</p>"), "{markdown}");
    assert_harmless(&markdown);
    let table = view("table.csv");
    assert!(table.contains("<th scope=\"col\">Rent</th>") && table.contains("<td>Ada; B.</td>"), "{table}");
    for name in ["page.html", "picture.svg", "fake.png"] {
        let page = view(name);
        assert!(page.contains("<pre class=\"preview text\"") && page.contains("alert(1)"), "{page}");
        assert_harmless(&page);
    }
    assert!(view("photo.png").contains("<img src=\"/files/uploads/photo.png?image\" alt=\"photo.png\">"));
    let broken = view("brief.pdf");
    assert!(broken.contains("It is damaged.") && !broken.contains("<img"), "{broken}");
    let cut = view("long.txt");
    assert!(cut.contains("Only a part is shown.") && cut.len() < 300_000);
    let image = browser.get_page("/files/uploads/photo.png?image");
    assert_eq!(image.header("content-type"), Some("image/png"));
    for name in ["fake.png", "picture.svg", "page.html"] {
        let inert = browser.get_page(&format!("/files/uploads/{name}?image"));
        assert_eq!(inert.header("content-type"), Some("application/octet-stream"), "{name}");
        assert!(inert.header("content-disposition").is_some_and(|shown| shown.starts_with("attachment")));
    }
}

#[test]
fn folder_download_is_an_archive() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    assert_eq!(api.create_folder("/uploads/kůň").status, 201);
    assert_eq!(api.create_folder("/uploads/empty").status, 201);
    let large: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    browser
        .upload_files("/uploads", &[("large.bin", &large), (".hidden", b"x")])
        .expect_redirect("/files/uploads");
    browser
        .upload_files("/uploads/kůň", &[("a.txt", b"inner")])
        .expect_redirect("/files/uploads/k%C5%AF%C5%88");
    let archive = browser.get_page("/files/uploads?archive");
    assert_eq!((archive.status, archive.header("content-type")), (200, Some("application/zip")));
    let disposition = archive.header("content-disposition").unwrap_or_default();
    assert!(disposition.starts_with("attachment") && disposition.contains("uploads.zip"), "{disposition}");
    let mut archive = zip::ZipArchive::new(Cursor::new(archive.body)).expect("an archive");
    let mut names: Vec<_> = archive.file_names().map(|name| name.expect("a name").into_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, ["empty/", "kůň/", "kůň/a.txt", "large.bin"]);
    let mut content = |name: &str| {
        let mut content = Vec::new();
        archive.by_name(name).expect("a file").read_to_end(&mut content).expect("its checksum is right");
        content
    };
    assert_eq!(content("kůň/a.txt"), b"inner");
    assert!(content("large.bin") == large);
    browser.get_page("/files/none?archive").expect_page(404);
}

#[test]
fn a_large_folder_has_pages() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    assert_eq!(api.create_folder("/many").status, 201);
    for number in 0..MANY {
        assert_eq!(api.create_folder(&format!("/many/{number:03}")).status, 201);
    }
    let shown = |page: &str| {
        (0..MANY).filter(|number| page.contains(&format!("/files/many/{number:03}\""))).collect::<Vec<_>>()
    };
    let first = browser.get_page("/files/many").expect_page(200);
    assert_eq!(shown(&first), (0..200).collect::<Vec<_>>());
    let second = browser.get_page(&find_attribute(&first, "rel=\"next\"", "href")).expect_page(200);
    assert_eq!(shown(&second), [200]);
    assert_eq!(find_attribute(&second, "rel=\"prev\"", "href"), "/files/many?page=1");
    assert_eq!(shown(&browser.get_page("/files/many?page=99").expect_page(200)), [200]);
}

#[test]
fn chosen_files_attached_to_question() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let files: [(&str, &[u8]); 2] = [("a b.txt", b"The heron is red."), ("b.txt", b"The owl is blue.")];
    browser.upload_files("/uploads", &files).expect_redirect("/files/uploads");
    let page = browser.get_page("/?file=%2Fuploads%2Fa+b.txt&file=%2Fuploads%2Fb.txt").expect_page(200);
    assert!(page.contains("value=\"/uploads/a b.txt\" checked") && page.contains(">b.txt<"), "{page}");
    let fields = [("input", "Which birds?"), ("file", "/uploads/a b.txt"), ("file", "/uploads/b.txt")];
    let asked = browser.post_form("/ask", &fields);
    let path = asked.header("location").expect("a conversation").to_owned();
    let page = wait_for_completed_page(&browser, &path);
    assert!(
        page.contains("href=\"/files/uploads/a%20b.txt?view\"") && page.contains("/files/uploads/b.txt?view"),
        "{page}"
    );
    let chat: Value = api.get_chat(path.trim_start_matches("/c/")).json();
    assert_eq!(chat["chat"]["status"], "completed");
    let refused =
        browser.post_form("/ask", &[("input", "x"), ("file", "/uploads/none.txt")]).expect_page(400);
    assert!(refused.contains("value=\"/uploads/none.txt\" checked"), "it can be unchecked: {refused}");
}

#[test]
fn names_of_files_are_text() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for payload in PAYLOADS {
        let name = payload.replace('/', "∕");
        browser.upload_files("/uploads", &[(name.as_str(), b"text")]).expect_redirect("/files/uploads");
        browser.post_form("/workspace/folder", &[("folder", "/"), ("name", &name)]);
        assert_harmless(&browser.get_page(&format!("/?file={}", encode_path(payload))).expect_page(200));
        // It has a slash, or already exists.
        let refused = browser.post_form("/workspace/folder", &[("folder", "/"), ("name", payload)]);
        assert!([400, 409].contains(&refused.status), "{}", refused.status);
        assert_harmless(&refused.expect_page(refused.status));
    }
    let listed = browser.get_page("/files/uploads").expect_page(200);
    assert_harmless(&listed);
    assert!(listed.contains("&#60;img src=x onerror=alert(1)&#62;"), "{listed}");
    assert_harmless(&browser.get_page("/files").expect_page(200));
    let path = ask_question(&browser, "Hello");
    wait_for_completed_page(&browser, &path);
}

#[test]
fn files_of_other_accounts_are_unreachable() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    browser.upload_files("/uploads", &[("secret.txt", b"secret")]).expect_redirect("/files/uploads");
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.get_page("/files/uploads").expect_redirect("/sign-in?next=/files/uploads");
    assert_eq!(stranger.upload_files("/uploads", &[("x.txt", b"x")]).status, 303, "it is asked to sign in");
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    assert!(!stranger.get_page("/files/uploads").expect_page(200).contains("secret.txt"));
    for query in ["", "?view", "?image", "?archive"] {
        stranger.get_page(&format!("/files/uploads/secret.txt{query}")).expect_page(404);
    }
    stranger.post_form("/workspace/delete", &[("path", "/uploads/secret.txt")]).expect_page(404);
    browser.get_page("/files/uploads/secret.txt?view").expect_page(200);
}

#[test]
fn large_upload_resumes_after_failure() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let begin = |name: &str, size: &str, folder: &str| {
        browser.post_form("/workspace/uploads", &[("name", name), ("size", size), ("destination", folder)])
    };
    let begun = begin("large.bin", "2500000", "");
    assert_eq!(begun.status, 201, "{}", begun.text());
    let path = format!("/workspace/uploads/{}", begun.json()["upload"].as_str().expect("an id"));
    let content: Vec<u8> = (0..625_000_u32).flat_map(u32::to_le_bytes).collect();
    let piece = |at: usize, bytes: &[u8]| browser.send_bytes(&format!("{path}/{at}"), bytes);
    let first = piece(0, &content[..1_000_000]);
    assert_eq!((first.status, first.json()["received"].as_u64()), (200, Some(1_000_000)));
    // Sent again, because the answer was lost; and a piece too far ahead.
    for at in [0, 1_500_000] {
        let again = piece(at, &content[..10]);
        assert_eq!((again.status, again.json()["received"].as_u64()), (409, Some(1_000_000)));
    }
    assert_eq!(browser.get_page(&path).json()["received"], 1_000_000);
    assert_eq!(api.list_directory("/uploads").json()["totalEntries"], 0, "nothing is there before all is");
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    assert_eq!(stranger.get_page(&path).status, 303, "strangers sign in first");
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    assert_eq!(stranger.get_page(&path).status, 404);
    assert_eq!(stranger.send_bytes(&format!("{path}/1000000"), b"x").status, 404);
    assert_eq!(piece(1_000_000, &content[1_000_000..2_000_000]).status, 200);
    let last = piece(2_000_000, &content[2_000_000..]);
    assert_eq!((last.status, last.json()["files"][0]["path"].as_str()), (201, Some("/uploads/large.bin")));
    assert!(api.download_file("/uploads/large.bin").body == content);
    assert_eq!(browser.get_page(&path).status, 404, "it is complete");
    let more = begin("more.bin", "10", "/uploads").json();
    let more = browser
        .send_bytes(&format!("/workspace/uploads/{}/0", more["upload"].as_str().expect("an id")), &[0; 11]);
    assert_eq!(more.status, 400, "more than was announced");
    for (name, size, folder, status) in
        [("x", "0", "", 400), ("", "1", "", 400), ("x", "1", "/none", 404), ("x", "1", "/../x", 403)]
    {
        let refused = begin(name, size, folder);
        assert_eq!(refused.status, status, "{name:?} {size} {folder}: {}", refused.text());
        assert!(refused.json()["error"].is_string());
    }
    // The ninth unfinished upload ends the first.
    let ids: Vec<String> =
        (0..9).map(|_| begin("x", "2", "").json()["upload"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(browser.get_page(&format!("/workspace/uploads/{}", ids[0])).status, 404);
    assert_eq!(browser.get_page(&format!("/workspace/uploads/{}", ids[8])).status, 200);
}

#[test]
fn a_cancelled_upload_leaves_nothing_behind() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let begun = browser.post_form("/workspace/uploads", &[("name", "large.bin"), ("size", "2000000")]).json();
    let path = format!("/workspace/uploads/{}", begun["upload"].as_str().expect("an id"));
    assert_eq!(browser.send_bytes(&format!("{path}/0"), &[7; 1_000_000]).status, 200);
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    assert_eq!(stranger.delete_resource(&path).status, 404);
    let from_elsewhere = browser.with_request_header("origin", "https://evil.example");
    assert_eq!(from_elsewhere.delete_as_is(&path).status, 403);
    assert_eq!(browser.get_page(&path).json()["received"], 1_000_000);
    assert_eq!(browser.delete_resource(&path).status, 204);
    assert_eq!(browser.get_page(&path).status, 404);
    assert_eq!(browser.send_bytes(&format!("{path}/1000000"), &[7; 1_000_000]).status, 404);
    assert_eq!(browser.delete_resource(&path).status, 404);
    assert_eq!(api.list_directory("/uploads").json()["totalEntries"], 0);
}

#[test]
fn a_large_upload_outlives_killed_services() {
    /// The size of a piece, and how many the file has.
    const PIECE: usize = 300_000;
    const PIECES: usize = 6;
    let mut stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let content: Vec<u8> = (0..(PIECE * PIECES) as u32 / 4).flat_map(u32::to_le_bytes).collect();
    let size = content.len().to_string();
    let begin = || {
        let file =
            [("name", "large.bin"), ("size", &size), ("modified", "1700000000000"), ("digest", "5e1f")];
        browser.post_form("/workspace/uploads", &file).json()
    };
    let upload = begin()["upload"].as_str().expect("an id").to_owned();
    let path = format!("/workspace/uploads/{upload}");
    let mut received = 0;
    while received < content.len() {
        let piece = &content[received..(received + PIECE).min(content.len())];
        let answer = browser.send_bytes(&format!("{path}/{received}"), piece);
        if answer.status == 201 {
            break;
        }
        assert_eq!(
            (answer.status, answer.json()["received"].as_u64()),
            (200, Some((received + PIECE) as u64))
        );
        received += PIECE;
        // Another piece is in transit when the service is killed, but not the last one, with which the file might be
        // complete.
        let (at, half) = (received, if received + PIECE / 2 < content.len() { PIECE / 2 } else { 0 });
        let next = content[received..received + half].to_vec();
        let (sender, target) = (browser.with_request_header("x-copy", "1"), format!("{path}/{at}"));
        let sending = std::thread::spawn(move || sender.send_bytes(&target, &next).status);
        stage.service.kill();
        let acknowledged = sending.join().is_ok_and(|status| status == 200);
        stage.service.restart();
        let there = browser.get_page(&path).json()["received"].as_u64().expect("it goes on") as usize;
        assert!(there == at && !acknowledged || there == at + half, "{there} of {at}, {acknowledged}");
        let again = begin();
        assert_eq!(
            (again["upload"].as_str(), again["received"].as_u64()),
            (Some(&*upload), Some(there as u64))
        );
        received = there;
    }
    assert!(stage.service.api_for(&stage.account).download_file("/uploads/large.bin").body == content);
    assert_eq!(browser.get_page(&path).status, 404, "it is complete");
}
