//! The flows of owners, performed like people do: they look, click and type.

use e2e::{AnswerStream, KeyboardKey, Say, View, WebDriver};
use serde_json::json;

use crate::citations::read_guest_fixture;
use crate::stage::{BrowserFixture, PASSWORD, desktop_view, phone_view};

/// The flows are the same in each view; together these have both sizes, both themes and every language.
const VIEWS: [View; 3] = [desktop_view(false, "en"), phone_view(true, "cs"), phone_view(false, "sk")];

fn in_each_view(flow: impl Fn(&BrowserFixture)) {
    let stage = BrowserFixture::start_signed_in(VIEWS[0]);
    for view in VIEWS {
        stage.browser.set_view(view);
        stage.open_path("/");
        assert_eq!(stage.browser.run_script("return document.documentElement.lang", &[]), view.language);
        flow(&stage);
        stage.assert_quiet();
    }
}

/// Opens the menu if it is not always open.
fn open_menu(stage: &BrowserFixture) {
    let menu = stage.browser.find_element(".bar button");
    if stage.browser.run_script("return document.querySelector('.bar').offsetHeight > 0", &[]) == true {
        stage.browser.click_element(&menu);
    }
}

#[test]
fn sign_in_refuses_works_ends() {
    let stage = BrowserFixture::new(VIEWS[0]);
    let browser = &stage.browser;
    for view in VIEWS {
        browser.set_view(view);
        stage.open_path("/keys");
        assert!(browser.page_url().ends_with("/sign-in?next=/keys"), "{}", browser.page_url());
        stage.sign_in("wrong horse");
        let _ = browser.find_element("[role=alert]");
        let complaints = browser.take_console_messages();
        assert!(complaints.iter().all(|text| text.contains("401")), "the status alone: {complaints:?}");
        stage.sign_in(PASSWORD);
        let _ = browser.find_element("main.page");
        assert!(browser.page_url().ends_with("/keys"));
        open_menu(&stage);
        browser.click_element(&browser.find_element("[action='/sign-out'] button"));
        let _ = browser.find_element("[name=password]");
        stage.open_path("/");
        assert!(browser.page_url().ends_with("/sign-in"));
        stage.assert_quiet();
    }
}

#[test]
fn keyboard_suffices_to_ask() {
    let stage = BrowserFixture::new(desktop_view(true, "sk"));
    let browser = &stage.browser;
    stage.open_path("/sign-in");
    let focused = || browser.run_script("return document.activeElement.name ?? ''", &[]);
    assert_eq!(focused(), "email", "the first field has the focus");
    browser.type_text(&browser.find_element(":focus"), &stage.account.email);
    browser.press_key(KeyboardKey::Tab);
    assert_eq!(focused(), "password");
    browser.type_text(&browser.find_element(":focus"), PASSWORD);
    browser.press_key(KeyboardKey::Enter);
    let _ = browser.find_element("main.home");
    assert_eq!(focused(), "input", "the question has the focus");
    browser.type_text(&browser.find_element(":focus"), "By keyboard?");
    browser.press_key(KeyboardKey::Enter);
    let _ = browser.find_element(".conversation[data-state=idle] .answer .prose");
    // From the beginning of the page, the first tab stop leads to its content.
    browser.run_script("document.activeElement.blur(); window.scrollTo(0, 0);", &[]);
    stage.open_path("/keys");
    browser.press_key(KeyboardKey::Tab);
    browser.press_key(KeyboardKey::Enter);
    assert!(browser.page_url().ends_with("#main"), "{}", browser.page_url());
    stage.assert_quiet();
}

#[test]
fn answer_grows_in_place() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.add_script([
            Say::from_text("The **first** half"),
            Say::Hold,
            Say::from_text(" and the second."),
        ]);
        browser.type_text(&browser.find_element("textarea"), "Tell me both halves");
        browser.press_key(KeyboardKey::Enter);
        stage.vendor.wait_for_holds(1);
        browser.wait_for_text("The first half");
        let _ = browser.find_element("[aria-busy=true]");
        // Existing elements stay the same, so that a selection survives.
        browser.run_script("window.kept = document.querySelector('.answer strong')", &[]);
        stage.vendor.release_hold();
        browser.wait_for_text("The first half and the second.");
        let _ = browser.find_element(".conversation[data-state=idle]");
        assert_eq!(
            browser.run_script("return window.kept.isConnected", &[]),
            true,
            "neither replaced nor reloaded"
        );
        assert!(browser.find_element_now("[aria-busy]").is_none());
        stage.vendor.add_script([Say::from_text("The follow-up.")]);
        browser.type_text(&browser.find_element("textarea"), "And then?");
        browser.click_element(&browser.find_element(".send"));
        browser.wait_for_text("The follow-up.");
    });
}

