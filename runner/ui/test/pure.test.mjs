// Tests that need no browser: texts, filters, and event streams.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import path from 'node:path';
import { build } from 'esbuild';

const src = path.join(import.meta.dirname, '../src');
const load = async (file) => {
  const { outputFiles: [{ text }] } = await build({ entryPoints: [path.join(src, file)], bundle: true, write: false, format: 'esm', jsx: 'automatic', jsxImportSource: 'preact', loader: { '.css': 'empty' } });
  return import('data:text/javascript,' + encodeURIComponent(text));
};

test('numbers and times are formatted as in the terminal', async () => {
  const f = await load('common/format.ts');
  assert.deepEqual([8, 185, 7620, 356400, null, -1].map(f.duration), ['8s', '3m05s', '2h07m', '4d03h', '', '0s']);
  assert.deepEqual([37 * 2 ** 30, 1.5 * 2 ** 30, 512 * 2 ** 20, 0, null].map(f.bytes), ['37 GiB', '1.5 GiB', '512 MiB', '0 B', '?']);
  assert.equal(f.ranges([3, 0, 1, 2, 7]), '0-3,7');
  assert.deepEqual(f.flat({ loss: 1, test: { acc: 0.9, top: { 5: [1, 2] } }, none: null }), { loss: 1, 'test.acc': 0.9, 'test.top.5': [1, 2], none: null });
  assert.deepEqual([0.925, 12.3, 1.25e-7, 60, null, 'x'].map(f.measured), ['0.9250', '12.30', '1.250e-7', '60', '', 'x']);
});

test('a chart shows all steps, whatever their order', async () => {
  const { extent } = await load('common/chart.tsx');
  assert.deepEqual(extent([5, 9, 2, 3]), [2, 9]);
});

test('control and bidi characters are removed from text', async () => {
  const f = await load('common/format.ts');
  assert.equal(f.clean('\x1b[31mred\x1b[0m a\u202eb\u200bc \x1b]0;title\x07d\x00'), 'red abc d');
  assert.equal(f.cleanLog('10%\r20%\r30%\ndone\r\n\ttab\n50%\r'), '30%\ndone\n\ttab\n50%');
  assert.equal(f.clean('café 你好 👩‍🔬'), 'café 你好 👩‍🔬');
});

test('lines of a log keep their positions, whatever the page drops', async () => {
  const { Tail, lineAt, sum } = await load('page/tail.ts');
  const log = Buffer.concat([Buffer.from('start\n  0%\r 50%\r100%\nepoch 1\r\n'), Buffer.from([0x63, 0xe9, 0xff, 10]), Buffer.from('✓ 10%\r20%\n\nend\n 7%\r 8%\r')]);
  for (let cut = 1; cut <= log.length; cut++) {
    const t = new Tail();
    for (let at = 0; at < log.length; at += cut) t.append(at, log.subarray(at, at + cut), true);
    const [{ text, sizes }] = t.blocks, starts = sizes.map((_, i) => sum(sizes.slice(0, i)));
    assert.deepEqual(starts.map((at) => log.indexOf(10, at) + 1 - at), sizes, `chunks of ${cut}`);
    assert.deepEqual(starts.map((at) => lineAt(sizes, at)), starts.map((_, i) => i));
    assert.equal(text.split('\n').length - 1, sizes.length);
    assert.match(text, /^start\n[^]*100%\nepoch 1\r\nc\ufffd\ufffd\n[^]*20%\n\nend\n$/);
    assert.equal(t.open, ' 8%\r');
    assert.equal(t.from + t.size, log.length);
  }
  const long = Buffer.from('x'.repeat(50) + '\nlast\n'), t = new Tail(); // a line longer than what is read at once
  t.append(51, long.subarray(51), true);
  t.prepend(31, long.subarray(31, 51));
  assert.equal(t.from, 31);
});

test('events are parsed wherever the stream is split', async () => {
  const { Parser } = await load('page/events.ts');
  const text = ': alive\n\nid: a-1\nevent: jobs\ndata: {"x":\ndata: 1}\n\nevent: summary\r\ndata: é\r\n\r\nid: a-2\ndata:no space\n\n';
  const want = [
    { id: 'a-1', type: 'jobs', data: '{"x":\n1}' }, { id: 'a-1', type: 'summary', data: 'é' }, { id: 'a-2', type: 'message', data: 'no space' },
  ];
  for (let a = 0; a <= text.length; a++) {
    for (let b = a; b <= text.length; b += 7) {
      const p = new Parser();
      assert.deepEqual([text.slice(0, a), text.slice(a, b), text.slice(b)].flatMap((t) => [...p.push(t)]), want, `cut at ${a} and ${b}`);
    }
  }
});

