// useChat of @ai-sdk/react in a real browser, on a page of another origin than turnfold's.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { browse, report } from './lib.mjs';

const [own, folder, winner, ...runs] = process.argv.slice(2); // own serves the folder; runs: name=base of turnfold, perhaps cut
await build({ entryPoints: ['chat.jsx'], bundle: true, outfile: join(folder, 'chat.js'), format: 'iife', jsx: 'automatic', target: 'es2022',
  define: { 'process.env.NODE_ENV': '"production"' }, logLevel: 'error' });
writeFileSync(join(folder, 'index.html'), '<!doctype html><meta charset="utf-8"><title>chat</title><link rel="icon" href="data:,"><div id="root"></div><script src="/chat.js"></script>');

const results = {};
const seen = await browse({ origins: [own, ...runs.map((r) => r.split('=')[1]), 'null', 'data:'] }, async (page) => {
  for (const run of runs) {
    const [name, api] = run.split('=');
    const mode = name.startsWith('hold') ? 'hold' : 'step';
    const address = (said) => `${own}/?${new URLSearchParams({ api, chat: 'browser-' + name, mode, ...(said && { said }) })}`;
    await page.goto(address('refund please ' + name));
    if (name.includes('reload')) { // away amid the winner's text, and back with nothing but the chat's name
      await page.locator('#answer', { hasText: 'Sorry' }).waitFor();
      await page.goto(address(''));
    }
    await page.locator('main[data-finish=stop][data-status=ready]').waitFor();
    results[name] = await page.evaluate(() => {
      const { status, finish, messages, saved } = document.querySelector('main').dataset;
      return { status, finish, messages: Number(messages), saved, text: document.getElementById('answer').textContent,
        calls: [...document.querySelectorAll('li')].map((l) => l.textContent), error: document.querySelector('pre').textContent, resumed: window.resumed ?? 0, resets: window.resets,
        live: window.seen.some((s) => s.includes('I am sorry')), glued: window.seen.some((s) => /sorry[^]*Sorry|Sorry[^]*Sorry/.test(s)) };
    });
  }
});
seen.errors = seen.errors.filter((e) => !/ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING|network error/.test(e)); // what a cut looks like
report({ results, ...seen, winner });