#[test]
fn long_answer_looks_same_when_reopened() {
    const BLOCKS: &str =
        "return [...document.querySelectorAll('.answer .segment > *')].map((block) => block.outerHTML)";
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let browser = &stage.browser;
    let paragraph = "A sentence that is repeated until a segment of the text is full. ".repeat(6);
    let chapter = |number: usize| {
        format!(
            "# Chapter {number}\n\n{paragraph}\n\n- one\n- two\n\n##### Deep\n\n```\ncode\n```\n\n{paragraph}\n\n"
        )
    };
    let script = (1..=5).flat_map(|number| [Say::from_text(&chapter(number)), Say::Hold]);
    stage.vendor.add_script(script.chain([Say::from_text("The end.")]).collect::<Vec<_>>());
    browser.type_text(&browser.find_element("textarea"), "Tell me everything");
    browser.press_key(KeyboardKey::Enter);
    for number in 1..=5 {
        browser.wait_for_text(&format!("Chapter {number}"));
        stage.vendor.release_hold();
    }
    let _ = browser.find_element(".conversation[data-state=idle]");
    let grown = browser.run_script(BLOCKS, &[]);
    assert!(grown.as_array().expect("blocks").len() > 25, "{grown}");
    browser.open_page(&browser.page_url());
    assert_eq!(browser.run_script(BLOCKS, &[]), grown);
}

#[test]
fn page_follows_answer_until_scrolled_up() {
    const FROM_END: &str = "const { scrollHeight } = document.documentElement;
        return scrollHeight - window.innerHeight - window.scrollY";
    let stage = BrowserFixture::start_signed_in(phone_view(false, "en"));
    let browser = &stage.browser;
    let paragraphs = |from: usize| {
        let paragraph = "It goes on and on, in sentences that nobody needs. ".repeat(8);
        (from..from + 40).map(|number| format!("Point {number}: {paragraph}\n\n")).collect::<String>()
    };
    let parts = [1, 41, 81, 121].into_iter().flat_map(|from| [Say::from_text(&paragraphs(from)), Say::Hold]);
    stage.vendor.add_script(parts.chain([Say::from_text("The end.")]).collect::<Vec<_>>());
    browser.type_text(&browser.find_element("textarea"), "Go on");
    browser.press_key(KeyboardKey::Enter);
    let is_at_end = || {
        let at_end =
            || browser.run_script(FROM_END, &[]).as_f64().is_some_and(|pixels| pixels < 100.0).then_some(());
        let reached = e2e::poll::poll_in_time(at_end);
        assert!(reached.is_some(), "{} pixels from the end", browser.run_script(FROM_END, &[]));
    };
    let shown = |number: usize| browser.wait_for_text(&format!("Point {number}: It goes on"));
    for last in [40, 80] {
        stage.vendor.wait_for_holds(1);
        shown(last);
        is_at_end();
        stage.vendor.release_hold();
    }
    stage.vendor.wait_for_holds(1);
    shown(120);
    is_at_end();
    let wheel = serde_json::json!({ "type": "mouseWheel", "x": 150, "y": 300, "deltaX": 0, "deltaY": -900 });
    browser.send_cdp_command("Input.dispatchMouseEvent", &wheel);
    let paused = e2e::poll::wait_until("the page was scrolled", || {
        browser.run_script(FROM_END, &[]).as_f64().filter(|pixels| *pixels > 500.0)
    });
    stage.vendor.release_hold();
    stage.vendor.wait_for_holds(1);
    shown(160);
    let from_end = browser.run_script(FROM_END, &[]).as_f64().expect("pixels");
    assert!(from_end > paused + 1_000.0, "it stays where its visitor reads: {from_end}");
    // The rest may arrive before the page notices that its visitor scrolled to the end.
    browser.run_script("window.scrollTo(0, document.documentElement.scrollHeight)", &[]);
    stage.vendor.release_hold();
    browser.wait_for_text("The end.");
    is_at_end();
    stage.assert_quiet();
}

