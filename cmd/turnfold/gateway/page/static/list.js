import { h, put } from './dom.js';
import { get, now } from './api.js';
import { ago, count, plural, span, toneOf, wordOf } from './format.js';
import { Rows } from './rows.js';

const PAGE = 50; // summaries a request
const EVERY = 2000; // ms between two looks at what is visible
const tabs = [['all', 'All', ''], ['open', 'Open', ''], ['waiting', 'Waiting for a person', 'wait'], ['unknown', 'Unknown effects', 'doubt'],
  ['completed', 'Completed', ''], ['failed', 'Failed', 'lost']];
const empty = {
  all: ['No turns yet', 'Post one to /v1/turns, and it appears here.'], open: ['No turn is open', 'Everything has ended.'],
  waiting: ['Nobody is waited for', 'Calls that need an approval appear here.'], unknown: ['No effect is in doubt', 'Every call that ran has an outcome.'],
  completed: ['No turn has completed', ''], failed: ['No turn has failed', ''],
};

// marks draws outcomes as dots, most of them at a glance: attempts round, calls square.
export function marks(list, square, most = 9) {
  const out = [];
  let step = 0;
  for (const m of list.slice(0, most)) {
    if (m.step && step && m.step !== step) out.push(h('i', { class: 'cut' }));
    step = m.step ?? 0;
    const tone = m.outcome === 'failed' || m.outcome === 'lost' || m.outcome === 'cancelled' ? 'lost' : toneOf(m.outcome);
    out.push(h('i', { class: tone + (square ? ' sq' : ''), title: m.title }));
  }
  if (list.length > most) out.push(h('span', { class: 'rest' }, '+' + (list.length - most)));
  const words = list.map((m) => m.title).join(', ');
  return h('span', { class: 'marks', role: 'img', 'aria-label': words || 'none' }, out);
}

export function stateOf(t) {
  const waits = t.calls.includes('waiting');
  if (waits && (t.status === 'running')) return ['waits for a person', 'wait'];
  if (t.status === 'completed' && t.salvaged) return [t.finish === 'cancelled' ? 'cancelled' : 'salvaged', 'doubt'];
  if (t.status === 'completed' && t.calls.includes('unknown')) return ['completed', 'doubt'];
  if (t.status === 'failed') return [t.finish === 'cancelled' ? 'cancelled' : 'failed', t.finish === 'cancelled' ? '' : 'lost'];
  return [wordOf(t.status), toneOf(t.status)];
}

// Filters are part of the address, so that they can be sent to somebody.
function fromAddress() {
  const [, query] = location.hash.split('?');
  if (!query) return {};
  const q = new URLSearchParams(query);
  return { state: tabs.some(([id]) => id === q.get('state')) ? q.get('state') : 'all', text: q.get('q') ?? '' };
}

function toAddress(state, text) {
  const q = new URLSearchParams();
  if (state !== 'all') q.set('state', state);
  if (text) q.set('q', text);
  history.replaceState(null, '', '#/' + (q.size ? '?' + q : ''));
}