test('jobs match every word of a search, and sort with unknown values last', async () => {
  const { select, sorted, sortOf } = await load('page/filter.ts');
  assert.deepEqual(sortOf('metric:val acc down'), { by: 'metric:val acc', down: true });
  assert.deepEqual(sortOf('now'), { by: 'now', down: false });
  const row = (index, name, state, extra = {}) => ({ id: name, index, name, state, params: {}, tags: [], gpus: [], queue: null, cause: null, wait: null, metrics: null, started: null, ended: null, ...extra });
  const rows = [
    row(0, 'train-s10', 'succeeded', { params: { seed: '10' }, metrics: { acc: 0.9 }, gpus: [3, 10] }),
    row(1, 'train-s2', 'failed', { params: { seed: '2' }, cause: { code: 'exit', text: 'ValueError: bad' } }),
    row(2, 'train-s1', 'pending', { params: { seed: '1' } }),
    row(3, 'eval', 'oom', { metrics: { acc: 0.5 }, params: { lr: '0.1 0.2' } }),
  ];
  const names = (list) => list.map((r) => r.name).join(' ');
  assert.equal(names(select(rows, 'failed', '', true)), 'train-s2 eval');
  for (const [search, want] of Object.entries({
    'TRAIN seed=1': 'train-s1', 'valueerror': 'train-s2', 'valueerror: bad': 'train-s2', '"ValueError: bad"': 'train-s2', 'gpu:3': 'train-s10', 'gpu:1': '', 'state:failed': 'train-s2 eval', 'state:oom': 'eval',
    'state:waiting': 'train-s1', 'lr="0.1 0.2"': 'eval', 'seed=': 'train-s10 train-s2 train-s1 eval',
  })) assert.equal(names(select(rows, '', search, true)), want, search);
  const more = [row(4, 'silent', 'running', { stalled: 'no output for 7 min' }), row(5, 'left', 'cancelled'), row(6, 'hung', 'stalled')];
  assert.equal(names(select(more, '', 'state:stalled', true)), 'silent hung');
  assert.equal(names(select(more, '', 'state:"did not run"', true)), 'left');
  assert.throws(() => select(rows, '', 'sed=1', true), /Unknown parameter sed. Valid: state:, gpu:, lr=, seed=./);
  assert.throws(() => select(rows, '', 'status:failed', true), /Unknown filter status:. Valid: state:, gpu:, lr=, seed=./);
  assert.equal(names(sorted(rows, rows, { by: 'name', down: false })), 'eval train-s1 train-s2 train-s10');
  assert.equal(names(sorted(rows, rows, { by: 'metric:acc', down: false })), 'eval train-s10 train-s2 train-s1');
  assert.equal(names(sorted(rows, rows, { by: 'metric:acc', down: true })), 'train-s10 eval train-s2 train-s1');
  assert.equal(names(sorted(rows, rows, { by: 'file', down: true })), 'eval train-s1 train-s2 train-s10');
});

test('a timeline has rows for the GPUs of each node, and for the queue', async () => {
  const { lanesOf, gpuWords, queueWords } = await load('common/attempts.tsx');
  const at = (s) => `2026-03-01T06:00:${String(s).padStart(2, '0')}Z`;
  const attempt = (submitted, started, ended, host, ...gpus) => ({
    n: 1, state: 'succeeded', submitted: submitted && at(submitted), started: started && at(started), ended: ended && at(ended), host, job_id: '7_0', cause: null,
    gpus: gpus.map(([index, uuid = '']) => ({ index, uuid, peak_bytes: null })),
  });
  const job = (job, attempt) => ({ job, ...attempt });
  const chart = lanesOf([
    job('here', attempt(null, 1, 9, 'login', [0, 'GPU-a'])), job('b', attempt(1, 11, 20, 'node10', [0])), job('c', attempt(1, 5, 20, 'node2', [0], [1])),
    job('cpu', attempt(2, 3, 4, 'node2')), job('waits', attempt(40, null, null, null)),
  ], null, Date.parse(at(50)) / 1000);
  assert.deepEqual(chart.rows, ['GPU 0', 'node2 GPU 0', 'node2 GPU 1', 'node2 no GPU', 'node10 GPU 0', 'queue']);
  const pieces = (name) => chart.items.filter((i) => i.label === name).map((i) => [chart.rows[i.row], i.to - i.from]);
  assert.deepEqual([pieces('here'), pieces('b'), pieces('waits')], [[['GPU 0', 8]], [['queue', 10], ['node10 GPU 0', 9]], [['queue', 10]]]);
  const b = attempt(1, 11, 20, 'node10', [0]);
  assert.deepEqual([gpuWords(b), queueWords(b)], ['node10, GPU 0', 'queued as 7_0 for 10s']);
});