#[test]
fn instant_answer_shown_from_beginning() {
    let stage = BrowserFixture::start_signed_in(phone_view(false, "en"));
    let browser = &stage.browser;
    let paragraph = "It goes on and on, in sentences that nobody needs. ".repeat(8);
    let text: String = (1..40).map(|number| format!("Point {number}: {paragraph}\n\n")).collect();
    stage.vendor.add_script([Say::Hold, Say::from_text(&text)]);
    browser.type_text(&browser.find_element("textarea"), "Go on");
    browser.press_key(KeyboardKey::Enter);
    let _ = browser.find_element(".conversation[data-state=open] .answer");
    // On a busy host, the event of the page's scroll to the end arrives only after the answer's last one.
    browser.run_script(
        "new MutationObserver(() => {
            window.scrollTo({ top: document.documentElement.scrollHeight });
            document.dispatchEvent(new Event('scroll'));
        }).observe(document.getElementById('main'), { attributeFilter: ['data-state'] })",
        &[],
    );
    stage.vendor.release_hold();
    let _ = browser.find_element(".conversation[data-state=idle] .answer .prose");
    let begins = "const { top } = document.querySelector('.answer .prose').getBoundingClientRect();
        return top >= 0 && top < window.innerHeight";
    e2e::poll::wait_until("its beginning is in view", || {
        (browser.run_script(begins, &[]) == true).then_some(())
    });
    stage.assert_quiet();
}

#[test]
fn copied_answer_omits_steps() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.add_script([
            Say::Reasoning("Let me think.".to_owned()),
            Say::Call { tool: "list".to_owned(), arguments: serde_json::json!({}) },
        ]);
        stage.vendor.add_script([Say::from_text("The **rent** is due.\n\nOn the fifth.")]);
        browser.type_text(&browser.find_element("textarea"), "When?");
        browser.press_key(KeyboardKey::Enter);
        let _ = browser.find_element(".conversation[data-state=idle] .answer .prose strong");
        // The clipboard of a test's browser is disabled; a variable replaces it.
        browser.run_script(
            "navigator.clipboard.write = async ([item]) => {
                const kinds = ['text/plain', 'text/html'];
                window.taken = await Promise.all(kinds.map(async (kind) => (await item.getType(kind)).text()));
            }",
            &[],
        );
        browser.click_element(&browser.find_element("[data-copy^=a-]"));
        let taken = e2e::poll::wait_until("the answer is copied", || {
            browser.run_script("return window.taken ?? null", &[]).as_array().cloned()
        });
        assert_eq!(taken[0], "The rent is due.\n\nOn the fifth.");
        assert!(taken[1].as_str().expect("HTML").contains("<strong>rent</strong>"), "{taken:?}");
        let says = "const copy = document.querySelector('[data-copy^=a-]'); return copy.innerText === copy.dataset.done";
        e2e::poll::wait_until("the button says so", || (browser.run_script(says, &[]) == true).then_some(()));
    });
}

#[test]
fn formulas_drawn_and_copied_verbatim() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.add_script([
            Say::from_text("So \\(a_1^2\\) is\n\n\\[\\frac{1}{2}\\]\n\n1. \\(x\\)"),
            Say::Hold,
            Say::from_text(" and $y$."),
        ]);
        browser.type_text(&browser.find_element("textarea"), "What?");
        browser.press_key(KeyboardKey::Enter);
        let _ = browser.find_element(".answer .formula math[display=block] mfrac");
        let is_high = "return document.querySelector('.answer mfrac').getBoundingClientRect().height > 20";
        assert_eq!(browser.run_script(is_high, &[]), true, "numbers are aligned");
        stage.vendor.release_hold();
        let _ = browser.find_element(".conversation[data-state=idle]");
        let copied = browser.run_script(
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
fn question_asked_elsewhere_appears() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        let path = stage.ask_and_wait("What is first?");
        stage.open_path(&path);
        browser.type_text(&browser.find_element(".dock textarea"), "A draft");
        browser.run_script("window.kept = true", &[]);
        let api = stage.service.api_for(&stage.account);
        for (question, answer) in
            [("What is second?", "The second answer."), ("What is third?", "The third answer.")]
        {
            stage.vendor.add_script([Say::from_text(answer), Say::Hold, Say::from_text(" And its end.")]);
            let chat = path.strip_prefix("/c/");
            let _ = api.expect_accepted(&json!({ "input": question, "chatId": chat }));
            stage.vendor.wait_for_holds(1);
            browser.wait_for_text(question);
            browser.wait_for_text(answer);
            stage.vendor.release_hold();
            browser.wait_for_text(&format!("{answer} And its end."));
            let _ = browser.find_element(".conversation[data-state=idle]");
        }
        let stays = "return [window.kept, document.querySelector('.dock textarea').value, document.querySelectorAll('.exchange').length]";
        assert_eq!(
            browser.run_script(stays, &[]),
            json!([true, "A draft", 3]),
            "the page was not loaded again"
        );
        browser.run_script("document.querySelector('.dock textarea').value = ''", &[]);
    });
}

