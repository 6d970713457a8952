//! Hostile texts in every place that shows one: nothing of them runs and nothing of them is loaded, with the security policy
//! and without it.

use std::collections::BTreeSet;

use e2e::api::UploadPart;
use e2e::{Api, Say};
use serde_json::{Value, json};

use crate::payloads;
use crate::stage::{BrowserFixture, desktop_view};

/// The questions of a conversation: they fit on one page.
const EXCHANGES: usize = 40;
/// The files of a question.
const ATTACHED: usize = 90;
/// The files that an answer finds.
const CITED: usize = 12;

/// Records running scripts. Runs before every page.
pub(crate) const TRAP: &str = "window.hits = []; window.hit = () => { window.hits.push(location.href); };
    window.alert = window.confirm = window.prompt = window.hit;";

/// Returns the elements that no text may become: foreign ones, and elements with handlers or scripts as their target.
/// The script places the card of a citation by its style. An image of an answer is a file of the account.
const INTRUDERS: &str = "return [...document.body.querySelectorAll('*')].filter((element) =>
    element.matches('img:not(.picture > [src^=\"/files/\"][src$=\"?image\"]),image,iframe,frame,object,embed,video,audio,source,base,math,style,link,script,template,canvas,applet')
    || element.matches('svg *:not(path, rect, title)') || element.matches('form:not([method=post], .search, .find, [action=\\\\2f])')
    || [...element.attributes].some(({ name, value }) => name.startsWith('on') || (name === 'style' && element.id !== 'card') || name === 'ping'
        || (['href', 'src', 'action', 'formaction', 'xlink:href'].includes(name) && !/^(https?:\\/\\/|\\/(?!\\/)|#|mailto:)/.test(value)))
    ).map((element) => element.outerHTML.slice(0, 200));";

/// Requires that no text of the open page became anything else.
fn check_no_payload_ran(stage: &BrowserFixture, path: &str) {
    // Gives delayed scripts their chance: focus, a frame, fetched content.
    stage.browser.run_async_script(
        "document.querySelectorAll('main details').forEach((it) => { it.open = true; });
         await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));",
        &[],
    );
    assert_eq!(stage.browser.run_script("return window.hits", &[]), json!([]), "{path}");
    assert_eq!(stage.browser.run_script(INTRUDERS, &[]), json!([]), "{path}");
}

/// Opens a page with the security policy and without it.
pub(crate) fn visit_with_and_without_policy(stage: &BrowserFixture, path: &str, shown: usize) {
    for bypassed in [true, false] {
        stage.browser.send_cdp_command("Page.setBypassCSP", &json!({ "enabled": bypassed }));
        stage.open_path(path);
        let count = stage.browser.run_script("return document.body.innerText.split('hit()').length", &[]);
        assert!(count.as_u64() > Some(shown as u64), "{path} shows {count} payloads, not {shown}");
        check_no_payload_ran(stage, path);
    }
}

/// Requires that the pages requested themselves, their assets and their streams, and nothing else.
pub(crate) fn assert_nothing_loaded(stage: &BrowserFixture) {
    let own = stage.service_url("/");
    let requested: BTreeSet<_> = stage.browser.take_requested_urls().into_iter().collect();
    // The browser's icon of a date.
    let is_icon = |url: &str| url.starts_with("data:image/svg+xml;base64,");
    // An image of the account's files is shown on a separate page.
    let (files, image) = (stage.service_url("/files/"), "?image");
    // The page requests the states of files by their names.
    let states = stage.service_url("/workspace/indexing?");
    let is_expected = |url: &&String| {
        let is_image = url.starts_with(&files) && url.ends_with(image);
        is_icon(url)
            || is_image
            || url.starts_with(&states)
            || url.starts_with(&own) && !url.contains("loaded")
    };
    let other: Vec<_> = requested.iter().filter(|url| !is_expected(url)).collect();
    assert_eq!(other, Vec::<&String>::new());
    assert_eq!(stage.browser.take_console_messages(), Vec::<String>::new());
}

