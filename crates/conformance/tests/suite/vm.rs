//! Sections 4.1 and 3.1: the machine.

use conformance::{Expect, NewAccount, Options, Service};
use serde_json::json;

#[test]
fn an_account_without_a_machine_is_told_so() {
    let service = Service::start(Options::default());
    let account = service.account_as(&NewAccount { machine: false, ..NewAccount::default() });
    let api = service.api(&account);
    api.vm().expect_code(404, "NO_MACHINE");
    api.start_vm().expect_code(409, "NO_MACHINE");
    api.stop_vm().expect_code(409, "NO_MACHINE");
    api.send(&json!({ "input": "Hello?" })).expect_code(409, "NO_MACHINE");
    api.upload("a.txt", b"files work").expect_status(201);
    assert_eq!(service.credits(&account), (10_000, 0));
}
