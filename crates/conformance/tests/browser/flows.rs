//! The steps of owners, taken as people take them: they look, click and type.

use conformance::{Events, Key, Say, View, WebDriver};
use serde_json::json;

use crate::citations::document;
use crate::stage::{PASSWORD, Stage, desktop, phone};

/// The flows are the same in each view; together these have both sizes, both themes and every language.
const VIEWS: [View; 3] = [desktop(false, "en"), phone(true, "cs"), phone(false, "sk")];

fn in_each_view(flow: impl Fn(&Stage)) {
    let stage = Stage::signed_in(VIEWS[0]);
    for view in VIEWS {
        stage.browser.look(view);
        stage.open("/");
        assert_eq!(stage.browser.run("return document.documentElement.lang", &[]), view.language);
        flow(&stage);
        stage.assert_quiet();
    }
}

/// Opens the menu where it is not always open.
fn open_menu(stage: &Stage) {
    let menu = stage.browser.find(".bar button");
    if stage.browser.run("return document.querySelector('.bar').offsetHeight > 0", &[]) == true {
        stage.browser.click(&menu);
    }
}

#[test]
fn signing_in_is_refused_then_works_and_ends() {
    let stage = Stage::new(VIEWS[0]);
    let browser = &stage.browser;
    for view in VIEWS {
        browser.look(view);
        stage.open("/keys");
        assert!(browser.url().ends_with("/sign-in?next=/keys"), "{}", browser.url());
        stage.sign_in("wrong horse");
        let _ = browser.find("[role=alert]");
        let complaints = browser.console();
        assert!(complaints.iter().all(|text| text.contains("401")), "the status alone: {complaints:?}");
        stage.sign_in(PASSWORD);
        let _ = browser.find("main.page");
        assert!(browser.url().ends_with("/keys"));
        open_menu(&stage);
        browser.click(&browser.find("[action='/sign-out'] button"));
        let _ = browser.find("[name=password]");
        stage.open("/");
        assert!(browser.url().ends_with("/sign-in"));
        stage.assert_quiet();
    }
}

#[test]
fn the_keyboard_is_enough_to_sign_in_and_to_ask() {
    let stage = Stage::new(desktop(true, "sk"));
    let browser = &stage.browser;
    stage.open("/sign-in");
    let focused = || browser.run("return document.activeElement.name ?? ''", &[]);
    assert_eq!(focused(), "email", "the first field has the focus");
    browser.write(&browser.find(":focus"), &stage.account.email);
    browser.press(Key::Tab);
    assert_eq!(focused(), "password");
    browser.write(&browser.find(":focus"), PASSWORD);
    browser.press(Key::Enter);
    let _ = browser.find("main.home");
    assert_eq!(focused(), "input", "the question has the focus");
    browser.write(&browser.find(":focus"), "By keyboard?");
    browser.press(Key::Enter);
    let _ = browser.find(".conversation[data-state=idle] .answer .prose");
    // From the beginning of the page, the first stop leads to its content.
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0);", &[]);
    stage.open("/keys");
    browser.press(Key::Tab);
    browser.press(Key::Enter);
    assert!(browser.url().ends_with("#main"), "{}", browser.url());
    stage.assert_quiet();
}

#[test]
fn an_answer_grows_in_place_and_a_follow_up_is_asked() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.will([Say::text("The **first** half"), Say::Hold, Say::text(" and the second.")]);
        browser.write(&browser.find("textarea"), "Tell me both halves");
        browser.press(Key::Enter);
        stage.vendor.wait_held(1);
        browser.wait_text("The first half");
        let _ = browser.find("[aria-busy=true]");
        // What is there stays the same element, so that a selection survives.
        browser.run("window.kept = document.querySelector('.answer strong')", &[]);
        stage.vendor.release();
        browser.wait_text("The first half and the second.");
        let _ = browser.find(".conversation[data-state=idle]");
        assert_eq!(browser.run("return window.kept.isConnected", &[]), true, "neither replaced nor reloaded");
        assert!(browser.find_now("[aria-busy]").is_none());
        stage.vendor.will([Say::text("The follow-up.")]);
        browser.write(&browser.find("textarea"), "And then?");
        browser.click(&browser.find(".send"));
        browser.wait_text("The follow-up.");
    });
}

