// OpenAI's own library. Modes: stream, whole, pass (this client runs its tools itself).
import OpenAI from 'openai';
import { report } from './lib.mjs';

const [base, said, mode, tool] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + (mode === 'pass' ? '/v1/passthrough' : '/v1'), apiKey: 'none' });
const messages = [{ role: 'user', content: said }];
const calls = [];
let text = '', errors = 0, released = 0;

async function ask(body) {
  for (let tries = 0; ; tries++) {
    try {
      const options = { headers: { 'idempotency-key': said + mode + messages.length } };
      if (mode === 'whole') {
        const c = await client.chat.completions.create(body, options);
        return { ...c.choices[0].message, finish: c.choices[0].finish_reason, usage: c.usage };
      }
      const out = { role: 'assistant', content: '', tool_calls: [], finish: '' };
      const stream = await client.chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } }, options);
      for await (const c of stream) {
        if (c.usage) out.usage = c.usage;
        const d = c.choices[0]?.delta ?? {};
        if (d.content) out.content += d.content;
        for (const t of d.tool_calls ?? []) { out.tool_calls.push({ id: t.id, type: 'function', function: { name: t.function.name, arguments: t.function.arguments } }); released++; }
        if (c.choices[0]?.finish_reason) out.finish = c.choices[0].finish_reason;
      }
      if (!out.finish) throw new Error('the stream broke off');
      return out;
    } catch (err) {
      errors++;
      if (tries > 5) throw err;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

const tools = mode === 'pass' ? [{ type: 'function', function: { name: 'refund', description: 'Refund.', parameters: { type: 'object', properties: { order: { type: 'string' } } } } }] : undefined;
let answer;
for (let n = 0; n < 5; n++) {
  answer = await ask({ model: 'default', messages, tools, temperature: 0.5 });
  text += answer.content ?? '';
  if (!answer.tool_calls?.length) break;
  if (mode !== 'pass') break;
  messages.push({ role: 'assistant', content: answer.content || null, tool_calls: answer.tool_calls });
  for (const t of answer.tool_calls) {
    const res = await fetch(tool, { method: 'POST', body: t.function.arguments });
    calls.push(t.function.name + (res.ok ? ' succeeded' : ' failed'));
    messages.push({ role: 'tool', tool_call_id: t.id, content: await res.text() });
  }
}
report({ text, calls, errors, released, finish: answer.finish, usage: answer.usage?.total_tokens > 0, ran: mode === 'pass' ? 0 : (answer.tool_calls?.length ?? 0) });
