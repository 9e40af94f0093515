// Controlling a run by clicks, on the GPUs of a fake NVML driver.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { click, launch, looks, open, shoot, text, until } from './browser.mjs';
import { Home } from './served.mjs';

const driver = mkdtempSync(path.join(tmpdir(), 'gpurun-driver-'));
const env = { GPURUN_NVML: path.join(driver, 'libnvidia-ml.so'), NVML_STANDIN: path.join(driver, 'says') };
const home = new Home(env);
const jobs = `settings: {min_memory: 1000MiB}
jobs:
  - name: "hold-{n}"
    matrix: {n: [1, 2, 3, 4]}
    gpu_memory: 1GiB
    run: "until [ -e go ]; do sleep 0.05; done; echo {n}"
    outputs: ["{name}.out"]
  - name: quick
    gpus: 0
    run: "true"
`;
let browser, id;

before(async () => {
  execFileSync('sh', [path.resolve('../../gpu/probe/testdata/build.sh'), env.GPURUN_NVML]);
  writeFileSync(env.NVML_STANDIN, 'count=3\n');
  home.write('jobs.yaml', jobs);
  home.gpurun('run', '-d', 'jobs.yaml');
  await home.serve('--control');
  id = (await home.api('/batches')).batches[0].id;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await home.end('jobs.yaml', 'a.yaml');
  rmSync(driver, { recursive: true, force: true });
});

const jobsOf = async () => (await home.api(`/batches/${id}/jobs`)).jobs;
const job = async (name) => (await jobsOf()).find((j) => j.name === name);
const summary = () => home.api(`/batches/${id}`);
const on = async (gpu) => (await jobsOf()).find((j) => j.state === 'running' && j.gpus.includes(gpu));
const visit = async (hash) => {
  const seen = await open(browser, `${home.origin}#token=${home.token()}`, looks[0], (u) => u.startsWith(home.origin));
  await seen.page.evaluate((h) => { location.hash = h; }, hash);
  return seen;
};
const box = async (page, gpu) => (await page.waitForFunction((n) => [...document.querySelectorAll('dialog fieldset label')].find((l) => l.innerText.trim().startsWith(`GPU ${n}`))?.querySelector('input'), {}, gpu)).asElement();
const isOn = async (page, gpu) => (await box(page, gpu)).evaluate((b) => b.checked);

test('checkboxes withdraw GPUs from a run and return them', async () => {
  const { page, faults } = await visit(`#/batch/${id}`);
  await until(async () => (await summary()).counts.running === 3, 'each GPU has a job');
  const held = await on(2);
  await click(page, 'Settings …', '.top');
  for (const n of [0, 1, 2]) assert.ok(await isOn(page, n));
  assert.ok(await page.$$eval('dialog .check', (l) => l.every((x) => x.getBoundingClientRect().height < 30)), 'checkbox and label are on one line');
  await (await box(page, 2)).click();
  await shoot(page, 'page-settings', looks[0]);
  await click(page, 'Set', 'dialog');
  await until(async () => (await summary()).run.settings.gpu_ids === '0,1', 'gpu_ids excludes GPU 2');
  assert.equal((await job(held.name)).state, 'running', 'its job keeps running');
  await page.waitForFunction(() => !document.querySelector('dialog'));
  await click(page, 'Settings …', '.top');
  assert.deepEqual([await isOn(page, 0), await isOn(page, 1), await isOn(page, 2)], [true, true, false]);
  for (const n of [0, 1]) await (await box(page, n)).click();
  await click(page, 'Set', 'dialog');
  await text(page, 'choose at least one');
  await click(page, 'Settings …', '.top');
  await (await box(page, 2)).click();
  await click(page, 'Set', 'dialog');
  await until(async () => (await summary()).run.settings.gpu_ids === '0,1,2', 'gpu_ids includes GPU 2 again');
  assert.deepEqual(faults, []);
  await page.close();
});

test('freeing a GPU stops its job without cancelling it', async () => {
  const { page, faults } = await visit(`#/batch/${id}`);
  const held = await on(1);
  await click(page, 'Free a GPU …', '.top');
  await text(page, held.name);
  await (await box(page, 1)).click();
  await shoot(page, 'page-free', looks[0]);
  await click(page, 'Free it', 'dialog');
  await text(page, 'GPU 1');
  await until(async () => !(await on(1)) && (await job(held.name)).state !== 'running', 'the job has left the GPU');
  assert.notEqual((await job(held.name)).state, 'cancelled');
  assert.equal((await job('quick')).state, 'succeeded');
  assert.deepEqual(faults, []);
  await page.close();
});

test('jobs are marked as done, and forgotten', async () => {
  const { page, faults } = await visit(`#/batch/${id}`);
  const waits = (await jobsOf()).find((j) => j.name.startsWith('hold') && j.state !== 'running');
  await page.evaluate((h) => { location.hash = h; }, `#/batch/${id}/job/${waits.id}`);
  await click(page, 'Mark as done');
  await page.waitForSelector('.note.bad'); // its output is missing
  assert.notEqual((await job(waits.name)).state, 'succeeded');
  await text(page, 'Mark as done without outputs?');
  await shoot(page, 'page-done', looks[0]);
  await click(page, 'Mark as done', 'dialog');
  await page.waitForFunction(() => /succeeded|up to date/.test(document.querySelector('.big .state').innerText));
  const { id: quick } = await job('quick');
  await page.evaluate((h) => { location.hash = h; }, `#/batch/${id}/job/${quick}`);
  await text(page, 'quick');
  await click(page, 'Forget');
  await text(page, 'will run again');
  home.gpurun('stop');
  await until(async () => !(await summary()).run.alive, 'the run has ended');
  assert.match(home.gpurun('plan', 'jobs.yaml'), /quick/);
  assert.deepEqual(faults.filter((f) => !f.includes('409')), []); // Chromium logs a refused request as an error
  await page.close();
});

test('the list shows the state of a run', async () => {
  writeFileSync(env.NVML_STANDIN, 'count=1\nused.0=40000\nfree.0=100\n');
  home.gpurun('run', '-d', '--max-concurrent', '1', 'jobs.yaml');
  const { page, faults } = await visit('#/');
  const says = (word) => page.waitForFunction((w) => document.querySelector('.batches .badge')?.innerText === w, { timeout: 20_000 }, word);
  await says('waiting');
  home.gpurun('pause');
  await says('paused');
  home.gpurun('resume');
  await says('waiting');
  assert.deepEqual(faults, []);
  await page.close();
});

test('stopping a job leaves the job of the same name in another file alone', async () => {
  for (const file of ['a.yaml', 'b.yaml']) home.write(file, 'jobs:\n  - {name: long, gpus: 0, run: "until [ -e go ]; do sleep 0.05; done"}\n');
  home.gpurun('run', '-d', 'a.yaml', 'b.yaml');
  const { id: both } = await until(async () => (await home.api('/batches')).batches.find((b) => b.files.length === 2), 'the list has the run');
  const long = async () => (await home.api(`/batches/${both}/jobs`)).jobs;
  await until(async () => (await long()).every((j) => j.state === 'running'), 'both jobs run');
  const [one, other] = await long();
  const { page, faults } = await visit(`#/batch/${both}/job/${other.id}`);
  await click(page, 'Stop', '.title');
  await click(page, 'Stop', 'dialog');
  await until(async () => (await long())[other.index].state === 'cancelled', 'the job is stopped');
  assert.equal((await long())[one.index].state, 'running');
  assert.deepEqual(faults, []);
  await page.close();
});
