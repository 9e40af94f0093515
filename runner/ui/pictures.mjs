// Regenerates the pictures of README.md and docs in docs/images: `make pictures`. A batch runs on simulated GPUs. tmux
// renders the terminal, and Chromium renders the page and the report.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { launch, open, until } from './test/browser.mjs';
import { Home } from './test/served.mjs';

const images = path.resolve(import.meta.dirname, '../../docs/images');
mkdirSync(images, { recursive: true });

// Bob holds one GPU for a while; one setting fails, and one job runs out of memory once.
const machine = `gpus:
  - {memory: 24GiB, count: 3, name: NVIDIA GeForce RTX 4090}
  - {memory: 24GiB, name: NVIDIA GeForce RTX 4090, load: [{to: 15s, user: bob, command: python, pid: 4711, memory: 19GiB, util: 93}]}
jobs: {memory: 10GiB, util: 87, take: 1s}
`;
const jobs = `settings: {poll: 1s}
jobs:
  - name: "{data}-{model}-s{seed}"
    matrix: {data: [cifar10, svhn], model: [resnet18, vit, mixer], seed: [1, 2, 3]}
    run: python train.py --data {data} --model {model} --seed {seed}
    gpu_memory: 12GiB
    timeout: 6h
    retry: {max: 2, on: [oom], memory_growth: 1.5}
    metrics: {acc: {log: 'acc = ([0-9.]+)', goal: max, percent: true}}
  - {name: table, needs: "svhn-resnet18-*", gpus: 0, run: python table.py}
`;
const python = `#!/bin/sh
case $* in
table.py) sleep 1; exit ;;
*cifar10*vit*1 | *cifar10*vit*2) sleep 1; cat nan; exit 1 ;;
*mixer*2) [ $GPURUN_ATTEMPT -gt 1 ] || { sleep 1; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB'; exit 1; } ;;
esac
h=$(printf %s "$*" | cksum | cut -c1-2)
for e in 1 2 3 4 5 6 7 8; do
  echo "epoch $e/8  loss 0.$((99 - e * 9 - h / 20))"
  echo "{\\"step\\": $e, \\"loss\\": 0.$((99 - e * 9 - h / 20))}" >>$GPURUN_RESULT
  sleep 0.$((5 + h % 3))
done
echo "acc = 0.9$((h % 70 / 10))$((h % 10))"
`;

const home = new Home({ GPURUN_SIM: 'machine.yaml', GPURUN_SIM_HERE: '1', TERM: 'xterm-256color', LANG: 'C.UTF-8', USER: 'alice' });
delete home.env.NO_COLOR;
delete home.env.GPURUN_HOST_RULES;
// The output of the failing setting.
const nan = `epoch 1/8  loss 2.3042
epoch 2/8  loss 1.7315
epoch 3/8  loss nan
Traceback (most recent call last):
  File "train.py", line 88, in <module>
    main(parse())
  File "train.py", line 61, in main
    check(loss)
  File "train.py", line 23, in check
    raise ValueError("the loss is not a number")
ValueError: the loss is not a number
`;
home.env.PATH = `${home.home}/bin:${path.dirname(process.env.GPURUN)}:${process.env.PATH}`;
mkdirSync(`${home.home}/bin`);
writeFileSync(`${home.home}/bin/python`, python);
chmodSync(`${home.home}/bin/python`, 0o755);
for (const [name, text] of Object.entries({ 'machine.yaml': machine, 'jobs.yaml': jobs, nan, 'train.py': '', 'table.py': '' })) home.write(name, text);

// plain replaces names that a picture should not reveal: the home folder, the host and the user.
const plain = (s) => s.replaceAll(`${home.home}/`, '/home/alice/').replaceAll(hostname(), 'gpu01').replaceAll(new RegExp(`\\b${userInfo().username}\\b`, 'g'), 'alice');

const [columns, rows] = [104, 24];
const tmux = (...args) => execFileSync('tmux', ['-L', `pictures-${process.pid}`, '-f', '/dev/null', ...args], { cwd: home.dir, env: home.env, encoding: 'utf8' });
const type = (line) => tmux('send-keys', '-t', 'lab', '-l', line) + tmux('send-keys', '-t', 'lab', 'Enter');
const screen = () => plain(tmux('capture-pane', '-t', 'lab', '-e', '-p'));

