// The page in a real browser, with a real server and live batches.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { click, faultsOf, launch, looks, open, shoot, text, until, wide } from './browser.mjs';
import { Home } from './served.mjs';

const evil = '<img src=x onerror=alert(1)>';
const sim = `gpus:
  - {memory: 24GiB, count: 2, name: NVIDIA GeForce RTX 4090}
  - {memory: 24GiB, name: '${evil}', load: [{user: "${evil}", command: "${evil}", pid: 4711, memory: 20GiB, util: 93}]}
  - {memory: 80GiB, name: NVIDIA A100-SXM4-80GB, fails: [{from: 1s, error: "GPU is lost ${evil}"}]}
jobs: {memory: 9GiB, util: 80}
`;
// A job ends when its file exists, so each test controls the progress of the batch.
const jobs = `settings: {min_memory: 4000MiB}
jobs:
  - name: "{data}-{model}-s{seed}"
    matrix: {data: [cifar10, svhn], model: [sgd, mlp], seed: [1, 2, 3]}
    allow: [unused]
    tags: ["${evil}"]
    run: |
      echo '<script>alert(2)</script> begin of {name}'; echo "{\\"step\\": 1, \\"loss\\": 0.5}" >> $GPURUN_RESULT; echo "{\\"step\\": 2, \\"loss\\": 0.4, \\"${evil}\\": {seed}}" >> $GPURUN_RESULT
      n=0; while [ ! -e go/{name} ] && [ ! -e go/all ]; do n=$((n+1)); echo "line $n of {name}"; sleep 0.2; done
      echo "acc = 0.9{seed}"
      case {name} in *mlp-s3) echo "ValueError: ${evil}"; exit 3;; esac
    gpu_memory: 12GiB
    metrics: {acc: {log: 'acc = ([0-9.]+)', goal: max, percent: true}}
  - name: report
    needs: ["cifar10-*"]
    gpus: 0
    run: echo done
`;

const home = new Home();
const served = ['--sim', 'sim.yaml', '--control=run', '--root', home.dir];
let browser, id;

before(async () => {
  home.write('sim.yaml', sim);
  home.write('jobs.yaml', jobs);
  home.gpurun('run', '-d', '--sim', 'sim.yaml', '--sim-here', 'jobs.yaml');
  await home.serve(...served);
  id = (await home.api('/batches')).batches[0].id;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await home.end('jobs.yaml');
});

// Errors that the browser itself logs while the server is down are not faults of the page.
const lostConnection = /ERR_(CONNECTION_REFUSED|INTERNET_DISCONNECTED|INCOMPLETE_CHUNKED_ENCODING|CONNECTION_RESET|NETWORK_CHANGED|EMPTY_RESPONSE)/;

const visit = async (hash, look = looks[0], kind = 'control') => {
  const seen = await open(browser, `${home.origin}#token=${home.token(kind)}`, look, (u) => u.startsWith(home.origin));
  await go(seen.page, hash);
  return seen;
};
const go = (page, hash) => page.evaluate((h) => { location.hash = h; }, hash);
const batch = (rest = '') => `#/batch/${id}${rest}`;
const jobsOf = async () => (await home.api(`/batches/${id}/jobs?limit=5000`)).jobs;
const job = async (name) => (await jobsOf()).find((j) => j.name === name);

test('every page is accessible and does not scroll sideways at any width and theme', { timeout: 240_000 }, async () => {
  const running = await until(async () => (await jobsOf()).find((j) => j.state === 'running'), 'a job is running');
  const waiting = (await jobsOf()).find((j) => j.wait?.code === 'gpu');
  const pages = {
    home: ['#/', 'GPU 3'], jobs: [batch(), 'cifar10-sgd-s1'], log: [batch('/log'), 'line '],
    timeline: [batch('/timeline'), 'succeeded'], results: [batch('/results'), 'sample standard deviation'], runs: [batch('/runs'), 'GPU time'],
    job: [batch(`/job/${running.id}`), 'begin of'], waiting: [batch(`/job/${waiting.id}`), 'Suitable GPUs'],
  };
  for (const look of looks) {
    const { page, faults } = await visit('#/', look);
    for (const [name, [hash, needle]] of Object.entries(pages)) {
      await go(page, hash);
      await text(page, needle);
      await shoot(page, `page-${name}`, look);
      assert.deepEqual(await wide(page), [], `${name} at ${look.width} scrolls sideways`);
      assert.deepEqual(await unnamed(page), [], `${name}: controls without a name for screen readers`);
      if (look.width !== 768) assert.deepEqual(await faultsOf(page), [], name);
      assert.equal(await page.$$eval('h1', (h) => h.length), 1, name);
      if (name === 'home' && look.width > 720) assert.ok(await page.$$eval('.gpu', (l) => l.every((g) => g.getBoundingClientRect().height < 40)), 'each GPU takes one line');
    }
    assert.ok(!page.url().includes('token'), 'the token is removed from the URL');
    assert.deepEqual(faults, []);
    await page.close();
  }
});

