//! The settings: a file, the environment, and the commands that show and check them.

use std::path::PathBuf;
use std::process::Output;

use e2e::{Expect, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::Value;
use tempfile::TempDir;

/// Creates a folder with these files.
fn folder_with_files(files: &[(&str, &str)]) -> (TempDir, impl Fn(&str) -> String + use<>) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("a file");
    }
    let root: PathBuf = folder.path().to_owned();
    (folder, move |name: &str| root.join(name).to_str().expect("a path").to_owned())
}

fn output_texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_file_sets_the_service_up() {
    let hungary = "[[jurisdictions]]\nid = \"HU\"\ncs = \"Maďarsko\"\nen = \"Hungary\"\nsk = \"Maďarsko\"\n";
    let (_folder, at) = folder_with_files(&[("jurisdictions.toml", hungary)]);
    let content = format!(
        "upload_max_bytes = \"1 KiB\"\njurisdictions_file = \"{}\"\nlog.format = \"json\"\n\
         quota.files_max = 3\n",
        at("jurisdictions.toml")
    );
    std::fs::write(at("causerie.toml"), content).expect("a file");
    let arguments = vec!["--config".to_owned(), at("causerie.toml")];
    // The variable takes precedence over the file.
    let environment = vec![("CAUSERIE_UPLOAD_MAX_BYTES".to_owned(), "2048".to_owned())];
    let service = TestService::start(ServiceOptions { environment, arguments });
    let api = service.api_for(&service.create_account());
    let listed = api.get_catalog("jurisdictions", Some("en")).expect_status(200).json();
    assert_eq!(listed, serde_json::json!([{ "id": "HU", "label": "Hungary" }]));
    api.upload_file("a.txt", &[b'x'; 2000]).expect_status(201);
    api.upload_file("b.txt", &[b'x'; 3000]).expect_refusal(413);
    api.upload_file("b.txt", b"x").expect_status(201);
    api.upload_file("c.txt", b"x").expect_code(409, "QUOTA_EXCEEDED");
    let log =
        poll::wait_until("the log exists", || Some(service.log_text()).filter(|log| log.ends_with("\n")));
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).expect("one JSON object a line");
        assert!(event["level"].is_string() && event["message"].is_string(), "{line}");
    }
}

#[test]
fn invalid_config_file_refused_with_lines() {
    let service = TestService::start(ServiceOptions::default());
    let (_folder, at) =
        folder_with_files(&[("wrong.toml", "[machine]\n\nmemory_byte = 5\nidle_timeout = 5\n")]);
    let file = at("wrong.toml");
    let run =
        |arguments: &[&str]| service.build_command().args(arguments).output().expect("the binary can be run");
    let data = at("data");
    for arguments in [
        vec!["serve", "--config", &file, "--data", &data],
        vec!["config", "check", &file],
        vec!["config", "check", "--config", &file],
        vec!["config", "print", "--config", &file],
    ] {
        let output = run(&arguments);
        let (out, err) = output_texts(&output);
        assert!(!output.status.success() && out.is_empty(), "{arguments:?}: {out}");
        let unknown = format!(
            "causerie: {file}:3: unknown key machine.memory_byte; did you mean machine.memory_bytes?"
        );
        assert!(err.lines().any(|line| line == unknown), "{err}");
        assert!(err.contains(&format!("{file}:4: machine.idle_timeout: ")), "{err}");
    }
    assert!(!std::path::Path::new(&data).exists(), "the service did not start");
    let (_, err) = output_texts(&run(&["config", "check", "--json", &file]));
    let refused: Value = serde_json::from_str(&err).expect("one JSON object");
    assert_eq!(refused["code"], "INVALID_CONFIGURATION");
    assert!(refused["message"].as_str().is_some_and(|message| message.lines().count() == 2), "{refused}");
}

#[test]
fn config_schema_describes_the_file() {
    let service = TestService::start(ServiceOptions::default());
    let output = service.build_command().args(["config", "schema"]).output().expect("the binary can be run");
    let (out, err) = output_texts(&output);
    assert!(output.status.success(), "{err}");
    let schema: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(schema["additionalProperties"], false);
    let memory = &schema["properties"]["machine"]["properties"]["memory_bytes"];
    assert_eq!(memory["minimum"], 128 << 20, "{memory}");
    assert!(memory["description"].as_str().is_some_and(|text| !text.is_empty()), "{memory}");
}