#[test]
fn a_long_answer_is_the_same_when_its_page_is_opened_again() {
    const BLOCKS: &str =
        "return [...document.querySelectorAll('.answer .segment > *')].map((block) => block.outerHTML)";
    let stage = Stage::signed_in(desktop(false, "en"));
    let browser = &stage.browser;
    let paragraph = "A sentence that is repeated until a segment of the text is full. ".repeat(6);
    let chapter = |number: usize| {
        format!(
            "# Chapter {number}\n\n{paragraph}\n\n- one\n- two\n\n##### Deep\n\n```\ncode\n```\n\n{paragraph}\n\n"
        )
    };
    let script = (1..=5).flat_map(|number| [Say::text(&chapter(number)), Say::Hold]);
    stage.vendor.will(script.chain([Say::text("The end.")]).collect::<Vec<_>>());
    browser.write(&browser.find("textarea"), "Tell me everything");
    browser.press(Key::Enter);
    for number in 1..=5 {
        browser.wait_text(&format!("Chapter {number}"));
        stage.vendor.release();
    }
    let _ = browser.find(".conversation[data-state=idle]");
    let grown = browser.run(BLOCKS, &[]);
    assert!(grown.as_array().expect("blocks").len() > 25, "{grown}");
    browser.open(&browser.url());
    assert_eq!(browser.run(BLOCKS, &[]), grown);
}

#[test]
fn the_page_follows_the_end_of_an_answer_until_its_visitor_scrolls_up() {
    const FROM_END: &str = "const { scrollHeight } = document.documentElement;
        return scrollHeight - window.innerHeight - window.scrollY";
    let stage = Stage::signed_in(phone(false, "en"));
    let browser = &stage.browser;
    let paragraphs = |from: usize| {
        let paragraph = "It goes on and on, in sentences that nobody needs. ".repeat(8);
        (from..from + 40).map(|number| format!("Point {number}: {paragraph}\n\n")).collect::<String>()
    };
    let parts = [1, 41, 81, 121].into_iter().flat_map(|from| [Say::text(&paragraphs(from)), Say::Hold]);
    stage.vendor.will(parts.chain([Say::text("The end.")]).collect::<Vec<_>>());
    browser.write(&browser.find("textarea"), "Go on");
    browser.press(Key::Enter);
    let is_at_end = || {
        let at_end =
            || browser.run(FROM_END, &[]).as_f64().is_some_and(|pixels| pixels < 100.0).then_some(());
        let reached = conformance::poll::in_time(at_end);
        assert!(reached.is_some(), "{} pixels from the end", browser.run(FROM_END, &[]));
    };
    let shown = |number: usize| browser.wait_text(&format!("Point {number}: It goes on"));
    for last in [40, 80] {
        stage.vendor.wait_held(1);
        shown(last);
        is_at_end();
        stage.vendor.release();
    }
    stage.vendor.wait_held(1);
    shown(120);
    is_at_end();
    let wheel = serde_json::json!({ "type": "mouseWheel", "x": 150, "y": 300, "deltaX": 0, "deltaY": -900 });
    browser.cdp("Input.dispatchMouseEvent", &wheel);
    let paused = conformance::poll::until("the page was scrolled", || {
        browser.run(FROM_END, &[]).as_f64().filter(|pixels| *pixels > 500.0)
    });
    stage.vendor.release();
    stage.vendor.wait_held(1);
    shown(160);
    let from_end = browser.run(FROM_END, &[]).as_f64().expect("pixels");
    assert!(from_end > paused + 1_000.0, "it stays where its visitor reads: {from_end}");
    // The rest may come before the page hears that its visitor went to its end.
    browser.run("window.scrollTo(0, document.documentElement.scrollHeight)", &[]);
    stage.vendor.release();
    browser.wait_text("The end.");
    is_at_end();
    stage.assert_quiet();
}

