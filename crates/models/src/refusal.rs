//! Recognises the words with which servers refuse a request. Pure.
//!
//! All texts are in small letters: see [`crate::error::all_texts`].

use domain::step::ToolSpec;

/// The least output that is worth asking for.
const OUTPUT_MIN_TOKENS: u64 = 64;
/// The tokens that are left free when less output is asked for: counts differ a little from request to request.
const MARGIN_TOKENS: u64 = 16;
/// The number of bytes around a word that are searched for a statement about it.
const NEARBY_BYTES: usize = 120;

/// Words that say that something is not accepted.
const REFUSING: &[&str] = &[
    "not support",
    "n't support",
    "not currently support",
    "not yet support",
    "not accept",
    "no tool support",
    "no tools support",
    "no support for",
    "unsupported",
    "not enabled",
    "n't enabled",
    "not allowed",
    "not permitted",
    "not available",
    "not implemented",
    "unrecognized",
    "unknown parameter",
    "unknown field",
    "unknown name",
    "unexpected",
    "extra inputs",
    "extra fields",
    "disabled",
    "no endpoints",
    "not compatible",
    "cannot use",
    "incapable",
    "without tool",
    "lacks",
];

/// Returns true if the server accepts no tools for the model.
pub(crate) fn refuses_tools(text: &str) -> bool {
    // Servers that must be started for it: vLLM, SGLang, llama.cpp.
    let starts = ["enable-auto-tool-choice", "tool-call-parser", "tools param requires", "requires --jinja"];
    if starts.iter().any(|phrase| text.contains(phrase)) {
        return true;
    }
    let subjects = ["tool", "function call", "function_call", "functions"];
    subjects.iter().any(|subject| {
        text.match_indices(subject).any(|(at, _)| {
            let sentence = sentence_around(text, at);
            // Something in a tool, its schema above all, is another matter.
            !["schema", "propert", "parameters.", "tool_choice '", "tool_call_id", "tool message"]
                .iter()
                .any(|other| sentence.contains(other))
                && is_refusing(sentence)
        })
    })
}

/// Returns true for a sentence that says that something is not accepted.
fn is_refusing(sentence: &str) -> bool {
    REFUSING.iter().any(|phrase| sentence.contains(phrase))
        || (sentence.trim_start().starts_with("no ") && sentence.contains("support"))
}

/// Returns true if the server accepts no system message for the model.
pub(crate) fn refuses_system(text: &str) -> bool {
    let alternation = ["must alternate", "should alternate", "alternate between user", "alternating user"];
    if alternation.iter().any(|phrase| text.contains(phrase)) {
        return true;
    }
    // The templates of Mistral's models name the roles that there are.
    let are_named = ["roles are supported", "roles are allowed"].iter().any(|phrase| {
        text.match_indices(phrase).any(|(at, _)| {
            let sentence = sentence_around(text, at);
            sentence.contains("only ") && sentence.contains("user") && !sentence.contains("system")
        })
    });
    // Servers that check a request against a schema name the values that a role may have.
    let is_no_value = text.lines().any(|line| {
        line.split_once("role: ").is_some_and(|(_, values)| {
            let is_choice = values.contains("should be") || values.contains("permitted:");
            is_choice && values.contains("'user'") && !values.contains("system")
        })
    });
    if are_named || is_no_value {
        return true;
    }
    let subjects = [
        "system role",
        "system message",
        "system prompt",
        "system instruction",
        "developer instruction",
        "'system'",
        "\"system\"",
        "`system`",
        "role system",
        "role: system",
        "got system",
    ];
    subjects.iter().any(|subject| {
        text.match_indices(subject).any(|(at, _)| {
            let sentence = sentence_around(text, at);
            is_refusing(sentence)
                || sentence.contains("roles are supported")
                || sentence.contains("only user and assistant")
                || sentence.contains("only 'user' and 'assistant'")
                || sentence.contains("invalid role")
        })
    })
}

