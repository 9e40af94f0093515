// The states of jobs and attempts as people see them: a class of theme.css and a symbol, so
// that none is told apart by color alone. State names are those of docs/json.md.

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
};

// A state that a later gpurun has added looks like one that waits.
export const look = (state: string): Look => states[state] ?? { tone: 'idle', symbol: '○' };

const words: Record<string, string> = { oom: 'out of memory' };
export const stateWords = (state: string) => words[state] ?? state.replaceAll('_', ' ');

const left = new Set(['preempted', 'resized', 'gpu_taken', 'interrupted']);

/** Whether an attempt that ended for this cause had to leave its GPU. */
export const handedOver = (cause: string | null | undefined) => cause != null && left.has(cause);

export function State({ state }: { state: string }) {
  const { tone, symbol } = look(state);
  return <span class={`state ${tone}`}><span class="symbol" aria-hidden="true">{symbol}</span>{stateWords(state)}</span>;
}

// color returns the value of a variable of theme.css, for canvas.
export const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