#[test]
fn an_answer_that_comes_at_once_is_read_from_its_beginning() {
    let stage = Stage::signed_in(phone(false, "en"));
    let browser = &stage.browser;
    let paragraph = "It goes on and on, in sentences that nobody needs. ".repeat(8);
    let text: String = (1..40).map(|number| format!("Point {number}: {paragraph}\n\n")).collect();
    stage.vendor.will([Say::Hold, Say::text(&text)]);
    browser.write(&browser.find("textarea"), "Go on");
    browser.press(Key::Enter);
    let _ = browser.find(".conversation[data-state=open] .answer");
    // On a busy host, the event of the page's own scroll to the end comes only after the answer's last one.
    browser.run(
        "new MutationObserver(() => {
            window.scrollTo({ top: document.documentElement.scrollHeight });
            document.dispatchEvent(new Event('scroll'));
        }).observe(document.getElementById('main'), { attributeFilter: ['data-state'] })",
        &[],
    );
    stage.vendor.release();
    let _ = browser.find(".conversation[data-state=idle] .answer .prose");
    let begins = "const { top } = document.querySelector('.answer .prose').getBoundingClientRect();
        return top >= 0 && top < window.innerHeight";
    conformance::poll::until("its beginning is in view", || (browser.run(begins, &[]) == true).then_some(()));
    stage.assert_quiet();
}

#[test]
fn an_answer_is_copied_without_its_steps() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.will([
            Say::Reasoning("Let me think.".to_owned()),
            Say::Call { tool: "list".to_owned(), arguments: serde_json::json!({}) },
        ]);
        stage.vendor.will([Say::text("The **rent** is due.\n\nOn the fifth.")]);
        browser.write(&browser.find("textarea"), "When?");
        browser.press(Key::Enter);
        let _ = browser.find(".conversation[data-state=idle] .answer .prose strong");
        // The clipboard of a test's browser is closed; its place takes what would go there.
        browser.run(
            "navigator.clipboard.write = async ([item]) => {
                const kinds = ['text/plain', 'text/html'];
                window.taken = await Promise.all(kinds.map(async (kind) => (await item.getType(kind)).text()));
            }",
            &[],
        );
        browser.click(&browser.find("[data-copy^=a-]"));
        let taken = conformance::poll::until("the answer is copied", || {
            browser.run("return window.taken ?? null", &[]).as_array().cloned()
        });
        assert_eq!(taken[0], "The rent is due.\n\nOn the fifth.");
        assert!(taken[1].as_str().expect("HTML").contains("<strong>rent</strong>"), "{taken:?}");
        let says = "const copy = document.querySelector('[data-copy^=a-]'); return copy.innerText === copy.dataset.done";
        conformance::poll::until("the button says so", || (browser.run(says, &[]) == true).then_some(()));
    });
}

#[test]
fn formulas_are_drawn_and_copied_as_they_were_written() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.will([
            Say::text("So \\(a_1^2\\) is\n\n\\[\\frac{1}{2}\\]\n\n1. \\(x\\)"),
            Say::Hold,
            Say::text(" and $y$."),
        ]);
        browser.write(&browser.find("textarea"), "What?");
        browser.press(Key::Enter);
        let _ = browser.find(".answer .formula math[display=block] mfrac");
        let is_high = "return document.querySelector('.answer mfrac').getBoundingClientRect().height > 20";
        assert_eq!(browser.run(is_high, &[]), true, "numbers stand above each other");
        stage.vendor.release();
        let _ = browser.find(".conversation[data-state=idle]");
        let copied = browser.run(
            "getSelection().selectAllChildren(document.querySelector('.answer .prose'));
            const event = new ClipboardEvent('copy', { clipboardData: new DataTransfer(), cancelable: true });
            document.dispatchEvent(event);
            return event.clipboardData.getData('text/plain')",
            &[],
        );
        assert_eq!(copied, "So \\(a_1^2\\) is\n\n\\[\\frac{1}{2}\\]\n\n\\(x\\) and \\(y\\).");
    });
}