#[test]
fn code_is_copied_by_itself() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.add_script([
            Say::from_text("Run it:\n\n```sh\nls -l\n\npwd\n```\n\nand then:\n\n```\nexit\n```\n"),
            Say::Hold,
            Say::from_text("\nDone."),
        ]);
        browser.type_text(&browser.find_element("textarea"), "How?");
        browser.press_key(KeyboardKey::Enter);
        browser.wait_for_text("exit");
        // The clipboard of a test's browser is disabled; a variable replaces it.
        let taking = "navigator.clipboard.writeText = async (text) => { window.taken = text; };
            navigator.clipboard.write = async ([item]) => {
                window.taken = await (await item.getType('text/html')).text();
            };";
        browser.run_script(taking, &[]);
        let copied = |says: &str| {
            let taken = e2e::poll::wait_until("code is copied", || {
                browser
                    .run_script("const it = window.taken; window.taken = null; return it ?? null", &[])
                    .as_str()
                    .map(str::to_owned)
            });
            let status = "return document.querySelector('[data-copied]').textContent !== ''";
            e2e::poll::wait_until(says, || (browser.run_script(status, &[]) == true).then_some(()));
            taken
        };
        // The keyboard reaches the button before its code.
        let focus = "const [first] = document.querySelectorAll('.copy-code'); first.focus();
            return [getComputedStyle(first).opacity, document.getElementById(first.getAttribute('aria-labelledby')).textContent]";
        let language = browser.run_script("return document.documentElement.lang", &[]);
        let label = match language.as_str() {
            Some("cs") => "Kopírovat kód",
            Some("sk") => "Kopírovať kód",
            _ => "Copy code",
        };
        e2e::poll::wait_until("it is shown", || {
            (browser.run_script(focus, &[]) == serde_json::json!(["1", label])).then_some(())
        });
        browser.press_key(KeyboardKey::Enter);
        assert_eq!(copied("the first is announced"), "ls -l\n\npwd");
        stage.vendor.release_hold();
        browser.wait_for_text("Done.");
        let _ = browser.find_element(".conversation[data-state=idle]");
        browser.run_script("document.querySelectorAll('.copy-code')[1].click()", &[]);
        assert_eq!(copied("the second is announced"), "exit");
        browser.click_element(&browser.find_element("[data-copy^=a-]"));
        let answer = e2e::poll::wait_until("the answer is copied", || {
            browser.run_script("return window.taken ?? null", &[]).as_str().map(str::to_owned)
        });
        assert!(answer.contains("exit") && !answer.contains("button"), "{answer}");
        // Without scripts, the button is hidden.
        browser.run_script("document.documentElement.classList.remove('copies')", &[]);
        assert_eq!(
            browser.run_script("return document.querySelector('.copy-code').checkVisibility()", &[]),
            false
        );
    });
}

#[test]
fn asked_question_leaves_no_draft() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let browser = &stage.browser;
    let draft = || browser.run_script("return document.querySelector('.composer textarea').value", &[]);
    stage.open_path("/");
    stage.vendor.add_script([Say::from_text("On the fifth.")]);
    browser.type_text(&browser.find_element(".home textarea"), "When is the rent due?");
    browser.press_key(KeyboardKey::Enter);
    let _ = browser.find_element("main.conversation[data-state=idle]");
    let goes = |how: &str| {
        browser.run_script(&format!("window.isOld = true; {how}"), &[]);
        e2e::poll::wait_until("another page", || {
            let is_there = "return !window.isOld && document.readyState === 'complete' && !!document.querySelector('main.home')";
            (browser.run_script(is_there, &[]) == true).then_some(())
        });
    };
    goes("window.history.back()");
    assert_eq!(draft(), "", "after going back");
    goes("window.location.reload()");
    assert_eq!(draft(), "", "after loading it again");
    goes("window.location.assign('/')");
    assert_eq!(draft(), "", "in a new conversation");
    // A retyped question is kept.
    browser.type_text(&browser.find_element(".home textarea"), "When is the rent due?");
    stage.open_path("/files");
    stage.open_path("/");
    assert_eq!(draft(), "When is the rent due?");
    stage.assert_quiet();
}

