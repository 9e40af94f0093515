// The use of GPU time: the tab of the page and the section of the report.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { faultsOf, launch, looks, open, shoot, text, wide } from './browser.mjs';
import { Home } from './served.mjs';

const home = new Home();
let browser, id;

before(async () => {
  home.write('jobs.yaml', `settings: {max_concurrent: 1}
jobs: [{name: good, run: sleep 2}, {name: bad, run: sleep 1; exit 3}]
`);
  try { home.gpurun('run', '--sim', '2x24GiB', '--sim-here', 'jobs.yaml'); } catch (err) { assert.equal(err.status, 1, err.stderr); }
  home.gpurun('report', '-o', 'r.html', 'jobs.yaml');
  await home.serve('--sim', '2x24GiB');
  id = (await home.api('/batches', 'read')).batches[0].id;
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await home.end('jobs.yaml');
});

test('the tab and the report account for all GPU time', { timeout: 180_000 }, async () => {
  for (const look of looks) {
    for (const [name, url] of Object.entries({ usage: `${home.origin}#token=${home.token('read')}`, 'usage-report': `file://${home.dir}/r.html` })) {
      const { page, faults } = await open(browser, url, look, (u) => u.startsWith(home.origin));
      if (name === 'usage') await page.evaluate((h) => { location.hash = h; }, `#/batch/${id}/usage`);
      for (const part of ['useful', 'failed and retried', 'free while jobs waited: max concurrent']) await text(page, part);
      const shares = await page.$$eval('[aria-label="GPU time"] tbody td:last-child', (all) => all.map((e) => parseFloat(e.innerText)));
      assert.ok(Math.abs(shares.pop() - shares.reduce((a, b) => a + b)) < 0.5, `${shares}`);
      if (name === 'usage-report') await page.evaluate(() => document.getElementById('lost').scrollIntoView());
      await shoot(page, name, look);
      assert.deepEqual(await wide(page), []);
      assert.deepEqual(await faultsOf(page), []);
      assert.deepEqual(faults, []);
      await page.close();
    }
  }
});
