//! Renders the guides, which come before the operations: from a first question to the errors with their remedies.

use std::fmt::Write;

use super::errors::{answer_errors, render_error_table};
use super::samples;
use super::text::{Description, Plain};

/// A guide: its id, its title, and its text. Its samples are in `samples.txt`, under its id.
struct Guide {
    id: &'static str,
    title: &'static str,
    text: &'static str,
    /// Renders what follows the text.
    rest: fn() -> String,
}

const GUIDES: [Guide; 7] = [
    Guide {
        id: "first-question",
        title: "A first question",
        text: "Upload a document, ask about it, read the answer. A question is accepted at once (202) and the \
               answer is written gradually. `Prefer: wait=60` holds the response until the answer is completed, for \
               a minute at most; get an answer that takes longer by its `chatId` and `id`, or stream it.\n\n\
               Send the `chatId` with the next question to continue the conversation. The machine that the agent \
               works in is started by a question; there is no need to start it first.",
        rest: String::new,
    },
    Guide {
        id: "keys",
        title: "Keys",
        text: "Every call has its key in `X-Api-Key`. A key acts in the name of its account. The owner creates keys \
               in the application under *Settings → Communication channels → API*, and the operator with `causerie \
               key create`; a key is shown once.\n\n\
               Use one key for each program, call from a server, and read the key from the environment, not from \
               the code. A key may have scopes, an expiry and a spending limit. To rotate a key, create another \
               one, switch to it, then revoke the first, which takes effect at once. Every key may call `GET \
               /api/v1/vm`, the simplest check of a key.",
        rest: String::new,
    },
    Guide {
        id: "streams",
        title: "Streams",
        text: "The stream of an answer sends its state at once, then each change, then `completed`, and ends. Each \
               event has the whole state, so missed events do not matter: keep the newest.\n\n\
               When a stream breaks, connect again with the `id` of the last event in `Last-Event-ID`. The state \
               that you have is not sent again. The service sends a comment every ten seconds; a stream that is \
               silent for longer than half a minute is dead. The clients do all of this.",
        rest: String::new,
    },
    Guide {
        id: "retries",
        title: "Retries and idempotency",
        text: "A question with an `Idempotency-Key` can be sent again when its response was lost: within 24 hours \
               the same key with the same body returns the first answer, with `Idempotent-Replayed: true`, and \
               nothing is asked twice. Choose a new key, such as a UUID, for each question.\n\n\
               Repeat a call after 429, 500 and 503, and when the connection broke: after `Retry-After` if the \
               response has it, otherwise after half a second, doubling, with some jitter. 4xx responses other than \
               408 and 429 stay the same until something changes.",
        rest: String::new,
    },
    Guide {
        id: "lists",
        title: "Lists",
        text: "Lists of conversations come in pages: `limit` entries, 200 at most, after the first `offset`. The \
               response repeats both as applied, with the number of all entries in `totalCount`. Pinned \
               conversations come first, then the most recent. A conversation that changes while you read may \
               appear twice, so compare its `chatId`. The clients fetch page after page while you iterate.",
        rest: String::new,
    },
    Guide {
        id: "changes",
        title: "Changes of the interface",
        text: "The version is in the path. Within `v1` nothing is removed or renamed, but fields, headers, query \
               parameters, paths and error codes may be added. Ignore what you do not know: read the fields that \
               you need, and treat an unknown error code by its status. A model is marked `deprecated` in the \
               catalog before it is removed. To generate a client, use the schema at `/openapi.yaml` and \
               `/openapi.json`.",
        rest: String::new,
    },
    Guide {
        id: "errors",
        title: "Errors",
        text: "Every error but 401 has a body of `code`, for programs, and `message`, for people. Compare codes, \
               not messages. 401 has an empty body: the key is missing, mistyped, revoked or expired with its \
               licence. Quote `X-Request-Id` of the response to the operator, whose log has it.",
        rest: errors_of_calls_and_answers,
    },
];

fn errors_of_calls_and_answers() -> String {
    format!(
        "{}<h4>Answers that failed</h4><p>An answer that cannot be finished is <code>completed</code> with the text that was \
         written and an <code>error</code>.</p>{}",
        render_error_table(),
        answer_errors()
    )
}

/// Renders the guides.
pub(super) fn render_guides() -> String {
    let mut out = String::from("<section id=\"guides\"><h2>Guides</h2>");
    for Guide { id, title, text, rest } in GUIDES {
        let _ = write!(
            out,
            "<article id=\"{id}\" class=\"operation\"><h3><a href=\"#{id}\">{}</a></h3><div class=\"example\">{}</div>\
             <div class=\"text\">{}{}</div></article>",
            Plain(title),
            samples::render_guide_samples(id),
            Description(text),
            rest(),
        );
    }
    out.push_str("</section>");
    out
}

/// Renders their entries in the contents.
pub(super) fn render_guide_contents() -> String {
    let mut out = String::from("<a href=\"#guides\"><b>Guides</b></a><ul>");
    for Guide { id, title, .. } in GUIDES {
        let _ = write!(out, "<li><a href=\"#{id}\">{}</a></li>", Plain(title));
    }
    out.push_str("</ul>");
    out
}
