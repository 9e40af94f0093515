// States of jobs and attempts: a class of theme.css and a symbol, so that states never differ in
// color alone. The names of states are those of docs/reference/json.md.
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

// A state from a later version of gpurun looks like a pending job.
export const look = (state: string): Look => states[state] ?? { tone: 'idle', symbol: '○' };

const words: Record<string, string> = { oom: 'out of memory' };
export const stateWords = (state: string) => words[state] ?? state.replaceAll('_', ' ');

const left = new Set(['preempted', 'resized', 'gpu_taken', 'interrupted']);

/** Whether a cause means that the attempt had to leave its GPU. */
export const handedOver = (cause: string | null | undefined) => cause != null && left.has(cause);

/** A state. A stalled job is shown as stalled, with the reason in the tooltip. */
export function State({ state, stalled }: { state: string; stalled?: string | null }) {
  const { tone, symbol } = look(stalled ? 'stalled' : state);
  return <span class={`state ${tone}`} title={stalled ?? undefined}><span class="symbol" aria-hidden="true">{symbol}</span>{stalled ? 'stalled' : stateWords(state)}</span>;
}

const outcomes: Record<string, Look['tone']> = { running: 'run', watching: 'run', done: 'ok', failed: 'bad', killed: 'bad', never_ran: 'idle' };

/** The state of a batch: the server's words, colored by the counts of its jobs. */
export function OutcomeBadge({ of, stalled, title }: { of: Outcome | null; stalled?: number; title?: string }) {
  return of && <span class={`badge ${of.failed || stalled ? 'bad' : outcomes[of.code] ?? 'warn'}`} title={title}>{of.text}{stalled ? `, ${stalled} stalled` : ''}</span>;
}

/** Parameters as flags: "-p epochs=5". */
export const given = (params: Record<string, string> | null) => Object.entries(params ?? {}).map(([k, v]) => `-p ${k}=${v}`).join(' ');

// color resolves a variable of theme.css, for canvases.
export const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
