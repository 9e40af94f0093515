// The table of a batch's runs and how each ended.
import type { ComponentChildren } from 'preact';
import { Bar, Legend } from './five';
import { clean, count, duration, stamp, time } from './format';
import { given } from './states';
import type { RunRow } from './types';

/** The runs, latest first. `live` is how long the live one has lasted. */
export function Runs({ runs, live }: { runs: RunRow[]; live: ComponentChildren }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of runs"><table class="data">
      <caption class="hidden-text">Runs, latest first</caption>
      <thead><tr>{['Run', 'Started', 'Lasted', 'Jobs', 'How it ended', 'GPU time', 'Retries', 'GPU time lost to'].map((h, i) => <th scope="col" class={[0, 2, 5, 6].includes(i) ? 'num' : ''}>{h}</th>)}</tr></thead>
      <tbody>{[...runs].reverse().map((r, i) => (
        <tr key={r.started}>
          <td class="num">{r.n}</td>
          <td class="nowrap" title={stamp(r.started)}>{time(r.started)}</td>
          <td class="num">{(!i && live) || duration((Date.parse(r.ended ?? r.last_seen) - Date.parse(r.started)) / 1000)}</td>
          <td class="wide"><Bar counts={r.counts} alive={false} small /><Legend counts={r.counts} alive={false} /></td>
          <td class="words">{clean(r.why)}{r.params && <div class="muted">with {clean(given(r.params))}</div>}
            <div class="muted">{r.git && <>commit <span class="mono">{r.git.commit.slice(0, 9)}</span>{r.git.dirty && ' with changes'} </>}on {clean(r.host)}</div>
            {r.alike.slice(0, 2).map((a) => <div class="state bad">{count(a.count, 'job')}: {clean(a.cause.text)}</div>)}</td>
          <td class="num">{duration(r.gpu_seconds)}</td>
          <td class="num">{r.retries || ''}</td>
          <td>{r.lost.slice(0, 3).map((l) => <div class="nowrap">{duration(l.gpu_seconds)} <span class="muted">{clean(l.user ? `${l.user} (${words(l.code)})` : words(l.code))}</span></div>)}</td>
        </tr>
      ))}</tbody>
    </table></div>
  );
}

const words = (code: string) => code.replaceAll('_', ' ');