/// Asks each payload and answers it with the payload: as reasoning, as the name of a tool and as text.
fn ask_payloads(stage: &BrowserFixture, api: &Api, payloads: &[String]) -> String {
    let mut chat = Value::Null;
    for payload in payloads {
        let call = Say::Call { tool: payload.clone(), arguments: json!({ "path": payload }) };
        stage.vendor.add_script([Say::Reasoning(payload.clone()), Say::from_text(payload), call]);
        stage.vendor.add_script([Say::from_text(&format!("{payload}\n\nand [1]"))]);
        let mut question = json!({ "input": payload });
        if !chat.is_null() {
            question["chatId"] = chat.clone();
        }
        let answer = api.wait_for_completion(&api.expect_accepted(&question));
        chat = answer["chatId"].clone();
    }
    format!("/c/{}", chat.as_str().expect("a conversation"))
}

#[test]
fn hostile_questions_and_answers_run_nothing() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.browser.run_script_on_load(TRAP);
    let api = stage.service.api_for(&stage.account);
    let payloads = payloads::all_payloads();
    assert!(payloads.len() >= 200, "{}", payloads.len());
    let image =
        [UploadPart::from_file("loaded.png", b"no picture"), UploadPart::from_field("destination", "/")];
    assert_eq!(api.upload_form(&image).status, 201);
    for chunk in payloads.chunks(EXCHANGES) {
        let path = ask_payloads(&stage, &api, chunk);
        visit_with_and_without_policy(&stage, &path, chunk.len());
    }
    assert_nothing_loaded(&stage);
}

#[test]
fn titles_and_keys_run_nothing() {
    let stage = BrowserFixture::start_signed_in(desktop_view(true, "cs"));
    stage.browser.run_script_on_load(TRAP);
    let api = stage.service.api_for(&stage.account);
    let payloads = payloads::all_payloads();
    // A page of the history lists fifty conversations, whose titles are cut.
    for chunk in payloads.chunks(48) {
        std::thread::scope(|scope| {
            for part in chunk.chunks(12) {
                let api = &api;
                scope.spawn(move || {
                    for payload in part {
                        let _ = api.ask_question(payload);
                    }
                });
            }
        });
        visit_with_and_without_policy(&stage, "/history", chunk.len() / 4);
    }
    stage.open_path("/keys");
    let make = "for (const name of arguments[0]) {
        const body = new URLSearchParams({ name, read: 'on' });
        const made = await fetch('/keys', { method: 'POST', body });
        if (made.status !== 200) throw new Error(`${made.status} for ${name}`);
    } return 'made';";
    let names: Vec<_> = payloads.iter().map(|payload| payload.replace(char::is_control, " ")).collect();
    for part in names.chunks(50) {
        assert_eq!(stage.browser.run_async_script(make, &[json!(part)]), "made");
    }
    visit_with_and_without_policy(&stage, "/keys", payloads.len() / 2);
    assert_nothing_loaded(&stage);
}

#[test]
fn names_of_files_run_nothing() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "sk"));
    stage.browser.run_script_on_load(TRAP);
    let api = stage.service.api_for(&stage.account);
    let upload = |name: String| {
        let stored = api.upload_file(&name.replace(['"', '\\'], "'"), b"The heron is the code word.\n");
        assert_eq!(stored.status, 201, "{name:?}: {}", stored.text());
        stored.json()["path"].clone()
    };
    let mut names = payloads::file_names();
    for name in names.drain(..CITED) {
        upload(name);
    }
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "heron code word" }) };
    stage.vendor.add_script([search]);
    stage.vendor.add_script([Say::from_text("See [1] [2] [3] [4] [5].")]);
    let path = stage.ask_and_wait("What is the heron?");
    visit_with_and_without_policy(&stage, &path, 1);
    assert_eq!(
        stage.browser.run_script("return document.querySelectorAll('.sources li').length > 2", &[]),
        true
    );
    let paths: Vec<_> = names.into_iter().map(upload).collect();
    for chunk in paths.chunks(ATTACHED) {
        let question = json!({ "input": "Read them", "filePaths": chunk });
        let asked = api.expect_accepted(&question);
        let chat = asked["chatId"].as_str().expect("a conversation");
        // Files are shown with their question, whether or not it is answered.
        assert_eq!(api.stop_chat(chat).status, 202);
        api.wait_for_completion(&asked);
        visit_with_and_without_policy(&stage, &format!("/c/{chat}"), chunk.len() / 2);
    }
    assert_nothing_loaded(&stage);
}

