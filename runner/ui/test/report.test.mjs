// The report of 10,000 jobs with retries, other users and failures, in a real browser.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { launch, looks, open, prefer, shoot, shots, wide } from './browser.mjs';

const gpurun = process.env.GPURUN || 'gpurun', jobs = +(process.env.JOBS || 10000);
const dir = mkdtempSync(path.join(tmpdir(), 'gpurun-report-')), file = path.join(dir, 'report.html'), url = `file://${file}`;
const hostile = '<img src=x onerror=alert(1)>';
let browser;

const machine = `
gpus:
  - {memory: 24GiB, name: NVIDIA RTX 4090, count: 6}
  - {memory: 24GiB, name: NVIDIA RTX 4090, load: [{from: 3s, to: 40s, user: bob, command: python, pid: 4711, memory: 20GiB, util: 90}]}
  - {memory: 24GiB, name: NVIDIA RTX 4090, load: [{from: 10s, user: alice, command: python, pid: 4712, memory: 6GiB, util: 20}]}
jobs: {util: 80, memory: 5GiB}
`;
// Per setting of 100 seeds, one fails, one runs out of memory once, and one reports steps.
const batch = `
settings: {poll: 1s}
jobs:
  - name: "{data}-{algo}-s{seed}"
    matrix: {data: [${list(jobs / 500, (i) => `set${i}`)}], algo: [fedavg, scaffold, ours, fedprox, moon], seed: [${list(100, (i) => i)}]}
    gpu_memory: 6GiB
    share: true
    retry: {max: 2, on: [oom]}
    run: |
      [ {seed} != 7 ] || { echo '</pre><script>alert(2)</script>'; echo 'ValueError: bad rate <script>alert(3)</script>'; exit 1; }
      [ {seed} != 13 ] || [ $GPURUN_ATTEMPT -gt 1 ] || { echo 'torch.cuda.OutOfMemoryError: CUDA out of memory'; exit 1; }
      [ {seed} != 3 ] || for i in 1 2 3 4 5 6 7 8 9; do echo "{\\"step\\": $i, \\"loss\\": 0.$((99-i*9))}"; done >>$GPURUN_RESULT
      echo '{"acc": 0.9{seed}, "from": "{data} {algo}"}' >>$GPURUN_RESULT
  - {name: evil, gpus: 0, run: sleep 1}
`;

function list(n, f) { return Array.from({ length: Math.max(1, n) }, (_, i) => f(i)).join(', '); }