// unnamed returns the roles of controls without a name in the accessibility tree.
const unnamed = async (page) => {
  const all = [];
  const walk = (n) => { if (['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'meter'].includes(n.role) && !n.name) all.push(n.role); n.children?.forEach(walk); };
  walk(await page.accessibility.snapshot({ interestingOnly: false }));
  return all;
};

test('the timeline shows all GPUs and who else used them', async () => {
  const read = await until(async () => { const r = (await home.api(`/batches/${id}/timeline`)).readings; return r?.gpus.length === 4 && r.time.length > 1 && r; }, 'readings of all GPUs', 60_000);
  assert.ok(read.gpus[2].others[0] && read.gpus[2].waits.some((w) => w.user === evil), 'the readings name the other user of GPU 2');
  const { page, faults } = await visit(batch('/timeline'));
  await page.waitForSelector('canvas[aria-label*="in 4 rows"]');
  assert.deepEqual(faults, []);
  await page.close();
});

test('text from jobs and other users is never markup', async () => {
  const { page, faults } = await visit('#/');
  await text(page, evil); // a GPU model and a user have this name
  await go(page, batch('/log'));
  await page.waitForFunction(() => document.querySelector('.logtext')?.textContent.includes('<script>alert(2)</script>')); // not visible without scrolling
  const { id: of } = await job('cifar10-sgd-s1');
  await go(page, batch(`/job/${of}`));
  await text(page, `Tags`);
  await text(page, evil);
  assert.equal(await page.$$eval('#app img, #app script', (e) => e.length), 0);
  assert.deepEqual(faults, []);
  await page.close();
});

test('control: jobs are stopped, moved to the front and added, and the run is paused and changed', async () => {
  const { page, faults } = await visit(batch());
  const [first] = await until(async () => { const r = (await jobsOf()).filter((j) => j.state === 'running' && j.gpus[0] < 2); return r.length === 2 && r; }, 'two jobs are running');
  const last = await job('svhn-mlp-s2');
  assert.equal(last.state, 'pending');
  await go(page, batch(`/job/${last.id}`));
  await click(page, 'First');
  await page.waitForSelector('.note.ok');
  await go(page, batch(`/job/${first.id}`));
  await click(page, 'Stop');
  await click(page, 'Stop', 'dialog');
  await page.waitForFunction(() => document.querySelector('.big .state').innerText.includes('cancelled'), { timeout: 20_000 });
  await until(async () => (await job('svhn-mlp-s2')).state === 'running', 'it runs on the GPU that the stopped job left');
  // Pause and resume: the page shows the state of the run without a reload.
  await go(page, batch());
  await click(page, 'Pause', '.top');
  await page.waitForFunction(() => document.querySelector('.top .badge').innerText.startsWith('paused'), { timeout: 15_000 });
  await click(page, 'Resume', '.top');
  await page.waitForFunction(() => document.querySelector('.top .badge').innerText.startsWith('running'), { timeout: 15_000 });
  // Settings: the run may use only the first two GPUs.
  await click(page, 'Settings …', '.top');
  const boxes = await page.$$('dialog input[type=text]');
  await boxes[boxes.length - 1].type('0,1'); // simulated GPUs are not listed
  await click(page, 'Set', 'dialog');
  await until(async () => (await home.api(`/batches/${id}`)).run.settings.gpu_ids === '0,1', 'gpu_ids is set');
  // A job is added to the file and joins the run.
  await click(page, 'Add a job …', '.top');
  await (await page.waitForSelector('dialog input')).type("echo 'one more'");
  await click(page, 'Add', 'dialog');
  await until(async () => (await jobsOf()).length === 14, 'the server lists the new job');
  await text(page, 'of 14 done');
  assert.deepEqual(faults, []);
  await page.close();
});

test('the read token offers no control', async () => {
  const { page, faults } = await visit(batch(), looks[0], 'read');
  await text(page, 'cifar10-sgd-s1');
  await text(page, 'read only');
  for (const b of await page.$$eval('.top button', (l) => l.map((b) => b.title || b.textContent))) assert.match(b, /^Copy: gpurun|…|^GPUs, |^End the jobs on a GPU/);
  assert.deepEqual(faults, []);
  await page.close();
});

test('the URL of a batch opens it, and the page is served compressed', async () => {
  const { page, faults } = await open(browser, `${home.origin}#token=${home.token()}/batch/${id}`, looks[0], (u) => u.startsWith(home.origin));
  await text(page, 'cifar10-sgd-s1');
  assert.ok(!page.url().includes('token') && page.url().endsWith(batch()));
  const res = await fetch(`${home.origin}page.js`);
  assert.equal(res.headers.get('content-encoding'), 'gzip');
  assert.ok((await res.text()).includes('gpurun'));
  assert.deepEqual(faults, []);
  await page.close();
});

test('Ctrl-click opens a batch in a new tab', async () => {
  const { page, faults } = await visit('#/');
  await text(page, 'jobs.yaml');
  await page.keyboard.down('Control');
  const tabs = browser.targets();
  const [target] = await Promise.all([browser.waitForTarget((t) => t.type() === 'page' && !tabs.includes(t)), page.click('[data-batch="0"]')]);
  await page.keyboard.up('Control');
  const tab = await target.page();
  await tab.bringToFront();
  await text(tab, 'cifar10-sgd-s1');
  await tab.close();
  assert.deepEqual(faults, []);
  await page.close();
});

test('the page can be operated by keyboard', async () => {
  const { page, faults } = await visit('#/');
  await text(page, 'jobs.yaml');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await text(page, 'cifar10-sgd-s1');
  await page.keyboard.press('/');
  await page.keyboard.type('model=mlp seed=2');
  await page.waitForFunction(() => document.querySelectorAll('.jobs tbody tr:not(.gap)').length === 2);
  await page.keyboard.press('ArrowDown');
  await page.waitForSelector('tr.at');
  const at = () => page.$eval('tr.at .c-name', (e) => e.innerText), first = await at();
  await page.focus('.preview .logtext');
  await page.keyboard.press('ArrowDown'); // scrolls the log
  assert.equal(await at(), first);
  await page.keyboard.press('/');
  await page.keyboard.press('ArrowDown');
  await until(async () => await at() !== first, 'the next job is chosen');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForSelector('main.job'); // the keys now apply to the job's page
  await page.keyboard.press('Escape');
  await page.waitForSelector('.jobs');
  await page.keyboard.press('3');
  await page.waitForSelector('canvas');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog[open] dl.keys');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('dialog'));
  assert.deepEqual(faults, []);
  await page.close();
});

test('another program on the port gets no token', async () => {
  const { page, faults } = await visit('#/');
  await text(page, 'live');
  await home.kill();
  const asked = [];
  const thief = createServer((req, res) => {
    asked.push(req.headers.authorization ?? req.url);
    res.writeHead(200, { 'Content-Type': 'application/json' });
    res.end(JSON.stringify({ read: '00', control: '00' }));
  });
  await new Promise((r) => thief.listen(home.port, '127.0.0.1', r));
  await page.waitForSelector('.lost');
  await until(() => asked.some((a) => a.includes('/hello')), 'the page asks the server for its proof');
  await text(page, 'did not prove that it has the token');
  thief.closeAllConnections();
  await new Promise((r) => thief.close(r));
  assert.deepEqual(asked.filter((a) => [home.token(), home.token('read')].some((t) => a.includes(t))), []);
  await home.serve(...served);
  await page.waitForFunction(() => !document.querySelector('.lost'), { timeout: 30_000 });
  assert.deepEqual(faults.filter((f) => !lostConnection.test(f)), []);
  await page.close();
});

test('another program on the port gets no token by relaying the proof of a server on another port', async () => {
  const { page, faults } = await visit('#/');
  await text(page, 'live');
  await home.kill();
  const asked = [];
  let real = '';
  const thief = createServer(async (req, res) => {
    asked.push(req.headers.authorization ?? req.url);
    const got = real ? await fetch(real + req.url).then((r) => r.text()).catch(() => '{}') : '{}';
    res.writeHead(200, { 'Content-Type': 'application/json' });
    res.end(got);
  });
  await new Promise((r) => thief.listen(home.port, '127.0.0.1', r));
  const port = home.port;
  home.port = 0;
  await home.serve(...served);
  real = home.origin.replace(/\/$/, '');
  const before = asked.length;
  await until(() => asked.length > before + 1, 'the page asks the server for its proof');
  await text(page, 'did not prove that it has the token');
  assert.deepEqual(asked.filter((a) => [home.token(), home.token('read')].some((t) => a.includes(t))), []);
  await home.kill();
  thief.closeAllConnections();
  await new Promise((r) => thief.close(r));
  home.port = port;
  await home.serve(...served);
  await page.waitForFunction(() => !document.querySelector('.lost'), { timeout: 30_000 });
  assert.deepEqual(faults.filter((f) => !lostConnection.test(f) && !f.includes('/api/v1/hello')), []); // requests to the temporary port
  await page.close();
});

test('a job file is started with a parameter', async () => {
  home.write('other.yaml', "jobs: [{name: 'say-{x}', matrix: {x: [1]}, gpus: 0, run: 'echo said {x}'}]\n");
  const { page, faults } = await visit('#/');
  await click(page, 'Run a job file …');
  const [file, params] = await page.$$('dialog input');
  await file.type(`${home.dir}/other.yaml`);
  await params.type('x=7');
  await click(page, 'Run', 'dialog');
  await page.waitForSelector('.note.ok');
  const link = await page.waitForFunction(() => [...document.querySelectorAll('.batches a')].find((a) => a.innerText === 'other.yaml'), { timeout: 15_000 });
  await link.asElement().click();
  await page.waitForFunction(() => document.querySelector('.top .badge')?.innerText === 'done', { timeout: 20_000 });
  await text(page, 'say-7');
  assert.deepEqual(faults, []);
  await page.close();
});

test('events continue after being offline, a restart of the server and the end of the run', { timeout: 120_000 }, async () => {
  const { page, faults } = await visit(batch());
  await text(page, 'live');
  const cdp = await page.createCDPSession();
  await cdp.send('Network.enable');
  const shown = (name) => page.evaluate((n) => [...document.querySelectorAll('.jobs tbody tr:not(.gap)')].find((r) => r.querySelector('.c-name')?.innerText === n)?.querySelector('.state')?.innerText ?? '', name);
  const away = { offline: true, latency: 0, downloadThroughput: -1, uploadThroughput: -1 };

  const asleep = (await jobsOf()).find((j) => j.state === 'running').name;
  await cdp.send('Network.emulateNetworkConditions', away);
  await home.kill(); // this also ends the open stream
  await page.waitForSelector('.lost');
  await home.serve(...served);
  home.gpurun('stop', asleep);
  await until(async () => (await job(asleep)).state === 'cancelled', `${asleep} is cancelled`);
  await cdp.send('Network.emulateNetworkConditions', { ...away, offline: false });
  await until(async () => (await shown(asleep)).includes('cancelled'), 'the page shows what happened while it was offline');
  await page.waitForFunction(() => !document.querySelector('.lost'));

  const log = (await visit(batch(`/log?job=${asleep}`))).page;
  const download = () => log.evaluate(async () => { const a = [...document.querySelectorAll('a')].find((e) => e.innerText === 'Download'); return a?.href ? (await fetch(a.href)).status : 0; }).catch(() => 0);
  await until(async () => (await download()) === 200, 'the log of an ended job can be downloaded');
  await home.kill();
  await home.serve(...served);
  await until(async () => (await download()) === 200, 'the log can be downloaded from a restarted server');
  await log.close();
  await page.waitForFunction(() => !document.querySelector('.lost'));

  await page.evaluate(() => { window.same = true; });
  home.write('go', ''); // as a file, it releases no job: jobs look for go/NAME
  const other = (await jobsOf()).filter((j) => j.state === 'running').map((j) => j.name);
  home.gpurun('stop', ...other);
  await until(async () => (await shown(other[0])).includes('cancelled'), 'the page shows later events');
  home.gpurun('stop');
  await page.waitForFunction(() => !document.querySelector('.top .badge').innerText.startsWith('running'), { timeout: 30_000 });
  await until(async () => !(await page.evaluate(() => document.body.innerText.includes('● running'))), 'no job is shown as running');
  assert.ok(await page.evaluate(() => window.same), 'the page was not reloaded');
  const counts = (await home.api(`/batches/${id}`)).counts;
  await until(async () => (await page.$eval('.top .fives', (e) => e.textContent)).includes(`${counts.succeeded} of`), 'the counts match the server');
  await click(page, 'Run', '.top');
  await page.waitForFunction(() => document.querySelector('.top .badge').innerText.startsWith('running'), { timeout: 20_000 });
  assert.deepEqual(faults.filter((f) => !lostConnection.test(f)), []);
  await page.close();
});
