import { copyable, h, put } from './dom.js';
import { members, offset, plural, span, toneOf, wordOf } from './format.js';

const cardsMax = 80;
const short = (key) => (key.length > 22 ? key.slice(0, 14) + '…' + key.slice(-6) : key);

// args shows an argument text: the members that name the effect bright, the rest grey.
export function args(text, tool) {
  const list = members(text);
  if (!list) return h('code', { class: 'args raw' }, text);
  const names = new Set(tool?.identity ?? []);
  const bright = (name) => !tool || tool.identity_all || names.has(name);
  list.sort(([a], [b]) => bright(b) - bright(a) || (a < b ? -1 : 1)); // so that wordings compare
  return h('dl', { class: 'args' }, list.map(([name, value]) => h('div', { class: bright(name) ? 'names' : 'decor' }, h('dt', null, name), h('dd', null, value))),
    list.length === 0 && h('div', { class: 'decor' }, 'no arguments'));
}

// askedAs lists the provider's names for one effect, each attempt's, those of abandoned
// attempts struck through: they come together in one key.
function askedAs(list, trace) {
  return h('ul', { class: 'asked' }, list.map((a) => {
    const attempt = trace.attempts.find((t) => t.step === a.step && t.attempt === a.attempt);
    const won = a.call || attempt?.won;
    return h('li', { class: won ? 'won' : 'lost' }, h(won ? 'code' : 'del', { class: 'mono' }, a.provider_id || `#${a.index}`),
      h('span', { class: 'faint' }, won ? `${a.step}.${a.attempt} won` : `${a.step}.${a.attempt} abandoned`));
  }));
}

// way is what one call went through, in order.
function way(c, m) {
  const at = (t) => (t ? offset(t - m.trace.from) : '');
  const steps = [['call ' + c.call, at(c.asked), 'asked', '']];
  const d = c.decided;
  if (d) steps.push([d.yes ? 'approved' : 'refused', at(d.at), [d.by && 'by ' + d.by, d.reason].filter(Boolean).join(': '), '']);
  else if (c.waiting === 'approval' && !c.settled) steps.push(['person', '', 'waits for a decision', 'wait']);
  if (c.claimed) {
    steps.push(['claim', at(c.claimed), c.claims > 1 ? `the last of ${c.claims}` : '', '']);
    steps.push(['run', c.reported ? span(c.reported - c.claimed) : c.settled ? '' : 'under way', c.renewals ? plural(c.renewals, 'renewal') : '', c.reported || c.settled ? '' : 'live']);
  }
  if (c.outcome) steps.push([wordOf(c.outcome), at(c.resolved ?? c.settled), c.replayed ? 'replayed, not run again' : c.by && c.by !== d?.by ? `by ${c.by}${c.why ? ': ' + c.why : ''}` : '', toneOf(c.outcome)]);
  return h('ol', { class: 'way', 'aria-label': 'call ' + c.call }, steps.map(([what, when, more, tone]) => h('li', { class: tone }, h('b', null, what), h('span', null, when), more && h('small', null, more))));
}

const waysMax = 12;

function ways(e, m) {
  const calls = e.calls.map((id) => m.trace.calls.get(id)).filter(Boolean);
  return [calls.slice(0, waysMax).map((c) => way(c, m)), calls.length > waysMax && h('p', { class: 'faint' }, `and ${plural(calls.length - waysMax, 'more call')}`)];
}

function card(e, m, actions) {
  const tool = m.effects.tools.find((t) => t.name === e.tool);
  const calls = e.calls.map((id) => m.state.steps.flatMap((s) => s.calls).find((c) => c.call === id)).filter(Boolean);
  const asked = m.effects.asked.filter((a) => (e.key ? a.key === e.key : e.calls.includes(a.call)));
  const state = calls.some((c) => c.waiting) ? 'waiting' : calls[0]?.outcome || e.outcome || 'open';
  const owner = [...new Set(e.claims.map((c) => c.host).filter(Boolean))];
  const texts = [...new Set(asked.map((a) => a.args))];
  return h('article', { class: 'card', 'aria-label': `${e.tool} ${e.key}` },
    h('header', null, h('h3', null, e.tool), h('span', { class: 'pill ' + toneOf(state) }, wordOf(state)), calls.some((c) => c.replayed) && h('span', { class: 'tag' }, 'replayed'),
      h('span', { class: 'tag', title: 'what the declaration says of equal calls' }, tool ? `${tool.effect} · repeat ${tool.repeat}` : 'not declared'), e.conflict && h('span', { class: 'pill lost' }, 'facts conflict')),
    h('div', { class: 'collapse' + (asked.length > 1 ? ' several' : '') }, askedAs(asked, m.trace), h('div', { class: 'one' }, e.key ? h('code', { title: e.key }, short(e.key)) : h('span', { class: 'faint' }, 'no key: it was refused'),
      h('span', { class: 'faint' }, asked.length > 1 ? `${plural(asked.length, 'request')}, 1 effect` : '1 request'))),
    h('div', { class: 'said-as' }, texts.slice(0, 4).map((t) => args(t, tool)), texts.length > 4 && h('p', { class: 'faint' }, `and ${texts.length - 4} other wordings`)),
    h('div', { class: 'ways' }, ways(e, m)),
    calls[0]?.error_class && h('p', { class: 'soft' }, 'error class ', h('code', null, calls[0].error_class)),
    (calls[0]?.result || e.result) && h('details', null, h('summary', null, 'Result'), h('pre', { class: 'code' }, calls[0]?.result || e.result)),
    h('footer', null, h('span', { class: 'faint' }, owner.length ? ['owner ', h('code', null, owner.map((o) => o.slice(0, 12)).join(', '))] : 'no owner'),
      h('span', { class: 'spring' }), actions.forEffect(e, calls, state), e.key && copyable(`turnfold effects ${e.key}`)));
}

