// A tool turn with a provider of Vercel's AI SDK: one request streamed, the next one whole, in turn.

import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { createRequire } from "node:module";

const { AGENT_URL, AGENT_KEY, AGENT_MODULES, AGENT_PROVIDER } = process.env;
const [model, prompt] = process.argv.slice(2);
const require = createRequire(AGENT_MODULES);
const { generateText, jsonSchema, streamText, tool } = require("ai");
const [create] = Object.entries(require(`@ai-sdk/${AGENT_PROVIDER}`)).find(([name]) => name.startsWith("create"));
const provider = require(`@ai-sdk/${AGENT_PROVIDER}`)[create]({ baseURL: `${AGENT_URL}/v1`, apiKey: AGENT_KEY });

const HISTORY = "history.json";
const ROUNDS = 5;
const schema = {
  type: "object",
  properties: { path: { type: "string" }, seconds: { type: "integer" } },
  required: ["path"],
};
const tools = {
  read_note: tool({ description: "Read a note, after so many seconds.", inputSchema: jsonSchema(schema) }),
};
const history = existsSync(HISTORY) ? JSON.parse(readFileSync(HISTORY, "utf-8")) : [];
const save = () => writeFileSync(HISTORY, JSON.stringify(history));

async function ask(stream) {
  // Else OpenAI's provider names the parts of replies by ids, which only whoever made them could know.
  const providerOptions = { openai: { store: false } };
  const request = { model: provider(model), messages: history, tools, maxRetries: 1, providerOptions };
  if (!stream) return generateText(request);
  const reply = streamText({ ...request, onError: ({ error }) => console.log(`error: ${error}`) });
  for await (const part of reply.fullStream);
  const [text, toolCalls, response] = [await reply.text, await reply.toolCalls, await reply.response];
  return { text, toolCalls, response, finishReason: await reply.finishReason };
}

async function readNote({ path, seconds = 0 }) {
  await new Promise((done) => setTimeout(done, seconds * 1000));
  return readFileSync(path, "utf-8");
}

// The SDK itself refuses a history with calls that nobody answered.
function closeOpenCalls() {
  const parts = history.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const answered = new Set(parts.filter(({ type }) => type === "tool-result").map(({ toolCallId }) => toolCallId));
  for (const { type, toolCallId, toolName } of parts) {
    if (type !== "tool-call" || answered.has(toolCallId)) continue;
    const output = { type: "error-text", value: "The user cancelled this call." };
    history.push({ role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] });
  }
}

async function run() {
  closeOpenCalls();
  history.push({ role: "user", content: prompt });
  for (let round = 0; round < ROUNDS; round++) {
    save();
    const reply = await ask(round % 2 === 0);
    history.push(...reply.response.messages);
    save();
    if (reply.toolCalls.length === 0) {
      const broken = reply.finishReason === "error" || reply.finishReason === "other";
      console.log(broken ? `error: the reply broke off: ${reply.text}` : reply.text);
      return;
    }
    for (const { toolCallId, toolName, input } of reply.toolCalls) {
      const output = { type: "text", value: await readNote(input) };
      history.push({ role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] });
    }
  }
  console.log("the turn does not end");
}

run().catch((error) => console.log(`error: ${error}`));
