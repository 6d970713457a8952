//! Creates the data that `tests/suite/versions.rs` opens, with the built binary: a SQLite database and a dump
//! of a PostgreSQL one. Run it for a release that changed the tables, with the target folder as its argument.

use std::fs;
use std::path::Path;

use e2e::{DATABASE, Expect, Say, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::json;

fn main() {
    let to = std::env::args().nth(1).expect("the folder to make");
    let to = Path::new(&to);
    fs::create_dir_all(to).expect("a folder");
    make_fixture(to, "sqlite", None);
    let url = test_support::postgres::shared_server().new_database();
    make_fixture(to, "postgres", Some(&url));
    let schema = url.rsplit_once("%3D").expect("a schema").1;
    let dump = test_support::postgres::shared_server().dump_schema(schema).replace(schema, "THE_SCHEMA");
    // Commands of the newest `psql`, unknown to older versions.
    let dump: String =
        dump.lines().filter(|line| !line.starts_with('\\')).flat_map(|line| [line, "\n"]).collect();
    fs::write(to.join("postgres.sql"), dump).expect("a dump");
}

fn make_fixture(to: &Path, name: &str, url: Option<&str>) {
    let vendor = ScriptedVendor::start();
    let mut options =
        ServiceOptions { environment: vendor.service_environment(), ..ServiceOptions::default() };
    options.environment.extend(url.map(|url| (DATABASE.to_owned(), url.to_owned())));
    let mut service = TestService::start(options);
    let account = service.create_account();
    let api = service.api_for(&account);
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": "echo kept" }) }]);
    vendor.add_script([Say::from_text("It is **kept**.")]);
    let done = api.wait_for_completion(&api.ask_question("Is it kept?"));
    let settled = || Some(service.show_credits(&account)).filter(|(_, reserved)| *reserved == 0);
    let (balance, _) = poll::wait_until("nothing is reserved", settled);
    vendor.add_script([Say::from_text("Begun"), Say::Hold]);
    let under_way = api.ask_question("And this?");
    vendor.wait_for_holds(1);
    let chat = api.get_chat(done["chatId"].as_str().expect("an id")).expect_status(200).json();
    service.terminate();
    let record = json!({
        "account": account.id, "email": account.email, "key": account.key, "keyId": account.key_id,
        "balance": balance, "done": done, "chat": chat, "underWay": under_way,
    });
    fs::write(to.join(format!("{name}.json")), format!("{record:#}\n")).expect("what is in it");
    if url.is_none() {
        fs::copy(service.data_folder().join("causerie.db"), to.join("causerie.db")).expect("its database");
    }
}
