//! Tests with the words of servers: Ollama, vLLM, SGLang, llama.cpp, TGI, gateways and the vendors themselves.

use super::*;

#[test]
fn refused_tools_recognized_in_all_wordings() {
    for text in [
        "registry.ollama.ai/library/gemma:2b does not support tools",
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        "no endpoints found that support tool use. to learn more, visit the documentation",
        "tools param requires --jinja flag",
        "function calling is not enabled for models/gemma-3-27b-it",
        "`tool calling` is not supported with this model",
        "this model does not support function calling",
        "unsupported parameter: 'tools' is not supported with this model.",
        "tools is not supported in this model. for a list of supported models, refer to the guide.",
        "this model doesn't support tool use in streaming mode.",
        "no connected provider supports tool calling for this model. the provider must be started with it enabled.",
        "unrecognized request argument supplied: tools",
        "tools not supported",
        "unknown parameter: 'tools'.",
        "this model does not currently support tool calls",
        "the model does not accept parameter 'tools'",
        "no tools support for this model",
        "error: no tool support in this build",
        "function call is not supported for this model",
        "tools: extra inputs are not permitted",
    ] {
        assert!(refuses_tools(text), "{text}");
    }
    for text in [
        "tools.3.custom.input_schema: input_schema does not support oneof at the top level",
        "invalid schema for function 'x__y': array schema missing items",
        "system role not supported",
        "the model `gone` does not exist",
        "unsupported value: 'temperature' does not support 0.2 with this model.",
        "your plan does not accept this model\nupgrade it with the billing tool",
        "strict: extra inputs are not permitted\ntools\nfunction\nstrict",
        "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
    ] {
        assert!(!refuses_tools(text), "{text}");
    }
}

#[test]
fn refused_system_messages_are_recognised() {
    for text in [
        "system role not supported",
        "jinja2.exceptions.templateerror: system role not supported",
        "conversation roles must alternate user/assistant/user/assistant/...",
        "developer instruction is not enabled for models/gemma-3-1b-it",
        "unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "system messages are not supported by this model",
        "only user, assistant and tool roles are supported, got system",
        "only user and assistant roles are supported!",
        "error rendering prompt with jinja template: only user, assistant and tool roles are supported!",
        "role: input should be 'user' or 'assistant'\nbody\nmessages\nrole",
        "role: unexpected value; permitted: 'user', 'assistant', 'tool'",
    ] {
        assert!(refuses_system(text), "{text}");
    }
    for text in [
        "role: input should be 'system', 'user' or 'assistant'",
        "tool roles are supported only by other models",
    ] {
        assert!(!refuses_system(text), "{text}");
    }
    assert!(!refuses_system("file system error: tools are not supported\nunsupported"));
}

#[test]
fn refused_tool_name_is_found() {
    let tool = |name: &str| ToolSpec { name: name.into(), description: String::new(), schema: "{}".into() };
    let tools = ["read", "list", "registry__note", "files__list_all"].map(tool);
    for (text, named) in [
        (
            "invalid schema for function 'registry__note': schema must be a json schema of type object",
            vec![2],
        ),
        ("tools.3.custom.input_schema: json schema is invalid", vec![3]),
        (
            "* generatecontentrequest.tools[0].function_declarations[2].parameters.properties[x].items: missing field.",
            vec![2],
        ),
        (
            "tools[0].function_declarations[2].parameters: bad\ntools[0].function_declarations[3].parameters: bad",
            vec![2, 3],
        ),
        ("invalid 'tools[1].function.parameters'", vec![1]),
        ("tool files__list_all has an invalid schema", vec![3]),
        ("invalid schema for function \"list\": in context=()", vec![1]),
        ("registry.example/read does not support tools", vec![]),
        ("invalid tool schema for files__list_all: array parameter missing items", vec![3]),
        ("tools.9.custom.input_schema: json schema is invalid", vec![]),
        ("max_tokens must be at most 4096", vec![]),
    ] {
        assert_eq!(named_tools(text, &tools), named, "{text}");
    }
}