const palette = ['#484f58', '#ff7b72', '#3fb950', '#d29922', '#58a6ff', '#bc8cff', '#39c5cf', '#c9d1d9', '#6e7681', '#ffa198', '#56d364', '#e3b341', '#79c0ff', '#d2a8ff', '#56d4dd', '#ffffff'];
const [ink, paper, cell, line] = ['#c9d1d9', '#0d1117', 8.4, 18];

// color returns the color that the rest of an SGR sequence selects: from a palette of 256, or by its RGB values.
function color(codes) {
  const kind = codes.shift();
  if (kind === 2) return `rgb(${codes.splice(0, 3)})`;
  const n = codes.shift();
  if (n < 16) return palette[n];
  if (n > 231) return `rgb(${Array(3).fill(8 + (n - 232) * 10)})`;
  return `rgb(${[Math.floor((n - 16) / 36), Math.floor((n - 16) / 6) % 6, (n - 16) % 6].map((v) => (v ? 55 + v * 40 : 0))})`;
}

// svg draws a screen with its colors.
function svg(text) {
  const out = [];
  let style = {};
  const lines = text.replace(/\s+$/, '').split('\n');
  lines.forEach((row, y) => {
    let x = 0;
    for (const [, sgr, words] of row.matchAll(/(?:\x1b\[([0-9;]*)m)?([^\x1b]*)/g)) {
      const codes = sgr == null ? [] : sgr.split(';').map(Number);
      while (codes.length) {
        const c = codes.shift();
        if (c === 0) style = {};
        else if (c === 1) style.bold = true;
        else if (c === 2) style.dim = true;
        else if (c === 22) style.bold = style.dim = false;
        else if (c === 39) delete style.fg;
        else if (c === 38) style.fg = color(codes);
        else if (c >= 30 && c < 38) style.fg = palette[c - 30];
        else if (c >= 90 && c < 98) style.fg = palette[c - 82];
      }
      const attrs = `${style.fg ? ` fill="${style.fg}"` : ''}${style.bold ? ' font-weight="bold"' : ''}${style.dim ? ' opacity=".6"' : ''}`;
      for (const { 0: shown, index } of words.matchAll(/\S+(?: \S+)*/g)) { // SVG collapses repeated spaces
        out.push(`<text x="${(12 + (x + index) * cell).toFixed(1)}" y="${28 + y * line}" textLength="${(shown.length * cell).toFixed(1)}"${attrs}>${shown.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`);
      }
      x += words.length;
    }
  });
  const [w, h] = [Math.ceil(columns * cell + 24), lines.length * line + 24];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" fill="${ink}"><rect width="${w}" height="${h}" rx="8" fill="${paper}"/>${out.join('\n')}</svg>\n`;
}
const keep = (name, text) => writeFileSync(path.join(images, name), svg(text));

const browser = await launch();
const wide = { width: 1280, height: 800 };
// show opens a URL and waits until the page is ready.
async function show(url, look, ready) {
  const { page } = await open(browser, url, look, () => true);
  await page.waitForFunction(ready, { timeout: 30_000 });
  return page;
}
// webp takes a picture of a page, with the same names replaced as in plain.
async function webp(page, name, clip) {
  await page.evaluate((from) => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) for (const [a, b] of from) if (walk.currentNode.data.includes(a)) walk.currentNode.data = walk.currentNode.data.replaceAll(a, b);
  }, [[`${home.home}/`, '/home/alice/'], [hostname(), 'gpu01'], [userInfo().username, 'alice']]);
  await page.screenshot({ path: path.join(images, name), type: 'webp', quality: 80, ...(clip && { clip }) });
}

