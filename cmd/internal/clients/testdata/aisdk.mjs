// The engine of useChat. Mode step shows attempts live and needs version 7; hold is for all.
import { pause, report } from './lib.mjs';

const [base, said, mode, version] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport } = await import(version === '6' ? 'ai6' : 'ai');

class State {
  status = 'ready'; error = undefined; messages = []; seen = [];
  pushMessage(m) { this.messages = [...this.messages, m]; }
  popMessage() { this.messages = this.messages.slice(0, -1); }
  replaceMessage(i, m) { this.messages = [...this.messages.slice(0, i), m, ...this.messages.slice(i + 1)]; this.seen.push(text(m)); }
  snapshot(v) { return structuredClone(v); }
}
class Chat extends AbstractChat { constructor(init, state) { super({ ...init, state }); } }

const text = (m) => m.parts.filter((p) => p.type === 'text').map((p) => p.text).join('');
const state = new State();
let ran = 0, finishes = 0;
const chat = new Chat({
  id: 'chat-' + version + mode + said,
  transport: new DefaultChatTransport({
    api: base + '/v1/ai-sdk/chat', headers: { 'turnfold-reset': mode },
    prepareReconnectToStreamRequest: ({ id, api }) => {
      const cut = state.messages.at(-1);
      return { api: `${base}/v1/ai-sdk/chat/${id}/stream` + (cut?.role === 'assistant' ? '?turn=' + cut.id : ''), headers: { 'turnfold-reset': mode } };
    },
  }),
  onToolCall: () => { ran++; },
  onFinish: () => { finishes++; },
}, state);

await chat.sendMessage({ text: said });
let resumed = 0;
const whole = () => state.messages.at(-1)?.metadata?.turnfold?.finish;
while (!whole() && resumed < 10) {
  resumed++;
  await pause(100);
  if (version === '6') { // it would append the replay to what it has
    const cut = state.messages.at(-1);
    if (cut.role === 'assistant') { state.popMessage(); chat.transport.prepareReconnectToStreamRequest = ({ id }) => ({ api: `${base}/v1/ai-sdk/chat/${id}/stream?turn=${cut.id}` }); }
  }
  await chat.resumeStream();
}
const m = state.messages.at(-1);
report({
  text: text(m), ran, resumed, status: state.status, error: state.error?.message, messages: state.messages.length,
  calls: m.parts.filter((p) => p.type === 'dynamic-tool').map((p) => p.toolName + ' ' + (p.state === 'output-available' ? 'succeeded' : p.state)),
  glued: state.seen.some((s) => /Sorry.*Sorry|sorry.*Sorry! Re/.test(s)), saved: m.metadata?.turnfold?.message_id ?? '',
  live: state.seen.some((s) => s.includes('I am')),
});
