//! Hostile texts in every place that shows one: nothing of them runs and nothing of them is loaded, with the security policy
//! and without it.

use std::collections::BTreeSet;

use conformance::api::Part;
use conformance::{Api, Say};
use serde_json::{Value, json};

use crate::payloads;
use crate::stage::{Stage, desktop};

/// The questions of a conversation: no more than one page shows.
const EXCHANGES: usize = 40;
/// The files of a question.
const ATTACHED: usize = 90;
/// The files that an answer finds.
const CITED: usize = 12;

/// Notes what runs. Runs before every page.
pub(crate) const TRAP: &str = "window.hits = []; window.hit = () => { window.hits.push(location.href); };
    window.alert = window.confirm = window.prompt = window.hit;";

/// Returns the elements that no text may become: foreign ones, and those with handlers or scripts as their target. The
/// script places the card of a citation by its style. An image of an answer is a file of the account.
const INTRUDERS: &str = "return [...document.body.querySelectorAll('*')].filter((element) =>
    element.matches('img:not(.picture > [src^=\"/files/\"][src$=\"?image\"]),image,iframe,frame,object,embed,video,audio,source,base,math,style,link,script,template,canvas,applet')
    || element.matches('svg *:not(path, rect, title)') || element.matches('form:not([method=post], .search, .find, [action=\\\\2f])')
    || [...element.attributes].some(({ name, value }) => name.startsWith('on') || (name === 'style' && element.id !== 'card') || name === 'ping'
        || (['href', 'src', 'action', 'formaction', 'xlink:href'].includes(name) && !/^(https?:\\/\\/|\\/(?!\\/)|#|mailto:)/.test(value)))
    ).map((element) => element.outerHTML.slice(0, 200));";

/// Requires of the page that is open that no text became anything else.
fn check(stage: &Stage, path: &str) {
    // What would run later gets its chance: focus, a frame, what has to be fetched.
    stage.browser.run_async(
        "document.querySelectorAll('main details').forEach((it) => { it.open = true; });
         await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));",
        &[],
    );
    assert_eq!(stage.browser.run("return window.hits", &[]), json!([]), "{path}");
    assert_eq!(stage.browser.run(INTRUDERS, &[]), json!([]), "{path}");
}

/// Opens a page with the security policy and without it.
pub(crate) fn visit(stage: &Stage, path: &str, shown: usize) {
    for bypassed in [true, false] {
        stage.browser.cdp("Page.setBypassCSP", &json!({ "enabled": bypassed }));
        stage.open(path);
        let count = stage.browser.run("return document.body.innerText.split('hit()').length", &[]);
        assert!(count.as_u64() > Some(shown as u64), "{path} shows {count} payloads, not {shown}");
        check(stage, path);
    }
}

/// Requires that the pages requested themselves, their assets and their streams, and nothing else.
pub(crate) fn assert_nothing_loaded(stage: &Stage) {
    let own = stage.url("/");
    let requested: BTreeSet<_> = stage.browser.requested().into_iter().collect();
    // The browser's own icon of a date.
    let is_icon = |url: &str| url.starts_with("data:image/svg+xml;base64,");
    // An image of the account's files is shown by itself.
    let (files, image) = (stage.url("/files/"), "?image");
    // The page asks for the states of files by their names.
    let states = stage.url("/workspace/indexing?");
    let is_expected = |url: &&String| {
        let is_image = url.starts_with(&files) && url.ends_with(image);
        is_icon(url)
            || is_image
            || url.starts_with(&states)
            || url.starts_with(&own) && !url.contains("loaded")
    };
    let other: Vec<_> = requested.iter().filter(|url| !is_expected(url)).collect();
    assert_eq!(other, Vec::<&String>::new());
    assert_eq!(stage.browser.console(), Vec::<String>::new());
}

/// Asks each payload and has it answered by itself: as reasoning, as the name of a tool and as text.
fn converse(stage: &Stage, api: &Api, payloads: &[String]) -> String {
    let mut chat = Value::Null;
    for payload in payloads {
        let call = Say::Call { tool: payload.clone(), arguments: json!({ "path": payload }) };
        stage.vendor.will([Say::Reasoning(payload.clone()), Say::text(payload), call]);
        stage.vendor.will([Say::text(&format!("{payload}\n\nand [1]"))]);
        let mut question = json!({ "input": payload });
        if !chat.is_null() {
            question["chatId"] = chat.clone();
        }
        let answer = api.completed(&api.accepted(&question));
        chat = answer["chatId"].clone();
    }
    format!("/c/{}", chat.as_str().expect("a conversation"))
}

#[test]
fn questions_answers_reasoning_and_tools_run_nothing() {
    let stage = Stage::signed_in(desktop(false, "en"));
    stage.browser.run_first(TRAP);
    let api = stage.service.api(&stage.account);
    let payloads = payloads::all();
    assert!(payloads.len() >= 200, "{}", payloads.len());
    let image = [Part::file("loaded.png", b"no picture"), Part::field("destination", "/")];
    assert_eq!(api.upload_form(&image).status, 201);
    for chunk in payloads.chunks(EXCHANGES) {
        let path = converse(&stage, &api, chunk);
        visit(&stage, &path, chunk.len());
    }
    assert_nothing_loaded(&stage);
}

