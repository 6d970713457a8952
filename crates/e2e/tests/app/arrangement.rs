//! Files that are renamed, moved, deleted together, searched and sorted.

use e2e::api::{encode_path, list_names};
use e2e::poll;

use crate::browser::{AppFixture, HttpBrowser, PageAssertions};

/// Makes folders of the home folder.
fn make_folders(browser: &HttpBrowser, names: &[&str]) {
    for name in names {
        let made = browser.post_form("/workspace/folder", &[("folder", "/"), ("name", name)]);
        assert_eq!(made.status, 303, "{}", made.text());
    }
}

/// Returns the names of a folder's page, in their order.
fn listed_names(page: &str) -> Vec<String> {
    let boxes = page.split("aria-label=\"Choose ").skip(1);
    boxes.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn file_rename_overwrites_nothing() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let files: [(&str, &[u8]); 2] = [("draft.txt", b"one"), ("taken.txt", b"two")];
    browser.upload_files("/uploads", &files).expect_redirect("/files/uploads");
    let chosen = [("file", "/uploads/draft.txt"), ("folder", "/uploads"), ("do", "rename")];
    let form = browser.post_form("/workspace/chosen", &chosen).expect_page(200);
    assert!(form.contains("name=\"name\" value=\"draft.txt\""), "{form}");
    let rename = |name: &str| {
        let fields = [("file", "/uploads/draft.txt"), ("folder", "/uploads"), ("name", name)];
        browser.post_form("/workspace/rename", &fields)
    };
    for (name, status, reason) in [
        ("taken.txt", 409, "exists already"),
        ("a/b", 400, "cannot be used: it has a slash"),
        ("..", 400, "cannot be used"),
        (" ", 400, "it is empty"),
    ] {
        let refused = rename(name).expect_page(status);
        assert!(
            refused.contains(reason) && refused.contains(&format!("value=\"{name}\"")),
            "{name}: {refused}"
        );
    }
    rename("Smlouva č. 1.txt").expect_redirect("/files/uploads?done=renamed&count=1");
    assert_eq!(api.download_file(&encode_path("/uploads/Smlouva č. 1.txt")).text(), "one");
    assert_eq!(api.download_file("/uploads/taken.txt").text(), "two");
    assert_eq!(list_names(&api, "/uploads"), ["Smlouva č. 1.txt", "taken.txt"]);
    rename("late.txt").expect_page(404);
    let from_elsewhere = browser.with_request_header("origin", "https://evil.example");
    let fields = [("file", "/uploads/taken.txt"), ("name", "x")];
    from_elsewhere.post_as_is("/workspace/rename", &fields).expect_page(403);
    browser.post_form("/workspace/rename", &[("file", "/"), ("name", "x")]).expect_page(403);
    assert_eq!(browser.get_page("/workspace/rename").header("location"), Some("/files"));
}

#[test]
fn batch_move_leaves_conflicts_in_place() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    make_folders(&browser, &["Archive", "Leases"]);
    browser.upload_files("/Leases", &[("a.txt", b"new"), ("b.txt", b"b")]).expect_redirect("/files/Leases");
    browser.upload_files("/Archive", &[("a.txt", b"old")]).expect_redirect("/files/Archive");
    let chosen =
        [("file", "/Leases/a.txt"), ("file", "/Leases/b.txt"), ("folder", "/Leases"), ("do", "move")];
    let form = browser.post_form("/workspace/chosen", &chosen).expect_page(200);
    assert!(form.contains("<option value=\"/Archive\">"), "{form}");
    let fields = [&chosen[..3], &[("destination", "/Archive")]].concat();
    let refused = browser.post_form("/workspace/move", &fields).expect_page(409);
    assert!(refused.contains("exists already") && refused.contains("value=\"/Leases/a.txt\""), "{refused}");
    assert!(
        !refused.contains("value=\"/Leases/b.txt\""),
        "what was moved is not to be moved again: {refused}"
    );
    assert_eq!(api.download_file("/Archive/a.txt").text(), "old");
    assert_eq!(api.download_file("/Leases/a.txt").text(), "new");
    assert_eq!(api.download_file("/Archive/b.txt").text(), "b");

    let to = |file: &str, destination: &str| {
        let fields = [("file", file), ("folder", "/"), ("destination", destination)];
        browser.post_form("/workspace/move", &fields)
    };
    to("/Leases", "/Archive").expect_redirect("/files?done=moved&count=1");
    assert_eq!(api.download_file("/Archive/Leases/a.txt").text(), "new");
    let within = to("/Archive", "/Archive/Leases").expect_page(400);
    assert!(within.contains("cannot be moved into itself"), "{within}");
    for nowhere in ["/none", "/Archive/a.txt", ""] {
        let refused = to("/Archive/b.txt", nowhere).expect_page(404);
        assert!(refused.contains("There is no such folder."), "{nowhere}: {refused}");
    }
    to("/Archive/b.txt", "/../..").expect_page(403);
    to("/Archive/b.txt", "Archive/Leases/").expect_redirect("/files?done=moved&count=1");
    assert_eq!(api.download_file("/Archive/Leases/b.txt").text(), "b");
}

