import { copyable, h, put } from './dom.js';
import { clockTime, count, offset, plural } from './format.js';
import { Rows } from './rows.js';

const rowHeight = 28;
// jsonMax bounds what is shown of one event.
const jsonMax = 200_000;

// brief is an event in a few words.
function brief(kind, b) {
  switch (kind) {
    case 'turn.opened': return `route ${b.route}, ${plural(b.messages.length, 'message')}, ${plural(b.tools?.length ?? 0, 'tool')}, rules ${b.rules ?? 0}`;
    case 'attempt.started': return `${b.provider} · ${b.model}`;
    case 'text.delta': case 'reasoning.delta': return JSON.stringify(b.text);
    case 'call.delta': return `#${b.index} ` + [b.id, b.name, b.args && JSON.stringify(b.args)].filter(Boolean).join(' ');
    case 'attempt.finished': return b.finish;
    case 'attempt.failed': return [b.class, b.detail].filter(Boolean).join(': ');
    case 'attempt.lost': return b.reason;
    case 'call.settled': return [b.call, b.outcome, b.error_class, b.replayed && 'replayed', b.by && 'by ' + b.by, b.result].filter(Boolean).join(' ');
    case 'call.approved': case 'call.denied': case 'turn.cancelled': return [b.call, b.by && 'by ' + b.by, b.reason].filter(Boolean).join(' ');
    case 'message.saved': return b.message_id;
  }
  return b.call ?? '';
}

const place = (b) => (b.step ? `${b.step}.${b.attempt ?? ''}` : b.call ?? '');

// Raw is the log of the turn, and the commands that show the same in a terminal.
export class Raw {
  events = [];
  #all = [];
  #chosen = null;

  constructor() {
    this.rows = new Rows({ label: 'Events', height: rowHeight, make: (i) => this.#row(i), open: (i) => this.#choose(i), moved: (i) => this.#choose(i) });
    this.kind = h('select', { 'aria-label': 'Kind of event', onchange: () => this.#filter(true) });
    this.detail = h('aside', { class: 'detail', 'aria-label': 'Event' });
    this.commands = h('div', { class: 'commands' });
    this.note = h('span', { class: 'faint' });
    this.element = h('div', { class: 'raw' }, h('div', { class: 'rawtools' }, this.kind, this.note), h('div', { class: 'pair' }, h('div', { class: 'log' },
      h('div', { class: 'event head', 'aria-hidden': 'true' }, h('span', { class: 'num' }, 'Seq'), h('span', { class: 'num' }, 'At'), h('span', null, 'Kind'), h('span', null, 'Place'), h('span', null, 'What')), this.rows.element), this.detail), this.commands);
    this.#choose(-1);
  }

  close() { this.rows.close(); }

  update(events, head, trace) {
    const grew = events.length !== this.#all.length;
    Object.assign(this, { head, trace });
    if (!grew && this.commands.firstChild) return;
    this.#all = events;
    const kinds = [...trace.kinds].sort();
    const now = this.kind.value;
    put(this.kind, h('option', { value: '' }, `All kinds (${count(events.length)})`), kinds.map(([k, n]) => h('option', { value: k }, `${k} (${count(n)})`)));
    this.kind.value = now;
    this.#filter(false);
    if (!this.commands.firstChild) this.#commands();
  }

  #filter(anew) {
    const kind = this.kind.value;
    this.events = kind ? this.#all.filter((e) => e.kind === kind) : this.#all;
    this.rows.element.style.height = Math.min(14, Math.max(4, this.events.length)) * rowHeight + 'px';
    this.rows.setCount(this.events.length);
    if (anew) { this.rows.select(-1, false); this.rows.at = -1; }
    this.rows.refresh();
    const hidden = this.#all.some((e) => e.withheld);
    this.note.textContent = `${this.head.stream} · ${this.head.subject}` + (hidden ? ' · what people are not shown is withheld' : '');
  }

  #row(i) {
    const e = this.events[i];
    return h('div', { class: 'event ' + e.kind.split('.')[0] }, h('span', { class: 'num mono' }, e.seq), h('span', { class: 'num soft' }, offset(e.at_ms - this.trace.from)), h('span', { class: 'kind' }, e.kind), h('span', { class: 'mono faint' }, place(e.body)), h('span', { class: 'what' }, brief(e.kind, e.body)));
  }

  // address is the turn on a command line that reads the log itself.
  get address() { return this.head.tenant === 'local' ? this.head.turn : `${this.head.tenant}/${this.head.turn}`; }

  #choose(i) {
    const e = this.events[i];
    this.#chosen = e;
    if (!e) { put(this.detail, h('p', { class: 'faint' }, 'Choose an event to see all of it.')); return; }
    const text = JSON.stringify(e.body, null, 2);
    put(this.detail, h('h3', null, `${e.kind} `, h('code', null, e.seq)), h('p', { class: 'soft' }, clockTime(e.at_ms)),
      h('pre', { class: 'code', tabindex: 0 }, text.length > jsonMax ? text.slice(0, jsonMax) + '…' : text), e.withheld && h('p', { class: 'soft' }, 'Parts of it are not shown here: messages, provider blocks, and arguments of tools that declare redact.'),
      h('p', { class: 'soft' }, 'The turn as it stood then:'), copyable(`turnfold show ${this.address} --as-of ${e.seq}`), copyable(`turnfold replay ${this.address} --as-of ${e.seq}`));
  }

  #commands() {
    const t = this.head.turn;
    const list = [['Its state', `turnfold show ${t}`], ['Its feed, from the start', `turnfold tail ${t}`], ['Its outputs, derived again', `turnfold replay ${this.address}`], ['Its verdict', `turnfold audit ${t}`], ['Its effects', `turnfold effects --turn ${t}`],
      ['Evidence for others', `turnfold audit export ${this.address} ${t}.ndjson`], ['Its facts, from NATS itself', `nats stream get ${this.head.stream} --last-for ${this.head.subject}`]];
    put(this.commands, h('h3', null, 'In a terminal'), h('dl', null, list.map(([what, cmd]) => h('div', null, h('dt', null, what), h('dd', null, copyable(cmd))))));
  }
}