export function listView(app) {
  app.title('');
  const was = { ...(app.list ?? { state: 'all', text: '', at: -1, top: 0 }), ...fromAddress() };
  let { state, text } = was;
  let known = new Map(); // index → summary
  let asked = new Map(); // page → time
  let total = -1, round = 0, timer = 0, failed = '';
  const aborted = new AbortController();

  const rows = new Rows({ label: 'Turns', height: rowHeight(), make, open, seen: () => look(false) });
  const buttons = tabs.map(([id, label]) => h('button', { type: 'button', 'aria-pressed': id === state, onclick: () => filter(id, text) }, label, h('span', { class: 'count' })));
  const search = h('input', { type: 'search', placeholder: 'Turn id', 'aria-label': 'Search turns by id', value: text, autocomplete: 'off', spellcheck: 'false',
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => filter(state, search.value.trim()), 150); },
    onkeydown: (e) => { if (e.key === 'Enter' || e.key === 'ArrowDown') { e.preventDefault(); rows.focus(); } } });
  const note = h('div', { role: 'status' });
  const shown = h('span');
  const blank = h('div', { class: 'blank', hidden: true });
  const sheet = h('section', { class: 'sheet turns', 'aria-label': 'Turns' },
    h('div', { class: 'head', 'aria-hidden': 'true' }, h('span', null, 'State'), h('span', null, 'Turn'), h('span', { class: 'num' }, 'Opened'), h('span', { class: 'num' }, 'Took'), h('span', { class: 'num wide' }, 'First text'),
      h('span', null, 'Attempts'), h('span', null, 'Calls'), h('span', { class: 'num' }, 'Tokens out'), h('span', { class: 'wide' }, 'Answer')),
    rows.element, blank, h('div', { class: 'foot' }, shown,
      h('span', { class: 'legend', 'aria-hidden': 'true' }, [['won', '', 'won'], ['lost', '', 'abandoned'], ['won', 'sq', 'effect succeeded'], ['doubt', 'sq', 'unknown'], ['wait', 'sq', 'waits for a person']]
        .map(([tone, sq, word]) => h('span', null, h('span', { class: 'marks' }, h('i', { class: tone + ' ' + sq })), word)))));
  put(app.main, h('div', { class: 'list' }, h('h1', { class: 'skip' }, 'Turns'),
    h('div', { class: 'tools' }, h('div', { class: 'tabs', role: 'group', 'aria-label': 'Filter by state' }, buttons), h('div', { class: 'search' }, search, h('kbd', { 'aria-hidden': 'true' }, '/'))), note, sheet));

  function rowHeight() { return matchMedia('(max-width: 720px)').matches ? 60 : 44; }
  const resized = () => rows.setHeight(rowHeight());
  addEventListener('resize', resized);

  function filter(s, t) {
    [state, text] = [s, t];
    toAddress(s, t);
    round++;
    known = new Map();
    asked = new Map();
    rows.select(-1, false);
    rows.at = -1;
    rows.element.scrollTop = 0;
    buttons.forEach((b, i) => b.setAttribute('aria-pressed', tabs[i][0] === state));
    look(true);
  }

  // look asks for the pages that are visible, and again for those that have grown old.
  async function look(again) {
    const [from, to] = rows.visible;
    const first = Math.max(0, Math.floor(from / PAGE)), last = Math.max(first, Math.floor(Math.max(0, to) / PAGE));
    for (let p = first; p <= last; p++) {
      if (!again && asked.has(p)) continue;
      if (p * PAGE >= total && total >= 0 && p > 0) continue;
      asked.set(p, Date.now());
      await load(p, round);
    }
  }

  async function load(p, mine) {
    try {
      const q = new URLSearchParams({ view: 'summary', state, offset: p * PAGE, limit: PAGE });
      if (text) q.set('q', text);
      const list = await get('v1/turns?' + q, aborted.signal);
      if (mine !== round) return;
      failed = '';
      take(list);
    } catch (err) {
      if (aborted.signal.aborted || mine !== round) return;
      asked.delete(p);
      failed = err.message;
    }
    put(note, failed && h('p', { class: 'note bad' }, h('strong', null, 'The list is not up to date.'), failed));
  }

  function take(list) {
    app.showTenant(list.tenant);
    const n = { ...list.counts };
    buttons.forEach((b, i) => {
      const c = n[tabs[i][0]];
      b.lastChild.textContent = count(c);
      if (tabs[i][2]) b.classList.toggle(tabs[i][2], c > 0);
    });
    list.turns.forEach((t, i) => known.set(list.offset + i, t));
    if (list.total !== total) for (const i of known.keys()) if (i >= list.total) known.delete(i);
    total = list.total;
    rows.setCount(total);
    rows.refresh(list.offset, list.offset + PAGE - 1);
    rows.element.hidden = total === 0;
    blank.hidden = total > 0;
    const [head, more] = text ? [`No turn id has “${text}” in it`, 'Ids are searched, not what was said.'] : empty[state];
    put(blank, h('strong', null, head), more);
    shown.textContent = plural(total, 'turn') + (state === 'all' && !text ? '' : ` of ${count(n.all)}`);
    if (was.at >= 0) {
      rows.element.scrollTop = was.top;
      rows.select(was.at, false);
      rows.focus();
      was.at = -1;
    }
  }

  function make(i) {
    const t = known.get(i);
    if (!t) return h('div', { class: 'line bare' }, Array.from({ length: 5 }, () => h('span', { class: 'bone' })));
    const [word, tone] = stateOf(t);
    const end = t.ended_ms || (t.status === 'running' || t.status === 'ending' ? now() : t.last_ms);
    const out = t.usage.output_tokens, lost = t.usage.wasted_output_tokens ?? 0;
    return h('a', { class: 'line', href: '#/turn/' + t.turn, tabindex: -1 },
      h('span', { class: 'state' }, h('span', { class: 'pill ' + tone }, word)), h('span', { class: 'id', title: t.turn }, t.turn),
      h('span', { class: 'num soft age', title: new Date(t.opened_ms).toISOString() }, ago(t.opened_ms, now())), h('span', { class: 'num' }, span(end - t.opened_ms)),
      h('span', { class: 'num wide soft' }, t.first_ms ? span(t.first_ms - t.opened_ms) : '–'),
      marks(t.attempts.map((a) => ({ ...a, title: `step ${a.step}: ${wordOf(a.outcome)}${a.class ? ', ' + a.class : ''}` }))),
      marks(t.calls.map((c) => ({ outcome: c, title: wordOf(c) })), true),
      h('span', { class: 'num', title: lost ? `${count(lost)} of them in abandoned attempts` : '' }, count(out), lost > 0 && h('span', { class: 'faint' }, ` (${count(lost)} lost)`)),
      h('span', { class: 'said wide' }, t.excerpt ?? (t.finish && t.finish !== 'stop' ? t.finish : '')));
  }

  function open(i) {
    const t = known.get(i);
    if (!t) return;
    app.list = { state, text, at: i, top: rows.element.scrollTop };
    location.hash = '#/turn/' + t.turn;
  }

  toAddress(state, text);
  const every = setInterval(() => { if (!document.hidden) look(true); }, EVERY);
  look(true);
  return {
    close() {
      clearInterval(every);
      clearTimeout(timer);
      aborted.abort();
      rows.close();
      removeEventListener('resize', resized);
    },
    key(e) {
      if (e.key === '/') { e.preventDefault(); search.focus(); search.select(); }
      if (['j', 'k', 'ArrowDown', 'ArrowUp'].includes(e.key) && document.activeElement !== rows.element) { e.preventDefault(); rows.focus(); }
    },
  };
}