try {
  // The animation: a run that is killed halfway, and then resumed.
  const film = mkdtempSync(path.join(tmpdir(), 'gpurun-film-'));
  const frames = [];
  const shoot = async (seconds, each = 0.25) => {
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await new Promise((r) => setTimeout(r, each * 1000))) frames.push([screen(), each]);
  };
  tmux('new-session', '-d', '-s', 'lab', '-x', String(columns), '-y', String(rows), 'sh');
  tmux('set', '-g', 'status', 'off');
  type("PS1='$ '; stty -echoctl; clear");
  await until(() => /^\$ ?$/m.test(screen()), 'a prompt');
  type('gpurun jobs.yaml');
  await shoot(11);
  await until(() => /✗\S* 2 /.test(screen()), 'the failures in the live view');
  keep('terminal.svg', screen()); // the picture in the README
  await home.serve('--sim', 'machine.yaml', '--control', 'jobs.yaml');
  const id = (await home.api('/batches')).batches[0].id;
  const at = (hash) => `${home.origin}#token=${home.token()}` + (hash ? `&to=${hash}` : '');
  const page = await show(at(), wide, () => document.body.innerText.includes('GPU 3'));
  await page.evaluate((h) => { location.hash = h; }, `#/batch/${id}`);
  await page.waitForFunction(() => document.body.innerText.includes('left') && document.querySelectorAll('.newest').length > 1);
  await webp(page, 'page.webp');
  const pid = JSON.parse(home.gpurun('status', '--json')).run.pid;
  process.kill(pid, 'SIGKILL');
  await shoot(1.5);
  type('gpurun status | head -n 8');
  await shoot(3);
  type('clear; gpurun jobs.yaml');
  await shoot(6);
  for (const [name, hash, ready, look] of [
    ['home', '#/', () => document.body.innerText.includes('Next in line'), { width: 1280, height: 620 }],
    ['log', `#/batch/${id}/log?job=cifar10-vit-s1`, () => document.querySelector('.logtext .trace'), { width: 1280, height: 560 }],
    ['phone', `#/batch/${id}`, () => document.querySelector('.jobs .c-name'), { width: 400, height: 800 }],
  ]) {
    await page.setViewport(look);
    await page.evaluate((h) => { location.hash = h; }, hash);
    await page.waitForFunction(ready);
    await webp(page, `${name}.webp`);
  }
  await until(() => { try { home.gpurun('wait', '--timeout', '60s'); } catch { /* some jobs failed */ } return true; }, 'the end');
  await shoot(0.5);
  frames.push([screen(), 4]);
  const frame = await browser.newPage();
  await frame.setViewport({ width: Math.ceil(columns * cell + 24), height: rows * line + 24 });
  const files = [];
  for (const [i, [text, seconds]] of frames.entries()) {
    if (i && frames[i - 1][0] === text) { files[files.length - 1][1] += seconds; continue; }
    await frame.setContent(`<body style="margin:0;background:${paper}"><img src="data:image/svg+xml;base64,${Buffer.from(svg(text)).toString('base64')}">`);
    const file = path.join(film, `${i}.png`);
    await frame.screenshot({ path: file });
    files.push([file, seconds]);
  }
  execFileSync('img2webp', ['-loop', '0', ...files.flatMap(([f, s]) => ['-lossy', '-q', '50', '-d', String(Math.round(s * 1000)), f]), '-o', path.join(images, 'resume.webp')]);
  rmSync(film, { recursive: true });

  // The results and the report after the run.
  type('clear; gpurun results --metric acc --pivot model');
  await until(() => /sample standard/.test(screen()), 'the results');
  keep('results.svg', screen());
  home.gpurun('report', '-o', 'report.html');
  const report = `file://${home.dir}/report.html`;
  for (const dark of [false, true]) {
    const seen = await show(report, { ...wide, dark }, () => document.querySelector('canvas, svg'));
    if (!dark) await webp(seen, 'report.webp');
    const clip = await seen.evaluate(() => {
      const head = [...document.querySelectorAll('h2')].find((h) => /timeline/i.test(h.textContent));
      const box = (head.closest('section') ?? head.parentElement).getBoundingClientRect();
      return { x: box.x, y: box.y + scrollY, width: box.width, height: Math.min(box.height, 520) };
    });
    await webp(seen, `timeline-${dark ? 'dark' : 'light'}.webp`, clip);
  }
} finally {
  await browser.close();
  try { tmux('kill-server'); } catch { /* it has ended */ }
  await home.end('jobs.yaml');
}
const sizes = readdirSync(images).map((name) => [name, statSync(path.join(images, name)).size]);
for (const [name, size] of sizes) console.log(`${String(Math.ceil(size / 1024)).padStart(5)} KiB  docs/images/${name}`);
