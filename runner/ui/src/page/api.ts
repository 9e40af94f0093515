// Requests to the server, authorized by the token from the URL's fragment.
import type { Hello, Problem, Session } from '../common/types';

const kept = 'gpurun-token';

/** Moves the token from the URL to session storage, which neither the history nor a Referer header reveals. */
export function takeToken() {
  const m = /^#token=([0-9a-fA-F]+)(\/batch\/\w+)?/.exec(location.hash);
  if (!m) return;
  sessionStorage.setItem(kept, m[1]);
  distrust();
  history.replaceState(null, '', location.pathname + '#' + (m[2] ?? '/'));
}

/** Accepts a token, or a URL that contains one, that the user pasted. */
export function giveToken(text: string) {
  sessionStorage.setItem(kept, /([0-9a-fA-F]{16,})\s*$/.exec(text)?.[1] ?? text.trim());
  distrust();
}

// Users open jobs in new tabs, which start with empty session storage, so a new tab asks the other
// tabs for the token. A broadcast reaches only pages of the same origin.
const tabs = new BroadcastChannel('gpurun');
tabs.onmessage = (e) => {
  const token = sessionStorage.getItem(kept);
  if (e.data === 'token?' && token) tabs.postMessage({ token });
  if (!token && typeof e.data?.token === 'string') { giveToken(e.data.token); dispatchEvent(new Event('token')); }
};

/** Asks other tabs for their token. The answer arrives as an event, with a delay if it comes from a background tab. */
export const askTabs = () => tabs.postMessage('token?');

export const hasToken = () => sessionStorage.getItem(kept) != null;

const hex = (b: ArrayBuffer) => [...new Uint8Array(b)].map((x) => x.toString(16).padStart(2, '0')).join('');
let proven: Promise<string> | null = null, before = false;

/** After a lost connection, another user's program may have the port, so the server must prove itself again. */
export function distrust() { proven = null; }

const newNonce = () => hex(crypto.getRandomValues(new Uint8Array(16)).buffer);

async function hello(nonce: string) {
  const res = await fetch(`api/v1/hello?nonce=${nonce}`, { cache: 'no-store', credentials: 'omit', redirect: 'error', signal: AbortSignal.timeout(10_000) });
  if (!res.ok) throw new Refused(res.status, [], `gpurun web returned ${res.status} ${res.statusText}`);
  return (await res.json()) as Hello;
}

// The address of the server that sent this page. Without it, a program that later takes this port
// could forward the challenge to another server of the same user.
let home: string | null = null;
if (crypto.subtle) hello(newNonce()).then((h) => { home ??= h.address; }, () => {});

// proof checks that the server has the token, and returns a token that only this server accepts. On a
// shared host, any user can listen on the port of a server that has ended, and would receive a request
// before the page notices. Browsers offer crypto.subtle only on localhost and over TLS. Elsewhere, the
// page has to trust the network, and sends the token itself.
async function proof() {
  const token = sessionStorage.getItem(kept) ?? '', text = new TextEncoder();
  if (!crypto.subtle) return token;
  const nonce = newNonce(), known = await hello(nonce);
  const key = await crypto.subtle.importKey('raw', text.encode(token), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const mac = async (of: string) => hex(await crypto.subtle.sign('HMAC', key, text.encode(of)));
  const its = await mac(`${nonce} ${known.address}`);
  // A rejected token may be valid again when the real server is back.
  if (its !== known.read && its !== known.control || (home ??= known.address) !== known.address) throw new Refused(before ? 0 : 401, [], 'this server did not prove that it has the token, so the page did not send the token');
  before = true;
  return mac(`session ${known.session}`);
}

/** A request that the server refused, or that did not reach it. */
export class Refused extends Error {
  constructor(readonly status: number, readonly problems: Problem[], text: string) { super(text); }
  /** How to fix it, and any further errors. */
  get more(): string[] {
    return this.problems.flatMap((p, i) => [...(i ? [p.text] : []), ...(p.hint ? [p.hint] : [])]);
  }
}

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const ask = async () => fetch('api/v1' + path, {
    ...init, cache: 'no-store', credentials: 'omit', redirect: 'error',
    headers: { ...init.headers, Authorization: `Bearer ${await (proven ??= proof())}` },
  });
  let res: Response;
  try {
    const known = proven;
    res = await ask();
    if (res.status === 401 && known && known === proven) { // a new server, although the connection was never lost
      distrust();
      res = await ask();
    }
  } catch (err) {
    if ((err as Error).name === 'AbortError') throw err;
    distrust();
    if (err instanceof Refused) throw err;
    throw new Refused(0, [], 'gpurun web does not answer');
  }
  if (res.ok || res.status === 416) return res;
  const doc = await res.json().catch(() => null) as { problems?: Problem[] } | null;
  const problems = doc?.problems ?? [];
  throw new Refused(res.status, problems, problems[0]?.text ?? `gpurun web returned ${res.status} ${res.statusText}`);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request(path, { signal })).json() as Promise<T>;
}

export const open = (path: string, signal: AbortSignal, headers: Record<string, string> = {}) =>
  request(path, { signal, headers: { Accept: 'text/event-stream', ...headers } });

/** Requests a change, and returns the server's message about its effect. */
export async function post(path: string, body: unknown): Promise<string[]> {
  const res = await request(path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });
  return ((await res.json()) as { said: string[] }).said ?? [];
}

export const logPath = (batch: string, uniID: string) => `/batches/${encodeURIComponent(batch)}/attempts/${encodeURIComponent(uniID)}/log`;

/** Reads part of a log: from `at` (up to `to`), or the last bytes if `at` is negative. */
export async function readLog(batch: string, uniID: string, at: number, signal: AbortSignal, to?: number) {
  const skip = at > 0 ? 1 : 0; // one byte more, because browsers log an error for an empty range
  const res = await request(logPath(batch, uniID), { signal, headers: { Range: at < 0 ? `bytes=${at}` : `bytes=${at - skip}-${to ?? ''}` } });
  const m = /bytes (?:(\d+)-\d+|\*)\/(\d+)/.exec(res.headers.get('Content-Range') ?? '');
  const over = res.headers.get('Gpurun-Over') === 'true', ticket = res.headers.get('Gpurun-Ticket');
  if (res.status === 416) return { from: at, total: Number(m?.[2] ?? 0), data: new Uint8Array(), over, ticket };
  const data = new Uint8Array(await res.arrayBuffer()).subarray(skip);
  const from = m?.[1] != null ? Number(m[1]) + skip : skip;
  return { from, total: m ? Number(m[2]) : data.length, data, over, ticket };
}

/** Whether repeating the request with the same token is pointless. */
export const unknownToken = (err: unknown) => err instanceof Refused && err.status === 401;

export const session = () => get<Session>('');