#[test]
fn config_show_has_origins_without_secrets() {
    let service = TestService::start(ServiceOptions::default());
    let content = "listen = \"127.0.0.1:1\"\n[openai]\nbase_url = \"http://127.0.0.1:2/v1\"\n[machine]\nidle_timeout = \"1h\"\n";
    let (_folder, at) = folder_with_files(&[("causerie.toml", content)]);
    let file = at("causerie.toml");
    let print = |arguments: &[&str]| {
        let mut command = service.build_command();
        command
            .env("CAUSERIE_CONFIG", &file)
            .env("OPENAI_API_KEY", "sk-very-secret")
            .env("CAUSERIE_LISTEN", "127.0.0.1:3");
        let output =
            command.args(["config", "print"]).args(arguments).output().expect("the binary can be run");
        let (out, err) = output_texts(&output);
        assert!(output.status.success() && !format!("{out}{err}").contains("very-secret"), "{err}");
        out
    };
    let plain = print(&[]);
    for line in [
        "listen = \"127.0.0.1:3\"  # CAUSERIE_LISTEN".to_owned(),
        format!("machine.idle_timeout = \"1h\"  # {file}:5"),
        "machine.cpu_percent = 100  # default".to_owned(),
        "openai.api_key = \"(secret)\"  # OPENAI_API_KEY".to_owned(),
        "# models.default is not set".to_owned(),
    ] {
        assert!(plain.lines().any(|printed| printed == line), "{line}\n{plain}");
    }
    let whole: Value = serde_json::from_str(&print(&["--json"])).expect("one JSON object");
    let settings = whole["settings"].as_array().expect("a list");
    let of = |key: &str| settings.iter().find(|one| one["key"] == key).unwrap_or(&Value::Null);
    assert_eq!(
        (&of("machine.cpu_percent")["value"], &of("machine.cpu_percent")["origin"]),
        (&100.into(), &"default".into())
    );
    assert_eq!(of("openai.base_url")["value"], "http://127.0.0.1:2/v1");
    assert_eq!(of("models.default")["value"], Value::Null);
    // The output is a valid settings file.
    let again = at("again.toml");
    std::fs::write(&again, &plain).expect("a file");
    let mut command = service.build_command();
    // A variable would come before the key of the file.
    for variable in ["CAUSERIE_MACHINE_DRIVER", "CAUSERIE_MACHINE_KERNEL", "CAUSERIE_MACHINE_QEMU_KERNEL"] {
        command.env_remove(variable);
    }
    let checked =
        command.args(["config", "check", "--json", &again]).output().expect("the binary can be run");
    let output: Value = serde_json::from_slice(&checked.stdout).expect("one JSON object");
    assert_eq!(
        output["keys"].as_u64(),
        Some(settings.iter().filter(|one| !one["value"].is_null()).count() as u64)
    );
}

#[test]
fn commands_take_data_folder_from_config() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let content = format!("data = \"{}\"\n", service.data_folder().display());
    let (_folder, at) = folder_with_files(&[("causerie.toml", &content)]);
    let show = ["credits", "show", "--account", &account.email, "--json"];
    let mut command = service.build_command();
    let output =
        command.args(show).env("CAUSERIE_CONFIG", at("causerie.toml")).output().expect("it can be run");
    let output: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(output["balance"], 10_000);
}

#[test]
fn prompt_templates_can_be_replaced() {
    let (folder, at) = folder_with_files(&[]);
    let service = TestService::start(ServiceOptions::default());
    let run =
        |arguments: &[&str]| service.build_command().args(arguments).output().expect("the binary can be run");
    let written = folder.path().join("instructions");
    let path = written.to_str().expect("a path");
    let (_, refused) = output_texts(&run(&["config", "instructions", path]));
    assert_eq!(refused, "");
    // The example of the documentation.
    let agent = "You work for Novák & Partners. Where the files of a case speak of deadlines, name the day.\n\n\
                 {{instructions}}\n";
    std::fs::write(written.join("agent.md"), agent).expect("a file");
    std::fs::write(at("causerie.toml"), format!("instructions_folder = \"{path}\"\n")).expect("a file");
    let (output, _) = output_texts(&run(&["config", "check", &at("causerie.toml")]));
    assert!(output.contains("no problems"), "{output}");

    let vendor = ScriptedVendor::start();
    let arguments = vec!["--config".to_owned(), at("causerie.toml")];
    let told_so = TestService::start(ServiceOptions { environment: vendor.service_environment(), arguments });
    let api = told_so.api_for(&told_so.create_account());
    let question = serde_json::json!({ "input": "Hello", "model": "stand-in", "jurisdictions": ["CZ"] });
    api.wait_for_completion(&api.expect_accepted(&question));
    let system =
        vendor.request_bodies()[0]["messages"][0]["content"].as_str().expect("instructions").to_owned();
    assert!(
        system.contains("Novák & Partners. Where the files") && system.contains("law of: Czechia (CZ)"),
        "{system}"
    );
    assert!(!system.contains("{{"), "all placeholders are filled in: {system}");

    std::fs::write(written.join("skills.md"), "# Skills\n{{skils}}\n").expect("a file");
    let (_, refused) = output_texts(&run(&["config", "check", &at("causerie.toml")]));
    let wanted =
        format!("{path}/skills.md:2: unknown placeholder {{{{skils}}}}: did you mean {{{{skills}}}}?");
    assert!(refused.contains(&wanted), "{refused}");
    let (_, refused) = output_texts(&run(&["config", "instructions", path]));
    assert!(refused.contains("exists"), "existing files are not overwritten: {refused}");
}