#[test]
fn several_are_deleted_after_a_question() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    make_folders(&browser, &["Old"]);
    browser.upload_files("/Old", &[("x.txt", b"x")]).expect_redirect("/files/Old");
    browser.upload_files("/uploads", &[("a.txt", b"a"), ("b.txt", b"b")]).expect_redirect("/files/uploads");
    let chosen = [("file", "/uploads/a.txt"), ("file", "/Old"), ("folder", "/uploads")];
    let asked =
        browser.post_form("/workspace/chosen", &[&chosen[..], &[("do", "delete")]].concat()).expect_page(200);
    assert!(asked.contains("Delete all of this for good?") && asked.contains("value=\"/Old\""), "{asked}");
    assert_eq!(list_names(&api, "/uploads"), ["a.txt", "b.txt"], "nothing is done yet");
    let done = "/files/uploads?done=deleted&count=2";
    browser.post_form("/workspace/delete-chosen", &chosen).expect_redirect(done);
    assert!(browser.get_page(done).expect_page(200).contains("role=\"status\">Deleted: 2</p>"));
    assert!(!browser.get_page("/files/uploads?done=other&count=2").expect_page(200).contains("note done"));
    assert_eq!(list_names(&api, "/uploads"), ["b.txt"]);
    assert_eq!(list_names(&api, "/"), ["uploads"]);
    let none =
        browser.post_form("/workspace/chosen", &[("folder", "/uploads"), ("do", "delete")]).expect_page(400);
    assert!(none.contains("Choose files or folders first.") && none.contains("b.txt"), "{none}");
    let home =
        browser.post_form("/workspace/delete-chosen", &[("file", "/"), ("folder", "/")]).expect_page(403);
    assert!(home.contains("role=\"alert\""), "{home}");
}

#[test]
fn folder_search_finds_and_sorts_names() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    make_folders(&browser, &["Smlouvy"]);
    browser.upload_files("/Smlouvy", &[("Nájemní smlouva.txt", b"four")]).expect_redirect("/files/Smlouvy");
    browser.upload_files("/uploads", &[("b.txt", b"four")]).expect_redirect("/files/uploads");
    // The times of files may have only the resolution of the kernel's clock.
    poll::wait_until("the files have different times", || {
        browser.upload_files("/uploads", &[("a.txt", b"one more")]).expect_redirect("/files/uploads");
        let page = browser.get_page("/files/uploads?sort=date-down").expect_page(200);
        (listed_names(&page) == ["a.txt", "b.txt"]).then_some(())
    });
    let found = browser.get_page("/files?q=NAJEMNI+txt").expect_page(200);
    assert_eq!(listed_names(&found), ["Smlouvy/Nájemní smlouva.txt"], "{found}");
    assert!(found.contains("value=\"NAJEMNI txt\"") && found.contains("One entry"), "{found}");
    assert_eq!(
        listed_names(&browser.get_page("/files?q=smlouv").expect_page(200)),
        ["Smlouvy", "Smlouvy/Nájemní smlouva.txt"]
    );
    let none = browser.get_page("/files?q=%3Cb%3E").expect_page(200);
    assert!(none.contains("No name here has") && !none.contains("<b>"), "{none}");
    for (sort, order) in [
        ("name", ["a.txt", "b.txt"]),
        ("name-down", ["b.txt", "a.txt"]),
        ("size", ["b.txt", "a.txt"]),
        ("size-down", ["a.txt", "b.txt"]),
        ("date", ["b.txt", "a.txt"]),
        ("other", ["a.txt", "b.txt"]),
    ] {
        let page = browser.get_page(&format!("/files/uploads?sort={sort}")).expect_page(200);
        assert_eq!(listed_names(&page), order, "{sort}");
        let is_chosen = page.contains(&format!("<option value=\"{sort}\" selected>"));
        assert_eq!(is_chosen, sort != "other", "{page}");
    }
}

#[test]
fn names_are_ordered_as_people_expect() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let numbered: Vec<String> = (1..=199).map(|number| format!("soubor{number}.txt")).collect();
    let mut names = vec![
        "airports.csv",
        "auto.txt",
        "budget.csv",
        "c.txt",
        "Czech.txt",
        "čeština.txt",
        "\u{10e}ábel.txt",
    ];
    names.extend(numbered.iter().map(String::as_str));
    names.extend(["Titanic.csv", "zlo.txt", "Žádost.txt"]);
    for name in names.iter().rev() {
        assert_eq!(api.upload_file(name, b"x").status, 201);
    }
    for (sort, expected) in [("name", names.clone()), ("name-down", names.iter().rev().copied().collect())] {
        let pages = [1, 2].map(|page| browser.get_page(&format!("/files/uploads?sort={sort}&page={page}")));
        let listed: Vec<String> =
            pages.iter().flat_map(|page| listed_names(&page.expect_page(200))).collect();
        assert_eq!(listed, expected, "{sort}");
    }
}
