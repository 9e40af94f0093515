// The current route. It is kept in the URL's fragment, which browsers never send to a server.

export type Tab = 'jobs' | 'log' | 'results' | 'timeline' | 'usage' | 'runs';

export type Route =
  | { page: 'home' }
  | { page: 'batch'; id: string; tab: Tab; query: URLSearchParams }
  | { page: 'job'; id: string; job: string; query: URLSearchParams };

export const tabs: [Tab, string][] = [['jobs', 'Jobs'], ['log', 'Log'], ['timeline', 'Timeline'], ['results', 'Results'], ['usage', 'Usage'], ['runs', 'Runs']];

export function parse(hash: string): Route {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split('?');
  const [kind, id, third, ...rest] = path.split('/').map(unescaped);
  const query = new URLSearchParams(search);
  if (kind === 'batch' && id) {
    if (third === 'job' && rest[0]) return { page: 'job', id, job: rest[0], query };
    return { page: 'batch', id, tab: tabs.find(([t]) => t === third)?.[0] ?? 'jobs', query };
  }
  return { page: 'home' };
}

const unescaped = (s: string) => { try { return decodeURIComponent(s); } catch { return s; } };

export const homePath = '#/';
export const batchPath = (id: string, tab: Tab = 'jobs', query?: Record<string, string>) =>
  `#/batch/${encodeURIComponent(id)}${tab === 'jobs' ? '' : '/' + tab}${search(query)}`;
export const jobPath = (id: string, job: string, query?: Record<string, string>) =>
  `#/batch/${encodeURIComponent(id)}/job/${encodeURIComponent(job)}${search(query)}`;

function search(query?: Record<string, string>): string {
  const set = Object.entries(query ?? {}).filter(([, v]) => v !== '');
  return set.length ? '?' + new URLSearchParams(set) : '';
}

/** Changes the query of the current route without adding a history entry. */
export function setQuery(values: Record<string, string>) {
  const [path, old = ''] = location.hash.split('?');
  const query = new URLSearchParams(old);
  for (const [k, v] of Object.entries(values)) v ? query.set(k, v) : query.delete(k);
  const text = String(query);
  history.replaceState(history.state, '', path + (text ? '?' + text : ''));
  dispatchEvent(new HashChangeEvent('hashchange'));
}

export const go = (path: string) => { location.hash = path.slice(1); };
