// The morning after a run: what failed and why, and what the user can do, on the page and in the report.
import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { click, faultsOf, launch, looks, open, shoot, text, until, wide } from './browser.mjs';
import { Home } from './served.mjs';

const jobs = `settings: {min_memory: 2000MiB}
jobs:
  - name: "{model}-{data}-lr{lr}-s{seed}"
    matrix: {model: [resnet18, vit-tiny], data: [cifar10, svhn], lr: [0.1, 0.01], seed: [1, 2, 3]}
    allow: [unused]
    stall: {output: 2s}
    gpu_memory: 4GiB
    run: |
      echo "start of {name}"
      for i in 1 2 3 4 5 6 7; do echo "epoch $i/20 loss 0.$i"; done
      printf 'epoch 7/20:  10%%|#         |\\repoch 7/20:  40%%|####      | 8/20 [00:01<00:02]'
      case {name} in
        vit-tiny-*-lr0.1-*) echo; echo 'Traceback (most recent call last):'; echo '  File "train.py", line 80, in <module>'; echo 'ValueError: loss is nan'; exit 1;;
        resnet18-svhn-lr0.01-s3) kill -SEGV $$;;
        resnet18-cifar10-lr0.01-s2) echo; echo 'epoch 16/20 acc 0.91'; while [ ! -e go ]; do sleep 0.1; done;;
      esac
`;

const home = new Home();
let browser, id;

before(async () => {
  home.write('jobs.yaml', jobs);
  home.gpurun('run', '-d', '--sim', '4x24GiB', '--sim-here', '--breaker=0', 'jobs.yaml');
  await home.serve('--sim', '4x24GiB', '--control=run', '--root', home.dir);
  id = (await home.api('/batches')).batches[0].id;
  await until(async () => { const c = (await summary()).counts; return c.succeeded === 16 && c.failed === 7; }, 'all jobs but one have ended', 60_000);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await home.end('jobs.yaml');
});

const summary = () => home.api(`/batches/${id}`);
const visit = async (hash, look = looks[0], kind = 'control') => {
  const seen = await open(browser, `${home.origin}#token=${home.token(kind)}`, look, (u) => u.startsWith(home.origin));
  await seen.page.evaluate((h) => { location.hash = h; }, hash);
  return seen;
};
const segv = 'resnet18-svhn-lr0.01-s3', nan = 'ValueError: loss is nan';

test('failures are above the tabs, grouped by cause, with what distinguishes them', { timeout: 180_000 }, async () => {
  for (const look of looks) {
    const { page, faults } = await visit(`#/batch/${id}/timeline`, look);
    await text(page, 'all jobs with lr=0.1 model=vit-tiny');
    const rows = await page.$$eval('.failures li', (l) => l.map((e) => e.innerText.replace(/\s+/g, ' ')));
    assert.match(rows[0], /✗ ?6 ValueError: loss is nan all jobs with lr=0.1 model=vit-tiny/);
    assert.match(rows[1], /✗ ?1 SIGSEGV at epoch 7\/20 GPU \d(, then GPU \d)?(; 2 attempts)? resnet18-svhn-lr0.01-s3/);
    assert.ok(!rows.join().includes('%|'), 'failure rows contain no progress bar');
    await page.click('.failures .cause');
    await text(page, 'File "train.py", line 80'); // the end of the log
    await shoot(page, 'morning', look, true);
    assert.deepEqual(await wide(page), []);
    assert.deepEqual(await faultsOf(page), []);
    assert.deepEqual(faults, []);
    await page.close();
  }
});

test('a hanging job is shown as stalled in the state line and in its row, with its steps', async () => {
  const stalled = await until(async () => { const s = await summary(); return s.tally.stalled === 1 && s; }, 'a job has stalled', 60_000);
  assert.match(stalled.line, /1 running \(1 stalled\).* · end unknown: only stalled jobs remain$/);
  const { page, faults } = await visit(`#/batch/${id}`);
  await text(page, '1 running (1 stalled)');
  await text(page, '16/20');
  const row = await page.waitForFunction(() => [...document.querySelectorAll('.jobs tbody tr:not(.gap)')].find((r) => r.innerText.includes('stalled'))?.innerText);
  assert.match(await row.jsonValue(), /stalled\s+resnet18-cifar10-lr0.01-s2[^]*no output for /);
  assert.deepEqual(faults, []);
  await page.close();
});

