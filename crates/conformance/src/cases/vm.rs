//! Section 4.1 and 3.1: the machine.

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect};
use crate::poll;

fn vm_status(api: &Api) -> Value {
    let machine = api.get_vm().expect_status(200).json();
    let status = machine["status"].clone();
    assert!(["RUNNING", "STOPPED", "STARTING", "STOPPING"].iter().any(|known| status == *known), "{machine}");
    status
}

fn wait_for(api: &Api, wanted: &str) {
    poll::wait_until(wanted, || (vm_status(api) == wanted).then_some(()));
}

pub(super) const CASES: &[Case] = cases![
    Machine:
    a_machine_starts_and_stops_as_often_as_it_is_told,
    orders_in_quick_succession_end_where_the_last_one_says,
    files_outlive_the_machine,
    a_question_starts_the_machine_that_it_needs,
];

fn a_machine_starts_and_stops_as_often_as_it_is_told(api: &Api) {
    for _ in 0..2 {
        assert_eq!(api.start_vm().expect_status(202).json(), json!({ "status": "STARTING" }));
        wait_for(api, "RUNNING");
        assert_eq!(api.start_vm().expect_status(202).json(), json!({ "status": "STARTING" }));
        assert_eq!(vm_status(api), "RUNNING", "start changes nothing where it runs");
        assert_eq!(api.stop_vm().expect_status(202).json(), json!({ "status": "STOPPING" }));
        wait_for(api, "STOPPED");
        assert_eq!(api.stop_vm().expect_status(202).json(), json!({ "status": "STOPPING" }));
        assert_eq!(vm_status(api), "STOPPED", "stop changes nothing where it is stopped");
    }
}

fn orders_in_quick_succession_end_where_the_last_one_says(api: &Api) {
    for order in [true, false, true, false, true] {
        let response = if order { api.start_vm() } else { api.stop_vm() };
        let expected = if order { "STARTING" } else { "STOPPING" };
        assert_eq!(response.expect_status(202).json()["status"], expected);
    }
    wait_for(api, "RUNNING");
    api.stop_vm().expect_status(202);
    wait_for(api, "STOPPED");
}

fn files_outlive_the_machine(api: &Api) {
    api.upload_file("a.txt", b"kept").expect_status(201);
    api.start_vm().expect_status(202);
    wait_for(api, "RUNNING");
    assert_eq!(api.download_file("/uploads/a.txt").expect_status(200).body, b"kept");
    api.stop_vm().expect_status(202);
    wait_for(api, "STOPPED");
    assert_eq!(api.download_file("/uploads/a.txt").expect_status(200).body, b"kept");
}

fn a_question_starts_the_machine_that_it_needs(api: &Api) {
    api.start_vm().expect_status(202);
    wait_for(api, "RUNNING");
    api.stop_vm().expect_status(202);
    wait_for(api, "STOPPED");
    let answer = api.ask_question("What do the documents say of rent?");
    assert_eq!(api.wait_for_completion(&answer)["error"], Value::Null);
    assert_eq!(vm_status(api), "RUNNING");
}
