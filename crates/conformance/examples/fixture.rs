//! Creates the data that `tests/suite/versions.rs` opens, with the built binary: a SQLite database and a dump
//! of a PostgreSQL one. Run it for a release that changed the tables, with the target folder as its argument.

use std::fs;
use std::path::Path;

use conformance::{DATABASE, Expect, Options, Say, Service, Vendor, poll};
use serde_json::json;

fn main() {
    let to = std::env::args().nth(1).expect("the folder to make");
    let to = Path::new(&to);
    fs::create_dir_all(to).expect("a folder");
    make(to, "sqlite", None);
    let url = test_support::postgres::shared().new_database();
    make(to, "postgres", Some(&url));
    let schema = url.rsplit_once("%3D").expect("a schema").1;
    let dump = test_support::postgres::shared().dump(schema).replace(schema, "THE_SCHEMA");
    // Commands of the newest `psql`, unknown to older versions.
    let dump: String =
        dump.lines().filter(|line| !line.starts_with('\\')).flat_map(|line| [line, "\n"]).collect();
    fs::write(to.join("postgres.sql"), dump).expect("a dump");
}

fn make(to: &Path, name: &str, url: Option<&str>) {
    let vendor = Vendor::start();
    let mut options = Options { environment: vendor.environment(), ..Options::default() };
    options.environment.extend(url.map(|url| (DATABASE.to_owned(), url.to_owned())));
    let mut service = Service::start(options);
    let account = service.account();
    let api = service.api(&account);
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "echo kept" }) }]);
    vendor.will([Say::text("It is **kept**.")]);
    let done = api.completed(&api.ask("Is it kept?"));
    let settled = || Some(service.credits(&account)).filter(|(_, reserved)| *reserved == 0);
    let (balance, _) = poll::until("nothing is reserved", settled);
    vendor.will([Say::text("Begun"), Say::Hold]);
    let under_way = api.ask("And this?");
    vendor.wait_held(1);
    let chat = api.chat(done["chatId"].as_str().expect("an id")).expect_status(200).json();
    service.terminate();
    let record = json!({
        "account": account.id, "email": account.email, "key": account.key, "keyId": account.key_id,
        "balance": balance, "done": done, "chat": chat, "underWay": under_way,
    });
    fs::write(to.join(format!("{name}.json")), format!("{record:#}\n")).expect("what is in it");
    if url.is_none() {
        fs::copy(service.data().join("causerie.db"), to.join("causerie.db")).expect("its database");
    }
}
