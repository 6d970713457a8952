//! A fake embedding model in OpenAI's format: texts with similar words or meaning get similar vectors.
//!
//! A vector counts the hashed trigrams of a text's words, and the concepts of a small table of synonyms, which weigh more. So
//! it is the same for equal texts, and finds texts without common words if the table has their synonyms. The model's name
//! selects faults: see [`respond_to_embeddings`].

use serde_json::{Value, json};

/// The dimension of the vectors.
pub const DIMENSION: usize = 256;
/// The maximum number of texts of a request, as at OpenAI.
const INPUTS_MAX: usize = 2048;
/// The model rejects a request with a text that contains this.
pub const REJECTED: &str = "REJECT-ME";
/// The weights of a trigram and of a concept.
const TRIGRAM: f32 = 0.3;
const CONCEPT: f32 = 3.0;
/// The numbers of a vector that is far too long.
const HUGE: usize = 4_000_000;

/// Words with one meaning, by their beginnings.
const CONCEPTS: &[&[&str]] = &[
    &["rent", "lease", "tenan", "landlord", "nájem", "miet", "pacht"],
    &["dog", "pet", "animal", "cat", "hund", "pes", "zvíř"],
    &["parrot", "canar", "bird", "budgerigar"],
    &["car", "vehicle", "automobile", "parking", "garage"],
    &["terminat", "cancel", "notice", "resign", "quit", "kündig", "výpov"],
    &["salary", "wage", "pay", "remunerat", "lohn", "gehalt", "mzd"],
    &["holiday", "vacation", "leave", "urlaub", "dovolen"],
    &["ill", "sick", "disease", "krank", "nemoc"],
    &["heat", "boiler", "radiator", "warm", "heiz", "topen"],
];

/// Returns the vector of a text.
#[must_use]
pub fn embed_text(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSION];
    // A component that all texts share, so that no vector is zero.
    vector[0] = 0.1;
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let letters: Vec<char> = format!("^{word}$").chars().collect();
        for trigram in letters.windows(3) {
            vector[feature_index(&trigram.iter().collect::<String>())] += TRIGRAM;
        }
        for (number, _) in CONCEPTS
            .iter()
            .enumerate()
            .filter(|(_, words)| words.iter().any(|beginning| word.starts_with(beginning)))
        {
            vector[feature_index(&format!("concept {number}"))] += CONCEPT;
        }
    }
    let length = vector.iter().map(|component| component * component).sum::<f32>().sqrt();
    vector.iter().map(|component| component / length).collect()
}

/// Returns the place of a feature: its FNV-1a hash.
fn feature_index(feature: &str) -> usize {
    let hash = feature.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 + (hash % (DIMENSION as u64 - 1)) as usize
}

/// Responds to a request. The end of the model's name selects a fault: `-nan`, `-short` and `-long` (one vector fewer or more),
/// `-dimension` (vectors of different ones), `-other` (another dimension than usual), `-huge` (one of millions),
/// `-empty`, `-odd` (no embeddings at all), `-free` (no usage).
///
/// # Errors
/// The status and the error of a request that OpenAI rejects.
pub fn respond_to_embeddings(request: &Value) -> Result<Value, (u16, Value)> {
    let refused = |message: &str| {
        (400, json!({"error": {"message": message, "type": "invalid_request_error", "code": null}}))
    };
    let model = request["model"].as_str().ok_or_else(|| refused("you must provide a model parameter"))?;
    let inputs = request["input"].as_array().ok_or_else(|| refused("input: an array is required"))?;
    let texts: Vec<&str> = inputs.iter().filter_map(Value::as_str).collect();
    if texts.len() != inputs.len() || texts.is_empty() || texts.len() > INPUTS_MAX {
        return Err(refused("input: 1 to 2048 texts are required"));
    }
    if texts.iter().any(|text| text.is_empty() || text.contains(REJECTED)) {
        return Err(refused("input: a text is invalid"));
    }
    if request["encoding_format"] != "float" {
        return Err(refused("encoding_format: only float is served here"));
    }
    let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| embed_text(text)).collect();
    let fault = model.rsplit('-').next().unwrap_or_default();
    match fault {
        "short" => drop(vectors.pop()),
        "long" => vectors.push(embed_text("more")),
        "dimension" => vectors.iter_mut().skip(1).for_each(|vector| vector.push(1.0)),
        "other" => vectors.iter_mut().for_each(|vector| vector.truncate(DIMENSION / 2)),
        "huge" => vectors = vec![vec![1.0; HUGE]; vectors.len()],
        "empty" => vectors.iter_mut().for_each(Vec::clear),
        _ => {}
    }
    let entry = |(index, vector): (usize, Vec<f32>)| {
        let mut embedding = json!(vector);
        if fault == "nan" {
            embedding[0] = json!("NaN");
        }
        json!({"object": "embedding", "index": index, "embedding": embedding})
    };
    if fault == "odd" {
        return Ok(json!({"object": "list", "data": "none"}));
    }
    let data: Vec<Value> = vectors.into_iter().enumerate().map(entry).collect();
    let mut response = json!({"object": "list", "model": model, "data": data});
    if fault != "free" {
        let tokens = texts.iter().map(|text| text.len().div_ceil(4)).sum::<usize>();
        response["usage"] = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_meanings_have_like_vectors() {
        let cosine = |one: &str, other: &str| -> f32 {
            embed_text(one).iter().zip(embed_text(other)).map(|(a, b)| a * b).sum()
        };
        let question = "Are canaries tolerated?";
        let near = cosine(question, "A parrot may stay in the flat.");
        let far = cosine(question, "The radiators are bled each autumn.");
        assert!(near > far + 0.2, "{near} and {far}");
        assert!((cosine(question, question) - 1.0).abs() < 0.001);
    }
}
