//! The choice of the answer to a request: by its script, its model's name or its instructions.

use crate::instructions;
use crate::request::{Refusal, Request};
use crate::script::{Script, Step, Try, builtin};

/// Selects the try for a request that was received `count` times before.
pub(crate) fn attempt(request: &Request, count: usize) -> Result<Try, Refusal> {
    if request.model == "no-tools" && request.offers_tools {
        return Err(Refusal::new(400, "library/no-tools does not support tools", "invalid_request"));
    }
    let (question, step) = request.question();
    let script = match question.split_once("STANDIN ") {
        Some((_, json)) => serde_json::Deserializer::from_str(json)
            .into_iter::<Script>()
            .next()
            .and_then(Result::ok)
            .ok_or_else(|| Refusal::new(400, "the script cannot be read", "bad_script"))?,
        None if request.model == "obey" => return Ok(instructions::obey(request)),
        None => builtin(&request.model).ok_or_else(|| {
            let message = format!("The model `{}` does not exist", request.model);
            Refusal::new(404, message, "model_not_found")
        })?,
    };
    let nothing = || Refusal::new(400, "the script is empty", "bad_script");
    match script.steps.get(step.min(script.steps.len().saturating_sub(1))).ok_or_else(nothing)? {
        Step::Same(same) => Ok((**same).clone()),
        Step::Tries(tries) => {
            tries.get(count.min(tries.len().saturating_sub(1))).cloned().ok_or_else(nothing)
        }
    }
}
