// The chat that a page builds with @ai-sdk/react, as its guide has it, and a way to go on
// after a cut.
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { useEffect, useMemo, useRef } from 'react';
import { createRoot } from 'react-dom/client';

const q = new URLSearchParams(location.search);
const [api, chat, mode, said] = ['api', 'chat', 'mode', 'said'].map((k) => q.get(k));

function Chat() {
  const cut = useRef(undefined); // the answer that was cut off
  const transport = useMemo(() => new DefaultChatTransport({
    api: api + '/v1/ai-sdk/chat', headers: { 'turnfold-reset': mode },
    prepareReconnectToStreamRequest: ({ id }) => ({
      api: `${api}/v1/ai-sdk/chat/${id}/stream` + (cut.current ? '?turn=' + cut.current : ''), headers: { 'turnfold-reset': mode },
    }),
  }), []);
  const { messages, sendMessage, resumeStream, status, error } = useChat({
    id: chat, transport, resume: !said, onData: (part) => { if (part.type === 'data-turnfold-reset') window.resets++; },
  });
  const answer = messages.findLast((m) => m.role === 'assistant');
  const finish = answer?.metadata?.turnfold?.finish;
  cut.current = answer?.id;
  useEffect(() => { if (said) sendMessage({ text: said }); }, []);
  useEffect(() => {
    if (!finish && (status === 'error' || status === 'ready' && answer)) {
      window.resumed = (window.resumed ?? 0) + 1;
      const timer = setTimeout(resumeStream, 100);
      return () => clearTimeout(timer);
    }
  }, [status, finish]);
  return <main data-status={status} data-finish={finish} data-messages={messages.length} data-saved={answer?.metadata?.turnfold?.message_id}>
    <p id="answer">{answer?.parts.filter((p) => p.type === 'text').map((p, i) => <span key={i}>{p.text}</span>)}</p>
    <ul>{answer?.parts.filter((p) => p.type === 'dynamic-tool').map((p) => <li key={p.toolCallId}>{p.toolName + ' ' + p.state}</li>)}</ul>
    <pre>{error?.message}</pre>
  </main>;
}

window.seen = [];
window.resets = 0;
new MutationObserver(() => {
  const text = document.getElementById('answer')?.textContent ?? '';
  if (text !== window.seen.at(-1)) window.seen.push(text);
}).observe(document.body, { subtree: true, childList: true, characterData: true });
createRoot(document.getElementById('root')).render(<Chat />);
