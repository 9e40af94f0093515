// The log of an attempt. It follows a log that is still being written.
import { Component, type RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { bytes, cleanLog, count } from '../common/format';
import type { Matches } from '../common/types';
import { get, logPath, readLog, Refused } from './api';
import { pause } from './events';
import { Text } from './parts';
import { setQuery } from './route';
import { app } from './store';
import { lineAt, most, sum, Tail } from './tail';

const piece = 128 * 1024; // bytes to read at first, and for each "earlier"

// The line in the URL, unless it belongs to another attempt's log.
const inURL = (uniID: string) => {
  const query = new URLSearchParams(location.hash.split('?')[1]), at = query.get('line');
  return at == null || (query.get('attempt') ?? uniID) !== uniID ? null : Number(at);
};

export function LogView({ batch, uniID, name, over }: { batch: string; uniID: string; name: string; over: boolean }) {
  const [at, go] = useState<number | null>(() => inURL(uniID)); // first byte of the line that a search or a link points to
  const [begin, setBegin] = useState(at);
  const [sought, setSought] = useState(''), [matches, setMatches] = useState<Matches | null>(null);
  const [tail, setTail] = useState(() => new Tail());
  const [, redraw] = useState(0);
  const [error, setError] = useState<string | null>(null);
  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  following.current = follow;

  useEffect(() => {
    const t = new Tail();
    setTail(t);
    setError(null);
    setFollow(begin == null);
    following.current = begin == null;
    const stop = new AbortController();
    void poll(t, batch, uniID, begin, stop.signal, () => following.current, () => redraw((n) => n + 1), setError);
    return () => stop.abort();
  }, [batch, uniID, begin]);

  // A restarted server does not accept old tickets. A log that has ended is no longer polled, so its ticket is renewed here.
  useEffect(() => {
    if (app.connected && tail.over) readLog(batch, uniID, Math.max(tail.total - 1, 0), new AbortController().signal).then((got) => { tail.ticket = got.ticket; redraw((n) => n + 1); }, () => {});
  }, [app.connected]);

  // Stay at the end unless the user scrolls up.
  const put = useRef(0);
  useLayoutEffect(() => {
    const e = box.current;
    if (!e || !following.current) return;
    e.scrollTop = e.scrollHeight;
    put.current = e.scrollTop;
  });

  const scrolled = () => {
    const e = box.current;
    if (!e) return; // unmounted before the scroll event arrived
    const end = e.scrollTop + e.clientHeight >= e.scrollHeight - 8;
    if (end !== following.current && (end || e.scrollTop < put.current - 4)) setFollow(end);
  };
  const earlier = async () => {
    const e = box.current!, below = e.scrollHeight - e.scrollTop;
    setFollow(false);
    const start = Math.max(0, tail.from - piece);
    try {
      const got = await readLog(batch, uniID, start, new AbortController().signal, tail.from - 1);
      tail.prepend(start, got.data);
      redraw((n) => n + 1);
      requestAnimationFrame(() => { e.scrollTop = e.scrollHeight - below; });
    } catch (err) { setError((err as Error).message); }
  };
  // Scrolls to a line, after loading the text around it if needed.
  const lead = (line: number) => {
    go(line);
    setFollow(false);
    setQuery({ line: String(line), attempt: uniID });
    if (line < tail.from || line >= tail.from + tail.size) setBegin(line);
  };
  const search = async (e: Event) => {
    e.preventDefault();
    if (!sought) return setMatches(null);
    try {
      const found = await get<Matches>(`${logPath(batch, uniID).replace(/log$/, 'search')}?text=${encodeURIComponent(sought)}`);
      setMatches(found);
      if (found.at.length) lead(found.at[found.at.length - 1]);
    } catch (err) { setError((err as Error).message); }
  };
  const nth = matches && at != null ? matches.at.indexOf(at) : -1;
  const step = (by: number) => lead(matches!.at[Math.min(Math.max(nth + by, 0), matches!.at.length - 1)]);
  const mark = useRef<HTMLElement>(null);
  useLayoutEffect(() => { mark.current?.scrollIntoView({ block: 'center' }); }, [at, tail.read]);
  // Clicking a line puts it in the URL. Lines are counted as displayed.
  const pick = (e: MouseEvent) => {
    const pre = (e.target as HTMLElement).closest('pre'), sel = getSelection();
    if (!pre || !sel?.isCollapsed || !sel.anchorNode) return;
    const range = document.createRange();
    range.setStart(pre, 0);
    range.setEnd(sel.anchorNode, sel.anchorOffset);
    const lines = range.toString().split('\n').length - 1, k = Number(pre.dataset.block);
    lead(tail.from + sum(tail.blocks.slice(0, k).flatMap((b) => b.sizes)) + sum((tail.blocks[k]?.sizes ?? []).slice(0, lines)));
  };
  let before = tail.from;
  const empty = tail.read && !tail.blocks.length && !tail.open;
  return (
    <div class="logview">
      <div class="tools">
        <span class="muted">{tail.read && `${bytes(tail.total)}${tail.over ? '' : ', being written'}`}</span>
        <form class="grow" role="search" onSubmit={search}><input type="search" placeholder="Search the log" aria-label="Search the log" value={sought} onInput={(e) => setSought(e.currentTarget.value)} />
          {matches && <><span role="status">{matches.at.length ? `${matches.count - matches.at.length + nth + 1} of ` : ''}{count(matches.count, 'line')}</span>
            <button type="button" class="button small" aria-label="Previous match" disabled={!matches.at.length} onClick={() => step(-1)}>↑</button><button type="button" class="button small" aria-label="Next match" disabled={!matches.at.length} onClick={() => step(1)}>↓</button></>}</form>
        <a class="button small" href={tail.ticket ? `api/v1${logPath(batch, uniID)}?ticket=${tail.ticket}` : undefined} download={`${name}.log`}>Download</a>
        <button class="button small" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>Wrap</button>
        <button class="button small" aria-pressed={follow} onClick={() => { if (!follow) { setQuery({ line: '' }); go(null); setBegin(null); } setFollow(!follow); }}>Follow</button>
      </div>
      <div ref={box} class={`logtext ${wrap ? 'wrap' : ''}`} tabIndex={0} role="region" aria-label={`Log of ${name}`} onScroll={scrolled} onClick={pick}>
        {tail.from > 0 && <button class="button small earlier" onClick={earlier}>Earlier lines ({bytes(tail.from)})</button>}
        {tail.blocks.map((b, i) => {
          const from = before;
          before += sum(b.sizes);
          return <LogBlock key={b.id} block={i} text={b.text} line={at != null && at >= from && at < before ? lineAt(b.sizes, at - from) : -1} mark={mark} />;
        })}
        {tail.open && <LogBlock block={tail.blocks.length} text={tail.open} line={at === before ? 0 : -1} mark={mark} />}
        {empty && <p class="muted">{tail.over || over ? 'No output.' : 'No output yet.'}</p>}
        {error && <p class="bad"><Text of={error} /></p>}
      </div>
    </div>
  );
}

interface BlockProps { text: string; block: number; line: number; mark: RefObject<HTMLElement | null> }

// Displayed lines: plain ones, tracebacks, and the line that the URL points to.
class LogBlock extends Component<BlockProps> {
  shouldComponentUpdate(next: BlockProps) { return next.text !== this.props.text || next.line !== this.props.line || next.block !== this.props.block; }
  render() {
    const parts: { kind: string; text: string }[] = [];
    let inside = false;
    cleanLog(this.props.text).split(/(?<=\n)/).forEach((l, i) => {
      const bare = l.replace(/^\[[\w]*\d+\]:? ?/, ''), starts = bare.startsWith('Traceback (most recent call last)');
      const trace = inside || starts;
      inside = starts || inside && /^\s/.test(bare);
      const kind = i === this.props.line ? 'hit' : trace ? 'trace' : '', last = parts[parts.length - 1];
      if (last && last.kind === kind && kind !== 'hit') last.text += l; else parts.push({ kind, text: l });
    });
    return <pre data-block={this.props.block}>{parts.map((p) => p.kind === 'hit' ? <mark ref={this.props.mark as RefObject<HTMLElement>}>{p.text}</mark> : p.kind ? <span class={p.kind}>{p.text}</span> : p.text)}</pre>;
  }
}

// poll reads the end of the log, then what is appended, once a second while the page is visible.
// While the user reads further up, it adds no more than the page can keep.
async function poll(t: Tail, batch: string, uniID: string, begin: number | null, stop: AbortSignal, following: () => boolean, drawn: () => void, fail: (text: string | null) => void) {
  let next = begin == null ? -piece : Math.max(0, begin - piece / 2);
  while (!stop.aborted) {
    let more = false;
    if (!following() && t.size > most) {
      await seconds(0.5, stop);
      continue;
    }
    try {
      const got = await readLog(batch, uniID, next, stop, next < 0 ? undefined : next + most / 4 - 1);
      if (stop.aborted) return;
      const end = got.from + got.data.length;
      if (following() && got.total - end > most || got.total < next) { // or the log was truncated
        t.clear();
        next = -piece;
        continue;
      }
      if (got.data.length || !t.read) t.append(got.from < 0 ? 0 : got.from, got.data, following());
      if (next < 0) next = Math.max(end, 0); else next = Math.max(next, end);
      t.total = Math.max(got.total, next);
      t.over = got.over;
      t.ticket = got.ticket;
      more = next < t.total;
      fail(null);
      drawn();
      if (t.over && !more) return;
    } catch (err) {
      if (stop.aborted) return;
      if (err instanceof Refused && [404, 410].includes(err.status)) return fail(err.message);
    }
    if (!more) await seconds(1, stop);
  }
}

// seconds waits. It waits longer while the page is hidden.
const seconds = (s: number, stop: AbortSignal) => pause((document.visibilityState === 'visible' ? s : 30) * 1000, stop);
