// A browser's EventSource: it connects again by itself, and stops at 204.
import { EventSource } from 'eventsource';
import { fold, post, report } from './lib.mjs';

const [base, said] = process.argv.slice(2);
const turn = 'es-' + said;
await post(base + '/v1/turns', { turn, input: said }, { prefer: 'respond-async' });
const shown = fold();
let opened = 0;
setInterval(() => {}, 1000); // the library's own timer lets the process end
const source = new EventSource(base + '/v1/turns/' + turn + '/feed');
source.onopen = () => opened++;
source.onmessage = (e) => shown.see(JSON.parse(e.data));
await new Promise((done) => { source.onerror = () => { if (source.readyState === EventSource.CLOSED) done(); }; });
report({ text: shown.text(), calls: shown.calls, opened });
