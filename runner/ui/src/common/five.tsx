// Jobs by state in five words: as a bar, and as counts that are its legend and choose jobs.
import { stateWords } from './states';

export type Counts = Record<string, number>;
export type Five = 'done' | 'failed' | 'running' | 'waiting' | 'idle';

/** The five words with the states that they stand for, in the order of the bar. */
export const five: { is: Five; word: string; states: string[] }[] = [
  { is: 'done', word: 'done', states: ['succeeded', 'up_to_date', 'not_needed'] },
  { is: 'failed', word: 'failed', states: ['failed', 'oom', 'timeout', 'stalled', 'lost'] },
  { is: 'running', word: 'running', states: ['running'] },
  { is: 'waiting', word: 'waiting', states: ['queued', 'waiting', 'pending'] },
  { is: 'idle', word: 'did not run', states: ['blocked', 'interrupted', 'cancelled'] },
];

/** How many jobs are in a word's states; of all without a word. */
export const countOf = (counts: Counts, is?: Five) =>
  five.reduce((sum, f) => sum + (!is || f.is === is ? f.states.reduce((n, s) => n + (counts[s] ?? 0), 0) : 0), 0);

const exact = (counts: Counts, states: string[]) => states.filter((s) => counts[s]).map((s) => `${counts[s].toLocaleString('en-US')} ${stateWords(s)}`).join(', ');

export function Bar({ counts, small }: { counts: Counts; small?: boolean }) {
  const words = exact(counts, five.flatMap((f) => f.states)) || 'no jobs', total = countOf(counts);
  return (
    <div class={`five ${small ? 'small' : ''}`} role="img" aria-label={words} title={words}>
      {five.map((f) => countOf(counts, f.is) > 0 && <i key={f.is} class={f.is} style={{ flexGrow: Math.max(countOf(counts, f.is), total / 100) }} />)}
    </div>
  );
}

/** The counts below the bar; with `link`, they lead to these jobs. */
export function Legend({ counts, chosen, link }: { counts: Counts; chosen?: string; link?: (is: Five) => { href: string; onClick?: () => void } }) {
  const show = five.filter((f) => countOf(counts, f.is) > 0 || f.is === 'done' || f.is === chosen);
  return (
    <ul class="fives" aria-label="Jobs by state">{show.map((f) => {
      const text = <><i class={f.is} aria-hidden="true" /><b>{countOf(counts, f.is).toLocaleString('en-US')}</b>{f.is === 'done' && ` of ${countOf(counts).toLocaleString('en-US')}`} {f.word}</>;
      return <li key={f.is} title={exact(counts, f.states)}>{link ? <a {...link(f.is)} aria-current={chosen === f.is ? 'true' : undefined}>{text}</a> : <span>{text}</span>}</li>;
    })}</ul>
  );
}
