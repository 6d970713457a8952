//! Tests a client that is generated from the schema.

use std::fs;

use conformance::{Expect, Request, caller};

use crate::{file, python, succeeded};

#[test]
fn a_client_made_from_the_schema_asks_and_reads_the_answer() {
    let (_service, api) = caller();
    let url = format!("http://{}", api.address);
    let folder = tempfile::tempdir().expect("a folder");
    let schema = Request::new("GET", "/openapi.yaml").send(&api.address).expect_status(200);
    let document = folder.path().join("openapi.yaml");
    fs::write(&document, schema.body).expect("it can be written");
    let package = folder.path().join("causerie_client");
    let mut generate = python("openapi-python-client");
    generate.args(["generate", "--fail-on-warning", "--meta", "none", "--path"]).arg(&document);
    generate.arg("--output-path").arg(&package).arg("--config").arg(file("generator.yaml"));
    succeeded(&generate.current_dir(folder.path()).output().expect("it can be run"));
    succeeded(
        &python("python").args(["-m", "compileall", "-q"]).arg(&package).output().expect("it can be run"),
    );
    let mut client = python("python");
    client.arg(file("client.py")).args([&url, &api.key]).env("PYTHONPATH", folder.path());
    succeeded(&client.output().expect("it can be run"));
}
