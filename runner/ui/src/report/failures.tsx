// Failures with the ends of their logs; and the GPU time that was lost.
import { Failures as Groups } from '../common/failures';
import { cleanLog, count } from '../common/format';
import { blame } from '../common/lanes';
import { hours } from './model';
import type { Report } from '../common/types';

export function Failures({ r, open, pick }: { r: Report; open: (job: string) => void; pick: (failure: number) => void }) {
  return (
    <Groups groups={r.failures} name={(name) => <button key={name} class="link" onClick={() => open(name)}>{name}</button>}
      all={(f) => <a href="#jobs" onClick={() => pick(r.failures.indexOf(f))}>all {count(f.count, 'job')}</a>}
      log={(f) => f.lines.length > 0 ? <pre class="log" ref={(e) => { if (e) e.scrollTop = e.scrollHeight; }} tabIndex={0} aria-label={`Last lines of the log of ${f.jobs[0]}`}>{cleanLog(f.lines.join('\n'))}</pre> : <p class="muted">Its log is empty or gone.</p>} />
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
      <div class="scroll" tabIndex={0} role="region" aria-label="GPU time">
        <table class="data">
          <thead><tr><th scope="col">GPU time</th><th scope="col" class="num">GPU hours</th><th scope="col" class="num">share</th></tr></thead>
          <tbody>{rows.map((x) => (
            <tr><td><i class={`dot ${x.color}`} />{x.text}{x.code && <span class="muted mono"> {x.code}</span>}</td><td class="num">{hours(x.seconds)}</td><td class="num">{((100 * x.seconds) / total).toFixed(1)}%</td></tr>
          ))}</tbody>
        </table>
      </div>
      <p class="muted note">Lost time is how long the first waiting job could not get a GPU, and why.</p>
    </>
  );
}
