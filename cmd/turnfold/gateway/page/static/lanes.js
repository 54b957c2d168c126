import { h, pct, put, svg } from './dom.js';
import { count, offset, plural, span, toneOf, wordOf } from './format.js';

const ticksMax = 240; // strokes that a lane draws of its stream, whatever came

// density is the stream as strokes, one for each moment at which something came.
function density(marks, from, to) {
  const seen = new Set();
  let d = '';
  for (const m of marks) {
    const x = Math.round(((m - from) / Math.max(1, to - from)) * ticksMax);
    if (seen.has(x)) continue;
    seen.add(x);
    d += `M${x} 0V10`;
  }
  return svg('svg', { viewBox: `0 0 ${ticksMax} 10`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, svg('path', { d, 'vector-effect': 'non-scaling-stroke' }));
}

let letters = 110; // that a lane has room for
// side puts a word where there is room for it.
const side = (x, word) => (x + 0.03 + word.length / letters > 1 ? ' left' : '');

function attemptLane(a, clock, reset) {
  const to = a.to || clock.to;
  const tone = a.won ? 'won' : a.end === 'open' ? 'live' : 'lost';
  const streamEnd = a.end === 'open' ? a.last : to;
  const parts = [
    a.since > 0 && a.since < a.from && clock.bar(a.since, a.from, { class: 'queue', title: `asked for, not yet begun: ${span(a.from - a.since)}` }),
    clock.bar(a.from, a.first || to, { class: 'wait ' + tone, title: `waits for the first token: ${span((a.first || to) - a.from)}` }),
    a.first > 0 && clock.bar(a.first, streamEnd, { class: 'stream ' + tone, title: `streams for ${span(streamEnd - a.first)}` }, density(a.marks, a.first, streamEnd)),
    a.gaps.map((g) => clock.bar(g.from, g.to, { class: 'silence', title: `silent for ${span(g.to - g.from)}` })),
    a.end === 'open' && clock.bar(a.last, clock.to, { class: 'going live' }),
  ];
  if (a.won) parts.push(h('span', { class: 'end won', style: { left: pct(clock.x(to)) } }, h('b', null, '✓')));
  else if (a.end !== 'open') {
    const word = (reset ? 'reset' : wordOf(a.end)) + (a.class ? ' · ' + a.class : '');
    parts.push(h('span', { class: 'end lost' + side(clock.x(to), word), style: { left: pct(clock.x(to)) } }, h('b', null, '✕'), h('em', null, word)));
  }
  const what = a.won ? 'won' : a.end === 'open' ? 'running' : `abandoned, ${a.class ?? a.end}`;
  return lane([h('strong', null, `${a.step}.${a.attempt}`), h('span', { class: 'soft' }, `${a.provider} · ${a.model}`)],
    parts, `attempt ${a.step}.${a.attempt}, ${what}: from ${offset(a.from - clock.from)} to ${offset(to - clock.from)}, first token ${a.first ? span(a.first - a.from) : 'none'}, ${plural(a.gaps.length, 'silent gap')}`, 'attempt');
}

function callLane(c, clock) {
  const to = c.settled ?? clock.to;
  const tone = c.waiting && !c.settled ? 'wait' : toneOf(c.outcome ?? '');
  const from = c.decided?.yes ? c.decided.at : c.asked;
  const parked = c.decided || c.waiting === 'approval';
  const parts = [
    parked && clock.bar(c.asked, c.decided?.at ?? to, { class: 'person', title: `waits for a person: ${span((c.decided?.at ?? to) - c.asked)}` }),
    !(parked && !c.decided?.yes) && clock.bar(from, c.claimed ?? to, { class: 'queue', title: 'not claimed yet' }),
    c.claimed && clock.bar(c.claimed, c.reported ?? to, { class: 'run ' + tone, title: `runs for ${span((c.reported ?? to) - c.claimed)}` }),
    c.reported && clock.bar(c.reported, to, { class: 'queue' }),
  ];
  if (c.settled) {
    const late = c.resolved ? `, resolved ${offset(c.resolved - clock.from)}` : '';
    const word = c.outcome === 'succeeded' ? '' : wordOf(c.outcome) + late;
    parts.push(h('span', { class: `end ${tone}` + side(clock.x(to), word), style: { left: pct(clock.x(to)) } }, h('b', null, { won: '✓', doubt: '?', lost: '✕' }[tone] ?? '–'),
      word && h('em', null, word)));
  }
  return lane([h('span', { class: 'faint', 'aria-hidden': 'true' }, '↳'), h('strong', null, c.call), h('span', { class: 'soft' }, c.tool ?? 'call')], parts,
    `call ${c.call} of ${c.tool}, ${wordOf(c.waiting && !c.settled ? 'waiting' : c.outcome ?? '')}`, 'call');
}

const lane = (label, parts, words, kind) => h('div', { class: 'lane ' + kind, role: 'listitem', 'aria-label': words },
  h('span', { class: 'label' }, label), h('span', { class: 'track' }, parts));

// lanesMax bounds what is drawn; a turn with more says so.
const lanesMax = 120;

// drawLanes puts every attempt and call on one clock, in the order in which they began.
export function drawLanes(el, m) {
  const { trace, clock } = m;
  letters = Math.max(160, el.clientWidth - (innerWidth <= 900 ? 120 : 210)) / 8;
  const resets = new Set(m.items.filter((i) => i.type === 'reset').map((i) => `${i.step}.${i.abandoned}`));
  const all = [...trace.attempts.map((a) => [a.from, () => attemptLane(a, clock, resets.has(a.name))]), ...[...trace.calls.values()].map((c) => [c.asked + 0.5, () => callLane(c, clock)])]
    .sort((a, b) => a[0] - b[0]);
  if (all.length === 0) {
    put(el, h('p', { class: 'blank' }, h('strong', null, 'No attempt has begun'), 'The turn is stored and waits for a streamer.'));
    return;
  }
  put(el, h('div', { class: 'lanes' }, clock.axis(), h('div', { class: 'body', role: 'list', 'aria-label': 'Attempts and calls on one clock' }, clock.grid(),
    all.slice(0, lanesMax).map(([, draw]) => draw()))),
  all.length > lanesMax && h('p', { class: 'faint' }, `and ${count(all.length - lanesMax)} more`));
}
