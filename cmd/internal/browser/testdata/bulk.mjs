// Very long lists: what matters is how many elements the browser has, not how fast this
// machine is today; times are printed.
import { browse, nodes, report, shoot } from './lib.mjs';

const [base, token] = process.argv.slice(2);
const facts = {};
const line = '.line .id';
const seen = await browse({ origins: [base] }, async (page) => {
  await page.goto(base + '/');
  await page.locator('input[name=token]').waitFor();
  await page.keyboard.press('Escape'); // who will not say is not asked again and again
  await page.locator('.note.bad', { hasText: 'Send a token' }).waitFor();
  await page.waitForTimeout(2500);
  facts.pestered = await page.locator('dialog').count();
  await page.locator('#token').click();
  await page.locator('input[name=token]').fill('wrong');
  await page.keyboard.press('Enter');
  await page.locator('dialog .about', { hasText: 'refused' }).waitFor();
  facts.refused = await page.locator('dialog .about').innerText();
  await shoot(page, 'token', { fullPage: false });
  await page.locator('input[name=token]').fill(token);
  const began = Date.now();
  await page.keyboard.press('Enter');
  await page.locator(line).first().waitFor();
  await page.locator('.foot', { hasText: 'turns' }).waitFor();
  facts.listMS = Date.now() - began;
  facts.stored = await page.evaluate(() => Object.keys(sessionStorage));
  facts.total = (await page.locator('.foot span').first().innerText()).trim();
  facts.listNodes = await nodes(page);
  await shoot(page, 'list-many', { fullPage: false });

  const view = page.locator('.view');
  await view.focus();
  await page.keyboard.press('Home');
  facts.first = Number(await page.locator('[aria-selected=true]').getAttribute('aria-posinset'));
  await view.evaluate((v) => { v.scrollTop = v.scrollHeight / 2; });
  await page.locator(line).first().waitFor();
  await page.waitForFunction(() => !document.querySelector('.line.bare'));
  facts.deep = await page.locator(line).first().innerText();
  for (let i = 0; i < 25; i++) await page.keyboard.press('PageDown'); // much is seen, little is kept
  const end = Date.now();
  await page.keyboard.press('End');
  await page.waitForFunction(() => document.querySelector('[aria-selected=true] .id'));
  facts.scrollMS = Date.now() - end;
  facts.last = Number(await page.locator('[aria-selected=true]').getAttribute('aria-posinset'));
  facts.endNodes = await nodes(page);

  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries()) window.longest = Math.max(window.longest, e.duration); }).observe({ type: 'longtask' });
  });
  const opened = Date.now();
  await page.evaluate(() => { location.hash = '#/turn/turn-09998'; });
  await page.locator('.where', { hasText: 'message_saved' }).waitFor();
  await page.locator('.event').nth(5).waitFor();
  facts.turnMS = Date.now() - opened;
  facts.turnNodes = await nodes(page);
  facts.events = Number((await page.locator('.rawtools option').first().innerText()).replace(/\D/g, ''));
  facts.items = Number(await page.locator('.rail input').getAttribute('max'));
  const scrub = Date.now();
  for (const share of [0.5, 0.1, 0.9]) await page.locator('.rail input').fill(String(Math.round(facts.items * share)));
  facts.scrubMS = (Date.now() - scrub) / 3;
  await page.locator('.log .view').focus();
  for (let i = 0; i < 25; i++) await page.keyboard.press('PageDown');
  await page.keyboard.press('End');
  await page.locator('.event.on', { hasText: 'message.saved' }).waitFor();
  facts.logNodes = await nodes(page);
  facts.longMS = await page.evaluate(() => window.longest);
  await shoot(page, 'turn-long');
});
seen.errors = seen.errors.filter((e) => !/401|501/.test(e)); // the wrong token; this server has no audit
report({ ...facts, ...seen });