/// Returns true if the model does not chat.
pub(crate) fn refuses_chat(text: &str) -> bool {
    [
        "does not support chat",
        "doesn't support chat",
        "not a chat model",
        "not support chat completions",
        "does not support generate",
        "is an embedding model",
        "only supports embedding",
        "does not support text generation",
        "not a generative model",
    ]
    .iter()
    .any(|phrase| text.contains(phrase))
}

/// Returns the indexes of the tools that a refusal is about, by their names or positions.
pub(crate) fn named_tools(text: &str, tools: &[ToolSpec]) -> Vec<usize> {
    let is_about_schema =
        ["schema", "tools", "function", "parameters", "tool "].iter().any(|word| text.contains(word));
    if !is_about_schema {
        return Vec::new();
    }
    let mut named: Vec<usize> = (0..tools.len())
        .filter(|at| {
            let name = tools[*at].name.to_lowercase();
            // A name such as `read` is also an ordinary word.
            let is_quoted =
                ['\'', '"', '`'].iter().any(|quote| text.contains(&format!("{quote}{name}{quote}")));
            is_quoted || (name.contains(['_', '-']) && has_word(text, &name))
        })
        .collect();
    // `tools.3.custom.input_schema`, `tools[0].function_declarations[3].parameters`, `tools[3].function`
    for list in ["function_declarations", "functiondeclarations", "tools"] {
        if !named.is_empty() {
            break;
        }
        for (at, _) in text.match_indices(list) {
            let rest = &text[at + list.len()..];
            let Some(rest) = rest.strip_prefix(['.', '[']) else { continue };
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let Some(index) = rest[..digits].parse().ok().filter(|index| *index < tools.len()) else {
                continue;
            };
            // `tools[0]` holds all declarations of a request to Gemini.
            let is_holder = list == "tools" && rest[digits..].contains("declarations");
            if !is_holder && !named.contains(&index) {
                named.push(index);
            }
        }
    }
    named.sort_unstable();
    named
}

/// The limits that a refusal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NamedLimits {
    /// The output that the next request may ask for.
    pub(crate) output_tokens: Option<u64>,
    /// The output limit applies to every request.
    pub(crate) is_output_limit: bool,
    /// The context window of the model.
    pub(crate) context_tokens: Option<u64>,
}

/// Reads the limits from the numbers of a refusal of a request that asked for `requested` output tokens. `input` estimates
/// its input where the server does not count it.
pub(crate) fn named_limits(text: &str, requested: u64, input: u64) -> NamedLimits {
    if let Some(context) = context_of(text) {
        let counted = input_of(text, requested, context);
        let input = counted.unwrap_or(input.saturating_add(input / 4));
        let room = context.saturating_sub(input).saturating_sub(MARGIN_TOKENS);
        let fits = room >= OUTPUT_MIN_TOKENS && room < requested;
        return NamedLimits {
            output_tokens: fits.then_some(room),
            is_output_limit: false,
            context_tokens: Some(context),
        };
    }
    let subjects = [
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxoutputtokens",
        "max_new_tokens",
        "max tokens",
        "maximum tokens",
        "maximum number of tokens",
        "completion tokens",
        "output tokens",
    ];
    if !subjects.iter().any(|subject| text.contains(subject)) {
        return NamedLimits::default();
    }
    let below = find_numbers(text)
        .into_iter()
        .filter(|number| (OUTPUT_MIN_TOKENS..requested).contains(&number.value));
    let Some(most) = below.max_by_key(|number| number.value) else { return NamedLimits::default() };
    let behind = text[most.end..].trim_start_matches(['`', '\'', ' ']);
    let before = text[..most.start].trim_end_matches(['`', '\'', ' ']);
    let is_exclusive =
        behind.starts_with("(exclusive") || before.ends_with("less than") || before.ends_with(" <");
    NamedLimits {
        output_tokens: Some(most.value - u64::from(is_exclusive)),
        is_output_limit: true,
        context_tokens: None,
    }
}

