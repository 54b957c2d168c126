import { h, put } from './dom.js';
import { eventsAfter, follow, get, now } from './api.js';
import { Actions } from './actions.js';
import { Clock } from './clock.js';
import { drawEffects, drawLoops } from './effects.js';
import { count, money, plural, span } from './format.js';
import { drawLanes } from './lanes.js';
import { Raw } from './raw.js';
import { Seen } from './seen.js';
import { stateOf } from './list.js';
import { Trace } from './trace.js';
import { drawAudit, drawUsage } from './usage.js';
import { drawWaterfall } from './waterfall.js';

const readEvery = 1500; // ms between two looks at an open turn
const readSoon = 150; // ms after an item that is more than text
const drawEvery = 1000; // ms between two drawings of what grows with time alone

const sections = [['attempts', 'Attempts'], ['answer', 'As the user saw it'], ['effects', 'Calls and effects'], ['loops', 'Loops'], ['audit', 'Audit'], ['time', 'Where the time went'], ['usage', 'Usage and cost'], ['log', 'Raw events']];

export function turnView(app, id) {
  app.title(id);
  const aborted = new AbortController();
  const m = { id, state: null, effects: null, audit: null, events: [], head: null, items: [], trace: new Trace(), clock: null, live: true, feed: '' };
  const seen = new Seen(), raw = new Raw();
  const actions = new Actions(id, () => read());
  const body = Object.fromEntries(sections.map(([name]) => [name, h('div', { class: 'content' })]));
  put(body.answer, seen.element);
  put(body.log, raw.element);
  const header = h('header', { class: 'top' }), attention = h('div', { class: 'attention' }), fault = h('div', { role: 'alert' });
  const part = (name) => h('section', { id: name, class: 'sheet part', 'aria-labelledby': 'h-' + name }, h('h2', { id: 'h-' + name, tabindex: -1 }, sections.find(([n]) => n === name)[1]), body[name]);
  const page = h('div', { class: 'turnpage', hidden: true }, header, attention,
    h('nav', { class: 'toc', 'aria-label': 'Sections' }, sections.map(([name, label], i) => h('a', { href: '#' + name, onclick: (e) => { e.preventDefault(); jump(name); } }, h('kbd', { 'aria-hidden': 'true' }, i + 1), label))),
    part('attempts'), part('answer'), h('div', { class: 'two' }, part('effects'), h('div', { class: 'beside' }, part('loops'), part('audit'))), part('time'), part('usage'), part('log'));
  const loading = h('p', { class: 'blank' }, 'Reading the turn…');
  put(app.main, fault, loading, page);

  function jump(name) {
    const el = document.getElementById('h-' + name);
    el.closest('section').scrollIntoView({ block: 'start', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
    el.focus({ preventScroll: true });
  }

  // Reading: the state, the effects and the new facts together, one reading at a time.
  let reading = null, more = false, timer = 0, lastRead = 0, known = '';
  function read() {
    if (reading) { more = true; return reading; }
    reading = (async () => {
      do {
        more = false;
        await readOnce();
      } while (more && !aborted.signal.aborted);
    })().finally(() => { reading = null; });
    return reading;
  }

  async function readOnce() {
    lastRead = Date.now();
    try {
      const path = 'v1/turns/' + id;
      const [state, effects, log] = await Promise.all([get(path, aborted.signal), get(path + '/effects', aborted.signal), eventsAfter(id, m.events.at(-1)?.seq ?? 0, aborted.signal)]);
      m.trace.add(log.events);
      m.events = log.events.length ? m.events.concat(log.events) : m.events;
      Object.assign(m, { state, effects, head: log.head });
      m.live = state.status === 'running' || state.status === 'ending';
      m.trace.finish(state).facts(state.tenant, id, effects.effects);
      if (!m.live && m.audit === null) audit();
      put(fault);
      // What has not changed is left alone: somebody may be reading or selecting it.
      const said = JSON.stringify([state, effects]);
      drawSoon(log.events.length > 0 || said !== known ? 'all' : 'time');
      known = said;
    } catch (err) {
      if (!aborted.signal.aborted) sayFault(err);
    }
  }

  function sayFault(err) {
    loading.hidden = true;
    if (err.status === 404 || err.status === 400) {
      put(app.main, h('div', { class: 'blank' }, h('strong', null, 'There is no such turn'), h('code', null, id), h('p', null, 'It may have aged out of the log, or be another tenant’s. ', h('a', { href: '#/' }, 'All turns'))));
      aborted.abort();
      following?.abort();
      return;
    }
    put(fault, h('div', { class: 'fault' }, h('p', { class: 'note bad' }, h('strong', null, 'This page is not up to date.'), err.message, h('button', { type: 'button', onclick: () => read() }, 'Try again'))));
  }

  function readLater(ms) {
    clearTimeout(timer);
    timer = setTimeout(read, Math.max(ms, 0));
  }

  async function audit() {
    m.audit = 'asking';
    drawSoon('audit');
    try {
      m.audit = await get(`v1/turns/${id}/audit`, aborted.signal);
    } catch (err) { m.audit = err; }
    drawSoon('audit');
  }

  // Drawing: at most once a frame, and only what has changed.
  const dirty = new Set();
  let frame = 0;
  function drawSoon(what) {
    dirty.add(what);
    frame ||= requestAnimationFrame(() => { frame = 0; draw(); });
  }

  function draw() {
    if (!m.state || aborted.signal.aborted) return;
    const all = dirty.has('all');
    if (page.hidden) { page.hidden = false; loading.remove(); }
    if (all || dirty.has('time')) { // grows while nothing happens
      m.clock = makeClock(m);
      drawHeader(header, m, actions);
      drawLanes(body.attempts, m);
      drawWaterfall(body.time, m);
    }
    if (all) {
      app.showTenant(m.state.tenant);
      drawAttention(attention, m, actions);
      keepOpen(body.effects, () => drawEffects(body.effects, m, actions));
      drawLoops(body.loops, m);
      drawUsage(body.usage, m);
      raw.update(m.events, m.head, m.trace);
    }
    if (all || dirty.has('audit')) drawAudit(body.audit, m, audit);
    if (all || dirty.has('feed')) seen.update(m.items, m.trace, m.live);
    dirty.clear();
  }

  // The feed is followed while somebody looks: a browser has few connections to a server,
  // and tabs in the background would take them all.
  const place = { last: '' };
  let following = null;
  function watch() {
    if (document.hidden) {
      following?.abort();
      following = null;
    } else if (!following && m.feed !== 'over' && !aborted.signal.aborted) {
      following = new AbortController();
      followFeed(following.signal);
    }
  }
  const followFeed = (signal) => follow(id, place, signal, (items) => {
    const plain = items.every((i) => i.type === 'text_delta' || i.type === 'reasoning_delta');
    m.items.push(...items);
    drawSoon('feed');
    if (!plain) readLater(readSoon);
  }, (state) => { m.feed = state; if (state === 'over') readLater(0); drawSoon('time'); }).catch(() => {}); // the state tells of what is wrong
  document.addEventListener('visibilitychange', watch);
  watch();

  const every = setInterval(() => {
    if (document.hidden || !m.live || !m.state) return;
    if (Date.now() - lastRead >= readEvery && !reading) read();
    else drawSoon('time');
  }, drawEvery);
  read();

  return {
    close() {
      aborted.abort();
      following?.abort();
      document.removeEventListener('visibilitychange', watch);
      clearInterval(every);
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      seen.stop();
      raw.close();
    },
    key(e) {
      const n = Number(e.key);
      const onControl = e.target.matches('input, button, summary, [role=listbox]');
      if (n >= 1 && n <= sections.length) { e.preventDefault(); jump(sections[n - 1][0]); }
      if (e.key === 'u' || e.key === 'Escape') { e.preventDefault(); location.hash = '#/'; }
      if (e.key === 'a') attention.querySelector('button')?.click();
      if (onControl) return;
      if (e.key === 'ArrowLeft') { e.preventDefault(); seen.step(-1); }
      if (e.key === 'ArrowRight') { e.preventDefault(); seen.step(1); }
      if (e.key === ' ') { e.preventDefault(); seen.toggle(); }
    },
  };
}

// keepOpen draws anew without closing what a person has opened, or moving the focus.
function keepOpen(el, fn) {
  const open = [...el.querySelectorAll('details')].map((d) => d.open);
  const focus = [...el.querySelectorAll('button, summary')].indexOf(document.activeElement);
  fn();
  el.querySelectorAll('details').forEach((d, i) => { d.open = open[i] ?? false; });
  if (focus >= 0) el.querySelectorAll('button, summary')[focus]?.focus({ preventScroll: true });
}

function makeClock(m) {
  const moments = [];
  for (const a of m.trace.attempts) {
    moments.push(a.since, a.from, a.to || a.last);
    for (const t of a.marks) moments.push(t);
  }
  for (const c of m.trace.calls.values()) moments.push(c.asked, c.claimed, c.reported, c.settled, c.decided?.at);
  // News of effects may come days after the end: the clock shows the turn.
  const to = m.live ? Math.max(now(), m.trace.last) : Math.max(m.trace.ended, m.trace.saved);
  return new Clock(m.trace.from, to, moments.filter(Boolean));
}

function drawHeader(el, m, actions) {
  const { state, trace } = m, u = state.usage;
  const calls = state.steps.flatMap((s) => s.calls.map((c) => (c.waiting ? 'waiting' : c.outcome || 'open')));
  const [word, tone] = stateOf({ ...state, calls });
  const winners = state.steps.map((s) => [s.step, s.attempts.find((a) => a.outcome === 'finished')?.attempt]).filter(([, w]) => w).map(([s, w]) => `${s}.${w}`);
  const attempts = state.steps.flatMap((s) => s.attempts);
  const abandoned = attempts.filter((a) => a.outcome !== 'finished' && a.outcome !== 'open').length;
  const lost = (u.wasted_input_tokens ?? 0) + (u.wasted_output_tokens ?? 0), all = u.input_tokens + u.output_tokens;
  const blind = attempts.filter((a) => a.usage.source === 'unknown').length;
  const uncounted = blind && `${plural(blind, 'attempt')} not counted`;
  const end = m.live ? Math.max(now(), trace.last) : trace.ended || trace.last;
  const facts = [
    ['Winner', winners.length > 4 ? `${winners.slice(0, 2).join(', ')} … ${winners.at(-1)}` : winners.join(', ') || (m.live ? 'none yet' : 'none'), winners.length ? `of ${state.steps.length === 1 ? 'step 1' : state.steps.length + ' steps'}` : ''],
    ['Duration', span(end - trace.from), m.live ? 'and going on' : ''],
    ['First text', trace.firstText ? span(trace.firstText - trace.from) : '–', ''],
    ['Attempts', count(attempts.length), abandoned ? `${abandoned} abandoned` : 'none abandoned'],
    ['Tokens', count(all), lost ? `${count(all - lost)} won, ${count(lost)} wasted` : uncounted || 'none wasted'],
    u.currency && ['Cost', money(u.cost_nanos ?? 0, u.currency), u.wasted_cost_nanos ? `${money(u.wasted_cost_nanos, u.currency)} wasted` : uncounted || 'none wasted'],
    ['Effects', count(m.effects.effects.length), m.effects.asked.length > m.effects.effects.length ? `from ${m.effects.asked.length} requests` : ''],
  ].filter(Boolean);
  const focused = el.contains(document.activeElement) && document.activeElement.dataset?.name;
  put(el, h('a', { class: 'back', href: '#/' }, '← Turns'),
    h('div', { class: 'who' }, h('h1', { class: 'mono' }, m.id), h('span', { class: 'pill big ' + tone }, word), state.finish && state.finish !== 'stop' && state.finish !== word && h('span', { class: 'tag' }, state.finish), state.conversation && h('span', { class: 'tag' }, 'conversation ' + state.conversation), m.live && m.feed === 'cut' && h('span', { class: 'tag' }, 'the feed was cut; connecting again'),
      h('span', { class: 'spring' }), m.live && state.status === 'running' && h('button', { type: 'button', class: 'no', 'data-name': 'cancel', onclick: () => actions.cancel() }, 'Cancel the turn')),
    h('dl', { class: 'facts' }, facts.map(([k, v, more]) => h('div', null, h('dt', null, k), h('dd', null, v, more && h('small', null, more))))),
    state.message && h('p', { class: 'soft why' }, state.message),
    trace.cancelled && h('p', { class: 'soft why' }, `Cancelled${trace.cancelled.by ? ' by ' + trace.cancelled.by : ''}${trace.cancelled.reason ? ': ' + trace.cancelled.reason : '.'}`));
  if (focused) el.querySelector(`[data-name="${focused}"]`)?.focus({ preventScroll: true });
}

// drawAttention is what waits for a person, above everything else.
function drawAttention(el, m, actions) {
  const out = [];
  const doubts = new Map(); // key → calls: one word of a person tells them all
  for (const c of m.state.steps.flatMap((s) => s.calls)) {
    if (c.waiting && m.live) {
      out.push(['wait', h('span', null, h('strong', null, `${c.tool} waits for a person.`), ` Call ${c.call} runs once somebody approves exactly what it would do.`), h('button', { type: 'button', class: 'yes', onclick: () => actions.decide(c.call) }, 'Review and decide')]);
    } else if (c.outcome === 'unknown') {
      doubts.set(c.key, [...(doubts.get(c.key) ?? []), c]);
    }
  }
  for (const [key, calls] of doubts) {
    out.push(['doubt', h('span', null, h('strong', null, `${calls[0].tool} may have happened.`), ` Nobody knows how ${calls.length === 1 ? 'call' : 'calls'} ${calls.map((c) => c.call).join(', ')} ended. Look at the target, then say.`), key && h('button', { type: 'button', onclick: () => actions.resolve(key) }, 'Resolve')]);
  }
  if (out.length > 4) out.splice(4);
  const had = el.contains(document.activeElement);
  put(el, out.map(([tone, ...parts]) => h('div', { class: 'note ' + tone }, parts)));
  if (had) el.querySelector('button')?.focus({ preventScroll: true });
}
