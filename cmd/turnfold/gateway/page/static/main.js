import { h, put } from './dom.js';
import { hasToken, onTokenNeeded, setToken } from './api.js';
import { ask } from './dialog.js';
import { listView } from './list.js';
import { turnView } from './turn.js';

// Every view is a function that fills main and gives {close, key?}.

const main = document.getElementById('main');
const tenant = document.getElementById('tenant');
const health = document.getElementById('health');
const tokenButton = document.getElementById('token');
let view = null;
let list = null; // what the list was left at: filters and place

export const app = {
  main,
  // showTenant names whose turns these are.
  showTenant(name) {
    tenant.textContent = name;
    tenant.title = 'tenant ' + name;
    tenant.hidden = false;
    tokenButton.hidden = !hasToken();
  },
  title(text) { document.title = text ? `${text} · turnfold` : 'turnfold'; },
  get list() { return list; },
  set list(v) { list = v; },
};

function route() {
  view?.close();
  const [, what, id] = location.hash.match(/^#\/(turn)\/([A-Za-z0-9_-]{1,64})$/) ?? [];
  window.scrollTo(0, 0);
  try {
    view = what === 'turn' ? turnView(app, id) : listView(app);
    if (what === 'turn') main.focus({ preventScroll: true });
  } catch (err) {
    view = { close() {} };
    put(main, h('p', { class: 'blank' }, h('strong', null, 'The page met a fault of its own.'), String(err)));
    throw err;
  }
}

onTokenNeeded(async (again) => {
  const given = await ask({
    title: 'This server asks for a token',
    about: again ? 'The token was refused. Give another one.' : 'It says which tenant’s turns you see. It is kept for this tab and forgotten with it.',
    fields: [{ name: 'token', label: 'Token', kind: 'secret', required: true }], yes: 'Use it',
  });
  setToken(given?.token ?? '');
  tokenButton.hidden = false;
  return given !== null;
});

tokenButton.addEventListener('click', async () => {
  const given = await ask({
    title: 'Token', about: 'Another token shows another tenant. An empty one forgets the token of this tab.',
    fields: [{ name: 'token', label: 'Token', kind: 'secret' }], yes: 'Use it',
  });
  if (given) { setToken(given.token); tenant.hidden = true; route(); }
});

const keys = [['/', 'search turns by id'], ['j k  ↑ ↓', 'next and previous row'], ['Enter', 'open a turn'], ['u  Esc', 'back to the list'],
  ['← →', 'step through what the user saw'], ['Space', 'play it'], ['1 … 8', 'sections of a turn'], ['a', 'decide about what waits for a person'], ['?', 'this help']];
function help() {
  ask({ title: 'Keys', body: h('dl', { class: 'keys' }, keys.map(([k, what]) => [h('dt', null, k.split('  ').map((x) => [h('kbd', null, x), ' '])), h('dd', null, what)])) });
}
document.getElementById('keys').addEventListener('click', help);

document.addEventListener('keydown', (e) => {
  if (e.altKey || e.ctrlKey || e.metaKey || document.querySelector('dialog[open]')) return;
  if (e.target.matches('input:not([type=range]), textarea, select')) {
    if (e.key === 'Escape') e.target.blur();
    return;
  }
  if (e.key === '?') { e.preventDefault(); help(); return; }
  view?.key?.(e);
});

// ready tells whether the server is of use, and why not.
async function ready() {
  if (document.hidden) return;
  let text = '', bad = false;
  try {
    const res = await fetch('readyz?verbose', { cache: 'no-store' });
    const r = await res.json();
    const failed = r.checks.filter((c) => !c.ok && !c.info);
    bad = !r.ok;
    text = bad ? 'not ready: ' + failed.map((c) => c.name).join(', ') : '';
    health.title = r.checks.map((c) => `${c.ok ? '✓' : c.info ? '·' : '✗'} ${c.name} ${c.detail ?? ''}`).join('\n');
  } catch { bad = true; text = 'the server does not answer'; }
  if (health.textContent !== text) health.textContent = text;
  health.classList.toggle('bad', bad);
}
ready();
setInterval(ready, 10_000);

window.addEventListener('hashchange', route);
route();
