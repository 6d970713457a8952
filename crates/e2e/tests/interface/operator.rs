//! Cases that need the operator: accounts without a machine or credits, configured limits, and answers that
//! are held.

use e2e::api::id_field;
use e2e::operations::{all_operations, sample_target};
use e2e::{Api, Expect, Say, ScriptedVendor, ServiceOptions, TestAccount, TestAccountOptions, TestService};
use serde_json::json;

/// Each case with its name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("no machine", an_account_without_a_machine),
    ("a machine that questions do not start", a_machine_that_questions_do_not_start),
    ("no credits", an_account_without_credits),
    ("keys that may do little", keys_that_may_do_little),
    ("a key that may spend little", a_key_that_may_spend_little),
    ("a full workspace", a_full_workspace),
    ("a bound on uploads", an_upload_beyond_the_operators_bound),
    ("an answer that is held", an_answer_that_is_held),
];

fn an_account_without_a_machine() {
    let service = TestService::start(ServiceOptions::default());
    let account =
        service.create_account_with(&TestAccountOptions { machine: false, ..TestAccountOptions::default() });
    let api = service.api_for(&account);
    api.get_vm().expect_code(404, "NO_MACHINE");
    api.start_vm().expect_code(409, "NO_MACHINE");
    api.stop_vm().expect_code(409, "NO_MACHINE");
    api.send_question(&json!({ "input": "Hello?" })).expect_code(409, "NO_MACHINE");
    assert_eq!(service.show_credits(&account), (10_000, 0), "nothing was reserved for it");
}

fn a_machine_that_questions_do_not_start() {
    let environment = vec![("CAUSERIE_MACHINE_ON_QUESTION".to_owned(), "refuse".to_owned())];
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    api.send_question(&json!({ "input": "Hello?" })).expect_code(409, "MACHINE_NOT_RUNNING");
    assert_eq!(service.show_credits(&account), (10_000, 0), "nothing was reserved for it");
}

fn an_account_without_credits() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(
        &service.create_account_with(&TestAccountOptions { credits: 0, ..TestAccountOptions::default() }),
    );
    api.send_question(&json!({ "input": "Hello?" })).expect_code(409, "INSUFFICIENT_CREDITS");
}

fn key_with(service: &TestService, account: &TestAccount, arguments: &[&str]) -> Api {
    let all = [&["key", "create", "--account", &account.email, "--name", "narrow"], arguments].concat();
    service.api_for(account).with_key(service.run_admin_command(&all)["key"].as_str().expect("a key"))
}

fn keys_that_may_do_little() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    for scope in ["files", "machine"] {
        let api = key_with(&service, &account, &["--scope", scope]);
        let refused = all_operations()
            .map(|operation| api.call_endpoint(operation.method, &sample_target(operation)))
            .filter(|response| response.status == 403)
            .map(|response| response.expect_code(403, "KEY_SCOPE"));
        assert!(refused.count() > 10, "{scope}");
    }
}

fn a_key_that_may_spend_little() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let api = key_with(&service, &account, &["--spending-limit", "1"]);
    api.wait_for_completion(&api.ask_question("Hello?"));
    api.send_question(&json!({ "input": "And?" })).expect_code(409, "SPENDING_LIMIT");
}

fn a_full_workspace() {
    let bounds = [("CAUSERIE_QUOTA_FILES_MAX", "4"), ("CAUSERIE_QUOTA_BYTES_MAX", "2 MiB")];
    let environment = bounds.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    api.upload_file("fits.bin", &[b'x'; 1_500_000]).expect_status(201);
    api.upload_file("more.bin", &[b'x'; 1_000_000]).expect_code(409, "QUOTA_EXCEEDED");
    api.download_file("/uploads/more.bin").expect_code(404, "NOT_FOUND");
    api.create_folder("/one").expect_status(201);
    api.create_folder("/two").expect_status(201);
    api.create_folder("/three").expect_code(409, "QUOTA_EXCEEDED");
    api.upload_file("small.txt", b"x").expect_code(409, "QUOTA_EXCEEDED");
    // Existing files can be read, and deletion frees space.
    assert_eq!(api.download_file("/uploads/fits.bin").expect_status(200).body.len(), 1_500_000);
    api.delete_file("/uploads/fits.bin").expect_status(204);
    api.upload_file("more.bin", &[b'x'; 1_000_000]).expect_status(201);
}

fn an_upload_beyond_the_operators_bound() {
    let arguments = vec!["--upload-max-bytes".to_owned(), "1000".to_owned()];
    let service = TestService::start(ServiceOptions { arguments, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    api.upload_file("fits.txt", &[b'x'; 1000]).expect_status(201);
    api.upload_file("fits.txt", &[b'y'; 1001]).expect_code(413, "TOO_LARGE");
    api.upload_file("fits.txt", &vec![b'y'; 20_000_000]).expect_code(413, "TOO_LARGE");
    let parts = [e2e::api::UploadPart::from_file("fits.txt", &[b'y'; 1001])];
    api.upload_request(&parts).with_chunked_body().send(&api.address).expect_code(413, "TOO_LARGE");
    assert_eq!(api.download_file("/uploads/fits.txt").body, [b'x'; 1000], "the old one is there");
}

fn an_answer_that_is_held() {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Hold on");
    vendor.wait_for_holds(1);
    let chat = id_field(&answer, "chatId");
    api.send_question(&json!({ "input": "And?", "chatId": chat })).expect_code(409, "CONVERSATION_BUSY");
    assert_eq!(api.get_answer(&answer)["status"], "in_progress");
    let mut watching = e2e::AnswerStream::new(api.chat_events(&chat, None));
    watching.find_event("the half", |event| event.text().trim_end() == "Half");
    vendor.release_hold();
    assert_eq!(api.wait_for_completion(&answer)["text"], "Half");
}
