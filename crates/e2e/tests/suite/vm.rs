//! Sections 4.1 and 3.1: the machine.

use e2e::{Expect, ServiceOptions, TestAccountOptions, TestService};
use serde_json::json;

#[test]
fn vm_without_machine_is_refused() {
    let service = TestService::start(ServiceOptions::default());
    let account =
        service.create_account_with(&TestAccountOptions { machine: false, ..TestAccountOptions::default() });
    let api = service.api_for(&account);
    api.get_vm().expect_code(404, "NO_MACHINE");
    api.start_vm().expect_code(409, "NO_MACHINE");
    api.stop_vm().expect_code(409, "NO_MACHINE");
    api.send_question(&json!({ "input": "Hello?" })).expect_code(409, "NO_MACHINE");
    api.upload_file("a.txt", b"files work").expect_status(201);
    assert_eq!(service.show_credits(&account), (10_000, 0));
}
