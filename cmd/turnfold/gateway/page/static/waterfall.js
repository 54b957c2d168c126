import { h, put } from './dom.js';
import { plural, span } from './format.js';

const rowsMax = 160;

// phases are the stretches of a turn, in order: what it waited for, and what it did.
export function phases(trace, live) {
  const out = [];
  const end = trace.to(live);
  const push = (at, tone, what, from, to, more) => { if (to > from || more?.always) out.push({ at: at, tone, what, from, to, ...more }); };
  for (const a of trace.attempts) {
    const to = a.to || end, name = a.name;
    const first = trace.attempts.find((x) => x.step === a.step);
    push(a.from, 'queue', a === first ? `${name} waits for a streamer` : `${name} backs off`, a.since, a.from, { note: a === first ? '' : 'pause before asking again' });
    push(a.from + 0.1, 'wait', `${name} first token`, a.from, a.first || to, { note: a.first ? '' : 'none came' });
    if (!a.first) continue;
    const silent = a.gaps.reduce((n, g) => n + g.to - g.from, 0);
    push(a.first, a.won ? 'won' : a.end === 'open' ? 'live' : 'lost', `${name} streams`, a.first, to,
      { gaps: a.gaps, note: a.gaps.length ? `${plural(a.gaps.length, 'silent gap')}, ${span(silent)}, longest ${span(Math.max(...a.gaps.map((g) => g.to - g.from)))}` : '' });
    if (a.won) push(a.first + 0.1, 'hold', `${name} hold time`, a.first, to, { aside: true, note: out.some((p) => p.tone === 'hold') ? '' : 'what a reader with reset=hold waits for the winner’s first word' });
  }
  for (const c of trace.calls.values()) {
    const to = c.settled ?? end, name = `${c.call} ${c.tool ?? ''}`;
    if (c.decided || c.waiting === 'approval') push(c.asked, 'person', `${name} waits for a person`, c.asked, c.decided?.at ?? to, { note: c.decided?.by ? `decided by ${c.decided.by}` : '' });
    const from = c.decided?.at ?? c.asked;
    if (c.claimed) {
      push(from + 0.1, 'queue', `${name} to its claim`, from, c.claimed);
      push(c.claimed, c.outcome === 'succeeded' ? 'won' : c.outcome === 'unknown' ? 'doubt' : c.settled ? 'lost' : 'live', `${name} runs`, c.claimed, c.reported ?? to);
      if (c.reported) push(c.reported, 'queue', `${name} is told`, c.reported, to);
    } else if (c.settled && !c.decided) push(from, 'queue', c.replayed ? `${name} replays` : `${name} is settled`, from, to);
  }
  if (trace.saved) push(trace.saved, 'queue', 'message is saved', trace.ended, trace.saved, { note: 'the reader does not wait for this', aside: true });
  return out.sort((x, y) => x.from - y.from || x.at - y.at);
}

export function drawWaterfall(el, m) {
  const { trace, clock } = m;
  const list = phases(trace, m.live);
  const whole = Math.max(1, (m.live ? clock.to : trace.ended || clock.to) - clock.from);
  put(el, h('div', { class: 'fall', role: 'table', 'aria-label': 'Where the time went' },
    h('div', { class: 'phase head', role: 'row' }, h('span', { role: 'columnheader' }, 'Phase'), h('span', { role: 'columnheader' }, clock.axis()), h('span', { role: 'columnheader', class: 'num' }, 'Took'), h('span', { role: 'columnheader', class: 'num' }, 'Share')),
    list.slice(0, rowsMax).map((p) => h('div', { class: 'phase' + (p.aside ? ' aside' : '') + ((p.to - p.from) / whole < 0.005 ? ' tiny' : ''), role: 'row' },
      h('span', { role: 'cell', class: 'what' }, p.what, p.note && h('small', null, p.note)),
      h('span', { role: 'cell', class: 'track' }, clock.breaks.length > 0 && clock.grid(false), clock.bar(p.from, p.to, { class: 'wf ' + p.tone }), (p.gaps ?? []).slice(0, 200).map((g) => clock.bar(g.from, g.to, { class: 'silence', title: `silent for ${span(g.to - g.from)}` }))),
      h('span', { role: 'cell', class: 'num' }, span(p.to - p.from)), h('span', { role: 'cell', class: 'num faint' }, p.aside ? '' : share(p.to - p.from, whole)))),
    list.length > rowsMax && h('p', { class: 'faint' }, `and ${list.length - rowsMax} more`)));
}

const share = (part, whole) => { const p = (100 * part) / whole; return p < 0.5 ? '<1 %' : Math.round(p) + ' %'; };
