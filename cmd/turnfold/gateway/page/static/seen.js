import { fold, seqOf } from './feed.js';
import { h, pct, put } from './dom.js';
import { count, offset, plural, toneOf, wordOf } from './format.js';

const marksMax = 400; // marks above the scrubber
const itemsASecond = 24; // how fast the feed is played

// Seen is the answer as the user saw it after any item of the feed.
export class Seen {
  #n = -1; // items folded; -1 follows the end
  #playing = 0;
  #items = [];
  #marked = -1; // items whose marks are drawn

  constructor() {
    this.text = h('div', { class: 'answer', 'aria-live': 'off' });
    this.range = h('input', { type: 'range', min: 0, max: 0, value: 0, 'aria-label': 'Items of the feed', oninput: () => this.go(Number(this.range.value)) });
    this.strip = h('div', { class: 'strip', 'aria-hidden': 'true' });
    this.where = h('output', { class: 'where' });
    this.aside = h('label', { class: 'check' }, h('input', { type: 'checkbox', checked: true, onchange: () => this.draw() }), 'show what was taken back');
    const button = (label, text, fn) => h('button', { type: 'button', class: 'quiet', 'aria-label': label, title: label, onclick: fn }, text);
    this.play = button('Play as it came', '▶', () => this.toggle());
    this.element = h('div', { class: 'seen' }, this.text,
      h('div', { class: 'scrub' }, button('One item back', '‹', () => this.step(-1)), this.play, button('One item on', '›', () => this.step(1)),
        h('div', { class: 'rail' }, this.strip, this.range), button('To the end', '⇥', () => this.go(this.#items.length)), this.where, this.aside));
  }

  update(items, trace, live) {
    const grew = items.length !== this.#marked;
    Object.assign(this, { trace, live });
    this.#items = items;
    this.range.max = items.length;
    if (grew) this.#strip();
    this.draw();
  }

  get place() { return this.#n < 0 ? this.#items.length : Math.min(this.#n, this.#items.length); }

  go(n) {
    this.#n = n >= this.#items.length ? -1 : Math.max(0, n);
    this.draw();
  }

  step(d) { this.stop(); this.go(this.place + d); }

  toggle() {
    if (this.#playing) { this.stop(); return; }
    if (this.place >= this.#items.length) this.go(0);
    this.play.textContent = '❚❚';
    this.play.setAttribute('aria-label', 'Stop');
    const each = Math.max(1, Math.round(this.#items.length / 600));
    this.#playing = setInterval(() => {
      this.go(this.place + each);
      if (this.place >= this.#items.length) this.stop();
    }, 1000 / itemsASecond);
  }

  stop() {
    clearInterval(this.#playing);
    this.#playing = 0;
    this.play.textContent = '▶';
    this.play.setAttribute('aria-label', 'Play as it came');
  }

  #strip() {
    this.#marked = this.#items.length;
    const all = this.#items.length || 1, out = [];
    this.#items.forEach((it, i) => {
      const tone = { reset: 'lost', tool_result: toneOf(it.outcome ?? ''), tool_start: 'live', approval_request: 'wait', completion: 'won', error: 'lost' }[it.type];
      if (tone && out.length < marksMax) out.push(h('i', { class: tone, style: { left: pct((i + 1) / all) }, title: it.type }));
    });
    put(this.strip, out);
  }

  draw() {
    const n = this.place, items = this.#items;
    const shown = fold(items, n);
    const withDropped = this.aside.querySelector('input').checked;
    this.range.value = n;
    const last = items[n - 1];
    const at = last && this.trace.at.get(seqOf(last));
    this.where.textContent = `item ${count(n)} of ${count(items.length)}` + (last ? ` · ${last.type}${last.attempt ? ` ${last.step}.${last.attempt}` : ''}` + (at ? ` · ${offset(at - this.trace.from)}` : '') : '');
    this.range.setAttribute('aria-valuetext', this.where.textContent);
    put(this.text, this.#blocks(shown, withDropped), this.#end(shown, n));
  }

  #blocks(shown, withDropped) {
    const out = [];
    let told = null; // a reset is told once, after all that it dropped
    const tell = () => { if (told) out.push(resetMark(told)); told = null; };
    for (const b of shown.blocks) {
      if (b.dropped?.id !== told?.id) tell();
      if (b.dropped && !withDropped) continue;
      if (b.dropped) told = b.dropped;
      if (b.kind === 'tool') out.push(toolMark(b));
      else if (b.parts.length > 0) out.push(b.dropped ? h('del', null, h('span', { class: 'hush' }, 'taken back: '), b.parts.join('')) : h('span', null, b.parts.join('')));
    }
    tell();
    return out;
  }

  #end(shown, n) {
    const end = shown.ended;
    if (end?.type === 'error') return h('p', { class: 'apology' }, end.message, h('code', null, end.class));
    if (end?.message) return h('p', { class: 'apology' }, end.message, h('code', null, end.finish));
    if (shown.blocks.length > 0 || n === 0 && this.#items.length > 0) return n === 0 && h('p', { class: 'faint' }, 'Nothing has been shown yet.');
    return h('p', { class: 'faint' }, this.live ? 'Nothing has been shown yet.' : 'The turn has shown nothing.');
  }
}

const resetMark = (d) => h('span', { class: 'resetmark' }, h('b', null, '✕ reset'), ` ${d.reason}`, d.abandoned ? h('span', null, ` · attempt ${d.abandoned} is taken back`) : ' · the whole turn is told again');

const toolMark = (b) => h('span', { class: 'toolmark ' + toneOf(b.state) + (b.dropped ? ' dropped' : '') }, h('b', null, b.tool), ` ${b.state === 'client' ? 'handed to the client' : b.state === 'open' ? 'runs' : wordOf(b.state)}`, b.replayed && ' (replayed)', b.progress && b.state === 'open' && ` · ${b.progress}`);

export const itemsNote = (items) => plural(items.length, 'item');
