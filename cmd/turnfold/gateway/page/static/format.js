// How numbers are written.

const whole = new Intl.NumberFormat('en');
export const count = (n) => whole.format(n);
export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

// span writes a duration in milliseconds with three digits of it that matter.
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms < 0) return '−' + span(-ms);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  const parts = [[86_400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];
  const at = parts.findIndex(([n]) => s >= n);
  const [big, unit] = parts[at], next = parts[at + 1];
  const rest = next ? Math.floor((s % big) / next[0]) : 0;
  return `${Math.floor(s / big)} ${unit}` + (rest ? ` ${rest} ${next[1]}` : '');
}

export const offset = (ms) => (ms < 0 ? '−' : '+') + span(Math.abs(ms));

// money writes billionths of a currency's unit.
export function money(nanos, currency) {
  const digits = Math.abs(nanos) < 1e7 ? 6 : 4;
  return `${(nanos / 1e9).toFixed(digits)} ${currency}`;
}

export function ago(ms, now) {
  if (!ms) return '–';
  const d = now - ms;
  if (d < 1500) return 'now';
  if (d < 60_000) return `${Math.round(d / 1000)} s ago`;
  if (d < 3_600_000) return `${Math.floor(d / 60_000)} m ago`;
  if (d < 86_400_000) return `${Math.floor(d / 3_600_000)} h ago`;
  return new Date(ms).toISOString().slice(0, 10);
}

export const clockTime = (ms) => new Date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC');

// words of each state, and the colour that says it.
export const states = {
  running: ['running', 'live'], ending: ['ending', 'live'], completed: ['completed', 'won'], failed: ['failed', 'lost'],
  finished: ['won', 'won'], lost: ['lost', 'lost'], cancelled: ['cancelled', 'gone'], open: ['running', 'live'],
  succeeded: ['succeeded', 'won'], unknown: ['unknown', 'doubt'], refused: ['refused', 'gone'], not_run: ['not run', 'gone'],
  waiting: ['waits for a person', 'wait'], salvaged: ['salvaged', 'doubt'], '': ['running', 'live'],
};
export const toneOf = (state) => (states[state] ?? [state, 'gone'])[1];
export const wordOf = (state) => (states[state] ?? [state.replaceAll('_', ' '), 'gone'])[0];

// members splits the text of a JSON object into its members, each with the exact text of
// its value: a parsed number would be rounded. Null if the text is no such object.
export function members(text) {
  try {
    const whole = JSON.parse(text);
    if (typeof whole !== 'object' || whole === null || Array.isArray(whole)) return null;
  } catch { return null; }
  const out = [];
  let i = text.indexOf('{') + 1;
  const space = () => { while (/\s/.test(text[i])) i++; };
  const string = () => {
    const from = i++;
    while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1;
    return text.slice(from, ++i);
  };
  for (space(); text[i] !== '}'; space()) {
    const name = JSON.parse(string());
    space();
    i++; // the colon
    space();
    const from = i;
    for (let deep = 0; deep > 0 || (text[i] !== ',' && text[i] !== '}');) {
      if (text[i] === '"') { string(); continue; }
      if (text[i] === '{' || text[i] === '[') deep++;
      if (text[i] === '}' || text[i] === ']') deep--;
      i++;
    }
    out.push([name, text.slice(from, i).trim()]);
    if (text[i] === ',') i++;
  }
  return out;
}
