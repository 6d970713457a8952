//! Examples that several operations share. A test validates each against its schema.

use serde_json::{Value, json};

/// A frame of an event stream, without the empty line that ends it.
pub(crate) const EVENTS: &str = "event: message\n\
    data: {\"id\":\"8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34\",\"chatId\":\"3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21\",\
    \"status\":\"in_progress\",\"createdAt\":\"2026-11-21T09:30:00.000Z\",\"model\":\"reader\",\
    \"text\":\"\",\"parts\":[]}\n\
    id: 8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34:1.1\n\
    retry: 1000";

/// An answer that was just accepted.
pub(crate) fn answer_begun() -> Value {
    json!({
        "id": "8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34",
        "chatId": "3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21",
        "status": "in_progress",
        "createdAt": "2026-11-21T09:30:00.000Z",
        "model": "reader",
        "text": "",
        "parts": []
    })
}

/// The same answer, completed.
pub(crate) fn answer_completed() -> Value {
    json!({
        "id": "8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34",
        "chatId": "3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21",
        "status": "completed",
        "createdAt": "2026-11-21T09:30:00.000Z",
        "model": "reader",
        "text": "The rent is due on the fifth of each month.",
        "parts": [
            {
                "partId": "7d2f4a6c-8e10-4b3d-9f5a-6c7e8091a2b3",
                "type": "TOOL",
                "toolName": "search",
                "toolCallId": "call_1",
                "state": "COMPLETE",
                "sources": [{"type": "FILE", "path": "/uploads/lease.pdf"}]
            },
            {
                "partId": "5a1e7b90-2c3d-4e5f-8a6b-9c0d1e2f3a4b",
                "type": "TEXT",
                "content": "<p>The rent is due on the fifth of each month. \
                    <a href=\"/api/v1/files/uploads/lease.pdf#page=3\" data-citation=\"c1\">[1]</a></p>",
                "citations": [{
                    "citationId": "c1",
                    "source": {"type": "FILE", "path": "/uploads/lease.pdf", "page": 3}
                }]
            }
        ]
    })
}

/// A model of a vendor and the reader that comes with the service.
pub(crate) fn models() -> Value {
    json!([
        {
            "id": "claude-sonnet-4-5",
            "label": "Claude Sonnet 4.5",
            "description": "Thorough, for most questions",
            "provider": "ANTHROPIC",
            "status": "UP",
            "default": true,
            "deprecated": false,
            "settings": [{
                "key": "reasoningEffort",
                "label": "Reasoning effort",
                "options": [
                    {"value": "LOW", "label": "Low"},
                    {"value": "MEDIUM", "label": "Medium"},
                    {"value": "HIGH", "label": "High"}
                ],
                "defaultValue": "MEDIUM"
            }]
        },
        {
            "id": "reader",
            "label": "Built-in reader",
            "description": "No language model: finds the passages of the documents that answer the question",
            "provider": "OPENAI",
            "status": "UP",
            "default": false,
            "deprecated": false,
            "settings": [],
            "builtin": true
        }
    ])
}

/// The home folder of a new account.
pub(crate) fn home() -> Value {
    json!({
        "path": "/",
        "entries": [{
            "name": "uploads",
            "path": "/uploads",
            "type": "DIRECTORY",
            "size": 0,
            "modifiedTime": "2026-11-21T09:30:00.000Z",
            "mimeType": "inode/directory"
        }],
        "totalEntries": 1,
        "indexing": {"files": 3, "indexed": 2, "pending": 0, "partial": 0, "unreadable": 1}
    })
}

/// A conversation with one question and its answer.
pub(crate) fn conversation() -> Value {
    let answer = answer_completed();
    json!({
        "chat": {
            "chatId": answer["chatId"],
            "title": "When is the rent due?",
            "status": "completed",
            "createdAt": answer["createdAt"],
            "modifiedAt": "2026-11-21T09:30:04.000Z",
            "model": "reader",
            "pinned": false,
            "webSearchEnabled": false,
            "jurisdictions": ["CZ"]
        },
        "messages": [
            {
                "id": "d5e6f708-192a-4b3c-84d5-e6f708192a3b",
                "role": "USER",
                "status": "completed",
                "createdAt": answer["createdAt"],
                "text": "When is the rent due?",
                "filePaths": ["/uploads/lease.pdf"]
            },
            {
                "id": answer["id"],
                "role": "ASSISTANT",
                "status": "completed",
                "createdAt": answer["createdAt"],
                "text": answer["text"],
                "parts": answer["parts"]
            }
        ]
    })
}

/// A question with its required fields only.
pub(crate) fn question() -> Value {
    json!({"input": "When is the rent due?"})
}

/// A question about an uploaded file, with every field of a new conversation.
pub(crate) fn question_in_full() -> Value {
    json!({
        "input": "When is the rent due?",
        "filePaths": ["/uploads/lease.pdf"],
        "model": "claude-sonnet-4-5",
        "settings": [{"key": "reasoningEffort", "value": "HIGH"}],
        "jurisdictions": ["CZ"],
        "webSearchEnabled": false,
        "agentId": "causerie:lawyer",
        "skillIds": ["causerie:contract-review"],
        "tools": [{"name": "get_weather", "description": "Returns the weather of a city.", "parameters": tool_parameters()}],
        "askUserEnabled": false
    })
}

/// A question in an existing conversation.
pub(crate) fn question_continued() -> Value {
    json!({"input": "And the deposit?", "chatId": "3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21"})
}

/// The output of a function.
pub(crate) fn call_output() -> Value {
    json!({"output": "{\"temperature\": 21}"})
}

/// The failure of a function.
pub(crate) fn call_error() -> Value {
    json!({"error": "There is no such city."})
}

/// The parameters of a function.
pub(crate) fn tool_parameters() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

/// A list of skills.
pub(crate) fn skills() -> Value {
    json!([{
        "id": "d8d27773-57ec-56f8-8913-a7972f4d3c04",
        "name": "contract-review",
        "fullName": "causerie:contract-review",
        "description": "Reviews a contract clause by clause for one party"
    }])
}

/// A list of agents.
pub(crate) fn agents() -> Value {
    json!([{
        "id": "1c685a5f-afc0-5cdd-9500-419fcc672206",
        "name": "assistant",
        "fullName": "causerie:assistant",
        "description": "Answers questions about the documents of the workspace"
    }])
}