before(async () => {
  writeFileSync(path.join(dir, 'machine.yaml'), machine);
  writeFileSync(path.join(dir, 'jobs.yaml'), batch);
  const env = { ...process.env, GPURUN_SIM_HERE: '1', HOME: dir, GPURUN_CLAIMS_DIR: dir };
  const run = spawnSync(gpurun, ['run', '--sim', 'machine.yaml', '--breaker=0', 'jobs.yaml'], { cwd: dir, env, maxBuffer: 1 << 28 });
  assert.equal(run.status, 1, `${run.stdout}`.slice(-500) + run.stderr);
  // No job file can contain this name, but a manipulated ledger could.
  const ledger = path.join(dir, '.gpurun/jobs.yaml/ledger.jsonl');
  writeFileSync(ledger, readFileSync(ledger, 'utf8').replaceAll('"job":"evil"', `"job":${JSON.stringify(hostile)}`));
  writeFileSync(path.join(dir, 'jobs.yaml'), batch.replace(/ {2}- \{name: evil.*\n/, ''));
  console.log(`${execFileSync(gpurun, ['report', '-o', file], { cwd: dir, env })}`.trim());
  browser = await launch();
  prefer(browser); // a test measures how fast the report opens
  console.log(`screenshots in ${shots}`);
}, { timeout: 900_000 });

after(async () => {
  await browser?.close();
  rmSync(dir, { recursive: true });
});

const shown = (page) => page.waitForFunction(() => performance.getEntriesByName('shown')[0]?.startTime, { timeout: 30_000 }).then((h) => h.jsonValue());

test('the report opens in two seconds, without errors or requests, at every width and theme', async () => {
  const times = [];
  for (const look of looks) {
    const { page, faults } = await open(browser, url, look);
    times.push(await shown(page));
    await shoot(page, 'report', look);
    assert.deepEqual(await wide(page), []);
    for (const id of await page.$$eval('section', (all) => all.map((s) => s.id))) {
      await page.evaluate((id) => document.getElementById(id).scrollIntoView(), id);
      if (id === 'gpus' || id === 'curves') await page.waitForSelector(`#${id} .chart svg`);
      await shoot(page, `report-${id}`, look);
    }
    assert.deepEqual(await wide(page), []);
    assert.deepEqual(faults, []);
    await page.close();
  }
  console.log(`shown after ${times.map((t) => `${Math.round(t)} ms`).join(', ')}`);
  assert.ok(Math.min(...times) < 2000, `${times} ms`);
});

test('the report has all sections', async () => {
  const { page } = await open(browser, url);
  await shown(page);
  assert.deepEqual(await page.$$eval('section', (all) => all.map((s) => s.id)), ['failures', 'timeline', 'gpus', 'results', 'curves', 'lost', 'jobs', 'runs']);
  const text = await page.$eval('main', (e) => e.innerText);
  for (const part of [`of ${jobs.toLocaleString('en-US')}`, `${jobs / 100} failed`, `${jobs / 100} retries`, '8 × NVIDIA RTX 4090', 'bob', `all ${jobs / 100} jobs`, 'sample standard deviation']) {
    assert.ok(text.includes(part), `no "${part}"`);
  }
  await page.close();
});

test('names and output of jobs are never markup', async () => {
  const { page, faults } = await open(browser, url);
  await shown(page);
  await page.type('#jobs input', 'onerror');
  await page.waitForFunction(() => document.querySelectorAll('#jobs [data-row]').length === 1);
  assert.equal(await page.$eval('#jobs [data-row] button', (e) => e.textContent), hostile);
  await page.click('#jobs [data-row] button');
  assert.equal(await page.$eval('#job-name', (e) => e.textContent), hostile);
  await page.keyboard.press('Escape');
  await page.click('#failures .cause');
  assert.ok((await page.$eval('#failures pre', (e) => e.textContent)).includes('<script>alert(3)</script>'));
  assert.equal(await page.$$eval('script', (all) => all.length), 2);
  assert.equal(await page.$$eval('img', (all) => all.length), 0);
  assert.deepEqual(faults, []);
  // Even if a bug made it markup, the policy keeps it from running.
  const ran = await page.evaluate((html) => new Promise((done) => {
    window.alert = () => done(true);
    document.addEventListener('securitypolicyviolation', () => done(false));
    document.body.insertAdjacentHTML('beforeend', html);
  }), hostile);
  assert.equal(ran, false);
  await page.close();
});

test('jobs can be searched and sorted', async () => {
  const { page } = await open(browser, url);
  await shown(page);
  await page.click('.fives li:nth-child(2) a');
  await page.waitForFunction((n) => document.querySelector('#jobs [role=status]').textContent.startsWith(`${n} of `), {}, String(jobs / 100));
  await page.click('#jobs .chip');
  await page.type('#jobs input', 'algo=moon seed=13');
  await page.waitForFunction((n) => document.querySelectorAll('#jobs [data-row]').length === n, {}, jobs / 500);
  await page.evaluate(() => [...document.querySelectorAll('#jobs .heads button')].find((b) => b.textContent === 'Tries').click());
  assert.equal(await page.$eval('#jobs [aria-sort=ascending]', (e) => e.textContent), 'Tries ↑');
  const column = () => page.$$eval('#results tbody tr', (rows) => rows.map((r) => parseFloat(r.lastElementChild.textContent)));
  await page.evaluate(() => document.querySelector('#results th:last-child button').click());
  const sorted = await column();
  assert.deepEqual(sorted, [...sorted].sort((a, b) => b - a));
  await page.close();
});

test('the report can be operated by keyboard', async () => {
  const { page } = await open(browser, url);
  await shown(page);
  await page.focus('#timeline canvas');
  for (const key of ['ArrowDown', 'ArrowDown', '+', '+', 'ArrowRight', 'ArrowDown']) await page.keyboard.press(key);
  assert.match(await page.$eval('#timeline [aria-live]', (e) => e.textContent), /attempt 1: /);
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog[open]');
  assert.ok(await page.evaluate(() => document.querySelector('dialog').contains(document.activeElement)));
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('dialog'));
  await page.focus('#jobs [data-row="0"] button');
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction(() => document.activeElement.closest('[data-row]')?.dataset.row === '1');
  for (let i = 0; i < 8; i++) {
    await page.keyboard.press('PageDown');
    await page.waitForFunction((n) => document.activeElement.closest('[data-row]')?.dataset.row === n, {}, String(11 + 10 * i));
  }
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog[open]');
  await shoot(page, 'report-job', looks[0]);
  await page.close();
});

test('the report has names and roles for screen readers', async () => {
  const { page } = await open(browser, url);
  await shown(page);
  await page.evaluate(() => document.getElementById('gpus').scrollIntoView());
  await page.waitForSelector('#gpus .chart svg');
  const found = [], walk = (n) => { found.push(n); n.children?.forEach(walk); };
  walk(await page.accessibility.snapshot({ interestingOnly: false }));
  const has = (role, name) => found.some((n) => n.role === role && name.test(n.name ?? ''));
  for (const [role, name] of [['heading', /jobs\.yaml/], ['heading', /^Failures$/], ['navigation', /Sections/], ['table', /^Jobs$/], ['columnheader', /State/], ['application', /bars? in 9 rows/], ['image', /GPU 0: at most .* busy on average/], ['searchbox', /Find jobs/], ['region', /Results/]]) {
    assert.ok(has(role, name), `no ${role} ${name}`);
  }
  assert.equal(await page.$eval('[aria-label=Jobs][role=table]', (e) => e.ariaRowCount), String(jobs + 2));
  assert.equal(found.filter((n) => ['button', 'link'].includes(n.role) && !n.name).length, 0, 'buttons or links without a name');
  await page.close();
});

test('the report prints well', async () => {
  const { page, faults } = await open(browser, url, { width: 800, height: 1000, dark: true });
  await shown(page);
  const pdf = await page.pdf({ path: path.join(shots, 'report.pdf'), format: 'A4' });
  const pages = Buffer.from(pdf).toString('latin1').match(/\/Type\s*\/Page\b/g).length;
  assert.ok(pages > 5 && pages < 40, `${pages} pages`);
  assert.deepEqual(faults, []);
  await page.close();
});
