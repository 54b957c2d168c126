export function report(result) { console.log('RESULT ' + JSON.stringify(result)); process.exit(0); }

export async function post(url, body, headers = {}) {
  const res = await fetch(url, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } });
  if (!res.ok) throw new Error(`POST ${url}: ${res.status} ${await res.text()}`);
  return res;
}

// fold is the smallest renderer: append, and drop what a reset names.
export function fold() {
  let steps = {};
  const calls = [];
  return {
    calls,
    see(item) {
      if (item.type === 'text_delta') steps[item.step] = (steps[item.step] ?? '') + item.text;
      if (item.type === 'reset') { if (item.step) delete steps[item.step]; else steps = {}; }
      if (item.type === 'tool_result') calls.push(item.tool + ' ' + item.outcome);
    },
    text: () => Object.values(steps).join(''),
  };
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
