//! The required coverage: every operation, and every condition of the error table.

/// An operation of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiOperation {
    pub method: &'static str,
    /// The path, as in the schema.
    pub path: &'static str,
}

/// Every operation of the interface (section 4), including additions to it.
const OPERATIONS: &[(&str, &str)] = &[
    ("GET", "/api/v1/vm"),
    ("POST", "/api/v1/vm/start"),
    ("POST", "/api/v1/vm/stop"),
    ("GET", "/api/v1/models"),
    ("GET", "/api/v1/jurisdictions"),
    ("GET", "/api/v1/skills"),
    ("GET", "/api/v1/agents"),
    ("POST", "/api/v1/files"),
    ("GET", "/api/v1/files/{path}"),
    ("DELETE", "/api/v1/files/{path}"),
    ("GET", "/api/v1/directories"),
    ("GET", "/api/v1/directories/{path}"),
    ("POST", "/api/v1/directories/{path}"),
    ("POST", "/api/v1/chats"),
    ("GET", "/api/v1/chats"),
    ("GET", "/api/v1/chats/{chatId}"),
    ("DELETE", "/api/v1/chats/{chatId}"),
    ("PATCH", "/api/v1/chats/{chatId}"),
    ("POST", "/api/v1/chats/{chatId}/stop"),
    ("GET", "/api/v1/chats/{chatId}/messages/{messageId}"),
    ("POST", "/api/v1/chats/{chatId}/messages/{messageId}/calls/{callId}"),
    ("GET", "/api/v1/chats/{chatId}/messages/{messageId}/events"),
    ("GET", "/api/v1/chats/{chatId}/events"),
];

/// Returns every operation. `tests/interface` checks that the schema has the same ones and that each is
/// called.
pub fn all_operations() -> impl Iterator<Item = ApiOperation> {
    OPERATIONS.iter().map(|(method, path)| ApiOperation { method, path })
}

/// Conditions of the error table (section 7) that share their code with others, or have none: status, condition, and the
/// test that triggers it. A test of every code is found by itself.
pub const REFUSALS: &[(u16, &str, &str)] = &[
    (400, "input missing", "questions_that_cannot_be_read_are_refused"),
    (400, "malformed JSON", "questions_that_cannot_be_read_are_refused"),
    (400, "temporary with destination", "uploads_that_cannot_be_read_are_refused"),
    (401, "key missing", "a_missing_key_is_rejected_wherever_else_it_stands"),
    (401, "key mistyped", "a_mistyped_key_is_rejected_before_anything_else"),
    (401, "key revoked", "revoked_key_rejected_at_once"),
    (401, "licence ended", "keys_work_until_licence_ends"),
    (401, "key ended", "expired_key_ends_its_streams"),
    (403, "path outside the workspace", "paths_that_climb_out_are_forbidden"),
    (403, "link outside the workspace", "outward_workspace_links_are_not_followed"),
    (404, "conversation or message unknown", "ids_of_no_conversation_are_refused"),
    (404, "conversation of another", "ids_of_other_accounts_are_unknown"),
    (404, "no file or folder", "downloads_of_what_is_no_file_are_refused"),
    (404, "parent folder missing", "a_folder_is_created_once_and_only_in_one_that_exists"),
    (404, "destination missing", "uploads_that_cannot_be_read_are_refused"),
    (400, "attached path unknown", "attached_paths_are_checked"),
    (403, "attached path outside", "attached_paths_are_checked"),
    (503, "database away", "database_outage_costs_no_answer"),
    (503, "the service ends", "requests_after_signal_get_retry_after"),
];

/// Returns a target of the operation: its path with ids that do not exist.
#[must_use]
pub fn sample_target(operation: ApiOperation) -> String {
    let nobody = "00000000-0000-4000-8000-000000000000";
    operation
        .path
        .replace("{chatId}", nobody)
        .replace("{messageId}", nobody)
        .replace("{path}", "uploads/none.txt")
}
