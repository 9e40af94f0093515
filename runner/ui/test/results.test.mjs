// Results on the page and in the report: the best so far, running and pruned jobs. And the list of jobs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { click, faultsOf, launch, looks, open, shoot, text, until, wide } from './browser.mjs';
import { Home } from './served.mjs';

// Two jobs run until a file exists: one has reported its points, the other none.
const jobs = `settings: {min_memory: 2000MiB}
defaults:
  gpu_memory: 4GiB
  metrics: {acc: {log: 'acc=([0-9.]+)', goal: max}}
  allow: [unused]
  params: {data: cifar10}
jobs:
  - name: "resnet18-lr{lr}-s{seed}"
    matrix: {model: [resnet18], lr: [0.1, 0.01], seed: [1, 2, 3]}
    run: |
      case {name} in *-lr0.1-*) a=92;; *) a=91.9;; esac
      for i in 1 2 3 4 5 6; do
        echo "{\\"step\\": $i, \\"loss\\": 0.$((9 - i))}" >> $GPURUN_RESULT
        awk "BEGIN {print \\"epoch $i/9 acc=\\" $a + 0.1 * {seed} - 6 / $i + 1}"
      done
      case {name} in *-lr0.01-s2) echo 'ValueError: bad'; exit 1;; *-lr0.01-s3) while [ ! -e go ]; do sleep 0.1; done;; esac
  - name: "vit-lr{lr}-s{seed}"
    matrix: {model: [vit], lr: [0.1, 0.01], seed: [1, 2, 3]}
    prune: {metric: acc, among: [lr], after: 3, min: 1, keep: 0.5}
    needs: ["resnet18-lr0.1-*"]
    run: |
      case {name} in vit-lr0.1-s3) echo data={data}; echo "warming up"; while [ ! -e go ]; do sleep 0.1; done; exit;; vit-lr0.1-*) a=60;; *) a=50;; esac
      for i in 1 2 3 4 5 6 7 8; do awk "BEGIN {print \\"epoch $i/8 acc=\\" $a + 0.1 * {seed} - 6 / $i + 1}"; sleep 0.5; done
`;

const home = new Home();
let browser, id;

before(async () => {
  home.write('jobs.yaml', jobs);
  home.write('sim.yaml', 'gpus: [{memory: 24GiB, count: 4}]\njobs: {memory: 3GiB, util: 80}\n');
  home.gpurun('run', '-d', '--sim', 'sim.yaml', '--sim-here', 'jobs.yaml');
  await home.serve('--sim', 'sim.yaml', '--control');
  id = (await home.api('/batches')).batches[0].id;
  await until(async () => { const c = (await home.api(`/batches/${id}`)).counts; return c.running === 2 && c.failed === 1 && c.pruned > 0; }, 'only two jobs are still running', 60_000);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await home.end('jobs.yaml');
});

const visit = async (hash, look = looks[0]) => {
  const seen = await open(browser, `${home.origin}#token=${home.token()}`, look, (u) => u.startsWith(home.origin));
  await seen.page.evaluate((h) => { location.hash = h; }, hash);
  return seen;
};
const headline = 'best so far: resnet18, lr 0.1: 92.200 ± 0.100 on cifar10; 2 settings incomplete';
const rowsOf = (page) => page.$$eval('.results tbody tr', (l) => l.map((r) => [...r.cells].map((c) => c.innerText.trim()).join(' | ')));

test('results: a headline, fixed parameters in the caption, marks, and curves of running and pruned jobs', { timeout: 180_000 }, async () => {
  for (const look of looks) {
    const { page, faults } = await visit(`#/batch/${id}/results`, look);
    await text(page, headline);
    await text(page, 'all with data=cifar10');
    const rows = await rowsOf(page);
    assert.match(rows[0], /^resnet18 \| 0.1 \| 92.200 ± 0.100 \(3\) \|/);
    assert.match(rows[1], /^resnet18 \| 0.01 \| 92.000 \(1\/3\)✗● \|/);
    assert.equal(await page.$$eval('.results b', (l) => l.map((b) => b.innerText).join()), '92.200 ± 0.100', 'only the value in the headline is bold');
    assert.equal(await page.$$eval('.results [role=img]', (l) => l[0].getAttribute('aria-label')), 's2 failed, s3 running');
    await page.waitForSelector('.chart .stop', { timeout: 15_000 }); // a pruned job's curve ends with a mark
    if (look === looks[0]) {
      const hash = await page.evaluate(() => location.hash);
      await page.evaluate((h) => { location.hash = h; }, `#/batch/${id}/job/${(await home.api(`/batches/${id}/jobs`)).jobs.find((j) => j.state === 'pruned').name}`);
      await page.waitForSelector('.job .chart .stop'); // also on the job's own page
      await page.evaluate((h) => { location.hash = h; }, hash);
      await text(page, headline);
    }
    if (look.width < 520) assert.ok(await page.$$eval('.results tbody tr', (l) => l.every((r) => r.scrollWidth <= r.clientWidth + 1 && r.cells[0].offsetTop < r.cells[1].offsetTop)), 'each row is a block');
    assert.deepEqual(await wide(page), []);
    assert.deepEqual(await faultsOf(page), []);
    await shoot(page, 'results', look, true);
    await page.emulateVisionDeficiency('achromatopsia');
    if (!look.dark) await shoot(page, 'results-gray', look, true);
    assert.deepEqual(faults, []);
    await page.close();
  }
});

