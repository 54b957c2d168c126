// The page against a turnfold whose model breaks.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { browse, get, nodes, patience, post, report, shoot, until } from './lib.mjs';

const [base, kitFolder] = process.argv.slice(2);
const facts = {};

// kit folds every feed of the conformance kit with the page's own module, item by item.
async function kit(page) {
  const wanted = JSON.parse(readFileSync(join(kitFolder, 'expected.json')));
  const feeds = Object.entries(wanted).map(([name, want]) => ({ name, want, items: readFileSync(join(kitFolder, name + '.ndjson'), 'utf8').trim().split('\n').map((l) => JSON.parse(l)) }));
  return page.evaluate(async (list) => {
    const { fold } = await import(new URL('page/feed.js', document.baseURI));
    const wrong = [];
    for (const { name, want, items } of list) {
      const shown = fold(items);
      if (shown.text() !== want.text || shown.ended?.type !== want.ends) wrong.push(`${name}: ${JSON.stringify(shown.text())} ${shown.ended?.type}, want ${JSON.stringify(want.text)} ${want.ends}`);
    }
    return { wrong, feeds: list.length };
  }, feeds);
}

const text = (page, selector) => page.locator(selector).innerText();

const seen = await browse({ origins: [base], width: 1360 }, async (page) => {
  await page.goto(base + '/');
  await page.getByText('No turns yet').waitFor();
  await shoot(page, 'list-empty');

  // A turn appears by itself, and is opened by keyboard alone.
  await post(base, 'slow-1', 'slow please refund ORD-7781');
  await page.locator('.line .id', { hasText: 'slow-1' }).waitFor();
  await page.keyboard.press('j');
  facts.selected = await page.locator('[role=option][aria-selected=true] .id').innerText();
  await page.keyboard.press('Enter');
  await page.locator('h1', { hasText: 'slow-1' }).waitFor();
  await page.locator('.lane.attempt').first().waitFor();
  await shoot(page, 'turn-live', { fullPage: false });
  await page.locator('.top .pill', { hasText: 'completed' }).waitFor();
  await page.locator('.verdict .pill', { hasText: 'ok' }).waitFor();
  await page.locator('.card .pill', { hasText: 'succeeded' }).waitFor();

  facts.lanes = await page.locator('.lane').evaluateAll((all) => all.map((l) => l.getAttribute('aria-label').split(':')[0]));
  facts.reset = await text(page, '.lane .end.lost em');
  facts.dropped = await page.locator('.answer del').evaluateAll((all) => all.map((d) => d.lastChild.textContent));
  facts.resetmark = await page.locator('.answer .resetmark').textContent();
  facts.shown = await page.locator('.answer > span:not(.resetmark):not(.toolmark)').evaluateAll((all) => all.map((s) => s.textContent).join(''));
  facts.cards = await page.locator('.card').count();
  facts.ids = await page.locator('.card .asked li').evaluateAll((all) => all.map((li) => [li.firstChild.textContent, li.firstChild.tagName]));
  facts.names = await page.locator('.card .args .names dt').allInnerTexts();
  facts.decor = await page.locator('.card .args').first().locator('.decor dt').allInnerTexts();
  facts.way = await page.locator('.card .way b').allInnerTexts();
  facts.checks = await page.locator('.checks li.ok').count();
  facts.hold = await page.locator('.phase', { hasText: 'hold time' }).count();
  facts.marks = await page.locator('.strip i').evaluateAll((all) => all.map((i) => i.title));
  facts.gaps = await page.locator('.lane .silence').count();
  facts.wasted = await text(page, '.sums');
  facts.commands = await page.locator('.commands code').allInnerTexts();
  await shoot(page, 'turn-light');

  // As the user saw it: a place before the reset shows the abandoned text as the answer.
  const items = Number(await page.locator('.rail input').getAttribute('max'));
  for (let n = 0; n <= items && !facts.before; n++) {
    await page.locator('.rail input').fill(String(n));
    const now = await page.locator('.answer > span:not(.resetmark):not(.toolmark)').evaluateAll((all) => all.map((s) => s.textContent).join(''));
    if (now.endsWith('dam')) facts.before = now;
  }
  await page.locator('.rail input').fill(String(items));

  // An event in full, with its commands.
  await page.keyboard.press('8');
  await page.locator('.event').nth(3).click();
  facts.event = await text(page, '.detail');
  await page.keyboard.press('u');
  await page.locator('.line .id', { hasText: 'slow-1' }).waitFor();

  // A parked call is approved on the page.
  await post(base, 'pay-1', 'pay the supplier');
  await page.getByRole('button', { name: /Waiting for a person/ }).click();
  await page.locator('.line .id', { hasText: 'pay-1' }).click();
  await page.locator('.attention .note').waitFor();
  facts.parkedArgs = await text(page, '.card .args');
  await shoot(page, 'turn-waits');
  await page.keyboard.press('a');
  await page.locator('dialog pre').waitFor();
  facts.approval = await text(page, 'dialog pre');
  await shoot(page, 'dialog', { fullPage: false });
  await page.locator('dialog').getByRole('button', { name: 'Approve' }).click();
  facts.mustSay = await text(page, 'dialog .wrong');
  await page.getByLabel(/Who are you/).fill('Ada');
  await page.getByLabel(/Why/).fill('the invoice is due');
  await page.locator('dialog').getByRole('button', { name: 'Approve' }).click();
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.locator('.top .pill', { hasText: 'completed' }).waitFor();
  await page.locator('.card .way', { hasText: 'by Ada: the invoice is due' }).waitFor();
  facts.approved = (await get(base, '/v1/turns/pay-1')).steps[0].calls[0].approved_by;

  // What nobody knows is resolved on the page, and the loop breaker is seen to speak.
  await post(base, 'ticket-1', 'ticket please');
  await until('the ticket turn ends', async () => (await get(base, '/v1/turns/ticket-1')).status === 'completed');
  await page.goto(base + '/#/turn/ticket-1');
  await page.locator('.loop.tripped').waitFor();
  await shoot(page, 'turn-unknown');
  await page.locator('.attention').getByRole('button', { name: 'Resolve' }).first().click();
  await page.getByLabel(/Who found out/).fill('Grace');
  await page.getByLabel(/How is that known/).fill('the desk shows T-1');
  await page.getByRole('button', { name: 'Record it' }).click();
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.locator('.attention .note').waitFor({ state: 'detached' });
  facts.resolved = (await get(base, '/v1/turns/ticket-1')).steps[0].calls[0].resolved_by;

  // Cancelled on the page.
  await post(base, 'pay-2', 'pay the other supplier');
  await page.goto(base + '/#/turn/pay-2');
  await page.locator('.attention .note').waitFor();
  // A tab that nobody looks at gives its connection back, and goes on when it is seen.
  const look = (hidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  const feeds = async () => Number(/^turnfold_feeds_open (\d+)/m.exec(await (await fetch(base + '/metrics')).text())[1]);
  await until('the feed is followed', async () => await feeds() === 1);
  await look(true);
  await until('the feed is left', async () => await feeds() === 0);
  await look(false);
  await until('the feed is followed again', async () => await feeds() === 1);
  await page.getByRole('button', { name: 'Cancel the turn' }).click();
  await page.getByLabel(/Who are you/).fill('Ada');
  await page.getByLabel(/Why/).fill('paid twice');
  await page.locator('dialog').getByRole('button', { name: 'Cancel the turn' }).click();
  await page.locator('.why', { hasText: 'Cancelled by Ada: paid twice' }).waitFor();

  for (const [id, said] of [['hello-1', 'hello there'], ['fail-1', 'fail now']]) await post(base, id, said);
  await until('the turns end', async () => (await get(base, '/v1/turns/hello-1')).status === 'completed' && (await get(base, '/v1/turns/fail-1')).status === 'failed');
  await page.goto(base + '/#/turn/fail-1');
  await page.locator('.apology').waitFor();
  await page.locator('.verdict .pill').waitFor();
  await shoot(page, 'turn-failed');
  await page.keyboard.press('u');
  await page.getByRole('button', { name: /^All/ }).click();
  await page.locator('.line .pill', { hasText: 'failed' }).waitFor();
  await shoot(page, 'list-light');
  await page.keyboard.press('?');
  await page.locator('dialog .keys').waitFor();
  await shoot(page, 'keys', { fullPage: false });
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('/');
  await page.keyboard.type('pay');
  await page.locator('.foot', { hasText: '2 turns of' }).waitFor();
  facts.found = await page.locator('.line .id').allInnerTexts();
  facts.nodes = await nodes(page);
  // The browser is told to keep others out, and text is never markup.
  facts.policy = await page.evaluate(async () => {
    const refused = [];
    try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>'); } catch { refused.push('markup'); }
    return { refused, policy: (await fetch('.', { headers: { accept: 'text/html' } })).headers.get('content-security-policy') };
  });
  facts.kit = await kit(page);
  facts.page404 = await page.evaluate(async () => (await fetch('page/none.js')).status);
});
// The trials above are what the console complains of.
seen.errors = seen.errors.filter((e) => !/insertAdjacentHTML|TrustedHTML|404/.test(e));

const other = await browse({ origins: [base], dark: true, reducedMotion: 'reduce' }, async (page, context) => {
  await page.goto(base + '/#/turn/slow-1');
  await page.locator('.verdict .pill').waitFor();
  facts.dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await shoot(page, 'turn-dark');
  await page.goto(base + '/#/');
  await page.locator('.line .pill', { hasText: 'failed' }).waitFor();
  await shoot(page, 'list-dark');
  await context.setOffline(true); // the server is away, and comes back
  await page.locator('.note.bad', { hasText: 'not up to date' }).waitFor();
  await shoot(page, 'list-away', { fullPage: false });
  facts.away = await page.locator('.line').count();
  await context.setOffline(false);
  await page.locator('.note.bad').waitFor({ state: 'detached' });
  await page.setViewportSize({ width: 390, height: 780 });
  await page.waitForTimeout(200);
  facts.narrowList = await page.evaluate(() => document.documentElement.scrollWidth);
  await shoot(page, 'list-narrow');
  await page.goto(base + '/#/turn/slow-1');
  await page.locator('.verdict .pill').waitFor();
  facts.narrowTurn = await page.evaluate(() => document.documentElement.scrollWidth);
  await shoot(page, 'turn-narrow');
  await page.goto(base + '/#/turn/nothing-here');
  await page.getByText('There is no such turn').waitFor();
  await shoot(page, 'turn-absent');
});
other.errors = other.errors.filter((e) => !/404|ERR_INTERNET_DISCONNECTED/.test(e));
report({ ...facts, errors: [...seen.errors, ...other.errors], strangers: [...seen.strangers, ...other.strangers] });
