// AG-UI's client. A cut stream counts as success there, so that a run without RUN_FINISHED
// is run again under its id: that attaches, from the start.
import { HttpAgent } from '@ag-ui/client';
import { pause, report } from './lib.mjs';

const [base, said, mode] = process.argv.slice(2);
// The library rejects a second promise of its own when a connection breaks.
process.on('unhandledRejection', () => {});
let resets = 0, saved = '', opened = 0, finished = false, error, agent, live = false;
while (!finished && opened < 10) {
  opened++;
  agent = new HttpAgent({
    url: base + '/v1/ag-ui' + (mode === 'hold' ? '?reset=hold' : ''), threadId: 'thread-' + mode + said,
    initialMessages: [{ id: 'u1', role: 'user', content: said }],
  });
  try {
    await agent.runAgent({ runId: 'run-' + mode + said }, {
      onCustomEvent: ({ event }) => { if (event.name === 'turnfold.reset') resets++; if (event.name === 'turnfold.saved') saved = event.value.message_id; },
      onTextMessageContentEvent: ({ event }) => { if (event.delta.includes('am')) live = true; },
      onRunFinishedEvent: () => { finished = true; },
    });
  } catch (err) { error = err.message; }
  if (!finished) await pause(100);
}
const mine = agent.messages.filter((m) => m.id !== 'u1');
report({
  text: mine.filter((m) => m.role === 'assistant').map((m) => m.content ?? '').join(''), opened, saved, resets, error: finished ? undefined : error, live,
  calls: mine.flatMap((m) => m.toolCalls ?? []).map((c) => c.function.name + (mine.some((m) => m.role === 'tool' && m.toolCallId === c.id) ? ' succeeded' : ' open')),
  kept: agent.messages.some((m) => m.id === 'u1'),
});
