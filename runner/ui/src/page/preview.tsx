// The preview beside the job list: why the selected job is in its state, and the end of its log.
import { clean, measured, ranges } from '../common/format';
import { State } from '../common/states';
import { Verbs, verbsFor } from './control';
import { LogView } from './log';
import { Lasted, Text } from './parts';
import { jobPath } from './route';
import type { BatchStore } from './store';
import type { JobRow } from '../common/types';

export function Preview({ batch, row: r, onClose }: { batch: BatchStore; row: JobRow; onClose: () => void }) {
  const why = r.wait?.text ?? r.cause?.text;
  return (
    <aside class="card preview" aria-label={`Job ${clean(r.name)}`}>
      <header>
        <h2><a href={jobPath(batch.id, batch.keyOf(r))}><Text of={r.name} /></a></h2><span class="grow" />
        <button class="plain" aria-label="Close" onClick={onClose}>×</button>
      </header>
      <div class="body">
        <p class="line"><State state={r.state} stalled={r.stalled} />
          {r.gpus.length > 0 && <span class="muted">GPU {ranges(r.gpus)}</span>}
          {r.started && <span class="muted"><Lasted from={r.started} to={r.state === 'running' ? null : r.ended ?? r.started} /></span>}
          {r.attempts > 1 && <span class="muted">try {r.attempts}</span>}</p>
        {why && <p class={r.cause && !r.wait ? 'bad' : ''}><Text of={why} /></p>}
        {r.metrics && <p class="line">{Object.entries(r.metrics).slice(0, 8).map(([k, v]) => <span><span class="muted"><Text of={k} /></span> {measured(v)}</span>)}</p>}
        <Verbs small label="Actions for the job" verbs={verbsFor(batch.id, batch.summary, [r])} />
      </div>
      {r.uni_id ? <LogView key={r.uni_id} batch={batch.id} uniID={r.uni_id} name={clean(r.name)} over={r.state !== 'running'} /> :
        <p class="empty">This job has not run yet.</p>}
    </aside>
  );
}
