// Calls of the server. A token, where one is asked for, is kept for this tab alone. Cookies
// go along for a proxy that may ask for them; the server looks at none.

const KEY = 'turnfold.token';
let asking = null; // the question that is open, so that ten refused calls ask once
let declined = false; // the person would not say; they are not asked again by themselves
let askPerson = async () => null;
let skew = 0; // ms by which the server's clock is ahead of this machine's

// now is the time at the server, as far as its answers tell: times of turns are the log's.
export const now = () => Date.now() + skew;

function setClock(res) {
  const ahead = Date.parse(res.headers.get('Date')) + 500 - Date.now();
  skew = Math.abs(ahead) > 2000 ? ahead : 0; // the header has whole seconds
}

export function onTokenNeeded(fn) { askPerson = fn; }
export const hasToken = () => sessionStorage.getItem(KEY) !== null;
export function setToken(token) {
  declined = false;
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

// Refused is an answer that is a problem (RFC 9457).
export class Refused extends Error {
  constructor(status, problem) {
    super((problem.field ? problem.field + ': ' : '') + (problem.detail || problem.title || `HTTP ${status}`));
    this.status = status;
  }
}

async function send(path, init, tries = 0) {
  const headers = new Headers(init.headers);
  const token = sessionStorage.getItem(KEY);
  if (token) headers.set('Authorization', 'Bearer ' + token);
  let res;
  try {
    res = await fetch(path, { ...init, headers, credentials: 'same-origin', cache: 'no-store', redirect: 'error' });
  } catch (err) {
    if (init.signal?.aborted) throw err;
    throw new Error('The server does not answer. What is shown is what it said last; the page goes on trying.', { cause: err });
  }
  setClock(res);
  if (res.status === 401 && tries < 5 && !declined) {
    asking ??= askPerson(token !== null).finally(() => { asking = null; });
    const given = await asking;
    if (given) return send(path, init, tries + 1);
    declined = true;
  }
  if (!res.ok) {
    const problem = await res.json().catch(() => ({}));
    throw new Refused(res.status, problem);
  }
  return res;
}

export async function get(path, signal) {
  return (await send(path, { signal })).json();
}

export async function post(path, body) {
  const res = await send(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  return res.json();
}

const pause = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
});

// follow hands over every item of a turn's feed after the place, over as many connections
// as that takes, until nothing follows. The place {last} is kept, so that one can go on
// later. state hears 'open', 'cut' and 'over'.
export async function follow(turn, place, signal, onItems, state = () => {}) {
  let wait = 500;
  while (!signal.aborted) {
    try {
      const path = `v1/turns/${encodeURIComponent(turn)}/feed` + (place.last ? `?after=${encodeURIComponent(place.last)}` : '');
      const res = await send(path, { signal, headers: { Accept: 'application/x-ndjson' } });
      if (res.status === 204) break;
      state('open');
      let over = false;
      for await (const items of lines(res.body)) {
        if (items.length === 0) continue;
        wait = 500;
        place.last = items.at(-1).id ?? place.last;
        for (const it of items) {
          if (it.type === 'message_saved' || it.type === 'error') over = true;
          if (it.type === 'reset' && it.step === 0) over = false;
        }
        onItems(items);
      }
      if (over) break;
    } catch (err) {
      if (signal.aborted) return;
      if (err instanceof Refused && err.status < 500) throw err;
    }
    state('cut');
    await pause(wait, signal);
    wait = Math.min(2 * wait, 8000);
  }
  if (!signal.aborted) state('over');
}

// lines reads NDJSON, as many items at a time as have come; a last line that has no end
// was cut off, and comes again.
async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n');
    rest = parts.pop();
    yield parts.filter((p) => p.trim() !== '').map((p) => JSON.parse(p)).filter((it) => it.type !== 'ping');
  }
}

// eventsAfter reads the turn's facts after a sequence.
export async function eventsAfter(turn, seq, signal) {
  const out = [];
  let head = null;
  for (let after = seq; ;) {
    const page = await get(`v1/turns/${encodeURIComponent(turn)}/events?limit=2000&after=${after}`, signal);
    head = page;
    out.push(...page.events);
    if (!page.more) return { head, events: out };
    after = page.events.at(-1).seq;
  }
}
