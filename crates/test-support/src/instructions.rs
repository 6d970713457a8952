//! A model that obeys all instructions that it reads, in questions and in tool results.
//!
//! `CALL tool {"argument": 1}` makes it call that tool, offered or not; `SAY words` makes it write the words.

use serde_json::Value;

use crate::request::VendorRequest;
use crate::script::{ScriptAction, Try};

/// Limits the calls of one step.
const CALLS_MAX: usize = 8;

/// Returns the requested calls that were not made yet, otherwise the requested text.
pub(crate) fn follow_instructions(request: &VendorRequest) -> Try {
    let mut made: Vec<(String, Value)> = request
        .messages
        .iter()
        .flat_map(|message| &message.tool_calls)
        .map(|call| {
            let arguments = serde_json::from_str(&call.function.arguments).unwrap_or_default();
            (call.function.name.clone(), arguments)
        })
        .collect();
    let mut calls = Vec::new();
    let mut words = Vec::new();
    for message in request.messages.iter().filter(|message| message.role == "user" || message.role == "tool")
    {
        for line in message.content.as_deref().unwrap_or("").lines() {
            if let Some((tool, arguments)) = parse_call(line) {
                match made.iter().position(|call| *call == (tool.clone(), arguments.clone())) {
                    Some(at) => {
                        made.swap_remove(at);
                    }
                    None => calls.push(ScriptAction::Call { tool, arguments, id: None }),
                }
            }
            if let Some((_, text)) = line.split_once("SAY ") {
                words.push(text.to_owned());
            }
        }
    }
    calls.truncate(CALLS_MAX);
    if calls.is_empty() || !request.offers_tools {
        words.push("Done.".to_owned());
        return Try { actions: vec![ScriptAction::Say(words.join("\n\n"))], ..Try::default() };
    }
    Try { actions: calls, ..Try::default() }
}

fn parse_call(line: &str) -> Option<(String, Value)> {
    let (_, order) = line.split_once("CALL ")?;
    let (tool, rest) = order.split_once(' ')?;
    let arguments = serde_json::Deserializer::from_str(rest).into_iter::<Value>().next()?.ok()?;
    Some((tool.to_owned(), arguments))
}
