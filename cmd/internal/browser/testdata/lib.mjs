import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

// Generous: nothing here is slow by itself, but the machine may be.
export const patience = 60_000;

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

// browse opens a browser with a profile of its own and runs fn with a page. It notes what
// the console calls an error, and requests that leave the given origins.
export async function browse({ origins, dark = false, width = 1360, height = 900, reducedMotion = 'no-preference' }, fn) {
  const profile = mkdtempSync(join(tmpdir(), 'turnfold-browser-'));
  const errors = [], strangers = [];
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM, headless: true, args: flags, viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', reducedMotion,
  });
  try {
    context.setDefaultTimeout(Number(process.env.PATIENCE ?? patience));
    const page = context.pages()[0] ?? await context.newPage();
    page.on('console', (m) => { if (m.type() === 'error') errors.push(m.text()); });
    page.on('pageerror', (e) => errors.push(String(e)));
    page.on('request', (r) => { if (!origins.includes(new URL(r.url()).origin)) strangers.push(r.url()); });
    await fn(page, context);
  } catch (err) {
    const page = context.pages()[0];
    await shoot(page, 'fault');
    err.message += `\nat ${page.url()}\n${errors.join('\n')}`;
    throw err;
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
  return { errors, strangers };
}

export function report(result) { console.log('RESULT ' + JSON.stringify(result)); process.exit(0); }

// post opens a turn and does not wait for it.
export async function post(base, turn, input) {
  const res = await fetch(base + '/v1/turns', { method: 'POST', body: JSON.stringify({ turn, input }), headers: { prefer: 'respond-async', 'content-type': 'application/json' } });
  if (res.status !== 202) throw new Error(`post ${turn}: ${res.status} ${await res.text()}`);
}

export async function get(base, path) { return (await fetch(base + path)).json(); }

// until waits for a condition outside of the page.
export async function until(what, fn) {
  for (const end = Date.now() + patience; Date.now() < end; await new Promise((done) => setTimeout(done, 50))) {
    const value = await fn();
    if (value) return value;
  }
  throw new Error('not in time: ' + what);
}

// shoot takes a picture of the whole page, if pictures are kept.
export async function shoot(page, name, options = {}) {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, name + '.png'), fullPage: true, ...options });
}

export const nodes = (page) => page.evaluate(() => document.querySelectorAll('*').length);