test('the home page shows a stalled job in its batch and on its GPU', async () => {
  for (const look of looks) {
    const { page, faults } = await visit('#/', look);
    await text(page, 'running, 7 failed, 1 stalled');
    await page.waitForFunction(() => document.querySelector('.gpu-who .bad')?.parentElement.innerText.includes('resnet18-cifar10-lr0.01-s2'));
    await shoot(page, 'morning-home', look);
    assert.deepEqual(await wide(page), []);
    assert.deepEqual(await faultsOf(page), []);
    assert.deepEqual(faults, []);
    await page.close();
  }
});

test('names are not cut, because they may differ only at the end', async () => {
  for (const look of [looks[0], looks[2], looks[4]]) {
    const { page } = await visit(`#/batch/${id}`, look);
    await page.waitForSelector('.jobs .c-name a');
    const cut = () => page.$$eval('.jobs .c-name a', (l) => l.filter((a) => a.scrollHeight > a.clientHeight + 1 || a.scrollWidth > a.clientWidth + 1 || a.offsetHeight > a.closest('tr').offsetHeight).length);
    await until(async () => await cut() === 0, 'no name is cut'); // the page redraws the rows once it knows the width of the names
    assert.ok(await page.$$eval('.jobs tbody tr:not(.gap)', (l) => l.every((r) => r.offsetHeight === l[0].offsetHeight)), 'all rows have the same height');
    await shoot(page, 'morning-names', look);
    await page.close();
  }
});

test('attempts become blocks and actions a menu at 400 px', async () => {
  const { page, faults } = await visit(`#/batch/${id}/job/${segv}`, looks[4]);
  await page.waitForSelector('.folds tbody tr');
  assert.ok(await page.$$eval('.folds tbody tr', (l) => l.length === 2 && l.every((r) => r.scrollWidth <= r.clientWidth + 1 && r.cells[1].offsetTop < r.cells[2].offsetTop)), 'an attempt is a block');
  assert.ok(await page.$eval('.menu .buttons', (b) => !b.checkVisibility()), 'the actions are in a closed menu');
  await page.click('.menu summary');
  await page.waitForFunction(() => [...document.querySelectorAll('.menu .buttons > *')].some((b) => b.innerText.startsWith('Retry') && b.checkVisibility()));
  await shoot(page, 'morning-attempts', looks[4], true);
  assert.deepEqual(faults, []);
  await page.close();
});

test('names link to jobs, groups to all their jobs, and counts filter', async () => {
  const { page, faults } = await visit(`#/batch/${id}`);
  await text(page, nan);
  await page.evaluate(() => [...document.querySelectorAll('.failures a')].find((a) => a.innerText === 'all 6').click());
  await page.waitForFunction(() => document.querySelectorAll('.jobs tbody tr:not(.gap)').length === 6);
  await page.evaluate(() => [...document.querySelectorAll('.fives a')].find((a) => a.innerText.includes('running')).click());
  await page.waitForFunction(() => document.querySelectorAll('.jobs tbody tr:not(.gap)').length === 1);
  await page.evaluate((n) => [...document.querySelectorAll('.failures a')].find((a) => a.innerText === n).click(), segv);
  await page.waitForFunction((n) => decodeURIComponent(location.hash).endsWith(`/job/${n}`), {}, segv);
  await page.waitForFunction(() => document.querySelector('.big .state')?.innerText.includes('failed'));
  await text(page, 'failed at');
  assert.deepEqual(faults, []);
  await page.close();
});

