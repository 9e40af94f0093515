// The table of the user's batches on this host.
import { useState } from 'preact/hooks';
import { Bar } from '../common/five';
import { base, duration, stamp, time } from '../common/format';
import { given, OutcomeBadge } from '../common/states';
import { useKeys } from './keys';
import { Lasted, Text } from './parts';
import { batchPath, go } from './route';
import type { BatchRow } from '../common/types';

export function BatchTable({ rows }: { rows: BatchRow[] }) {
  const [at, move] = useState(-1);
  const focus = (i: number) => {
    move(i);
    document.querySelector<HTMLElement>(`[data-batch="${i}"]`)?.focus();
  };
  useKeys([
    { keys: ['j', 'ArrowDown'], does: 'next batch', run: () => focus(Math.min(at + 1, rows.length - 1)) },
    { keys: ['k', 'ArrowUp'], does: 'previous batch', run: () => focus(Math.max(at - 1, 0)) },
    { keys: ['Enter'], does: 'open the batch', run: () => rows[at] && go(batchPath(rows[at].id)) },
  ]);
  return (
    <div class="card scroll"><table class="data batches">
      <caption class="hidden-text">Batches</caption>
      <thead><tr><th scope="col">Batch</th><th scope="col">State</th><th scope="col">Jobs</th><th scope="col">Started</th><th scope="col" class="num">Lasted</th></tr></thead>
      <tbody>{rows.map((b, i) => (
        <tr key={b.id} onClick={() => go(batchPath(b.id))}>
          <td><a href={batchPath(b.id)} data-batch={i} onFocus={() => move(i)}><Text of={titleOf(b)} /></a> <span class="muted"><Text of={given(b.params)} /></span>
            <div class="muted path"><Text of={b.work_dir || b.state_dir} /></div></td>
          <td><OutcomeBadge of={b.outcome} stalled={b.tally?.stalled} /></td>
          <td class="wide">{b.counts ? <><Bar counts={b.counts} alive={b.run?.alive ?? false} small /><span class="stateline"><Text of={b.line} /></span></> : <span class="muted"><Text of={b.error ?? ''} /></span>}</td>
          <td class={b.run?.started ? 'nowrap began' : ''} title={stamp(b.run?.started)}>{time(b.run?.started)}</td>
          <td class="num">{b.run?.alive ? <Lasted from={b.run.started} /> : b.run?.started && b.run.ended ? duration((Date.parse(b.run.ended) - Date.parse(b.run.started)) / 1000) : ''}</td>
        </tr>
      ))}</tbody>
    </table></div>
  );
}

export const titleOf = (b: { files: { path: string }[] }) => b.files.map((f) => base(f.path)).join(' + ');
