// An editor: it starts the agent, allows what it asks for, and shows what comes.
import * as acp from '@agentclientprotocol/sdk';
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import { report } from './lib.mjs';

const [server, said, binary, dir] = process.argv.slice(2);
const child = spawn(binary, ['acp', '--config', 'turnfold.yaml', '--server', server], { cwd: dir, stdio: ['pipe', 'pipe', 'inherit'] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const messages = new Map(), calls = new Map();
let asked = 0;
const app = acp.client({ name: 'test' })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    const u = params.update;
    if (u.sessionUpdate === 'agent_message_chunk') messages.set(u.messageId, (messages.get(u.messageId) ?? '') + u.content.text);
    if (u.sessionUpdate === 'tool_call' || u.sessionUpdate === 'tool_call_update') calls.set(u.toolCallId, { ...calls.get(u.toolCallId), ...u });
  })
  .onRequest(acp.methods.client.session.requestPermission, () => { asked++; return { outcome: { outcome: 'selected', optionId: 'allow' } }; });
await app.connectWith(stream, async (ctx) => {
  const init = await ctx.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  if (init.protocolVersion !== acp.PROTOCOL_VERSION) throw new Error('version ' + init.protocolVersion);
  const { sessionId } = await ctx.request(acp.methods.agent.session.new, { cwd: dir, mcpServers: [] });
  const answer = await ctx.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text: said }] });
  child.stdin.end();
  report({
    text: [...messages.values()].join(''), messages: messages.size, opened: asked, finish: answer.stopReason, saved: answer._meta.turnfold.message_id,
    calls: [...calls.values()].map((c) => c.title + (c.status === 'completed' ? ' succeeded' : ' ' + c.status)),
  });
});