test('a cell opens its jobs, columns sort, and the copied table matches gpurun results', async () => {
  const { page, faults } = await visit(`#/batch/${id}/results`);
  await browser.defaultBrowserContext().overridePermissions(home.origin.replace(/\/$/, ''), ['clipboard-read', 'clipboard-write', 'clipboard-sanitized-write']);
  await text(page, headline);
  await page.bringToFront();
  await page.evaluate(() => [...document.querySelectorAll('.results th button')].find((b) => b.textContent === 'acc').click());
  await page.waitForSelector('.results th[aria-sort=descending]');
  assert.match((await rowsOf(page)).at(-1), /^vit \| 0.01 /);
  for (const [label, format, part] of [['LaTeX', 'latex', '\\begin{tabular}'], ['Markdown', 'md', '| --- |'], ['CSV', 'csv', 'acc_missing']]) {
    await click(page, label, '.copy');
    await text(page, `${label} copied`);
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(copied.includes(part), copied);
    assert.equal(copied, home.gpurun('results', '--format', format, 'jobs.yaml'));
  }
  await page.evaluate(() => [...document.querySelectorAll('.results a')].find((a) => a.innerText.startsWith('60.4')).click());
  await page.waitForFunction(() => document.querySelectorAll('.jobs tbody tr:not(.gap)').length === 3 && document.querySelector('.find').value === 'lr=0.1 model=vit');
  assert.deepEqual(faults, []);
  await page.close();
});

test('the report has the same table and curves', async () => {
  home.gpurun('report', '-o', 'r.html', 'jobs.yaml');
  for (const look of looks) {
    const { page, faults } = await open(browser, `file://${home.dir}/r.html`, look);
    await text(page, headline);
    assert.match((await rowsOf(page))[1], /92.000 \(1\/3\)✗●/);
    await page.evaluate(() => document.getElementById('curves').scrollIntoView());
    await page.waitForSelector('#curves .stop');
    await shoot(page, 'results-report', look, true);
    assert.deepEqual(await wide(page), []);
    assert.deepEqual(await faultsOf(page), []);
    await page.evaluate(() => document.querySelector('.results a').click());
    await page.waitForFunction(() => document.querySelectorAll('#jobs [data-row]').length === 3);
    assert.deepEqual(faults, []);
    await page.close();
  }
});

test('running jobs show their newest metrics, memory, utilization, or the last line of the log', { timeout: 120_000 }, async () => {
  for (const look of looks) {
    const { page, faults } = await visit(`#/batch/${id}`, look);
    const says = (name) => page.waitForFunction((n) => [...document.querySelectorAll('.jobs tbody tr:not(.gap)')].find((r) => r.querySelector('.c-name')?.innerText === n)?.querySelector('.c-says')?.innerText, { timeout: 20_000 }, name).then((h) => h.jsonValue());
    await page.waitForSelector('.jobs .sparkline');
    assert.match(await says('resnet18-lr0.01-s3'), /loss 0.3000/);
    assert.equal(await says('vit-lr0.1-s3'), 'warming up');
    if (look.width > 1000) await page.waitForFunction(() => /3 GiB\s*\d+ %/.test(document.querySelector('.jobs .c-left:not(th)').innerText.replaceAll('\n', ' ')), { timeout: 20_000 });
    assert.ok(await page.$$eval('.jobs .c-name a', (l) => l.every((a) => a.offsetWidth && a.parentElement.scrollWidth <= a.parentElement.clientWidth)), 'names are not cut');
    await shoot(page, 'results-jobs', look);
    await page.emulateVisionDeficiency('achromatopsia');
    if (!look.dark) await shoot(page, 'results-jobs-gray', look);
    assert.deepEqual(await wide(page), []);
    assert.deepEqual(await faultsOf(page), []);
    assert.deepEqual(faults, []);
    await page.close();
  }
});
