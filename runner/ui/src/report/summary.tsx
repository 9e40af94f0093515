// The top of the report: what ran, how it ended, and the counts of jobs.
import { Bar, Legend } from '../common/five';
import { queued } from '../common/attempts';
import { base, count, duration, seconds, stamp, until } from '../common/format';
import { given, OutcomeBadge } from '../common/states';
import { endOf, hours } from './model';
import type { Report } from '../common/types';

const unique = (list: (string | null | undefined)[]) => [...new Set(list.filter((x): x is string => !!x))];

export function Summary({ r, pick }: { r: Report; pick: (state: string) => void }) {
  const first = r.runs[0], last = r.runs[r.runs.length - 1];
  const sum = (f: (x: Report['runs'][0]) => number) => r.runs.reduce((n, x) => n + f(x), 0);
  const unused = (r.usage?.parts ?? []).reduce((n, p) => n + (p.kind === 'free_while_jobs_waited' ? p.gpu_seconds : 0), 0);
  const took = sum((x) => seconds(endOf(r, x)) - seconds(x.started)), alive = r.run?.alive ?? false;
  const waits = r.jobs.flatMap((j) => j.attempts.map((a) => queued(a, seconds(r.now)))).filter((w): w is number => w !== null).sort((a, b) => a - b);
  const git = unique(r.runs.map((x) => x.git && x.git.commit.slice(0, 10) + (x.git.dirty ? ' + changes' : '')));
  return (
    <header class="summary">
      <div class="headline">
        <h1>{r.batch.files.map((f) => base(f.path)).join(', ')}</h1>
        <OutcomeBadge of={{ ...r.outcome, text: r.line }} title={last && `the last run: ${last.why}`} />
      </div>
      <dl class="facts wide">
        {first && <><dt>When</dt><dd>{stamp(first.started)} – {r.run?.alive ? 'still running' : until(first.started, endOf(r, last))}{r.runs.length > 1 && <span class="muted"> in {count(r.runs.length, 'run')}</span>}</dd></>}
        <dt>By</dt><dd>{r.batch.user} on {unique([...r.runs.map((x) => x.host), r.batch.host]).join(', ')}</dd>
        <dt>Folder</dt><dd class="mono">{r.batch.work_dir || r.batch.state_dir}</dd>
        {r.batch.params && <><dt>Jobs</dt><dd>with <span class="mono">{given(r.batch.params)}</span></dd></>}
        {git.length > 0 && <><dt>Commit</dt><dd class="mono">{git.join(', ')}{git.length > 1 && ' (several)'}</dd></>}
        <dt>GPUs</dt><dd>{gpuWords(r)}</dd>
      </dl>
      <div class="tiles">
        <Tile name="time" value={duration(took)} of={r.runs.length > 1 ? 'of all runs' : ''} />
        {waits.length > 0 && <Tile name="in the queue" value={duration(waits[waits.length >> 1])} of={`median, at most ${duration(waits[waits.length - 1])}`} />}
        <Tile name="GPU hours" value={hours(sum((x) => x.gpu_seconds))} of={r.run?.alive ? 'of ended attempts' : ''} />
        <Tile name="free GPU hours" value={hours(unused)} of="while jobs waited" />
        <Tile name="attempts" value={sum((x) => x.attempts).toLocaleString('en-US')} of={count(sum((x) => x.retries), 'retry', 'retries')} />
      </div>
      <div><Bar counts={r.counts} alive={alive} /><Legend counts={r.counts} alive={alive} link={(is) => ({ href: '#jobs', onClick: () => pick(is) })} /></div>
      {r.warnings.length > 0 && <ul class="warnings">{r.warnings.map((w) => <li>{w.text}</li>)}</ul>}
    </header>
  );
}

function gpuWords(r: Report): string {
  const names = new Map<string, number>();
  for (const g of r.readings?.gpus ?? []) names.set(g.name ?? 'GPU', (names.get(g.name ?? 'GPU') ?? 0) + 1);
  const devices = [...names].map(([name, n]) => `${n} × ${name}`).join(', ');
  const there = r.jobs.flatMap((j) => j.attempts.filter((a) => a.submitted && a.gpus.length)), nodes = unique(there.map((a) => a.host));
  const seen = new Set(there.flatMap((a) => a.gpus.map((g) => `${a.host} ${g.index}`))).size;
  const cluster = seen && `${seen} of ${nodes.length > 5 ? count(nodes.length, 'node') : nodes.join(', ')}`;
  const drivers = unique(r.runs.map((x) => (x.sim ? 'simulated' : x.driver)));
  return [devices, cluster, ...drivers].filter(Boolean).join('; ') || 'none needed';
}

const Tile = (p: { name: string; value: string; of?: string }) => (
  <div class="tile"><div class="name">{p.name}</div><div><b>{p.value}</b> <span class="muted">{p.of}</span></div></div>
);
