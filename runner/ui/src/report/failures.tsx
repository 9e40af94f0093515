// Failures with the ends of their logs.
import { Failures as Groups } from '../common/failures';
import { cleanLog, count } from '../common/format';
import type { Report } from '../common/types';

export function Failures({ r, open, pick }: { r: Report; open: (job: string) => void; pick: (failure: number) => void }) {
  return (
    <Groups groups={r.failures} name={(name) => <button key={name} class="link" onClick={() => open(name)}>{name}</button>}
      all={(f) => <a href="#jobs" onClick={() => pick(r.failures.indexOf(f))}>all {count(f.count, 'job')}</a>}
      log={(f) => f.lines.length > 0 ? <pre class="log" ref={(e) => { if (e) e.scrollTop = e.scrollHeight; }} tabIndex={0} aria-label={`Last lines of the log of ${f.jobs[0]}`}>{cleanLog(f.lines.join('\n'))}</pre> : <p class="muted">Its log is empty or gone.</p>} />
  );
}