#[test]
fn a_question_that_is_asked_elsewhere_appears() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        let path = stage.answered("What is first?");
        stage.open(&path);
        browser.write(&browser.find(".dock textarea"), "A draft");
        browser.run("window.kept = true", &[]);
        let api = stage.service.api(&stage.account);
        for (question, answer) in
            [("What is second?", "The second answer."), ("What is third?", "The third answer.")]
        {
            stage.vendor.will([Say::text(answer), Say::Hold, Say::text(" And its end.")]);
            let chat = path.strip_prefix("/c/");
            let _ = api.accepted(&json!({ "input": question, "chatId": chat }));
            stage.vendor.wait_held(1);
            browser.wait_text(question);
            browser.wait_text(answer);
            stage.vendor.release();
            browser.wait_text(&format!("{answer} And its end."));
            let _ = browser.find(".conversation[data-state=idle]");
        }
        let stays = "return [window.kept, document.querySelector('.dock textarea').value, document.querySelectorAll('.exchange').length]";
        assert_eq!(browser.run(stays, &[]), json!([true, "A draft", 3]), "the page was not loaded again");
        browser.run("document.querySelector('.dock textarea').value = ''", &[]);
    });
}

#[test]
fn code_is_copied_by_itself() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.will([
            Say::text("Run it:\n\n```sh\nls -l\n\npwd\n```\n\nand then:\n\n```\nexit\n```\n"),
            Say::Hold,
            Say::text("\nDone."),
        ]);
        browser.write(&browser.find("textarea"), "How?");
        browser.press(Key::Enter);
        browser.wait_text("exit");
        // The clipboard of a test's browser is closed; its place takes what would go there.
        let taking = "navigator.clipboard.writeText = async (text) => { window.taken = text; };
            navigator.clipboard.write = async ([item]) => {
                window.taken = await (await item.getType('text/html')).text();
            };";
        browser.run(taking, &[]);
        let copied = |says: &str| {
            let taken = conformance::poll::until("code is copied", || {
                browser
                    .run("const it = window.taken; window.taken = null; return it ?? null", &[])
                    .as_str()
                    .map(str::to_owned)
            });
            let status = "return document.querySelector('[data-copied]').textContent !== ''";
            conformance::poll::until(says, || (browser.run(status, &[]) == true).then_some(()));
            taken
        };
        // The keyboard reaches the button before its code.
        let focus = "const [first] = document.querySelectorAll('.copy-code'); first.focus();
            return [getComputedStyle(first).opacity, document.getElementById(first.getAttribute('aria-labelledby')).textContent]";
        let language = browser.run("return document.documentElement.lang", &[]);
        let label = match language.as_str() {
            Some("cs") => "Kopírovat kód",
            Some("sk") => "Kopírovať kód",
            _ => "Copy code",
        };
        conformance::poll::until("it is shown", || {
            (browser.run(focus, &[]) == serde_json::json!(["1", label])).then_some(())
        });
        browser.press(Key::Enter);
        assert_eq!(copied("the first is announced"), "ls -l\n\npwd");
        stage.vendor.release();
        browser.wait_text("Done.");
        let _ = browser.find(".conversation[data-state=idle]");
        browser.run("document.querySelectorAll('.copy-code')[1].click()", &[]);
        assert_eq!(copied("the second is announced"), "exit");
        browser.click(&browser.find("[data-copy^=a-]"));
        let answer = conformance::poll::until("the answer is copied", || {
            browser.run("return window.taken ?? null", &[]).as_str().map(str::to_owned)
        });
        assert!(answer.contains("exit") && !answer.contains("button"), "{answer}");
        // Without a script there is none.
        browser.run("document.documentElement.classList.remove('copies')", &[]);
        assert_eq!(browser.run("return document.querySelector('.copy-code').checkVisibility()", &[]), false);
    });
}

#[test]
fn a_question_that_was_asked_comes_back_as_no_draft() {
    let stage = Stage::signed_in(desktop(false, "en"));
    let browser = &stage.browser;
    let draft = || browser.run("return document.querySelector('.composer textarea').value", &[]);
    stage.open("/");
    stage.vendor.will([Say::text("On the fifth.")]);
    browser.write(&browser.find(".home textarea"), "When is the rent due?");
    browser.press(Key::Enter);
    let _ = browser.find("main.conversation[data-state=idle]");
    let goes = |how: &str| {
        browser.run(&format!("window.isOld = true; {how}"), &[]);
        conformance::poll::until("another page", || {
            let is_there = "return !window.isOld && document.readyState === 'complete' && !!document.querySelector('main.home')";
            (browser.run(is_there, &[]) == true).then_some(())
        });
    };
    goes("window.history.back()");
    assert_eq!(draft(), "", "after going back");
    goes("window.location.reload()");
    assert_eq!(draft(), "", "after loading it again");
    goes("window.location.assign('/')");
    assert_eq!(draft(), "", "in a new conversation");
    // A question that is typed again is kept.
    browser.write(&browser.find(".home textarea"), "When is the rent due?");
    stage.open("/files");
    stage.open("/");
    assert_eq!(draft(), "When is the rent due?");
    stage.assert_quiet();
}

