// Gives each feed of the conformance kit to the client whose form it is in.
import { HttpAgent } from '@ag-ui/client';
import * as ai7 from 'ai';
import * as ai6 from 'ai6';
import OpenAI from 'openai';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { fold, report } from './lib.mjs';

const dir = process.argv[2];
const wanted = JSON.parse(readFileSync(dir + '/wanted.json', 'utf8'));
process.on('unhandledRejection', () => {}); // of AG-UI's client, at RUN_ERROR
const server = createServer((req, res) => {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.end(readFileSync(dir + '/' + req.url.split('/')[1] + '.sse'));
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const base = 'http://127.0.0.1:' + server.address().port + '/';

async function native(name) {
  const shown = fold();
  let ends = '';
  const res = await fetch(base + name);
  for await (const event of res.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())) {
    const item = JSON.parse(event.data);
    shown.see(item);
    if (item.type === 'completion' || item.type === 'error') ends = item.type;
    if (item.type === 'reset') { if (name.endsWith('hold')) throw new Error('a reset in hold mode'); if (!item.step) ends = ''; }
  }
  return { text: shown.text(), ends };
}

async function chat(ai, name) {
  const res = await fetch(base + name);
  const chunks = ai.parseJsonEventStream({ stream: res.body, schema: ai.uiMessageChunkSchema }).pipeThrough(new TransformStream({
    transform(r, out) { if (!r.success) throw r.error; out.enqueue(r.value); },
  }));
  let last, ends = '';
  const seen = chunks.pipeThrough(new TransformStream({ transform(c, out) { if (c.type === 'finish') ends = 'completion'; if (c.type === 'error') ends = 'error'; out.enqueue(c); } }));
  try { for await (const m of ai.readUIMessageStream({ stream: seen, terminateOnError: true })) last = m; } catch (err) { if (ends !== 'error') throw err; }
  return { text: (last?.parts ?? []).filter((p) => p.type === 'text').map((p) => p.text).join(''), ends };
}

async function openai(name) {
  const client = new OpenAI({ baseURL: base + name, apiKey: 'none', maxRetries: 0 });
  let text = '', ends = '';
  try {
    for await (const c of await client.chat.completions.create({ model: 'm', messages: [], stream: true })) {
      text += c.choices[0]?.delta?.content ?? '';
      if (c.choices[0]?.delta?.tool_calls) throw new Error('a call that is not the client\'s');
      if (c.choices[0]?.finish_reason) ends = 'completion';
    }
  } catch (err) { if (!(err instanceof OpenAI.APIError)) throw err; ends = 'error'; }
  return { text, ends };
}

async function agui(name) {
  const agent = new HttpAgent({ url: base + name, threadId: 't' });
  let ends = '';
  try {
    await agent.runAgent({ runId: 'r' }, { onRunFinishedEvent: () => { ends = 'completion'; }, onRunErrorEvent: () => { ends = 'error'; } });
  } catch (err) { if (ends !== 'error') throw err; }
  return { text: agent.messages.filter((m) => m.role === 'assistant').map((m) => m.content ?? '').join(''), ends };
}

const faults = [];
let opened = 0;
for (const [name, want] of Object.entries(wanted)) {
  const kind = name.split('.')[1];
  const run = { native, 'native-hold': native, 'ai7-step': (n) => chat(ai7, n), 'ai7-hold': (n) => chat(ai7, n), 'ai6-hold': (n) => chat(ai6, n), openai, agui, 'agui-hold': agui }[kind];
  try {
    const got = await run(name);
    if (got.text !== want.text || got.ends !== want.ends) faults.push(`${name}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  } catch (err) { faults.push(`${name}: ${err.message}`); }
  opened++;
}
report({ calls: faults.slice(0, 10), opened });
