//! Measures the pages of the web application in headless Chromium: the time of the first page on a slow phone, and
//! whether an answer of two hundred pages keeps the main thread free while it grows.
//!
//! Needs what `make tools` installs. `CAUSERIE_BIN` is the program to measure.
#![expect(clippy::print_stdout, reason = "its output is what it measured")]

use e2e::{Say, ScriptedVendor, ServiceOptions, TestAccount, TestService, View, WebDriver};
use serde_json::{Value, json};

const PASSWORD: &str = "correct horse";
const PHONE: View = View { width: 390, height: 844, dark: false, language: "en" };
const DESKTOP: View = View { width: 1280, height: 800, dark: false, language: "en" };
/// A phone on a mobile network: the round trip in milliseconds, bytes per second, and the slowdown of its processor.
const ROUND_TRIP_MILLIS: u32 = 150;
const BYTES_PER_SECOND: u32 = 200_000;
const SLOWER: u32 = 4;
/// The answer: two hundred pages of three thousand letters, in paragraphs that arrive one after another.
const PARAGRAPHS: usize = 1_200;
const PARAGRAPH: &str = "The **notice period** is three months and begins on the first day of the month after the notice was \
    delivered. Either side may give notice in writing; a tenant who is late with the rent pays `0.1` per cent a day, which is \
    settled at the end of the year together with the costs of heating, water and the lift. What was agreed about the deposit \
    holds for the garage as well, unless the parties have said otherwise in an annex to this lease, signed by both of them.\n\n";
/// From this duration on, people notice a task of the main thread, and the browser reports it.
const LONG_MILLIS: f64 = 50.0;

fn main() {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let account = service.create_account();
    let arguments = ["account", "set-password", "--account", &account.email, "--password-stdin"];
    assert!(
        service.try_admin_command_with_stdin(&arguments, format!("{PASSWORD}\n").as_bytes()).status.success()
    );
    first_pages(&service, &account);
    long_answer(&service, &vendor, &account);
}

fn sign_in_browser(service: &TestService, account: &TestAccount, view: View) -> WebDriver {
    let browser = WebDriver::start(view);
    browser.open_page(&format!("http://{}/sign-in", service.address()));
    browser.type_text(&browser.find_element("[name=email]"), &account.email);
    browser.type_text(&browser.find_element("[name=password]"), PASSWORD);
    browser.click_element(&browser.find_element("form.fields button"));
    let _ = browser.find_element("main.home");
    browser
}

/// Prints the transferred bytes of each page, and the time until it shows something, on a phone with an empty cache.
fn first_pages(service: &TestService, account: &TestAccount) {
    let browser = sign_in_browser(service, account, PHONE);
    let network = json!({
        "offline": false, "latency": ROUND_TRIP_MILLIS,
        "downloadThroughput": BYTES_PER_SECOND, "uploadThroughput": BYTES_PER_SECOND / 2,
    });
    for path in ["/", "/history", "/files", "/keys", "/account"] {
        browser.open_page("about:blank");
        browser.send_cdp_command("Network.clearBrowserCache", &json!({}));
        // It shows that the browser has the style sheet.
        let style = json!({ "name": "causerie-style", "url": format!("http://{}/", service.address()) });
        browser.send_cdp_command("Network.deleteCookies", &style);
        browser.send_cdp_command("Network.emulateNetworkConditions", &network);
        browser.send_cdp_command("Emulation.setCPUThrottlingRate", &json!({ "rate": SLOWER }));
        browser.open_page(&format!("http://{}{path}", service.address()));
        let seen = browser.run_async_script(
            "await new Promise((done) => new PerformanceObserver(done).observe({ type: 'paint', buffered: true }));
             const [page] = performance.getEntriesByType('navigation');
             const paint = performance.getEntriesByName('first-contentful-paint')[0];
             const parts = performance.getEntriesByType('resource');
             return { bytes: parts.reduce((sum, part) => sum + part.transferSize, page.transferSize),
                 requests: parts.length + 1, paint: paint.startTime, response: page.responseEnd, loaded: page.loadEventEnd };",
            &[],
        );
        let millis = |field: &str| seen[field].as_f64().unwrap_or(f64::NAN);
        println!(
            "{path:<10} {:>7.1} kB in {} requests; response {:.0} ms, first paint {:.0} ms, loaded {:.0} ms",
            millis("bytes") / 1e3,
            seen["requests"],
            millis("response"),
            millis("paint"),
            millis("loaded")
        );
    }
}

/// Prints the tasks of the main thread that were long while the answer grew, as fast as it could.
fn long_answer(service: &TestService, vendor: &ScriptedVendor, account: &TestAccount) {
    let browser = sign_in_browser(service, account, DESKTOP);
    let mut script = Vec::with_capacity(2 * PARAGRAPHS);
    for number in 0..PARAGRAPHS {
        if number % 20 == 0 {
            script.push(Say::Text(format!("## Section {}\n\n", number / 20 + 1)));
        }
        script.extend([Say::from_text(PARAGRAPH), Say::Hold]);
    }
    script.push(Say::from_text("The end."));
    vendor.add_script(script);
    let (api, letters) = (service.api_for(account), PARAGRAPHS * PARAGRAPH.len());
    let answer = api.ask_question("Tell me everything");
    let chat = answer["chatId"].as_str().expect("an id");
    browser.open_page(&format!("http://{}/c/{chat}", service.address()));
    browser.run_script(
        "window.tasks = [];
         new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration)))
             .observe({ type: 'longtask' });",
        &[],
    );
    for _ in 0..PARAGRAPHS {
        vendor.wait_for_holds(1);
        vendor.release_hold();
    }
    api.wait_for_completion(&answer);
    browser.wait_for_text("The end.");
    let tasks = browser.run_script("return window.tasks", &[]);
    let tasks: Vec<f64> = tasks.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let longest = tasks.iter().copied().fold(0.0, f64::max);
    println!(
        "an answer of {letters} letters: {} tasks of more than {LONG_MILLIS} ms while it grew, the longest {longest:.0} ms",
        tasks.len()
    );
}
