import { h } from './dom.js';
import { get, post } from './api.js';
import { ask } from './dialog.js';

// Whatever a person does here becomes a fact of the turn, with who did it and why.

const WHO = 'turnfold.by';
const who = (why, hint) => [
  { name: 'by', label: 'Who are you?', hint: 'This is recorded with the turn.', value: sessionStorage.getItem(WHO) ?? '', required: true },
  { name: 'reason', label: 'Why?', hint, kind: 'long', required: why },
];

const path = (turn, ...more) => 'v1/turns/' + [turn, ...more].map(encodeURIComponent).join('/');
const remember = (v) => sessionStorage.setItem(WHO, v.by);
// said leaves out what was not said.
const said = (v) => Object.fromEntries(Object.entries(v).filter(([, x]) => x));

export class Actions {
  // turn's id; after() is called once something was done.
  constructor(turn, after) { Object.assign(this, { turn, after }); }

  async cancel() {
    const done = await ask({
      title: 'Cancel the turn', about: 'The running attempt is closed and calls that have not begun never run. What may have begun is waited for.', fields: who(true, 'It is recorded as turn.cancelled.'), yes: 'Cancel the turn', danger: true,
      done: (v) => { remember(v); return post(path(this.turn, 'cancel'), said(v)); },
    });
    if (done) this.after();
  }

  // decide shows an approver exactly what would run, redacting nothing (docs/effects.md,
  // "Approval"), and sends the digest of that.
  async decide(call) {
    let a;
    try {
      a = await get(path(this.turn, 'calls', call, 'approval'));
    } catch (err) {
      await ask({ title: 'There is nothing to decide', about: err.message });
      this.after();
      return;
    }
    const facts = [['Tool', `${a.tool} (${a.effect})`], ['', a.description], ['Effect key', h('code', null, a.key)], ['Hidden from others', a.redacted?.join(' ')], ['Refused by itself', a.expires_ms && new Date(a.expires_ms).toISOString().replace('T', ' ').slice(0, 16) + ' UTC']];
    const done = await ask({
      title: `May ${a.tool} run?`, choices: [['approve', 'Approve', 'yes'], ['deny', 'Deny', 'no']],
      body: h('div', null, h('dl', { class: 'facts' }, facts.filter(([, v]) => v).map(([k, v]) => [h('dt', null, k), h('dd', null, v)])), h('p', { class: 'hint faint' }, 'The arguments exactly as they would run:'), h('pre', { class: 'code', tabindex: 0 }, a.args)),
      fields: who(false, 'The model is told, if the call is refused.'),
      done: (v) => { remember(v); const { choice: verb, ...body } = v; return post(path(this.turn, 'calls', call, verb), said(verb === 'approve' ? { ...body, digest: a.digest } : body)); },
    });
    if (done) this.after();
  }

  async resolve(key) {
    const done = await ask({
      title: 'Say how the effect ended', yes: 'Record it',
      about: 'Look at the target first. Say failed only if it certainly did not happen and no request for it is under way: an equal call may then run again. A known outcome never changes.',
      body: h('p', { class: 'soft' }, h('code', null, key)),
      fields: [{ name: 'as', label: 'Outcome', options: [['succeeded', 'Succeeded: it happened'], ['failed', 'Failed: it certainly did not happen']] },
        { name: 'by', label: 'Who found out?', value: sessionStorage.getItem(WHO) ?? '', required: true }, { name: 'why', label: 'How is that known?', kind: 'long', required: true },
        { name: 'result', label: 'What the target says of it', hint: 'Only of an effect that succeeded; may be left out.' }],
      done: (v) => { remember(v); return post('v1/effects/' + encodeURIComponent(key) + '/resolve', said(v)); },
    });
    if (done) this.after();
  }

  forEffect(e, calls, state) {
    const parked = calls.find((c) => c.waiting);
    if (parked) return h('button', { type: 'button', class: 'yes', onclick: () => this.decide(parked.call) }, 'Review and decide');
    if (state === 'unknown' && e.key) return h('button', { type: 'button', onclick: () => this.resolve(e.key) }, 'Resolve');
    return null;
  }
}
