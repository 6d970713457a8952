//! The choice of the answer to a request: by its script, its model's name or its instructions.

use crate::instructions;
use crate::request::{VendorRefusal, VendorRequest};
use crate::script::{Script, ScriptStep, Try, builtin_script};

/// Selects the try for a request that was received `count` times before.
pub(crate) fn select_try(request: &VendorRequest, count: usize) -> Result<Try, VendorRefusal> {
    if request.model == "no-tools" && request.offers_tools {
        return Err(VendorRefusal::new(400, "library/no-tools does not support tools", "invalid_request"));
    }
    let (question, step) = request.last_question();
    let script = match question.split_once("STANDIN ") {
        Some((_, json)) => serde_json::Deserializer::from_str(json)
            .into_iter::<Script>()
            .next()
            .and_then(Result::ok)
            .ok_or_else(|| VendorRefusal::new(400, "the script cannot be read", "bad_script"))?,
        None if request.model == "obey" => return Ok(instructions::follow_instructions(request)),
        None => builtin_script(&request.model).ok_or_else(|| {
            let message = format!("The model `{}` does not exist", request.model);
            VendorRefusal::new(404, message, "model_not_found")
        })?,
    };
    let nothing = || VendorRefusal::new(400, "the script is empty", "bad_script");
    match script.steps.get(step.min(script.steps.len().saturating_sub(1))).ok_or_else(nothing)? {
        ScriptStep::Same(same) => Ok((**same).clone()),
        ScriptStep::Tries(tries) => {
            tries.get(count.min(tries.len().saturating_sub(1))).cloned().ok_or_else(nothing)
        }
    }
}
