//! The Python SDK of the Model Context Protocol calls the service in both of its modes.

use e2e::{Say, ScriptedVendor, ServiceOptions, TestService};
use serde_json::{Value, json};

use crate::expect_success;
use crate::programs::{python_command, test_file};

#[test]
fn mcp_python_library_works() {
    let vendor = ScriptedVendor::start();
    vendor.add_script([Say::from_text("Hello "), Say::from_text("one.")]);
    vendor.add_script([Say::from_text("Hello "), Say::from_text("two.")]);
    let environment = vendor.service_environment();
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    let mut command = python_command("python3");
    command.arg(test_file("mcp_library.py")).args(["auto", "legacy"]);
    command.env("CAUSERIE_URL", format!("http://{}", api.address)).env("CAUSERIE_API_KEY", &api.key);
    let printed = expect_success(&mut command);
    let got: Value = serde_json::from_str(printed.trim()).expect("a line of JSON");
    for (index, mode, version, answer, missing) in
        [(0, "auto", "2026-07-28", "Hello one.", -32602), (1, "legacy", "2025-11-25", "Hello two.", -32002)]
    {
        let got = &got[index];
        assert_eq!((&got["version"], &got["server"]), (&json!(version), &json!("causerie")));
        let names =
            ["ask", "wait", "stop", "list_conversations", "read_conversation", "list_files", "upload_file"];
        assert_eq!(got["tools"], json!(names));
        assert_eq!(got["stored"], json!({ "path": format!("/uploads/{mode}.txt"), "size": 5 }));
        assert_eq!(got["answer"], json!(["completed", answer, false]));
        assert_eq!(got["refused"], json!([true, "BAD_REQUEST"]));
        assert_eq!(
            (&got["read"], &got["resource"], &got["templates"]),
            (&json!(1), &json!("hello"), &json!(2))
        );
        let file = format!("causerie://files/uploads/{mode}.txt");
        assert!(got["resources"].as_array().is_some_and(|uris| uris.contains(&json!(file))), "{got}");
        assert_eq!((&got["missing"], &got["progress"]), (&json!(missing), &json!(true)));
    }
}