test('a search matches states and exact values of parameters', async () => {
  const { page } = await visit(`#/batch/${id}`);
  await page.waitForSelector('.find'); // the failures are there before the jobs
  const found = async (q, n) => {
    await page.evaluate((q) => { const e = document.querySelector('.find'); e.value = q; e.dispatchEvent(new Event('input', { bubbles: true })); }, q);
    await page.waitForFunction((n) => document.querySelectorAll('.jobs tbody tr:not(.gap)').length === n, {}, n);
  };
  await found('state:failed', 7);
  await found('state:failed model=resnet18', 1);
  await found('lr=0.1', 12);
  await found('lr=0.0', 0);
  await found('sed=1', 0);
  await text(page, 'Unknown parameter sed. Valid: state:, gpu:, data=, lr=, model=, seed=.');
  await page.close();
});

test('actions that end work say how much and ask first; a drain can be undone', async () => {
  const { page, faults } = await visit(`#/batch/${id}`);
  await click(page, 'Drain', '.top');
  await until(async () => (await summary()).run.phase === 'draining', 'the run drains after one click');
  await click(page, 'Resume', '.top');
  await until(async () => (await summary()).run.phase === 'running', 'the drain is undone');
  await click(page, 'Stop', '.top');
  await text(page, 'Ends 1 job, losing ');
  await shoot(page, 'morning-stop', looks[0]);
  await click(page, 'Cancel', 'dialog');
  await click(page, 'Free a GPU …', '.top');
  await (await page.waitForSelector('dialog input[type=radio]')).click();
  await text(page, 'Ends 1 job, losing ');
  await click(page, 'Cancel', 'dialog');
  await page.evaluate(() => document.querySelector('.jobs thead input').click()); // all jobs
  await click(page, 'Retry', '.chosen');
  await text(page, 'Retry 7 jobs');
  await click(page, 'Cancel', 'dialog');
  assert.equal((await summary()).run.phase, 'running');
  assert.deepEqual(faults, []);
  await page.close();
});

test('actions can be copied as commands, even with the read token', async () => {
  const { page, faults } = await visit(`#/batch/${id}`, looks[0], 'read');
  await browser.defaultBrowserContext().overridePermissions(home.origin.replace(/\/$/, ''), ['clipboard-write', 'clipboard-sanitized-write']);
  await text(page, 'read only');
  await page.bringToFront();
  await click(page, 'Stop', '.top');
  await text(page, `gpurun stop --file ${path.join(home.dir, 'jobs.yaml')}`);
  assert.equal((await summary()).run.phase, 'running');
  await page.close();
  const seen = await visit(`#/batch/${id}/job/${segv}`);
  await seen.page.waitForSelector('[aria-label="Copy as commands"]');
  await seen.page.click('[aria-label="Copy as commands"]');
  await click(seen.page, 'Retry');
  await text(seen.page, `gpurun retry ${segv} --file`);
  assert.deepEqual([...faults, ...seen.faults], []);
  await seen.page.close();
});

test('after the run, Retry starts the failed jobs', async () => {
  home.write('go', '');
  await until(async () => !(await summary()).run.alive, 'the run has ended');
  const { page, faults } = await visit(`#/batch/${id}`);
  const tried = async () => (await home.api(`/batches/${id}/timeline`)).attempts.length;
  const before = (await home.api(`/batches/${id}/runs`)).runs.length, attempts = await tried();
  await click(page, 'Retry 6', '.failures');
  await until(async () => (await home.api(`/batches/${id}/runs`)).runs.length > before, 'a run starts');
  await until(async () => await tried() >= attempts + 6 && !(await summary()).run.alive, 'the new run has ended', 60_000);
  assert.equal(await tried(), attempts + 6, 'only the 6 failed jobs ran again');
  assert.deepEqual(faults, []);
  await page.close();
});

test('the report shows the same failures', async () => {
  home.gpurun('report', '-o', 'r.html', 'jobs.yaml');
  for (const look of looks) {
    const { page, faults } = await open(browser, `file://${home.dir}/r.html`, look);
    await text(page, 'all jobs with lr=0.1 model=vit-tiny');
    await page.click('.failures .cause');
    await text(page, 'File "train.py", line 80');
    await shoot(page, 'morning-report', look);
    assert.deepEqual(await wide(page), []);
    assert.deepEqual(await faultsOf(page), []);
    assert.deepEqual(faults, []);
    await page.close();
  }
});