export function drawEffects(el, m, actions) {
  const orphans = m.effects.asked.filter((a) => !a.call && !m.effects.effects.some((e) => e.key && e.key === a.key));
  if (m.effects.effects.length === 0 && orphans.length === 0) {
    put(el, h('p', { class: 'blank' }, h('strong', null, 'No calls'), 'The model asked for no tool.'));
    return;
  }
  put(el, h('div', { class: 'cards' }, m.effects.effects.slice(0, cardsMax).map((e) => card(e, m, actions))),
    m.effects.effects.length > cardsMax && h('p', { class: 'faint' }, `and ${m.effects.effects.length - cardsMax} more`),
    orphans.length > 0 && h('div', { class: 'orphans' }, h('h3', null, 'Asked for only by abandoned attempts'), h('p', { class: 'soft' }, 'None of these ran: only calls of an attempt that finished do.'),
      orphans.slice(0, cardsMax).map((a) => h('div', { class: 'orphan' }, h('del', { class: 'mono' }, a.provider_id || `#${a.index}`), h('span', { class: 'faint' }, `${a.step}.${a.attempt}`), h('strong', null, a.tool || 'no name yet'),
        a.whole ? '' : h('span', { class: 'tag' }, 'cut off'), h('code', { class: 'args raw' }, a.args)))));
}

// drawLoops shows how often each effect was asked for and how often calls ended alike,
// against the caps at which the loop breaker speaks.
export function drawLoops(el, m) {
  const { loops, effects, calls, calls_most: most } = m.effects;
  const lines = [];
  for (const e of effects) {
    if (!e.key || lines.length >= 40) continue;
    lines.push({ name: e.tool, more: short(e.key), n: e.calls.length, cap: 0, word: 'calls of one effect' });
  }
  for (const l of loops.slice(0, 40)) {
    const word = { ends: `ended in ${l.class || 'the same way'}`, empty: 'found nothing', rows: 'found the same rows' }[l.kind] ?? l.kind;
    lines.push({ name: l.tool, more: word, n: l.count, cap: l.most, word, over: l.count > l.most });
  }
  if (lines.length === 0) { put(el, h('p', { class: 'blank' }, h('strong', null, 'Nothing to count'), 'No call was made.')); return; }
  const widest = Math.max(4, ...lines.map((l) => Math.max(l.n, l.cap) + 1));
  const bars = (l) => Array.from({ length: Math.min(l.n, 60) }, (_, i) => h('i', { class: l.cap && i >= l.cap ? 'over' : '', style: { width: `calc(${100 / widest}% - 3px)` } }));
  put(el, h('div', { class: 'loops', role: 'list' }, lines.map((l) => h('div', { class: 'loop' + (l.over ? ' tripped' : ''), role: 'listitem', 'aria-label': `${l.name}, ${l.more}: ${l.n}` + (l.cap ? `, cap ${l.cap}` : '') },
    h('span', { class: 'what' }, h('strong', null, l.name), h('small', null, l.more)),
    h('span', { class: 'bars' }, bars(l), l.cap > 0 && h('b', { style: { left: `${(100 * l.cap) / widest}%` }, title: `cap ${l.cap}` })),
    h('span', { class: 'num' }, l.cap ? `${l.n} of ${l.cap}` : `${l.n} ×`)))),
  h('p', { class: 'soft' }, m.state.tools_off ? h('strong', { class: 'bad' }, 'The loop breaker has spoken: no tools are offered any more. ') : 'The loop breaker is silent. ',
    most ? `${plural(calls, 'call')} of at most ${most} in the turn.` : ''));
}
