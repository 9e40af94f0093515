// A batch on a cluster: how long its jobs were queued, and the GPUs of its nodes.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { faultsOf, launch, looks, open, shoot, text, until, wide } from './browser.mjs';
import { Home } from './served.mjs';

const home = new Home();
home.env.PATH = `${home.dir}/fake:${process.env.PATH}`;
let browser, id;

// A fake cluster with one node. It starts task N of an array once the file goN exists.
before(async () => {
  mkdirSync(path.join(home.dir, 'fake'));
  home.write('fake/sbatch', `#!/bin/sh
cd "\${0%/fake/sbatch}"
cat >script
for i in 0 1; do
  SLURM_JOB_ID=$((7 + i)) SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$i SLURMD_NODENAME=node1 CUDA_VISIBLE_DEVICES=$i \\
    setsid sh -c "until [ -e go$i ]; do sleep 0.1; done; exec sh script" >/dev/null 2>&1 </dev/null &
done
echo 7
`);
  home.write('fake/squeue', '#!/bin/sh\nexit 1\n');
  for (const f of ['sbatch', 'squeue']) chmodSync(path.join(home.dir, 'fake', f), 0o755);
  home.write('jobs.yaml', 'jobs: [{name: "train-{i}", matrix: {i: [1, 2]}, run: "echo {i}; while [ ! -e end ]; do sleep 0.1; done"}]\n');
  home.gpurun('-d', '--engine', 'slurm', '--cluster', 'poll=1s', 'jobs.yaml');
  await home.serve();
  id = (await home.api('/batches', 'read')).batches[0].id;
  await until(async () => (await home.api(`/batches/${id}`, 'read')).counts.queued === 2, 'both jobs are queued', 60_000);
  await new Promise((r) => setTimeout(r, 2000)); // they must be queued for some time
  home.write('go0', '');
  await until(async () => (await home.api(`/batches/${id}`, 'read')).counts.running === 1, 'one job is running', 60_000);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  for (const f of ['go1', 'end']) home.write(f, '');
  await home.end('jobs.yaml');
});

test('the timelines of the page and the report show the queue and the GPUs of nodes', { timeout: 120_000 }, async () => {
  home.gpurun('report', '-o', 'r.html', 'jobs.yaml');
  for (const look of looks) {
    for (const [name, url] of Object.entries({ cluster: `${home.origin}#token=${home.token('read')}`, 'cluster-report': `file://${home.dir}/r.html` })) {
      const { page, faults } = await open(browser, url, look, (u) => u.startsWith(home.origin));
      if (name === 'cluster') await page.evaluate((h) => { location.hash = h; }, `#/batch/${id}/timeline`);
      await page.waitForSelector('.timeline canvas');
      const label = await page.$eval('.timeline canvas', (c) => c.getAttribute('aria-label'));
      assert.match(label, /^3 bars in 2 rows/, 'two queued, one on a GPU');
      const said = [];
      await page.focus('.timeline canvas');
      for (let i = 0; i < 3; i++) {
        await page.keyboard.press('ArrowDown');
        await page.evaluate(() => new Promise(requestAnimationFrame)); // the page has redrawn
        said.push(await page.$eval('.timeline [aria-live]', (e) => e.textContent));
      }
      assert.equal(said.filter((t) => /train-1, attempt 1: running, .*still running.*queued as 7_0 for \d+s, node1, GPU 0/.test(t)).length, 2, said.join('\n'));
      assert.equal(said.filter((t) => /train-2, attempt 1: queued, queued as 7_1 since /.test(t)).length, 1, said.join('\n'));
      await shoot(page, name, look);
      assert.deepEqual(await wide(page), []);
      assert.deepEqual(await faultsOf(page), []);
      assert.deepEqual(faults, []);
      await page.close();
    }
  }
});
