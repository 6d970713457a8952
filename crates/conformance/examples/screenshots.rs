//! Makes the pictures of the documentation: a service with a story in it, seen by headless Chromium. The argument is the folder.

use std::fs;
use std::path::Path;
use std::process::Command;

use conformance::{Account, Options, Say, Service, Vendor, View, WebDriver};
use serde_json::json;

const PASSWORD: &str = "correct horse";
/// The largest picture.
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
    let vendor = Vendor::start();
    let model = json!({ "id": "mistral-small", "object": "model", "created": 0, "owned_by": "example" });
    vendor.lists(Some((200, json!({ "object": "list", "data": [model] }))));
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let account = account(&service);
    let conversation = story(&service, &vendor, &account);
    let desktop = View { width: 1200, height: 900, dark: false, language: "en" };
    // As high as the conversation with its versions.
    let high = View { height: 1000, ..desktop };
    let phone = View { width: 390, height: 780, dark: true, language: "en" };
    let browser = WebDriver::start(desktop);
    let open = |path: &str| browser.open(&format!("http://{}{path}", service.address()));
    let picture = |name: &str| {
        browser.run("document.activeElement?.blur(); window.scrollTo(0, 0);", &[]);
        write(&to.join(format!("{name}.png")), &browser.screenshot());
    };
    open("/sign-in");
    browser.write(&browser.find("[name=email]"), &account.email);
    browser.write(&browser.find("[name=password]"), PASSWORD);
    browser.click(&browser.find("form.fields button"));
    let _ = browser.find("main.home");
    // The answer has a second version.
    answers(&vendor);
    open(&conversation);
    browser.click(&browser.find(".versions button.link"));
    browser.wait_text("2 / 2");
    let _ = browser.find(".conversation[data-state=idle]");
    for (name, view, path) in [
        ("home", desktop, "/"),
        ("conversation", high, &*conversation),
        ("conversation-phone", phone, &conversation),
        ("credits", desktop, "/credits"),
        ("keys-phone", phone, "/keys"),
    ] {
        browser.look(view);
        open(path);
        picture(name);
    }
}

/// Writes a picture with as many colours as it needs, so that it is small.
fn write(path: &Path, picture: &[u8]) {
    fs::write(path, picture).expect("a picture");
    let mut command = Command::new("pngquant");
    command.args(["--force", "--strip", "--speed", "1", "--output"]).arg(path).arg(path);
    assert!(command.status().expect("pngquant: `make screenshots` installs it").success());
    let size = fs::metadata(path).expect("a picture").len();
    assert!(size <= PICTURE_MAX_BYTES, "{} has {size} bytes", path.display());
}

fn account(service: &Service) -> Account {
    let email = "ada@example.org";
    let made = service.admin(&[
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
    assert!(service.try_admin_typing(&arguments, format!("{PASSWORD}\n").as_bytes()).status.success());
    let made = service.admin(&["key", "create", "--account", email, "--name", "Nightly report"]);
    let text = |field: &str| made[field].as_str().expect("a key and its id").to_owned();
    Account { id, email: email.to_owned(), key: text("key"), key_id: text("keyId") }
}

/// Has the model look the answer up and write it.
fn answers(vendor: &Vendor) {
    let search = json!({ "query": "notice period lease flat 7" });
    let plan = "The lease is attached; its clause on notice answers this.";
    vendor
        .will([Say::Reasoning(plan.to_owned()), Say::Call { tool: "search".to_owned(), arguments: search }]);
    vendor.will([Say::text(ANSWER)]);
}

/// Has some conversations and returns the path of the one to look at.
fn story(service: &Service, vendor: &Vendor, account: &Account) -> String {
    let api = service.api(account);
    assert_eq!(api.upload("Lease flat 7.txt", LEASE.as_bytes()).status, 201);
    for question in [
        "Summarise the minutes of the owners' meeting",
        "Which invoices are still open?",
        "Draft a reply to the letter of the housing office",
    ] {
        api.completed(&api.ask(question));
    }
    answers(vendor);
    let input = "When does the lease of flat 7 end if I give notice today?";
    let question = json!({ "input": input, "filePaths": ["/uploads/Lease flat 7.txt"] });
    let answer = api.completed(&api.accepted(&question));
    format!("/c/{}", answer["chatId"].as_str().expect("an id"))
}