test('a day on the time axis begins at midnight, also after the clock has changed', async () => {
  const { clock, ticks } = await load('common/lanes.ts'), own = process.env.TZ;
  process.env.TZ = 'America/New_York';
  try {
    for (const [from, want] of [['2026-10-31T12:00-04:00', ['11-01', '11-02', '11-03']], ['2026-03-07T12:00-05:00', ['03-08', '03-09', '03-10']]]) {
      const at = Date.parse(from) / 1000, list = ticks(at, at + 3 * 86400, 4);
      assert.deepEqual(list.map((t) => clock(t, 86400)), want);
      assert.ok(list.every((t) => new Date(t * 1000).getHours() === 0));
    }
  } finally {
    if (own === undefined) delete process.env.TZ; else process.env.TZ = own;
  }
});

test('bands show who else used a GPU, and why jobs waited', async () => {
  const { bandsOf } = await load('common/lanes.ts');
  const time = [0, 5, 10, 15, 20].map((s) => new Date(s * 1000).toISOString());
  const gpu = { index: 2, others: [true, true, false, true, true], waits: [{ from: time[3], to: time[4], code: 'others', user: 'bob' }] };
  assert.deepEqual(bandsOf({ step_seconds: 5, time, gpus: [gpu] }, () => 7).map((b) => [b.row, b.from, b.to, b.label]), [
    [7, 15, 20, 'GPU 2 kept jobs waiting for 5s: processes of other users (bob)'], [7, 0, 10, 'other users were on GPU 2'], [7, 20, 25, 'other users were on GPU 2'],
  ]);
});

test('a list of any length renders only visible rows', async () => {
  const { windowOf } = await load('common/virtual.tsx');
  assert.deepEqual(windowOf(0, 300, 10000, 30, 8), { from: 0, to: 18, above: 0, below: 9982 * 30 });
  assert.deepEqual(windowOf(150_000, 300, 10000, 30, 8), { from: 4992, to: 5018, above: 4992 * 30, below: 4982 * 30 });
  assert.deepEqual(windowOf(1e9, 300, 5, 30, 8), { from: 5, to: 5, above: 150, below: 0 }); // the list became shorter
  assert.deepEqual(windowOf(-50, 300, 0, 30, 8), { from: 0, to: 0, above: 0, below: 0 });
});

test('a command is split like in a shell', async () => {
  const { split, unfinished } = await load('page/words.ts');
  assert.deepEqual(["it's", 'a "b', 'a\\', `'it'"'"'s' a\\'b`, ''].map(unfinished), [true, true, true, false, false]);
  assert.deepEqual(split(`python  train.py --name "a b" --x='c "d"' e\\ f "g\\"h" i'j'k`), ['python', 'train.py', '--name', 'a b', '--x=c "d"', 'e f', 'g"h', 'ijk']);
  assert.deepEqual(split('  '), []);
});

test('a badge is green only without failures, and the parameters of a run are shown', async () => {
  const { OutcomeBadge, given } = await load('common/states.tsx');
  const tone = (code, failed = 0) => OutcomeBadge({ of: { code, failed, text: code } }).props.class;
  assert.deepEqual(['done', 'running', 'never_ran', 'unfinished', 'killed'].map((c) => tone(c)), ['badge ok', 'badge run', 'badge idle', 'badge warn', 'badge bad']);
  assert.deepEqual([tone('failed', 1), tone('running', 1), OutcomeBadge({ of: null })], ['badge bad', 'badge bad', null]);
  assert.deepEqual([given({ epochs: '5', lr: '0.1' }), given(null)], ['-p epochs=5 -p lr=0.1', '']);
});
