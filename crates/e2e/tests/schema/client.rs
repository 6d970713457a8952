//! Tests a client that is generated from the schema.

use std::fs;

use e2e::{Expect, HttpRequest, start_with_api};

use crate::{expect_success, python_command, schema_file};

#[test]
fn generated_python_client_reads_answer() {
    let (_service, api) = start_with_api();
    let url = format!("http://{}", api.address);
    let folder = tempfile::tempdir().expect("a folder");
    let schema = HttpRequest::new("GET", "/openapi.yaml").send(&api.address).expect_status(200);
    let document = folder.path().join("openapi.yaml");
    fs::write(&document, schema.body).expect("it can be written");
    let package = folder.path().join("causerie_client");
    let mut generate = python_command("openapi-python-client");
    generate.args(["generate", "--fail-on-warning", "--meta", "none", "--path"]).arg(&document);
    generate.arg("--output-path").arg(&package).arg("--config").arg(schema_file("generator.yaml"));
    expect_success(&generate.current_dir(folder.path()).output().expect("it can be run"));
    expect_success(
        &python_command("python")
            .args(["-m", "compileall", "-q"])
            .arg(&package)
            .output()
            .expect("it can be run"),
    );
    let mut client = python_command("python");
    client.arg(schema_file("client.py")).args([&url, &api.key]).env("PYTHONPATH", folder.path());
    expect_success(&client.output().expect("it can be run"));
}
