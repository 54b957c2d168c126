import { h, pct, put } from './dom.js';
import { count, money, plural, wordOf } from './format.js';

const sources = { reported: '', partial: 'partial count', unknown: 'no count' };

export function drawUsage(el, m) {
  const u = m.state.usage;
  const attempts = m.state.steps.flatMap((s) => s.attempts.map((a) => ({ ...a, step: s.step })));
  const all = u.input_tokens + u.output_tokens, lost = (u.wasted_input_tokens ?? 0) + (u.wasted_output_tokens ?? 0);
  const blind = attempts.filter((a) => a.usage.source === 'unknown').length;
  const open = attempts.some((a) => a.outcome === 'open');
  const bar = (won, gone) => h('span', { class: 'split', role: 'img', 'aria-label': `${won} won, ${gone} wasted` }, won + gone > 0 && [h('i', { class: 'won', style: { width: pct(won / (won + gone)) } }), h('i', { class: 'lost', style: { width: pct(gone / (won + gone)) } })]);
  put(el, h('div', { class: 'sums' },
    h('div', null, h('span', { class: 'soft' }, 'Tokens'), h('strong', null, count(all)), bar(all - lost, lost), h('span', { class: 'faint' }, `${count(all - lost)} won · ${count(lost)} wasted` + (blind ? ` · ${plural(blind, 'attempt')} not counted` : ''))),
    u.currency && h('div', null, h('span', { class: 'soft' }, 'Cost'), h('strong', null, money(u.cost_nanos ?? 0, u.currency)), bar((u.cost_nanos ?? 0) - (u.wasted_cost_nanos ?? 0), u.wasted_cost_nanos ?? 0),
      h('span', { class: 'faint' }, `${money((u.cost_nanos ?? 0) - (u.wasted_cost_nanos ?? 0), u.currency)} won · ${money(u.wasted_cost_nanos ?? 0, u.currency)} wasted`)),
    u.unpriced > 0 && h('p', { class: 'soft' }, `${u.unpriced} requests have no price and are left out.`)),
  h('div', { class: 'scroll' }, h('table', null, h('thead', null, h('tr', null, ['Attempt', 'Model', 'Outcome'].map((x) => h('th', { scope: 'col' }, x)), ['Input', 'From cache', 'Output', 'Reasoning', 'Cost'].map((x) => h('th', { scope: 'col', class: 'num' }, x)), h('th', { scope: 'col' }, ''))),
    h('tbody', null, attempts.map((a) => h('tr', { class: a.outcome === 'finished' || a.outcome === 'open' ? '' : 'wasted' }, h('td', { class: 'mono' }, `${a.step}.${a.attempt}`), h('td', null, `${a.route} · ${a.model}`),
      h('td', null, wordOf(a.outcome) + (a.class ? ` · ${a.class}` : '')), ['input_tokens', 'cache_read_tokens', 'output_tokens', 'reasoning_tokens'].map((k) => h('td', { class: 'num' }, a.usage.source === 'unknown' ? '–' : count(a.usage[k]))),
      h('td', { class: 'num' }, a.usage.currency && a.usage.source !== 'unknown' ? money(a.usage.cost_nanos ?? 0, a.usage.currency) : '–'), h('td', { class: 'faint' }, a.unsent ? 'not sent' : sources[a.usage.source] ?? '')))))),
  (u.partial || open) && h('p', { class: 'soft' }, open ? 'An attempt is open; its count comes at its end.' : 'The provider gave no final count for at least one attempt. What was not counted is not guessed.'));
}

export const invariants = { I1: 'Identity', I2: 'Winner', I3: 'Reset', I4: 'Finished by content', I5: 'Late effects', I6: 'Keys from meaning', I7: 'Claim before effect',
  I8: 'Outputs derive again', I9: 'Exactly once out', I10: 'One request an attempt', I11: 'Honest history', I12: 'Loops end', I13: 'Nothing is lost' };

export function drawAudit(el, m, again) {
  const v = m.audit;
  const button = h('button', { type: 'button', onclick: again, disabled: v === 'asking' }, v === 'asking' ? 'Auditing…' : v ? 'Audit again' : 'Audit');
  if (!v || v === 'asking') {
    put(el, h('div', { class: 'verdict' }, h('p', { class: 'soft' }, m.live ? 'The turn goes on. An audit judges what is there so far.' : 'The turn has not been audited on this page yet.'), button));
    return;
  }
  if (v instanceof Error) {
    put(el, h('div', { class: 'verdict' }, h('p', { class: 'note bad' }, h('strong', null, 'No verdict.'), v.message), button));
    return;
  }
  const bad = v.invariants.filter((i) => !i.ok);
  const word = v.status === 'erased' ? ['erased', ''] : v.ok ? ['ok', 'won'] : ['mismatch', 'lost'];
  put(el, h('div', { class: 'verdict' }, h('span', { class: 'pill big ' + word[1] }, word[0]),
    h('p', { class: 'soft' }, v.ok ? `${count(v.events)} events derive all ${count(v.outputs)} outputs again, byte for byte.` : `${bad.length} of ${v.invariants.length} invariants do not hold.`, v.under_way > 0 && ` ${v.under_way} are under way.`, v.rewinds > 0 && ` The turn was taken back ${v.rewinds} times.`), button),
  h('ul', { class: 'checks' }, v.invariants.map((i) => h('li', { class: i.ok ? 'ok' : 'bad' }, h('b', { 'aria-label': i.ok ? 'holds' : 'broken' }, i.ok ? '✓' : '✕'), h('span', { class: 'mono' }, i.id), h('span', null, invariants[i.id] ?? ''),
    !i.ok && h('p', null, `${i.stream} ${i.seq}: ${i.detail}`)))));
}