#[test]
fn an_answer_is_stopped() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.will([Say::text("Half of it"), Say::Hold, Say::text(" and the rest")]);
        browser.write(&browser.find("textarea"), "Tell me everything");
        browser.click(&browser.find(".send"));
        browser.wait_text("Half of it");
        browser.write(&browser.find(".dock textarea"), "And then?");
        browser.click(&browser.find(".stop"));
        let _ = browser.find(".conversation[data-state=idle] .answer .note");
        browser.wait_text("Half of it");
        let draft = browser.run("return document.querySelector('.dock textarea').value", &[]);
        assert_eq!(draft, "And then?", "a question that is being written stays");
        assert!(browser.find_now(".alert").is_none());
    });
}

#[test]
fn a_question_is_edited_and_versions_are_compared() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.will([Say::text("The first answer.")]);
        let path = stage.answered("What is it?");
        stage.open(&path);
        browser.click(&browser.find(".asked .idle a"));
        let field = browser.find(".edit textarea");
        assert_eq!(browser.run("return document.activeElement.name", &[]), "input", "the text has the focus");
        stage.vendor.will([Say::text("The second "), Say::Hold, Say::text("answer.")]);
        browser.write(&field, " Exactly?");
        browser.press(Key::Enter);
        browser.wait_text("What is it? Exactly?");
        browser.wait_text("The second");
        let hidden = "return [...document.querySelectorAll('.idle')].every((one) => one.offsetHeight === 0)";
        assert_eq!(browser.run(hidden, &[]), true, "what would be refused is not offered");
        stage.vendor.release();
        browser.wait_text("The second answer.");
        let _ = browser.find(".conversation[data-state=idle]");
        browser.wait_text("2 / 2");
        browser.click(&browser.find(".versions [name=answer]"));
        browser.wait_text("The first answer.");
        browser.wait_text("1 / 2");
        assert!(browser.url().contains("#e-"), "the page stays where it was: {}", browser.url());
        stage.vendor.will([Say::text("The third answer.")]);
        browser.click(&browser.find(".versions button.link"));
        browser.wait_text("The third answer.");
        browser.wait_text("3 / 3");
    });
}

#[test]
fn a_conversation_is_deleted_after_a_second_thought() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        let path = stage.answered("Delete me");
        stage.open(&path);
        browser.click(&browser.find(".head .more > summary"));
        browser.click(&browser.find(".head .menu > .confirm:last-child > summary"));
        browser.click(&browser.find(".head .more .danger"));
        let _ = browser.find("main.home");
        assert!(browser.find_now(&format!("[href='{path}']")).is_none());
    });
}

#[test]
fn a_key_is_shown_once_and_revoked() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.open("/keys");
        if browser.find_now("details.panel[open]").is_none() {
            browser.click(&browser.find("details.panel summary"));
        }
        browser.write(&browser.find("[name=name]"), "Script of Ada");
        browser.click(&browser.find("form.fields .primary"));
        let _ = browser.find("#secret");
        let key = browser.run("return document.querySelector('#secret').textContent", &[]);
        let mut api = stage.service.api(&stage.account);
        key.as_str().expect("a key").clone_into(&mut api.key);
        assert_eq!(api.chats("").status, 200);
        // The form was sent in place, so going back needs no second sending.
        let sent = browser.run("return performance.getEntriesByType('navigation')[0].type", &[]);
        assert_eq!(sent, "navigate");
        assert_eq!(browser.run("return document.activeElement.className", &[]), "made");
        stage.open("/machine");
        browser.back();
        let _ = browser.find("details.panel");
        stage.open("/keys");
        let page = browser.run("return document.documentElement.outerHTML", &[]);
        assert!(!page.as_str().expect("a page").contains(&api.key), "it is shown once");
        // The newest key is the first.
        browser.click(&browser.find(".cards li:first-child summary"));
        browser.click(&browser.find(".cards li:first-child .danger"));
        conformance::poll::until("the key is revoked", || (api.chats("").status == 401).then_some(()));
    });
}

