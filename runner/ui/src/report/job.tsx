// A job's details: its attempts and its provenance.
import { useEffect, useRef } from 'preact/hooks';
import { gpuWords, queueWords } from '../common/attempts';
import { base, bytes, clean, duration, flat, measured, stamp, until } from '../common/format';
import { handedOver, State } from '../common/states';
import type { Attempt, ReportJob as Job, Report } from '../common/types';

export function JobDialog({ r, at, open, close }: { r: Report; at: number; open: (job: string) => void; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null), j = r.jobs[at];
  useEffect(() => {
    const d = dialog.current!;
    if (!d.open) d.showModal();
    d.scrollTop = 0;
  }, [at]);
  return (
    <dialog ref={dialog} class="job" aria-labelledby="job-name" onClose={close} onClick={(e) => { if (e.target === dialog.current) dialog.current!.close(); }}>
      <div class="inside">
        <header>
          <h2 id="job-name">{j.name}</h2>
          <button class="button" onClick={() => dialog.current!.close()} aria-label="Close">×</button>
        </header>
        <p class="line"><State state={j.state} />{j.since && <span class="muted"> since {stamp(j.since)}</span>}{j.former && <span class="badge">not in this version of the job file</span>}</p>
        {j.cause && <p class="line">{clean(j.cause.text)} <span class="muted mono">{j.cause.code}</span></p>}
        {j.wait && <p class="line">waits: {clean(j.wait.text)}</p>}
        <Attempts j={j} />
        {j.metrics && Object.keys(j.metrics).length > 0 && <Pairs title="Measured" of={flat(j.metrics)} />}
        <h3>Provenance</h3>
        <dl class="facts">
          <dt>Defined in</dt><dd class="mono">{base(j.file)}{j.line && `:${j.line}`}</dd>
          <dt>Key</dt><dd class="mono">{j.key}</dd>
          {j.tags.length > 0 && <><dt>Tags</dt><dd>{j.tags.join(', ')}</dd></>}
          {j.needs.length > 0 && <><dt>Needs</dt><dd class="needs">{j.needs.slice(0, 50).map((n) => <button class="link" onClick={() => open(n)}>{n}</button>)}{j.needs.length > 50 && ` and ${j.needs.length - 50} more`}</dd></>}
        </dl>
        {j.commands.length > 0 && <><h3>Commands</h3><pre class="log" tabIndex={0}>{j.commands.map(clean).join('\n')}</pre></>}
        {Object.keys(j.params).length > 0 && <Pairs title="Parameters" of={j.params} />}
        {Object.keys(j.config).length > 0 && <Pairs title="Config, where it differs from other jobs" of={j.config} />}
        {Object.keys(r.config).length > 0 && j.attempts.length > 0 && <details><summary>Config that all jobs have in common</summary><Pairs of={r.config} /></details>}
        {j.inputs.length > 0 && <Inputs j={j} />}
      </div>
    </dialog>
  );
}

function Pairs({ title, of }: { title?: string; of: Record<string, unknown> }) {
  return (
    <>
      {title && <h3>{title}</h3>}
      <dl class="facts mono">{Object.keys(of).sort().map((k) => <><dt>{k}</dt><dd>{clean(measured(of[k]))}</dd></>)}</dl>
    </>
  );
}

function Attempts({ j }: { j: Job }) {
  if (!j.attempts.length) return <p class="muted line">No attempts yet.</p>;
  return (
    <>
      <h3>Attempts</h3>
      <ol class="attempts">{j.attempts.map((a) => <One a={a} />)}</ol>
    </>
  );
}

function One({ a }: { a: Attempt }) {
  const peak = Math.max(0, ...a.gpus.map((g) => g.peak_bytes ?? 0)), granted = a.gpus[0]?.granted_bytes;
  const parts = [
    a.started ? `${stamp(a.started)}${a.ended ? ` – ${until(a.started, a.ended)}` : ''}` : 'never started',
    a.submitted ? queueWords(a) : '', duration(a.seconds), gpuWords(a), granted ? `${bytes(granted)} granted` : '', peak ? `peak ${bytes(peak)}` : '', a.submitted ? '' : a.host ?? '',
  ].filter(Boolean);
  return (
    <li>
      <div><b>{a.n}</b> <State state={a.state} />{a.charged === false && a.cause && <span class="muted"> spent no retry</span>}{handedOver(a.cause?.code) && <span class="badge warn">left its GPU: {a.cause!.code.replaceAll('_', ' ')}</span>}</div>
      <div class="muted">{parts.join(' · ')}</div>
      {a.cause && <div>{clean(a.cause.text)} <span class="muted mono">{a.cause.code}{a.exit_code ? `, exit ${a.exit_code}` : ''}{a.signal ? `, ${a.signal}` : ''}</span></div>}
      {a.log && <div class="muted mono">{a.log.path}{a.log.from ? ` from byte ${a.log.from}` : ''}</div>}
      {a.uni_id && <div class="muted mono">{a.uni_id}</div>}
    </li>
  );
}

function Inputs({ j }: { j: Job }) {
  return (
    <>
      <h3>Inputs at the last start</h3>
      <div class="scroll" tabIndex={0} role="region" aria-label="Inputs"><table class="data">
        <thead><tr><th scope="col">file</th><th scope="col" class="num">size</th><th scope="col">changed</th><th scope="col">sha256</th></tr></thead>
        <tbody>{j.inputs.slice(0, 200).map((f) => <tr><td class="mono">{f.path}</td><td class="num">{bytes(f.size_bytes)}</td><td class="num">{stamp(f.mtime)}</td><td class="mono" title={f.sha256}>{f.sha256?.slice(0, 12)}</td></tr>)}</tbody>
      </table></div>
      {j.inputs.length > 200 && <p class="muted">and {j.inputs.length - 200} more</p>}
    </>
  );
}
