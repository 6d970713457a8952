// Exercises the service by OpenAI's library for Node, and prints what it got as a line of JSON.

import OpenAI from "openai";

const MODEL = "stand-in";
const hello = { role: "user", content: "Hello" };
const client = new OpenAI({ maxRetries: 2 });
const got = { models: [] };
for await (const model of client.models.list()) got.models.push(model.id);
got.model = (await client.models.retrieve(`plain/${MODEL}`)).id;
const whole = await client.chat.completions.create({ model: MODEL, messages: [hello] });
const answer = whole.choices[0].message.content;
got.whole = [answer, whole.choices[0].finish_reason, whole.usage.total_tokens];
const messages = [hello, { role: "assistant", content: answer }, { role: "user", content: "And again?" }];
const stream = client.chat.completions.stream({ model: MODEL, messages, stream_options: { include_usage: true } });
let deltas = "";
stream.on("content", (delta) => (deltas += delta));
const final = await stream.finalChatCompletion();
got.stream = [deltas, final.choices[0].message.content, final.usage.total_tokens];
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
const weather = { role: "user", content: "Weather?" };
const called = await client.chat.completions.create({ model: `plain/${MODEL}`, messages: [weather], tools });
got.call = called.choices[0].message.tool_calls[0].function.name;
// The vendor fails once; the library asks again.
const retried = await client.chat.completions.create({ model: `plain/${MODEL}`, messages: [hello] });
got.retried = retried.choices[0].message.content;

async function errorOf(kind, asked) {
    try {
        await asked();
    } catch (error) {
        if (error instanceof kind) return [error.code, error.param, error.requestID != null];
        throw error;
    }
}

const wrongKey = new OpenAI({ apiKey: "api-wrong" });
got.errors = {
    model: await errorOf(OpenAI.NotFoundError, () => client.chat.completions.create({ model: "none", messages: [hello] })),
    key: await errorOf(OpenAI.AuthenticationError, () => wrongKey.models.list()),
    messages: await errorOf(OpenAI.BadRequestError, () => client.chat.completions.create({ model: MODEL, messages: [] })),
};
console.log(JSON.stringify(got));