#[test]
fn titles_and_keys_run_nothing() {
    let stage = Stage::signed_in(desktop(true, "cs"));
    stage.browser.run_first(TRAP);
    let api = stage.service.api(&stage.account);
    let payloads = payloads::all();
    // A page of the history lists fifty conversations, whose titles are cut.
    for chunk in payloads.chunks(48) {
        std::thread::scope(|scope| {
            for part in chunk.chunks(12) {
                let api = &api;
                scope.spawn(move || {
                    for payload in part {
                        let _ = api.ask(payload);
                    }
                });
            }
        });
        visit(&stage, "/history", chunk.len() / 4);
    }
    stage.open("/keys");
    let make = "for (const name of arguments[0]) {
        const body = new URLSearchParams({ name, read: 'on' });
        const made = await fetch('/keys', { method: 'POST', body });
        if (made.status !== 200) throw new Error(`${made.status} for ${name}`);
    } return 'made';";
    let names: Vec<_> = payloads.iter().map(|payload| payload.replace(char::is_control, " ")).collect();
    for part in names.chunks(50) {
        assert_eq!(stage.browser.run_async(make, &[json!(part)]), "made");
    }
    visit(&stage, "/keys", payloads.len() / 2);
    assert_nothing_loaded(&stage);
}

#[test]
fn names_of_files_run_nothing() {
    let stage = Stage::signed_in(desktop(false, "sk"));
    stage.browser.run_first(TRAP);
    let api = stage.service.api(&stage.account);
    let upload = |name: String| {
        let stored = api.upload(&name.replace(['"', '\\'], "'"), b"The heron is the code word.\n");
        assert_eq!(stored.status, 201, "{name:?}: {}", stored.text());
        stored.json()["path"].clone()
    };
    let mut names = payloads::file_names();
    for name in names.drain(..CITED) {
        upload(name);
    }
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "heron code word" }) };
    stage.vendor.will([search]);
    stage.vendor.will([Say::text("See [1] [2] [3] [4] [5].")]);
    let path = stage.answered("What is the heron?");
    visit(&stage, &path, 1);
    assert_eq!(stage.browser.run("return document.querySelectorAll('.sources li').length > 2", &[]), true);
    let paths: Vec<_> = names.into_iter().map(upload).collect();
    for chunk in paths.chunks(ATTACHED) {
        let question = json!({ "input": "Read them", "filePaths": chunk });
        let asked = api.accepted(&question);
        let chat = asked["chatId"].as_str().expect("a conversation");
        // Files are shown with their question, whether or not it is answered.
        assert_eq!(api.stop(chat).status, 202);
        api.completed(&asked);
        visit(&stage, &format!("/c/{chat}"), chunk.len() / 2);
    }
    assert_nothing_loaded(&stage);
}

#[test]
fn passages_in_cards_and_documents_run_nothing() {
    let stage = Stage::signed_in(desktop(true, "sk"));
    stage.browser.run_first(TRAP);
    let api = stage.service.api(&stage.account);
    let payloads = payloads::all();
    let on_lines: Vec<_> = payloads.iter().map(|payload| payload.replace(char::is_control, " ")).collect();
    // A byte that is no text has the machine read the message.
    let message = format!("Subject: x\0\n\n{}\n", on_lines.join("\n\n"));
    assert_eq!(api.upload("message.eml", message.as_bytes()).status, 201);
    visit(&stage, "/files/uploads/message.eml?view", payloads.len() / 2);
    for (number, chunk) in on_lines.chunks(20).enumerate() {
        let name = format!("lines{number}.txt");
        assert_eq!(api.upload(&name, chunk.join("\n\n").as_bytes()).status, 201);
        let read = json!({ "path": format!("/uploads/{name}") });
        stage.vendor.will([Say::Call { tool: "read".to_owned(), arguments: read }]);
        stage.vendor.will([Say::text("See [1].")]);
        let path = stage.answered("What does it say?");
        for bypassed in [true, false] {
            stage.browser.cdp("Page.setBypassCSP", &json!({ "enabled": bypassed }));
            stage.open(&path);
            stage
                .browser
                .run("document.querySelector('.prose a[data-citation]').focus({ focusVisible: true })", &[]);
            let _ = stage.browser.find("#card:popover-open blockquote");
            let shown = stage
                .browser
                .run("return document.getElementById('card').innerText.split('hit()').length", &[]);
            assert!(shown.as_u64() > Some(1), "{shown}");
            check(&stage, &path);
        }
    }
    assert_nothing_loaded(&stage);
}

#[test]
fn an_answer_that_grows_runs_nothing() {
    let stage = Stage::signed_in(desktop(false, "en"));
    stage.browser.run_first(TRAP);
    let payloads = payloads::all();
    for bypassed in [true, false] {
        stage.browser.cdp("Page.setBypassCSP", &json!({ "enabled": bypassed }));
        let mut script = vec![Say::text("Begun.\n\n"), Say::Hold];
        for chunk in payloads.chunks(payloads.len().div_ceil(4)) {
            script.extend(chunk.iter().map(|payload| Say::text(&format!("{payload}\n\n"))));
            script.extend([Say::text("\n```\n```\n\nA part is said.\n\n"), Say::Hold]);
        }
        stage.vendor.will(script);
        let asked = stage.service.api(&stage.account).ask("Go on");
        let path = format!("/c/{}", asked["chatId"].as_str().expect("a conversation"));
        stage.open(&path);
        stage.browser.wait_text("Begun.");
        for _ in 0..=4 {
            stage.vendor.wait_held(1);
            check(&stage, &path);
            stage.vendor.release();
        }
        let _ = stage.browser.find("[data-state=idle]");
        check(&stage, &path);
    }
    assert_nothing_loaded(&stage);
}
