//! Makes the pictures of the documentation: a service with sample data in headless Chromium. The argument is the folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::{Say, ScriptedVendor, ServiceOptions, TestAccount, TestService, View, WebDriver};
use serde_json::json;

const PASSWORD: &str = "correct horse";
const PICTURE_MAX_BYTES: u64 = 100_000;
const LEASE: &str = "Lease agreement, flat 7\n\n\
    3. The rent is 14,500 crowns a month and is due on the fifth day of each month.\n\
    4. A tenant who is late with the rent pays interest of 0.1 per cent a day.\n\
    8. Either side may give notice in writing. The notice period is three months and begins on the first day of the month \
    after the notice was delivered.\n\
    9. The deposit of two rents is returned within one month after the flat was handed over.\n";
const ANSWER: &str = "The notice period is **three months**. It begins on the first day of the month after the notice was \
    delivered [1].\n\nIf you hand in the notice on 23 November:\n\n\
    | step | date |\n|---|---|\n| The notice period begins | 1 December 2026 |\n| The lease ends | 28 February 2027 |\n\
    | The deposit is returned at the latest | 28 March 2027 |\n\n\
    The notice has to be **in writing**, and the deposit of two rents comes back within one month after you hand over the flat [1].";

fn main() {
    let to = std::env::args().nth(1).expect("the folder of the pictures");
    let to = Path::new(&to);
    fs::create_dir_all(to).expect("a folder");
    let vendor = ScriptedVendor::start();
    let model = json!({ "id": "mistral-small", "object": "model", "created": 0, "owned_by": "example" });
    vendor.set_model_list(Some((200, json!({ "object": "list", "data": [model] }))));
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let account = create_account(&service);
    let conversation = play_story(&service, &vendor, &account);
    let desktop = View { width: 1200, height: 900, dark: false, language: "en" };
    // The height of the conversation with its versions.
    let high = View { height: 1000, ..desktop };
    let phone = View { width: 390, height: 780, dark: true, language: "en" };
    let browser = WebDriver::start(desktop);
    let open = |path: &str| browser.open_page(&format!("http://{}{path}", service.address()));
    let picture = |name: &str| {
        browser.run_script("document.activeElement?.blur(); window.scrollTo(0, 0);", &[]);
        write_picture(&to.join(format!("{name}.png")), &browser.take_screenshot());
    };
    open("/sign-in");
    browser.type_text(&browser.find_element("[name=email]"), &account.email);
    browser.type_text(&browser.find_element("[name=password]"), PASSWORD);
    browser.click_element(&browser.find_element("form.fields button"));
    let _ = browser.find_element("main.home");
    // The answer has a second version.
    script_answers(&vendor);
    open(&conversation);
    browser.click_element(&browser.find_element(".versions button.link"));
    browser.wait_for_text("2 / 2");
    let _ = browser.find_element(".conversation[data-state=idle]");
    for (name, view, path) in [
        ("home", desktop, "/"),
        ("conversation", high, &*conversation),
        ("conversation-phone", phone, &conversation),
        ("credits", desktop, "/credits"),
        ("keys-phone", phone, "/keys"),
    ] {
        browser.set_view(view);
        open(path);
        picture(name);
    }
}

/// Writes a picture with a minimal palette, so that it is small.
fn write_picture(path: &Path, picture: &[u8]) {
    fs::write(path, picture).expect("a picture");
    let mut command = Command::new("pngquant");
    command.args(["--force", "--strip", "--speed", "1", "--output"]).arg(path).arg(path);
    assert!(command.status().expect("pngquant: `make screenshots` installs it").success());
    let size = fs::metadata(path).expect("a picture").len();
    assert!(size <= PICTURE_MAX_BYTES, "{} has {size} bytes", path.display());
}

fn create_account(service: &TestService) -> TestAccount {
    let email = "ada@example.org";
    let made = service.run_admin_command(&[
        "account",
        "create",
        "--email",
        email,
        "--licence-until",
        "2027-12-31",
        "--credits",
        "10000",
    ]);
    let id = made["accountId"].as_str().expect("an id").to_owned();
    let arguments = ["account", "set-password", "--account", email, "--password-stdin"];
    assert!(
        service.try_admin_command_with_stdin(&arguments, format!("{PASSWORD}\n").as_bytes()).status.success()
    );
    let made = service.run_admin_command(&["key", "create", "--account", email, "--name", "Nightly report"]);
    let text = |field: &str| made[field].as_str().expect("a key and its id").to_owned();
    TestAccount { id, email: email.to_owned(), key: text("key"), key_id: text("keyId") }
}

/// Makes the model look up the answer and write it.
fn script_answers(vendor: &ScriptedVendor) {
    let search = json!({ "query": "notice period lease flat 7" });
    let plan = "The lease is attached; its clause on notice answers this.";
    vendor.add_script([
        Say::Reasoning(plan.to_owned()),
        Say::Call { tool: "search".to_owned(), arguments: search },
    ]);
    vendor.add_script([Say::from_text(ANSWER)]);
}

/// Creates some conversations and returns the path of the one to show.
fn play_story(service: &TestService, vendor: &ScriptedVendor, account: &TestAccount) -> String {
    let api = service.api_for(account);
    assert_eq!(api.upload_file("Lease flat 7.txt", LEASE.as_bytes()).status, 201);
    for question in [
        "Summarise the minutes of the owners' meeting",
        "Which invoices are still open?",
        "Draft a reply to the letter of the housing office",
    ] {
        api.wait_for_completion(&api.ask_question(question));
    }
    script_answers(vendor);
    let input = "When does the lease of flat 7 end if I give notice today?";
    let question = json!({ "input": input, "filePaths": ["/uploads/Lease flat 7.txt"] });
    let answer = api.wait_for_completion(&api.expect_accepted(&question));
    format!("/c/{}", answer["chatId"].as_str().expect("an id"))
}