#[test]
fn hostile_passages_run_nothing() {
    let stage = BrowserFixture::start_signed_in(desktop_view(true, "sk"));
    stage.browser.run_script_on_load(TRAP);
    let api = stage.service.api_for(&stage.account);
    let payloads = payloads::all_payloads();
    let on_lines: Vec<_> = payloads.iter().map(|payload| payload.replace(char::is_control, " ")).collect();
    // A byte that is not text makes the machine read the message.
    let message = format!("Subject: x\0\n\n{}\n", on_lines.join("\n\n"));
    assert_eq!(api.upload_file("message.eml", message.as_bytes()).status, 201);
    visit_with_and_without_policy(&stage, "/files/uploads/message.eml?view", payloads.len() / 2);
    for (number, chunk) in on_lines.chunks(20).enumerate() {
        let name = format!("lines{number}.txt");
        assert_eq!(api.upload_file(&name, chunk.join("\n\n").as_bytes()).status, 201);
        let read = json!({ "path": format!("/uploads/{name}") });
        stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
        stage.vendor.add_script([Say::from_text("See [1].")]);
        let path = stage.ask_and_wait("What does it say?");
        for bypassed in [true, false] {
            stage.browser.send_cdp_command("Page.setBypassCSP", &json!({ "enabled": bypassed }));
            stage.open_path(&path);
            stage.browser.run_script(
                "document.querySelector('.prose a[data-citation]').focus({ focusVisible: true })",
                &[],
            );
            let _ = stage.browser.find_element("#card:popover-open blockquote");
            let shown = stage
                .browser
                .run_script("return document.getElementById('card').innerText.split('hit()').length", &[]);
            assert!(shown.as_u64() > Some(1), "{shown}");
            check_no_payload_ran(&stage, &path);
        }
    }
    assert_nothing_loaded(&stage);
}

#[test]
fn an_answer_that_grows_runs_nothing() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.browser.run_script_on_load(TRAP);
    let payloads = payloads::all_payloads();
    for bypassed in [true, false] {
        stage.browser.send_cdp_command("Page.setBypassCSP", &json!({ "enabled": bypassed }));
        let mut script = vec![Say::from_text("Begun.\n\n"), Say::Hold];
        for chunk in payloads.chunks(payloads.len().div_ceil(4)) {
            script.extend(chunk.iter().map(|payload| Say::from_text(&format!("{payload}\n\n"))));
            script.extend([Say::from_text("\n```\n```\n\nA part is said.\n\n"), Say::Hold]);
        }
        stage.vendor.add_script(script);
        let asked = stage.service.api_for(&stage.account).ask_question("Go on");
        let path = format!("/c/{}", asked["chatId"].as_str().expect("a conversation"));
        stage.open_path(&path);
        stage.browser.wait_for_text("Begun.");
        for _ in 0..=4 {
            stage.vendor.wait_for_holds(1);
            check_no_payload_ran(&stage, &path);
            stage.vendor.release_hold();
        }
        let _ = stage.browser.find_element("[data-state=idle]");
        check_no_payload_ran(&stage, &path);
    }
    assert_nothing_loaded(&stage);
}
