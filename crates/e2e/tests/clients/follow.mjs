// Prints the pieces of an answer's text as they are read, and finally the whole text: a line of JSON each.
const [built, baseUrl, apiKey, chatId, id] = process.argv.slice(2);
const { Causerie } = await import(`${built}/dist/index.js`);

const tell = (what) => console.log(JSON.stringify(what));
const client = new Causerie({ baseUrl, apiKey });
for await (const piece of client.answers.stream({ chatId, id }).text()) tell({ piece });
tell({ text: (await client.answers.get(chatId, id)).text });
