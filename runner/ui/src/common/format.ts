// Formats numbers, times and untrusted text as the terminal does.

const GiB = 2 ** 30;

/** "8s", "3m05s", "2h07m", "4d03h"; "" if unknown. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !isFinite(seconds)) return '';
  const s = Math.round(Math.max(seconds, 0));
  const two = (n: number) => String(Math.floor(n)).padStart(2, '0');
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86400)}d${two((s % 86400) / 3600)}h`;
}

/** "37 GiB", "1.5 GiB", "512 MiB"; "?" if unknown. */
export function bytes(n: number | null | undefined): string {
  if (n == null) return '?';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  const text = n < 10 && i > 0 ? n.toFixed(1).replace('.0', '') : n.toFixed(0);
  return `${text} ${units[i]}`;
}

/** "7.8/24 GiB": two amounts in the unit of the second. */
export function bytesOf(used: number | null | undefined, total: number | null | undefined): string {
  if (used == null || total == null || total < GiB) return `${bytes(used)} of ${bytes(total)}`;
  const u = used / GiB, t = total / GiB;
  return `${u < 10 ? u.toFixed(1) : u.toFixed(0)}/${t < 10 ? t.toFixed(1).replace('.0', '') : t.toFixed(0)} GiB`;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric' });

/** Local time: "14:02", or "Nov 21 14:02" if that is not today. */
export function time(at: string | number | null | undefined, now = Date.now()): string {
  if (at == null) return '';
  const d = new Date(at);
  const today = new Date(now).toDateString() === d.toDateString();
  return today ? clock.format(d) : `${day.format(d)} ${clock.format(d)}`;
}

/** Local date and time with seconds: "2026-03-01 06:12:40". */
export const stamp = (at: string | null | undefined) => (at ? new Date(at).toLocaleString('sv') : '');

/** The later time, without its date if both are on the same day. */
export const until = (from: string, to: string) => (stamp(from).slice(0, 10) === stamp(to).slice(0, 10) ? stamp(to).slice(11) : stamp(to));

/** Unix time in seconds; now if it has not happened yet. */
export const seconds = (at: string | null | undefined, now = NaN) => (at ? Date.parse(at) / 1000 : now);

/** "1 job", "3 jobs". */
export function count(n: number, one: string, many = one + 's'): string {
  return `${n.toLocaleString('en-US')} ${n === 1 ? one : many}`;
}

/** A metric with four significant digits: "0.9250", "12.30", "1.250e-7". */
export function measured(v: unknown): string {
  if (typeof v !== 'number') return v == null ? '' : typeof v === 'string' ? v : JSON.stringify(v);
  if (Number.isInteger(v) && Math.abs(v) < 1e7) return String(v);
  const size = Math.abs(v);
  return size >= 1e-3 && size < 1e4 ? v.toPrecision(4) : v.toExponential(3).replace('e+', 'e');
}

/** Metrics by name: nested ones have names like test.acc. */
export function flat(metrics: Record<string, unknown>): Record<string, unknown> {
  const nested = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v);
  if (!Object.values(metrics).some(nested)) return metrics;
  return Object.fromEntries(Object.entries(metrics).flatMap(([k, v]) => (nested(v) ? Object.entries(flat(v)).map(([n, x]) => [`${k}.${n}`, x]) : [[k, v]])));
}

/** The last element of a path. */
export const base = (path: string) => path.slice(path.lastIndexOf('/') + 1) || path;

/** "0", "0-3", "0,2-3". */
export function ranges(ids: number[]): string {
  const sorted = [...ids].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; i++) {
    const from = sorted[i];
    while (i + 1 < sorted.length && sorted[i + 1] === sorted[i] + 1) i++;
    parts.push(from === sorted[i] ? `${from}` : `${from}-${sorted[i]}`);
  }
  return parts.join(',');
}

// CSI up to its final byte, OSC and other strings up to BEL or ST, else two characters.
const escape = /\x1b(?:\[[^@-~]*[@-~]?|[\]P^_X][^]*?(?:\x07|\x1b\\|$)|[^]?)/g;
// Control characters except tab and line feed, and characters that reorder text or
// are invisible, except the joiner of emoji.
const unseen = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Untrusted text without escape sequences and without characters that hide or reorder it. */
export function clean(s: string): string {
  return /[^ -~\n]/.test(s) ? s.replace(escape, '').replace(unseen, '') : s;
}

/** A log as a terminal would show it: only the last state of each progress bar. */
export function cleanLog(s: string): string {
  return /[^ -~\n]/.test(s) ? clean(s.replace(/\r+\n/g, '\n').replace(/[^\n\r]*\r+(?=[^\n\r])/g, '')) : s;
}

/** Copies text to the clipboard. Also works on pages opened from a file or served without TLS, where browsers offer no clipboard API. */
export async function copy(text: string) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const t = document.createElement('textarea');
  t.value = text;
  document.body.append(t);
  t.select();
  const done = document.execCommand('copy');
  t.remove();
  if (!done) throw new Error('the browser does not allow it');
}