#[test]
fn named_limits_read_from_numbers() {
    let output = |text: &str| {
        let limits = named_limits(text, 8192, 1000);
        (limits.output_tokens, limits.context_tokens)
    };
    for (text, tokens) in [
        ("max_tokens must be at most 4096", 4096),
        ("`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens`", 4096),
        (
            "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-3-opus-20240229",
            4096,
        ),
        (
            "max_tokens is too large: 8192. this model supports at most 4096 completion tokens, whereas you provided 8192.",
            4096,
        ),
        ("invalid max_tokens value, the valid range of max_tokens is [1, 4096]", 4096),
        (
            "it has a maxoutputtokens value of 8192 but the supported range is from 1 (inclusive) to 4097 (exclusive).",
            4096,
        ),
        (
            "max_tokens (8192) exceeds model's maximum output tokens (4096) for model deepseek-v4-flash:0731",
            4096,
        ),
        ("max_tokens for `llama-3.1-8b-instant` must be less than or equal to 4096", 4096),
        (
            "max_completion_tokens must be less than or equal to 4096, the maximum value for max_completion_tokens is less \
          than the context_window for this model\nmax_completion_tokens",
            4096,
        ),
        ("max_tokens\nrange of max_tokens should be [1, 2,000]", 2000),
        ("range of max_tokens should be [1,2048]", 2048),
        ("range of max_tokens should be [1,512]", 512),
    ] {
        assert_eq!(output(text), (Some(tokens), None), "{text}");
        assert!(named_limits(text, 8192, 1000).is_output_limit, "{text}");
    }
    for (text, tokens) in [
        (
            "this model's maximum context length is 4096 tokens. however, you requested 9692 tokens (1500 in the messages, \
          8192 in the completion). please reduce the length of the messages or completion.",
            Some(2580),
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 8192. this model's maximum context length is 4096 tokens \
          and your request has 1500 input tokens (8192 > 4096 - 1500).",
            Some(2580),
        ),
        (
            "requested token count exceeds the model's maximum context length of 4096 tokens. you requested a total of 9692 \
          tokens: 1500 tokens from the input messages and 8192 tokens for the completion.",
            Some(2580),
        ),
        (
            "input length and `max_tokens` exceed context limit: 1500 + 8192 > 4096, decrease input length",
            Some(2580),
        ),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 4096. given: 1500 `inputs` tokens and 8192 `max_new_tokens`",
            Some(2580),
        ),
        ("this model's maximum context length is 4096 tokens.", Some(2830)),
        ("prompt is too long: 5000 tokens > 4096 maximum", None),
        (
            "the request exceeds the available context size (4096 tokens)\nn_prompt_tokens 5000\nn_ctx 4096",
            None,
        ),
        ("model is loaded with context length of only 4096 tokens, which is not enough for 5000", None),
    ] {
        assert_eq!(output(text), (tokens, Some(4096)), "{text}");
    }
    // The output may equal the window.
    let equal = "this model's maximum context length is 6048 tokens. however, you requested 6616 tokens (568 in the \
                 messages, 6048 in the completion).";
    assert_eq!(named_limits(equal, 6048, 500).output_tokens, Some(5464));
    for text in
        ["rate limit of 4096 tokens", "no numbers: max_tokens", "the model llama-3.1-8b does not exist", ""]
    {
        assert_eq!(named_limits(text, 8192, 1000), NamedLimits::default(), "{text}");
    }
}

#[test]
fn non_chat_models_recognized() {
    assert!(refuses_chat("\"nomic-embed-text\" does not support chat"));
    assert!(refuses_chat(
        "this is not a chat model and thus not supported in the v1/chat/completions endpoint."
    ));
    assert!(!refuses_chat("does not support tools"));
}
