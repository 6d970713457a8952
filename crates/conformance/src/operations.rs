//! What the suite must cover: every operation and every row of the error table, with the tests that do.

/// An operation of the interface.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The method.
    pub method: &'static str,
    /// The path, as the schema has it.
    pub path: &'static str,
    /// How a test calls it: the beginning of a call in its source.
    pub call: &'static str,
    /// Tests in which it is called and succeeds.
    pub tests: &'static [&'static str],
}

const fn operation(
    method: &'static str,
    path: &'static str,
    call: &'static str,
    tests: &'static [&'static str],
) -> Operation {
    Operation { method, path, call, tests }
}

/// Every operation of the interface (section 4).
pub const OPERATIONS: &[Operation] = &[
    operation("GET", "/api/v1/vm", ".vm()", &["an_account_without_a_machine_is_told_so"]),
    operation(
        "POST",
        "/api/v1/vm/start",
        ".start_vm()",
        &["a_machine_starts_and_stops_as_often_as_it_is_told"],
    ),
    operation(
        "POST",
        "/api/v1/vm/stop",
        ".stop_vm()",
        &["a_machine_starts_and_stops_as_often_as_it_is_told"],
    ),
    operation("GET", "/api/v1/models", "catalog(\"models\"", &["models_are_complete_and_one_is_the_default"]),
    operation(
        "GET",
        "/api/v1/jurisdictions",
        "catalog(\"jurisdictions\"",
        &["jurisdictions_are_listed_and_taken_by_questions"],
    ),
    operation(
        "GET",
        "/api/v1/skills",
        "catalog(\"skills\"",
        &["skills_are_listed_the_most_used_first", "a_skill_is_named_by_id_full_name_or_name"],
    ),
    operation("GET", "/api/v1/agents", "catalog(\"agents\"", &["agents_are_listed_and_taken_by_questions"]),
    operation("POST", "/api/v1/files", ".upload(", &["an_upload_can_be_listed_downloaded_and_deleted"]),
    operation(
        "GET",
        "/api/v1/files/{path}",
        ".download(",
        &["an_upload_can_be_listed_downloaded_and_deleted"],
    ),
    operation(
        "DELETE",
        "/api/v1/files/{path}",
        ".delete_file(",
        &["an_upload_can_be_listed_downloaded_and_deleted"],
    ),
    operation(
        "GET",
        "/api/v1/directories",
        ".list_home()",
        &["the_home_folder_holds_the_upload_folder_from_the_start"],
    ),
    operation(
        "GET",
        "/api/v1/directories/{path}",
        ".list(",
        &["a_listing_has_one_level_folders_first_and_nothing_hidden"],
    ),
    operation(
        "POST",
        "/api/v1/directories/{path}",
        ".create_folder(",
        &["a_folder_is_created_once_and_only_in_one_that_exists"],
    ),
    operation("POST", "/api/v1/chats", ".ask(", &["a_question_is_accepted_empty_and_answered_later"]),
    operation("GET", "/api/v1/chats", ".chats(", &["conversations_are_listed_most_recent_first_in_pages"]),
    operation(
        "GET",
        "/api/v1/chats/{chatId}",
        ".chat(",
        &["a_conversation_is_continued_with_all_that_was_said"],
    ),
    operation("DELETE", "/api/v1/chats/{chatId}", ".delete_chat(", &["a_deleted_conversation_is_gone"]),
    operation("POST", "/api/v1/chats/{chatId}/stop", ".stop(", &["a_stopped_answer_keeps_what_was_written"]),
    operation(
        "GET",
        "/api/v1/chats/{chatId}/messages/{messageId}",
        ".now(",
        &["a_question_is_accepted_empty_and_answered_later"],
    ),
    operation(
        "GET",
        "/api/v1/chats/{chatId}/messages/{messageId}/events",
        ".events_of(",
        &["an_answer_is_streamed_from_its_present_state_to_its_completion"],
    ),
    operation(
        "GET",
        "/api/v1/chats/{chatId}/events",
        ".chat_events(",
        &["a_conversation_is_streamed_through_its_questions"],
    ),
];

/// What the service offers beyond the interface, where the schema shows it.
pub const ADDITIONS: &[Operation] =
    &[operation("PATCH", "/api/v1/chats/{chatId}", "\"PATCH\"", &["conversations_are_renamed_and_pinned"])];

/// The rows of the error table (section 7): status, condition, and the test that meets it.
pub const REFUSALS: &[(u16, &str, &str)] = &[
    (400, "input missing", "questions_that_cannot_be_read_are_refused"),
    (400, "malformed JSON", "questions_that_cannot_be_read_are_refused"),
    (400, "empty uploaded file", "uploads_that_cannot_be_read_are_refused"),
    (400, "unknown model", "what_the_catalogs_do_not_hold_is_refused_with_the_values_that_they_hold"),
    (400, "unknown skill or agent", "skills_and_agents_that_do_not_exist_are_refused_with_those_that_do"),
    (400, "a name that several have", "a_name_that_several_skills_have_is_refused_with_their_full_names"),
    (400, "temporary with destination", "uploads_that_cannot_be_read_are_refused"),
    (400, "download of a folder", "downloads_of_what_is_no_file_are_refused"),
    (401, "key missing", "a_missing_key_is_rejected_wherever_else_it_stands"),
    (401, "key mistyped", "a_mistyped_key_is_rejected_before_anything_else"),
    (401, "key revoked", "a_revoked_key_is_rejected_at_once_and_others_go_on"),
    (401, "licence ended", "keys_work_exactly_as_long_as_the_licence"),
    (401, "key ended", "a_key_ends_by_itself_and_its_streams_with_it"),
    (403, "scope of the key", "a_key_does_only_what_its_scope_holds"),
    (403, "path outside the workspace", "paths_that_climb_out_are_forbidden"),
    (403, "link outside the workspace", "links_that_lead_out_of_the_workspace_are_not_followed"),
    (404, "conversation or message unknown", "ids_of_no_conversation_are_refused"),
    (404, "conversation of another", "every_id_of_another_account_is_unknown"),
    (404, "no file or folder", "downloads_of_what_is_no_file_are_refused"),
    (404, "parent folder missing", "a_folder_is_created_once_and_only_in_one_that_exists"),
    (409, "still answering", "a_busy_conversation_turns_a_question_down"),
    (409, "spending limit of the key", "a_key_spends_no_more_than_its_limit"),
    (409, "no machine", "an_account_without_a_machine_is_told_so"),
    (409, "folder exists", "a_folder_is_created_once_and_only_in_one_that_exists"),
    (409, "folder not empty", "a_folder_that_is_not_empty_is_deleted_only_recursively"),
    (405, "method unknown", "paths_and_methods_that_do_not_exist_are_refused_in_the_same_form"),
    (429, "too many requests", "a_key_is_kept_to_its_rate"),
    (413, "body too large", "a_body_that_is_too_large_is_refused"),
    (416, "range beyond the file", "downloads_answer_ranges_conditions_and_head"),
];

/// A target of the operation: its path with ids that nothing has.
#[must_use]
pub fn sample_target(operation: &Operation) -> String {
    let nobody = "00000000-0000-4000-8000-000000000000";
    operation
        .path
        .replace("{chatId}", nobody)
        .replace("{messageId}", nobody)
        .replace("{path}", "uploads/none.txt")
}
