//! The samples that `/docs` shows are valid code for the clients.

use std::fmt::Write;
use std::fs;

use e2e::{Expect, HttpRequest, start_with_api};

use crate::expect_success;
use crate::programs::{prepare_typescript_folder, python_command, typescript_compiler};

/// Returns the samples of a language, of all operations.
fn language_samples(page: &str, language: &str) -> Vec<String> {
    let begin = format!("<figure data-panel=\"{language}\">");
    let operations = page.split("<article id=\"").skip(1);
    let shown = operations.filter_map(|article| {
        let code = article.split_once(&begin)?.1.split_once("<code>")?.1.split_once("</code>")?.0;
        Some(code.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
    });
    shown.collect()
}

/// Splits a sample into its imports, which are outside functions, and the rest.
fn split_imports(sample: &str) -> (String, String) {
    sample.split_inclusive('\n').partition(|line| line.starts_with("import "))
}

#[test]
fn reference_samples_fit_clients() {
    let (_service, api) = start_with_api();
    let page = HttpRequest::new("GET", "/docs").send(&api.address).expect_status(200).text();
    let of_python = language_samples(&page, "python");
    let of_typescript = language_samples(&page, "typescript");
    assert!(of_python.len() > 20 && of_typescript.len() == of_python.len());

    let folder = tempfile::tempdir().expect("a folder");
    let mut module = String::from("from causerie import AssistantMessage, Causerie\n");
    for (index, sample) in of_python.iter().enumerate() {
        let _ = write!(
            module,
            "\n\ndef sample_{index}(client: Causerie, chat_id: str, message_id: str) -> None:\n"
        );
        for line in sample.lines() {
            let _ = writeln!(module, "    {line}");
        }
    }
    fs::write(folder.path().join("samples.py"), module).expect("it can be written");
    let mut mypy = python_command("mypy");
    mypy.args(["--strict", "--cache-dir", "cache", "samples.py"]);
    expect_success(mypy.current_dir(folder.path()));

    let folder = prepare_typescript_folder();
    let mut module = String::from(
        "import { writeFile } from \"node:fs/promises\";\n\
         import type { Causerie } from \"../src/index.js\";\nimport { fileFromPath } from \"../src/node.js\";\n",
    );
    let (imports, of_typescript): (Vec<_>, Vec<_>) =
        of_typescript.iter().map(|sample| split_imports(sample)).unzip();
    module.push_str(&imports.concat().replace("\"causerie\"", "\"../src/index.js\""));
    for (index, sample) in of_typescript.iter().enumerate() {
        let _ = write!(
            module,
            "\nexport async function sample{index}(client: Causerie, ...ids: string[]) {{\n\
             const [chatId = \"\", messageId = \"\"] = ids;\nvoid [chatId, messageId, fileFromPath, writeFile];\n{sample}\n}}\n"
        );
    }
    fs::write(folder.path().join("tests/samples.ts"), module).expect("it can be written");
    expect_success(typescript_compiler().args(["--project", "tests"]).current_dir(folder.path()));
}
