// fetch and eventsource-parser, going on by hand after the last id. In hold mode nothing
// is ever taken back.
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { fold, report } from './lib.mjs';

const [base, said, mode] = process.argv.slice(2);
const turn = 'p-' + mode + '-' + said;
const query = mode === 'hold' ? '?reset=hold' : mode === 'compact' ? '?compact=1' : '';
const shown = fold();
let last = '', opened = 0, over = false;
for (let tries = 0; !over && tries < 20; tries++) {
  const headers = { accept: 'text/event-stream' };
  let init = { headers };
  let url = base + '/v1/turns/' + turn + '/feed' + query;
  if (last) headers['last-event-id'] = last;
  else { url = base + '/v1/turns' + query; init = { method: 'POST', headers, body: JSON.stringify({ turn, input: said }) }; }
  try {
    const res = await fetch(url, init);
    if (res.status === 204) break;
    opened++;
    for await (const event of res.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())) {
      if (event.id) last = event.id;
      const item = JSON.parse(event.data);
      if (mode === 'hold' && item.type === 'reset') throw new Error('a reset in hold mode');
      shown.see(item);
      if (item.type === 'message_saved' || item.type === 'error') over = true;
    }
  } catch (err) { if (/reset in hold/.test(err.message)) throw err; }
}
report({ text: shown.text(), calls: shown.calls, opened });
