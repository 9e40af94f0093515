// The states of jobs and attempts as people see them: a class of theme.css and a symbol, so
// that none is told apart by color alone. State names are those of docs/json.md.
import type { Outcome } from './types';

type Look = { tone: 'ok' | 'bad' | 'warn' | 'run' | 'idle'; symbol: string };

// In the order in which counts are shown.
export const states: Record<string, Look> = {
  running: { tone: 'run', symbol: '●' },
  queued: { tone: 'idle', symbol: '◔' },
  waiting: { tone: 'warn', symbol: '↻' },
  pending: { tone: 'idle', symbol: '○' },
  failed: { tone: 'bad', symbol: '✗' },
  oom: { tone: 'bad', symbol: '✗' },
  timeout: { tone: 'bad', symbol: '✗' },
  stalled: { tone: 'bad', symbol: '✗' },
  lost: { tone: 'bad', symbol: '?' },
  blocked: { tone: 'warn', symbol: '⊘' },
  interrupted: { tone: 'warn', symbol: '⏏' },
  cancelled: { tone: 'warn', symbol: '⊖' },
  succeeded: { tone: 'ok', symbol: '✓' },
  up_to_date: { tone: 'ok', symbol: '✓' },
  not_needed: { tone: 'idle', symbol: '–' },
  pruned: { tone: 'idle', symbol: '✂' },
};

// A state that a later gpurun has added looks like one that waits.
export const look = (state: string): Look => states[state] ?? { tone: 'idle', symbol: '○' };

const words: Record<string, string> = { oom: 'out of memory' };
export const stateWords = (state: string) => words[state] ?? state.replaceAll('_', ' ');

const left = new Set(['preempted', 'resized', 'gpu_taken', 'interrupted']);

/** Whether an attempt that ended for this cause had to leave its GPU. */
export const handedOver = (cause: string | null | undefined) => cause != null && left.has(cause);

/** A state; of a running job that stalls, that, with what it does not do under the pointer. */
export function State({ state, stalled }: { state: string; stalled?: string | null }) {
  const { tone, symbol } = look(stalled ? 'stalled' : state);
  return <span class={`state ${tone}`} title={stalled ?? undefined}><span class="symbol" aria-hidden="true">{symbol}</span>{stalled ? 'stalled' : stateWords(state)}</span>;
}

const outcomes: Record<string, Look['tone']> = { running: 'run', watching: 'run', done: 'ok', failed: 'bad', killed: 'bad', never_ran: 'idle' };

/** How a batch is as a whole: the server's words, by the counts of its jobs. */
export function OutcomeBadge({ of, stalled, title }: { of: Outcome | null; stalled?: number; title?: string }) {
  return of && <span class={`badge ${of.failed || stalled ? 'bad' : outcomes[of.code] ?? 'warn'}`} title={title}>{of.text}{stalled ? `, ${stalled} stalled` : ''}</span>;
}

/** The -p values of a run or of what is shown: "-p epochs=5". */
export const given = (params: Record<string, string> | null) => Object.entries(params ?? {}).map(([k, v]) => `-p ${k}=${v}`).join(' ');

// color returns the value of a variable of theme.css, for canvas.
export const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
