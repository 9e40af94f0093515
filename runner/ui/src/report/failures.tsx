// Failures, those that are alike together; and the GPU time that was lost.
import { useState } from 'preact/hooks';
import { cleanLog, count } from '../common/format';
import { State } from '../common/states';
import { blame, hours } from './model';
import type { Failure, Report } from './types';

const first = 10;

export function Failures({ r, open, pick }: { r: Report; open: (job: string) => void; pick: (failure: number) => void }) {
  const [all, setAll] = useState(false);
  return (
    <>
      <ol class="failures">{r.failures.slice(0, all ? undefined : first).map((f, i) => <One f={f} at={i} open={open} pick={pick} />)}</ol>
      {r.failures.length > first && !all && <button class="button" onClick={() => setAll(true)}>Show all {r.failures.length} kinds</button>}
    </>
  );
}

function One({ f, at, open, pick }: { f: Failure; at: number; open: (job: string) => void; pick: (failure: number) => void }) {
  return (
    <li>
      <div class="head"><State state={f.state} /> <b>{f.cause.text}</b> <span class="muted mono">{f.cause.code}</span></div>
      <p class="jobs">
        {f.count > 1 && <a href="#jobs" onClick={() => pick(at)}>{count(f.count, 'job')} alike</a>}
        {f.jobs.slice(0, 5).map((name) => <button class="link" onClick={() => open(name)}>{name}</button>)}
        {f.count > 5 && <span class="muted">and {f.count - 5} more</span>}
      </p>
      {f.lines.length > 0 ? <pre class="log" ref={(e) => { if (e) e.scrollTop = e.scrollHeight; }} tabIndex={0} aria-label={`Last lines of the log of ${f.jobs[0]}`}>{cleanLog(f.lines.join('\n'))}</pre> : <p class="muted">Its log is empty or gone.</p>}
      {f.log && <p class="muted mono">{f.log}</p>}
    </li>
  );
}

export function LostTime({ r }: { r: Report }) {
  const sums = new Map<string, { text: string; color: string; code: string; seconds: number }>();
  for (const run of r.runs) for (const l of run.lost) {
    const why = blame(l.code, l.user), key = `${l.code} ${l.user}`;
    sums.set(key, { ...why, code: l.code, seconds: (sums.get(key)?.seconds ?? 0) + l.gpu_seconds });
  }
  const used = r.runs.reduce((n, x) => n + x.gpu_seconds, 0);
  const idle = r.runs.reduce((n, x) => n + (x.idle_gpu_seconds ?? 0), 0), known = r.runs.some((x) => x.idle_gpu_seconds !== null);
  const rows = [
    { text: 'used by jobs', color: 'ours', code: '', seconds: used },
    ...[...sums.values()].sort((a, b) => b.seconds - a.seconds),
    ...(known ? [{ text: 'nothing: no job had a GPU or waited for it', color: 'free', code: '', seconds: idle }] : []),
  ];
  const total = rows.reduce((n, x) => n + x.seconds, 0) || 1;
  return (
    <>
      <div class="bar" aria-hidden="true">{rows.filter((x) => x.seconds > 0).map((x) => <i class={x.color} style={{ flexGrow: x.seconds }} title={`${x.text}: ${hours(x.seconds)} GPU hours`} />)}</div>
      <div class="scroll">
        <table class="data">
          <thead><tr><th scope="col">GPU time</th><th scope="col" class="num">GPU hours</th><th scope="col" class="num">share</th></tr></thead>
          <tbody>{rows.map((x) => (
            <tr><td><i class={`dot ${x.color}`} />{x.text}{x.code && <span class="muted mono"> {x.code}</span>}</td><td class="num">{hours(x.seconds)}</td><td class="num">{((100 * x.seconds) / total).toFixed(1)}%</td></tr>
          ))}</tbody>
        </table>
      </div>
      <p class="muted note">Lost is the time for which the first waiting job could not have a GPU, and why not.</p>
    </>
  );
}