/// Returns the context window that a refusal names.
fn context_of(text: &str) -> Option<u64> {
    let phrases = [
        "context length is only",
        "context length of only",
        "context length is",
        "context length of",
        "context length (",
        "context length:",
        "context window is",
        "context window of",
        "context window (",
        "context size is",
        "context size of",
        "context size (",
        "context limit is",
        "context limit of",
        "n_ctx",
        "max_model_len",
        "maximum sequence length is",
        "maximum sequence length of",
        "maximum input length of",
        "maximum number of tokens allowed",
        "`max_new_tokens` must be <=",
        "max_new_tokens must be <=",
    ];
    let numbers = find_numbers(text);
    for phrase in phrases {
        for (at, _) in text.match_indices(phrase) {
            let from = at + phrase.len();
            let near = numbers.iter().find(|number| number.start >= from && number.start <= from + 24);
            if let Some(number) = near.filter(|number| number.value >= OUTPUT_MIN_TOKENS) {
                return Some(number.value);
            }
        }
    }
    // "exceed context limit: 190000 + 20000 > 200000", "prompt is too long: 210000 tokens > 200000 maximum"
    if ["context limit", "prompt is too long", "context length", "context window"]
        .iter()
        .any(|it| text.contains(it))
    {
        let compared = text.find(" > ").map(|at| at + 3);
        return compared
            .and_then(|from| numbers.iter().find(|number| number.start >= from && number.start <= from + 4))
            .map(|number| number.value);
    }
    None
}

/// Returns the input tokens that a refusal names.
fn input_of(text: &str, requested: u64, context: u64) -> Option<u64> {
    let values: Vec<u64> = find_numbers(text).into_iter().map(|number| number.value).collect();
    let others = || values.iter().copied().filter(|value| ![requested, context].contains(value));
    // The sum of input and output may also be named.
    let summed = others().find(|value| values.contains(&value.saturating_add(requested)));
    summed.or_else(|| others().max())
}

/// A number in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextNumber {
    value: u64,
    start: usize,
    end: usize,
}

/// Returns the whole numbers of a text that are not parts of names.
fn find_numbers(text: &str) -> Vec<TextNumber> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        let before = start.checked_sub(1).map_or(b' ', |before| bytes[before]);
        // `[1,512]` is a range.
        let has_groups = before != b'[';
        while at < bytes.len()
            && (bytes[at].is_ascii_digit()
                || (has_groups && bytes[at] == b',' && begins_with_group(&bytes[at + 1..])))
        {
            at += 1;
        }
        let behind = bytes.get(at).copied().unwrap_or(b' ');
        let after = bytes.get(at + 1).copied().unwrap_or(b' ');
        let joins = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        let is_part = joins(before)
            || matches!(before, b'-' | b'.' | b'/' | b':')
            || joins(behind)
            || (matches!(behind, b'.' | b'-' | b':') && joins(after));
        let digits = text[start..at].replace(',', "");
        if !is_part && let Ok(value) = digits.parse() {
            found.push(TextNumber { value, start, end: at });
        }
    }
    found
}

/// Returns true for three digits that no fourth one follows.
fn begins_with_group(bytes: &[u8]) -> bool {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count() == 3
}

/// Returns the sentence or line around a position, within bounds.
fn sentence_around(text: &str, at: usize) -> &str {
    let ends = |from: &str| from.find(['\n', ';']).into_iter().chain(from.find(". ")).min();
    let first = text.floor_char_boundary(at.saturating_sub(NEARBY_BYTES));
    let last = text.ceil_char_boundary((at + NEARBY_BYTES).min(text.len()));
    let before = &text[first..at];
    let begin = before
        .rfind(['\n', ';'])
        .into_iter()
        .chain(before.rfind(". "))
        .max()
        .map_or(first, |end| first + end + 1);
    let end = ends(&text[at..last]).map_or(last, |end| at + end);
    &text[begin..end]
}

/// Returns true if the text contains a name as a whole word.
fn has_word(text: &str, name: &str) -> bool {
    let joins = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(name).any(|(at, _)| {
        !joins(text[..at].chars().next_back()) && !joins(text[at + name.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests;