#[test]
fn an_answer_is_stopped() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.add_script([Say::from_text("Half of it"), Say::Hold, Say::from_text(" and the rest")]);
        browser.type_text(&browser.find_element("textarea"), "Tell me everything");
        browser.click_element(&browser.find_element(".send"));
        browser.wait_for_text("Half of it");
        browser.type_text(&browser.find_element(".dock textarea"), "And then?");
        browser.click_element(&browser.find_element(".stop"));
        let _ = browser.find_element(".conversation[data-state=idle] .answer .note");
        browser.wait_for_text("Half of it");
        let draft = browser.run_script("return document.querySelector('.dock textarea').value", &[]);
        assert_eq!(draft, "And then?", "a question that is being written stays");
        assert!(browser.find_element_now(".alert").is_none());
    });
}

#[test]
fn edited_question_versions_are_compared() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.vendor.add_script([Say::from_text("The first answer.")]);
        let path = stage.ask_and_wait("What is it?");
        stage.open_path(&path);
        browser.click_element(&browser.find_element(".asked .idle a"));
        let field = browser.find_element(".edit textarea");
        assert_eq!(
            browser.run_script("return document.activeElement.name", &[]),
            "input",
            "the text has the focus"
        );
        stage.vendor.add_script([Say::from_text("The second "), Say::Hold, Say::from_text("answer.")]);
        browser.type_text(&field, " Exactly?");
        browser.press_key(KeyboardKey::Enter);
        browser.wait_for_text("What is it? Exactly?");
        browser.wait_for_text("The second");
        let hidden = "return [...document.querySelectorAll('.idle')].every((one) => one.offsetHeight === 0)";
        assert_eq!(browser.run_script(hidden, &[]), true, "what would be refused is not offered");
        stage.vendor.release_hold();
        browser.wait_for_text("The second answer.");
        let _ = browser.find_element(".conversation[data-state=idle]");
        browser.wait_for_text("2 / 2");
        browser.click_element(&browser.find_element(".versions [name=answer]"));
        browser.wait_for_text("The first answer.");
        browser.wait_for_text("1 / 2");
        assert!(browser.page_url().contains("#e-"), "the page stays where it was: {}", browser.page_url());
        stage.vendor.add_script([Say::from_text("The third answer.")]);
        browser.click_element(&browser.find_element(".versions button.link"));
        browser.wait_for_text("The third answer.");
        browser.wait_for_text("3 / 3");
    });
}

#[test]
fn conversation_deletion_asks_for_confirmation() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        let path = stage.ask_and_wait("Delete me");
        stage.open_path(&path);
        browser.click_element(&browser.find_element(".head .more > summary"));
        browser.click_element(&browser.find_element(".head .menu > .confirm:last-child > summary"));
        browser.click_element(&browser.find_element(".head .more .danger"));
        let _ = browser.find_element("main.home");
        assert!(browser.find_element_now(&format!("[href='{path}']")).is_none());
    });
}

#[test]
fn key_secret_is_shown_once() {
    in_each_view(|stage| {
        let browser = &stage.browser;
        stage.open_path("/keys");
        if browser.find_element_now("details.panel[open]").is_none() {
            browser.click_element(&browser.find_element("details.panel summary"));
        }
        browser.type_text(&browser.find_element("[name=name]"), "Script of Ada");
        browser.click_element(&browser.find_element("form.fields .primary"));
        let _ = browser.find_element("#secret");
        let key = browser.run_script("return document.querySelector('#secret').textContent", &[]);
        let mut api = stage.service.api_for(&stage.account);
        key.as_str().expect("a key").clone_into(&mut api.key);
        assert_eq!(api.list_chats("").status, 200);
        // The form was sent in place, so going back needs no second sending.
        let sent = browser.run_script("return performance.getEntriesByType('navigation')[0].type", &[]);
        assert_eq!(sent, "navigate");
        assert_eq!(browser.run_script("return document.activeElement.className", &[]), "made");
        stage.open_path("/machine");
        browser.go_back();
        let _ = browser.find_element("details.panel");
        stage.open_path("/keys");
        let page = browser.run_script("return document.documentElement.outerHTML", &[]);
        assert!(!page.as_str().expect("a page").contains(&api.key), "it is shown once");
        // The newest key is the first.
        browser.click_element(&browser.find_element(".cards li:first-child summary"));
        browser.click_element(&browser.find_element(".cards li:first-child .danger"));
        e2e::poll::wait_until("the key is revoked", || (api.list_chats("").status == 401).then_some(()));
    });
}

