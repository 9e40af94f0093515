// Job counts by state, in five groups, shown as a bar and as a legend that filters the jobs.
import { stateWords } from './states';

export type Counts = Record<string, number>;
export type Five = 'done' | 'failed' | 'running' | 'waiting' | 'idle';

/** The five words with the states that each covers, in the order of the bar. */
export const five: { is: Five; word: string; states: string[] }[] = [
  { is: 'done', word: 'done', states: ['succeeded', 'up_to_date', 'not_needed', 'pruned'] },
  { is: 'failed', word: 'failed', states: ['failed', 'oom', 'timeout', 'stalled', 'lost'] },
  { is: 'running', word: 'running', states: ['running'] },
  { is: 'waiting', word: 'waiting', states: ['queued', 'waiting', 'pending'] },
  { is: 'idle', word: 'did not run', states: ['blocked', 'interrupted', 'cancelled'] },
];

/** The states that a word covers. Without a live run, no job is waiting: the remaining jobs did not run. */
export function statesOf(is: string, alive: boolean): string[] | undefined {
  const waiting = five[3].states;
  if (!alive && is === 'waiting') return [];
  return alive || is !== 'idle' ? five.find((f) => f.is === is)?.states : [...five[4].states, ...waiting];
}

/** The number of jobs in a word's states; without a word, of all jobs. */
export const countOf = (counts: Counts, alive: boolean, is?: Five) =>
  (is ? statesOf(is, alive)! : Object.keys(counts)).reduce((n, s) => n + (counts[s] ?? 0), 0);

const exact = (counts: Counts, states: string[]) => states.filter((s) => counts[s]).map((s) => `${counts[s].toLocaleString('en-US')} ${stateWords(s)}`).join(', ');

interface Props { counts: Counts; alive: boolean }

export function Bar({ counts, alive, small }: Props & { small?: boolean }) {
  const words = exact(counts, five.flatMap((f) => f.states)) || 'no jobs', total = countOf(counts, alive);
  return (
    <div class={`five ${small ? 'small' : ''}`} role="img" aria-label={words} title={words}>
      {five.map((f) => countOf(counts, alive, f.is) > 0 && <i key={f.is} class={f.is} style={{ flexGrow: Math.max(countOf(counts, alive, f.is), total / 100) }} />)}
    </div>
  );
}

/** The counts below the bar. With `link`, each links to its jobs. */
export function Legend({ counts, alive, chosen, link }: Props & { chosen?: string; link?: (is: Five) => { href: string; onClick?: () => void } }) {
  const show = five.filter((f) => countOf(counts, alive, f.is) > 0 || f.is === 'done' || f.is === chosen);
  return (
    <ul class="fives" aria-label="Jobs by state">{show.map((f) => {
      const text = <><i class={f.is} aria-hidden="true" /><b>{countOf(counts, alive, f.is).toLocaleString('en-US')}</b>{f.is === 'done' && ` of ${countOf(counts, alive).toLocaleString('en-US')}`} {f.word}</>;
      return <li key={f.is} title={exact(counts, statesOf(f.is, alive)!)}>{link ? <a {...link(f.is)} aria-current={chosen === f.is ? 'true' : undefined}>{text}</a> : <span>{text}</span>}</li>;
    })}</ul>
  );
}
