//! Images of machines: built, shown by the drivers, and removed when nothing uses them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::{Say, ScriptedVendor, ServiceOptions, TestService, drivers, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Prints the system as a tool sees it.
const LOOK: &str = "grep PRETTY /etc/os-release; cat /usr/share/marker; dpkg-query -W jq | head -1; \
     echo '{\"sum\":41}' | jq -c '.sum + 1'; command -v gcc cargo || echo no compiler; \
     touch /usr/x /etc/x 2>/dev/null || echo read only; id -un; touch /workspace/made && echo writable; \
     ls / | tr '\\n' ' '; ls -A /proc/1/root/home 2>/dev/null; cat /etc/passwd | wc -l";

fn causerie_command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(e2e::service::service_binary());
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a path"))
        .env("TMPDIR", std::env::temp_dir());
    command.arg("image").args(arguments).arg("--json").env("CAUSERIE_MACHINE_IMAGES", folder);
    command.stdin(Stdio::null());
    command
}

fn run_image_command(folder: &Path, arguments: &[&str]) -> Value {
    let output = causerie_command(folder, arguments).output().expect("it can be run");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Returns the code and the message of a failed command.
fn failure_code_and_message(output: &Output) -> (String, String) {
    assert!(!output.status.success() && output.stdout.is_empty());
    let error: Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    let text = |name: &str| error[name].as_str().expect("a text").to_owned();
    (text("code"), text("message"))
}

fn expect_image_refusal(folder: &Path, arguments: &[&str]) -> (String, String) {
    failure_code_and_message(&causerie_command(folder, arguments).output().expect("it can be run"))
}

/// Writes the tree as a container engine would export it, with a system of another name.
fn export_tree(tree: &Path, folder: &Path) {
    let copy = folder.join("copy");
    let shell = format!(
        "cp -a {tree} {copy} && cd {copy} && rm -rf agent workspace etc/os-release && \
         echo 'PRETTY_NAME=\"Imported system\"' >etc/os-release && echo imported >usr/share/marker && \
         ln -s /etc workspace && chmod 6755 bin/su && tar -czf {folder}/export.tar.gz .",
        tree = tree.display(),
        copy = copy.display(),
        folder = folder.display(),
    );
    assert!(Command::new("sh").args(["-c", &shell]).status().expect("a shell").success());
}

/// Runs a tool that inspects a machine of this driver and image, and returns its output.
fn inspect_machine(
    vendor: &ScriptedVendor,
    folder: &Path,
    driver: &str,
    name: &str,
) -> (TestService, String) {
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_MACHINE_IMAGES".to_owned(), folder.display().to_string()));
    environment.push(("CAUSERIE_MACHINE_IMAGE".to_owned(), name.to_owned()));
    environment.push(("CAUSERIE_MACHINE_DRIVER".to_owned(), driver.to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": LOOK }) }]);
    let answer = api.wait_for_completion(&api.ask_question("Look around"));
    assert_eq!(answer["parts"][0]["state"], "COMPLETE", "{answer}");
    let request = vendor.request_bodies().pop().expect("a request");
    let said = request["messages"].as_array().expect("messages").last().expect("a result").to_string();
    (service, said)
}

#[test]
fn tools_see_only_their_image() {
    let home = tempfile::tempdir().expect("a folder");
    // Machines run as other users, who must be able to traverse the folder.
    fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).expect("a folder");
    let folder = home.path().join("images");
    let tiny = run_image_command(&folder, &["build", "tiny", "--package", "jq"]);
    let manifest = run_image_command(&folder, &["inspect", "tiny"]);
    let packages = manifest["packages"].as_array().expect("packages");
    let jq = packages.iter().find(|package| package["name"] == "jq").expect("it was asked for");
    assert!(jq["version"].as_str().is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
    assert!(manifest["requested"] == "jq" && manifest["tools"]["mmdebstrap"].is_string(), "{manifest}");
    assert!(manifest["erofs"]["bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{manifest}");

    let tree = Path::new(tiny["folder"].as_str().expect("a path")).join("root");
    export_tree(&tree, home.path());
    let archive = home.path().join("export.tar.gz");
    let archive = archive.to_str().expect("a path");
    let imported = run_image_command(&folder, &["build", "imported", "--from-tar", archive]);
    assert_eq!((&imported["system"], &imported["unchanged"]), (&json!("Imported system"), &json!(false)));
    assert_ne!(imported["digest"], tiny["digest"]);
    let again = run_image_command(&folder, &["build", "imported", "--from-tar", archive]);
    assert_eq!((&again["digest"], &again["unchanged"]), (&imported["digest"], &json!(true)));

    let vendor = ScriptedVendor::start();
    let mut all = Vec::new();
    for driver in ["sandbox", "uml"].into_iter().filter(|driver| drivers::can_run(driver)) {
        let (service, said) = inspect_machine(&vendor, &folder, driver, "imported");
        let expected =
            ["Imported system", "imported\\njq", "42", "no compiler", "read only", "user", "writable"];
        for expected in expected {
            assert!(said.contains(expected), "{driver}: no {expected} in {said}");
        }
        assert!(said.contains("bin dev etc") && !said.contains("home"), "{driver}: {said}");
        let (code, message) = expect_image_refusal(&folder, &["remove", "imported"]);
        assert!(code == "IMAGE_IN_USE" && message.contains("imported@"), "{message}");
        all.push((said.replace(service.address(), ""), service));
    }
    let listed = run_image_command(&folder, &["list"]);
    let in_use: Vec<_> =
        listed["images"].as_array().expect("images").iter().map(|one| &one["inUse"]).collect();
    assert_eq!(in_use, [&json!(true), &json!(false)], "{listed}");

    // A machine that outlives its service keeps the image.
    for (_, mut service) in all {
        service.terminate();
        assert_eq!(expect_image_refusal(&folder, &["remove", "imported"]).0, "IMAGE_IN_USE");
        let machine = service.run_admin_command(&["machine", "list"])["machines"][0]["account"].clone();
        service.run_admin_command(&["machine", "stop", machine.as_str().expect("an account")]);
    }
    run_image_command(&folder, &["remove", "imported"]);
    assert_eq!(expect_image_refusal(&folder, &["inspect", "imported"]).0, "NO_SUCH_IMAGE");
    assert_eq!(run_image_command(&folder, &["list"])["images"].as_array().map(Vec::len), Some(1));
}

#[test]
fn failed_image_build_leaves_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("images");
    for arguments in [["build", "../x"], ["build", "UPPER"], ["inspect", "x@nothex"], ["remove", ".."]] {
        assert_eq!(expect_image_refusal(&folder, &arguments).0, "INVALID_IMAGE", "{arguments:?}");
    }
    assert_eq!(expect_image_refusal(&folder, &["build", "x", "--package=-o"]).0, "INVALID_IMAGE");
    assert_eq!(expect_image_refusal(&folder, &["build", "x", "--mirror=--hook"]).0, "INVALID_IMAGE");
    let (code, message) =
        expect_image_refusal(&folder, &["build", "x", "--mirror", "http://127.0.0.1:1/debian"]);
    assert!(code == "IMAGE_FAILED" && message.contains("name another with --mirror"), "{message}");
    let mut bare = causerie_command(&folder, &["build", "x", "--no-erofs"]);
    let (_, message) =
        failure_code_and_message(&bare.env("PATH", "/nowhere").output().expect("it can be run"));
    assert!(message.contains("apt-get install mmdebstrap"), "{message}");
    assert_eq!(
        expect_image_refusal(&folder, &["build", "x", "--from-tar", "/nowhere.tar"]).0,
        "IMAGE_FAILED"
    );
    fs::write(home.path().join("text"), "no archive").expect("a file");
    let text = home.path().join("text");
    let (_, message) =
        expect_image_refusal(&folder, &["build", "x", "--from-tar", text.to_str().expect("a path")]);
    assert!(message.contains("archive refused"), "{message}");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "nothing is left");
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("images");
    let mut command = causerie_command(&folder, &["build", "x", "--from-tar", "-"]);
    let mut building = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be run");
    let mut input = building.stdin.take().expect("a pipe");
    let mut header = tar::Header::new_gnu();
    header.set_path("usr/file").expect("a path");
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(1 << 30);
    header.set_cksum();
    input.write_all(header.as_bytes()).expect("it reads");
    let begun = || fs::read_dir(&folder).ok()?.flatten().next().map(|entry| entry.path());
    let new = poll::wait_until("it begins", begun);
    poll::wait_until("it unpacks", || new.join("version/root/usr/file").exists().then_some(()));
    kill_process(Pid::from_child(&building), Signal::INT).expect("it runs");
    let output = building.wait_with_output().expect("it ends");
    let (code, message) = failure_code_and_message(&output);
    assert!(code == "IMAGE_FAILED" && message.starts_with("interrupted"), "{message}");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "nothing is left");
    drop(input);
}

#[test]
fn missing_image_named_at_start() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(e2e::service::service_binary());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(home.path());
    command.env("CAUSERIE_MACHINE_IMAGE", "missing");
    let output = command.output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("image missing not found"), "{said}");
    assert!(said.contains("causerie image build"), "{said}");
}