test('a log opens at its end, the server searches it, and links point to lines', async () => {
  const long = path.join(home.dir, 'long.yaml');
  home.write('long.yaml', `jobs:
  - {name: long, gpus: 0, retry: 1, run: 'head -c ${process.env.LOG_SIZE || 50_000_000} /dev/zero | tr "\\0" "." | fold -w 99; echo; echo needle 1; seq 20000; echo Needle 2; echo "Traceback (most recent call last):"; echo "  File x"; echo "ValueError: end"; exit 1'}
`);
  try { home.gpurun('run', 'long.yaml'); } catch (err) { assert.equal(err.status, 1, err.stderr); }
  const { id: other } = await until(async () => (await home.api('/batches')).batches.find((b) => b.files[0].path === long), 'the batch is listed');
  const { page, faults } = await visit(`#/batch/${other}`);
  await text(page, 'ValueError: end');
  const began = Date.now();
  await page.evaluate((h) => { location.hash = h; }, `#/batch/${other}/log?job=long`);
  await page.waitForFunction(() => document.querySelector('.logs .trace')?.textContent.includes('ValueError: end'));
  console.log(`the log opened after ${Date.now() - began} ms`);
  await page.waitForFunction(() => { const r = [...document.querySelectorAll('.logs .trace')].pop().getBoundingClientRect(); return r.top > 0 && r.bottom <= innerHeight; });
  assert.equal(await page.$$eval('.logs .tabs a', (l) => l.length), 2, 'each attempt has a tab');
  await page.type('.logs input[type=search]', 'needle');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /^2 of 2 lines$/.test(document.querySelector('.logs [role=status]')?.innerText) && document.querySelector('.logs mark')?.textContent === 'Needle 2\n');
  await page.click('[aria-label="Previous match"]');
  await page.waitForFunction(() => document.querySelector('.logs mark')?.textContent === 'needle 1\n');
  const link = await page.evaluate(() => location.hash);
  assert.match(link, /line=\d+/);
  await shoot(page, 'morning-log', looks[0]);
  assert.deepEqual(await faultsOf(page), []);
  const cdp = await page.createCDPSession(), started = Date.now(), size = Number(process.env.LOG_SIZE || 50_000_000);
  await cdp.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: home.home });
  await page.evaluate(() => [...document.querySelectorAll('.logs .tools a')].find((a) => a.innerText === 'Download').click());
  const file = path.join(home.home, 'long.log'); // downloaded by the browser, not through the page
  await until(() => existsSync(file) && statSync(file).size > size, 'the log is downloaded', 60_000);
  console.log(`and was downloaded after ${Date.now() - started} ms; the page's memory is ${((await page.metrics()).JSHeapUsedSize / 2 ** 20).toFixed(0)} MiB`);
  const again = await visit(link);
  await again.page.waitForFunction(() => { const m = document.querySelector('.logs mark'), r = m?.getBoundingClientRect(); return m?.textContent === 'needle 1\n' && r.top > 0 && r.bottom < innerHeight; });
  await again.page.evaluate(() => getSelection().collapse([...document.querySelectorAll('.logs pre')].flatMap((p) => [...p.childNodes]).find((n) => n.nodeType === 3 && n.textContent.includes('5\n6\n')), 12));
  await again.page.evaluate(() => document.querySelector('.logs mark').parentElement.click());
  await again.page.waitForFunction((l) => location.hash !== l && /^\d+\n$/.test(document.querySelector('.logs mark')?.textContent), {}, link);
  await again.page.evaluate(() => { location.hash = location.hash.replace(/attempt=[^&]*/, 'attempt=another'); location.reload(); }); // as if the line were another log's
  await again.page.waitForFunction(() => document.querySelector('.logs .trace')?.textContent.includes('ValueError: end') && !document.querySelector('.logs mark'));
  assert.deepEqual([...faults, ...again.faults], []);
  await again.page.close();
  await page.close();
});