#[test]
fn the_machine_is_started_and_stopped() {
    let stage = Stage::signed_in(phone(true, "cs"));
    let browser = &stage.browser;
    stage.open("/machine");
    browser.click(&browser.find(".state.stopped button"));
    // The page follows by itself.
    browser.click(&browser.find(".state.running button"));
    let _ = browser.find(".state.stopped");
    stage.assert_quiet();
}

#[test]
fn credits_are_shown() {
    in_each_view(|stage| {
        stage.answered("What does it cost?");
        stage.open("/credits");
        let _ = stage.browser.find(".figure");
        let _ = stage.browser.find("table meter");
    });
}

#[test]
fn two_browsers_and_a_program_get_an_answer_through_a_kill() {
    let mut stage = Stage::signed_in(desktop(false, "en"));
    let api = stage.service.api(&stage.account);
    stage.vendor.will([Say::text("The first half"), Say::Hold]);
    let answer = api.ask("Tell me both halves");
    let path = format!("/c/{}", answer["chatId"].as_str().expect("an id"));
    let second = WebDriver::start(phone(true, "cs"));
    stage.sign_in_at(&second);
    for browser in [&stage.browser, &second] {
        browser.open(&stage.url(&path));
        browser.wait_text("The first half");
    }
    let mut events = api.events_of(&answer);
    let seen = events.find("the first half", |event| event.text().contains("The first half"));
    stage.service.kill();
    stage.browser.wait_text("The connection was lost. Trying again …");
    second.wait_text("Spojení se přerušilo. Navazuje se znovu …");
    stage.vendor.will([Say::text("The first half and the second.")]);
    stage.service.restart();
    for browser in [&stage.browser, &second] {
        browser.wait_text("The first half and the second.");
        let _ = browser.find(".conversation[data-state=idle]");
        let _ = browser.find("[data-lost]:empty");
        assert!(browser.find_now("[aria-busy]").is_none());
    }
    let api = stage.service.api(&stage.account);
    let (chat, message) = (conformance::api::id(&answer, "chatId"), conformance::api::id(&answer, "id"));
    let resumed = Events::new(api.answer_events(&chat, &message, Some(&seen.id)));
    let last = resumed.rest().pop().expect("the answer's end");
    assert_eq!(last.text(), "The first half and the second.");
}

#[test]
fn an_attached_document_tells_how_far_it_is_read_and_why_it_is_not() {
    let stage = Stage::signed_in(desktop(false, "en"));
    stage.open("/");
    stage.browser.run(
        "const chosen = new DataTransfer();
        const content = Uint8Array.from(arguments[0]);
        chosen.items.add(new File([content], 'the \"locked\" one.pdf'));
        const paste = new ClipboardEvent('paste', { clipboardData: chosen, bubbles: true, cancelable: true });
        document.querySelector('.composer textarea').dispatchEvent(paste);",
        &[json!(document("locked.pdf"))],
    );
    stage.browser.wait_text("Encrypted");
    let said = stage.browser.run("return document.querySelector('.attached li').innerText", &[]);
    let said = said.as_str().expect("text");
    assert!(said.contains("the \"locked\" one.pdf") && said.contains("Encrypted"), "{said}");
    let listing = stage.service.api(&stage.account).list("/uploads").json();
    assert_eq!(listing["entries"][0]["name"], "the \"locked\" one.pdf");
    stage.assert_quiet();
}

#[test]
fn an_account_is_deleted_by_its_owner() {
    let stage = Stage::signed_in(VIEWS[1]);
    let browser = &stage.browser;
    stage.open("/account");
    browser.click(&browser.find("details:has([action='/account/delete']) summary"));
    browser.write(&browser.find("[action='/account/delete'] [name=password]"), PASSWORD);
    browser.click(&browser.find("[action='/account/delete'] [name=sure]"));
    browser.click(&browser.find("[action='/account/delete'] button"));
    let _ = browser.find(".note.done");
    assert!(browser.url().ends_with("/sign-in?done=deleted"), "{}", browser.url());
    assert_eq!(stage.service.api(&stage.account).chats("").status, 401);
    stage.assert_quiet();
}