#[test]
fn the_machine_is_started_and_stopped() {
    let stage = BrowserFixture::start_signed_in(phone_view(true, "cs"));
    let browser = &stage.browser;
    stage.open_path("/machine");
    browser.click_element(&browser.find_element(".state.stopped button"));
    // The page follows automatically.
    browser.click_element(&browser.find_element(".state.running button"));
    let _ = browser.find_element(".state.stopped");
    stage.assert_quiet();
}

#[test]
fn credits_are_shown() {
    in_each_view(|stage| {
        stage.ask_and_wait("What does it cost?");
        stage.open_path("/credits");
        let _ = stage.browser.find_element(".figure");
        let _ = stage.browser.find_element("table meter");
    });
}

#[test]
fn two_browsers_and_program_survive_kill() {
    let mut stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let api = stage.service.api_for(&stage.account);
    stage.vendor.add_script([Say::from_text("The first half"), Say::Hold]);
    let answer = api.ask_question("Tell me both halves");
    let path = format!("/c/{}", answer["chatId"].as_str().expect("an id"));
    let second = WebDriver::start(phone_view(true, "cs"));
    stage.sign_in_at(&second);
    for browser in [&stage.browser, &second] {
        browser.open_page(&stage.service_url(&path));
        browser.wait_for_text("The first half");
    }
    let mut events = api.stream_answer(&answer);
    let seen = events.find_event("the first half", |event| event.text().contains("The first half"));
    stage.service.kill();
    stage.browser.wait_for_text("The connection was lost. Trying again …");
    second.wait_for_text("Spojení se přerušilo. Navazuje se znovu …");
    stage.vendor.add_script([Say::from_text("The first half and the second.")]);
    stage.service.restart();
    for browser in [&stage.browser, &second] {
        browser.wait_for_text("The first half and the second.");
        let _ = browser.find_element(".conversation[data-state=idle]");
        let _ = browser.find_element("[data-lost]:empty");
        assert!(browser.find_element_now("[aria-busy]").is_none());
    }
    let api = stage.service.api_for(&stage.account);
    let (chat, message) = (e2e::api::id_field(&answer, "chatId"), e2e::api::id_field(&answer, "id"));
    let resumed = AnswerStream::new(api.answer_events(&chat, &message, Some(&seen.id)));
    let last = resumed.remaining_events().pop().expect("the answer's end");
    assert_eq!(last.text(), "The first half and the second.");
}

#[test]
fn attached_document_shows_reading_progress() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.open_path("/");
    stage.browser.run_script(
        "const chosen = new DataTransfer();
        const content = Uint8Array.from(arguments[0]);
        chosen.items.add(new File([content], 'the \"locked\" one.pdf'));
        const paste = new ClipboardEvent('paste', { clipboardData: chosen, bubbles: true, cancelable: true });
        document.querySelector('.composer textarea').dispatchEvent(paste);",
        &[json!(read_guest_fixture("locked.pdf"))],
    );
    stage.browser.wait_for_text("Encrypted");
    let said = stage.browser.run_script("return document.querySelector('.attached li').innerText", &[]);
    let said = said.as_str().expect("text");
    assert!(said.contains("the \"locked\" one.pdf") && said.contains("Encrypted"), "{said}");
    let listing = stage.service.api_for(&stage.account).list_directory("/uploads").json();
    assert_eq!(listing["entries"][0]["name"], "the \"locked\" one.pdf");
    stage.assert_quiet();
}

#[test]
fn owner_deletes_own_account() {
    let stage = BrowserFixture::start_signed_in(VIEWS[1]);
    let browser = &stage.browser;
    stage.open_path("/account");
    browser.click_element(&browser.find_element("details:has([action='/account/delete']) summary"));
    browser.type_text(&browser.find_element("[action='/account/delete'] [name=password]"), PASSWORD);
    browser.click_element(&browser.find_element("[action='/account/delete'] [name=sure]"));
    browser.click_element(&browser.find_element("[action='/account/delete'] button"));
    let _ = browser.find_element(".note.done");
    assert!(browser.page_url().ends_with("/sign-in?done=deleted"), "{}", browser.page_url());
    assert_eq!(stage.service.api_for(&stage.account).list_chats("").status, 401);
    stage.assert_quiet();
}
