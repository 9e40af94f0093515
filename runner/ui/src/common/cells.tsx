// Cells of a table of results: a mean, what is behind its ±, and what is missing.
import { clean } from './format';

export type Missing = { unit: string; why: string; counted: boolean };
export type Measured = { mean: number | null; n: number; of: number; best: boolean; missing: Missing[] };

/** How many digits a column of means gets: two of the median deviation. */
export function digits(errs: number[], means: number[]): number {
  const known = errs.filter((x) => x > 0).sort((a, b) => a - b);
  const of = known.length ? known[Math.floor(known.length / 2)] / 10 : Math.max(...means.map(Math.abs), 1e-9) / 1000;
  return Math.min(8, Math.max(0, -Math.floor(Math.log10(of))));
}

/** "91.27 ± 0.40 (3)", "70.40 ± 0.42 (2/3: s43 failed)", "– (s1 running)"; times is 100 for percent. */
export function CellText({ cell: c, err, times, digits }: { cell: Measured; err: number | null; times: number; digits: number }) {
  const gaps = clean(few(c.missing));
  const n = c.of > 1 || c.n !== c.of ? ` (${c.n === c.of ? c.n : `${c.n}/${c.of}`}${gaps && `: ${gaps}`})` : gaps && ` (${gaps})`;
  if (c.mean === null) return <span class="muted">–{n}</span>;
  const text = `${(c.mean * times).toFixed(digits)}${err === null ? '' : ` ± ${(err * times).toFixed(digits)}`}`;
  return <>{c.best ? <b title="best">{text}</b> : text}<span class="muted">{n}</span></>;
}

// few names what is missing: the first of each kind.
function few(missing: Missing[]): string {
  const kinds = new Map<string, string[]>();
  for (const m of missing) kinds.set(m.why, [...(kinds.get(m.why) ?? []), m.unit]);
  return [...kinds].map(([why, units]) => `${units.slice(0, 3).join(', ')}${units.length > 3 ? ` and ${units.length - 3} more` : ''} ${why}`).join(', ');
}
