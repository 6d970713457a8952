//! Programs that ask the first question with a new key, ready to be pasted.

use crate::texts::Texts;

/// A program in one language.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) language: &'static str,
    pub(crate) code: String,
}

/// Returns programs for a shell, Python and TypeScript that ask the service at `origin` (`http://host:port`)
/// and print the answer. They need only the standard library.
pub(crate) fn program_examples(texts: Texts, origin: &str, secret: &str) -> Vec<Example> {
    let question = texts.get("keys-example-question");
    let curl = format!(
        "export CAUSERIE_URL={origin} CAUSERIE_API_KEY={secret}\n\
         curl \"$CAUSERIE_URL/api/v1/chats\" -H \"X-Api-Key: $CAUSERIE_API_KEY\" \\\n  \
         -H 'Content-Type: application/json' -H 'Prefer: wait=60' \\\n  \
         -d '{{\"input\": \"{question}\"}}'\n"
    );
    let python = format!(
        "import json\nimport urllib.request\n\n\
         request = urllib.request.Request(\n    \
             \"{origin}/api/v1/chats\",\n    \
             json.dumps({{\"input\": \"{question}\"}}).encode(),\n    \
             {{\"X-Api-Key\": \"{secret}\", \"Content-Type\": \"application/json\", \"Prefer\": \"wait=60\"}},\n\
         )\n\
         print(json.load(urllib.request.urlopen(request))[\"text\"])\n"
    );
    let typescript = format!(
        "const response = await fetch(\"{origin}/api/v1/chats\", {{\n  \
           method: \"POST\",\n  \
           headers: {{ \"X-Api-Key\": \"{secret}\", \"Content-Type\": \"application/json\", Prefer: \"wait=60\" }},\n  \
           body: JSON.stringify({{ input: \"{question}\" }}),\n\
         }});\n\
         console.log((await response.json()).text);\n"
    );
    [("curl", curl), ("Python", python), ("TypeScript", typescript)]
        .map(|(language, code)| Example { language, code })
        .into()
}
