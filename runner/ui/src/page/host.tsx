// The home page: the user's batches, each GPU with its last hour and its users, the queue, the host's rules.
import { useEffect, useState } from 'preact/hooks';
import { bytes, bytesOf, clean, count, duration, ranges, stamp, time } from '../common/format';
import { get, Refused } from './api';
import { BatchTable } from './batches';
import { StartDialog } from './control';
import { useKeys } from './keys';
import { changed, now, useLive } from './live';
import { Empty, Lasted, Loading, Meter, Text } from './parts';
import { app, may } from './store';
import { Spark } from './spark';
import type { GPU, GPUs, HostRules, Past, Waiter } from '../common/types';

/** Batches first, then GPUs, then the queue. */
export function HomePage() {
  useLive();
  const past = usePast();
  const [starting, start] = useState(false), [all, setAll] = useState(false);
  const { gpus, batches } = app;
  const live = batches?.filter((b) => b.run?.alive).length ?? 0, first = Math.max(live, 6);
  return (
    <main id="main" class="home">
      <section aria-labelledby="batches-title">
        <div class="title"><h1 id="batches-title">Batches</h1>
          <p class="muted">{batches && `${live} of ${batches.length} running`}</p><span class="grow" />
          {may('run') && <button class="button primary" onClick={() => start(true)}>Run a job file …</button>}</div>
        {!batches ? <Loading what="your batches" /> : batches.length ? <BatchTable rows={all ? batches : batches.slice(0, first)} /> :
          <Empty>No batches on this host yet. <code>gpurun run FILE</code> starts one.</Empty>}
        {!all && (batches?.length ?? 0) > first && <button class="button" onClick={() => setAll(true)}>All {batches!.length} batches</button>}
      </section>
      <section aria-labelledby="gpus-title">
        <div class="title"><h2 id="gpus-title">GPUs of {app.session ? <Text of={app.session.host} /> : 'this host'}</h2>
          {gpus && <p class="muted">{sum(gpus.gpus)}</p>}{gpus && <Held gpus={gpus.gpus} />}<span class="grow" />
          {gpus && <p class="legend" aria-hidden="true"><span>last hour:</span><span><i class="util" />utilization</span><span><i class="mem" />memory</span></p>}</div>
        {!gpus ? <NoGPUs /> : gpus.gpus.length ? <Strip gpus={gpus.gpus} past={past} /> : <Empty>No GPU is visible on this host.</Empty>}
      </section>
      {gpus && (
        <div class="halves">
          <section aria-labelledby="queue-title">
            <h2 id="queue-title">Next in line</h2>
            {gpus.waiting.length ? <Waiting waiting={gpus.waiting} gpus={gpus.gpus} /> : <Empty>No run is waiting for a GPU.</Empty>}
          </section>
          <section aria-labelledby="rules-title">
            <h2 id="rules-title">Rules of this host</h2>
            {gpus.host_rules ? <Rules rules={gpus.host_rules} /> : <Empty>No rules.</Empty>}
          </section>
        </div>
      )}
      {starting && <StartDialog onClose={() => start(false)} />}
    </main>
  );
}

// Why there are no GPUs (yet), for example on a host without a driver.
function NoGPUs() {
  const [why, set] = useState<Refused | null>(null);
  useEffect(() => {
    const over = new AbortController();
    const ask = () => get<GPUs>('/host', over.signal).then((g) => { app.gpus ??= g; changed(); }, (err) => { if (err instanceof Refused && !over.signal.aborted) set(err); });
    const first = setTimeout(ask, 1500), again = setInterval(ask, 10_000);
    return () => { over.abort(); clearTimeout(first); clearInterval(again); };
  }, []);
  if (!why) return <Loading what="the GPUs" />;
  return <div class="callout warn"><Text of={why.message} />{why.more.map((m) => <p class="muted"><Text of={m} /></p>)}</div>;
}

// The server keeps one point every ten seconds. The page fetches new ones every half minute.
function usePast(): Past | null {
  const [past, set] = useState<Past | null>(null);
  useEffect(() => {
    const over = new AbortController();
    const ask = () => { if (document.visibilityState === 'visible') get<Past>('/host/past', over.signal).then(set, () => {}); };
    ask();
    const timer = setInterval(ask, 30_000);
    return () => { over.abort(); clearInterval(timer); };
  }, []);
  return past;
}

function sum(gpus: GPU[]): string {
  const silent = gpus.filter(isSilent).length;
  const held = gpus.filter((g) => !isSilent(g) && holders(g).length > 0).length;
  const used = gpus.reduce((s, g) => s + (g.memory_used_bytes ?? 0), 0);
  const total = gpus.reduce((s, g) => s + (g.memory_total_bytes ?? 0), 0);
  return `${count(gpus.length, 'GPU')}, ${held} in use, ${gpus.length - held - silent} free${silent ? `, ${silent} silent` : ''} · ${bytesOf(used, total)} of memory used`;
}

// GPUs in use by user, largest number first.
function Held({ gpus }: { gpus: GPU[] }) {
  const by = new Map<string, number>();
  for (const g of gpus) for (const who of new Set(holders(g).map((h) => h.mine ? '' : h.who))) by.set(who, (by.get(who) ?? 0) + 1);
  if (!by.size) return null;
  const list = [...by].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return <ul class="held" aria-label="GPUs by user">{list.map(([who, n]) => <li key={who}><span class={`who ${who ? 'theirs' : 'mine'}`}><Text of={who || 'you'} /></span> {count(n, 'GPU')}</li>)}</ul>;
}

const isSilent = (g: GPU) => g.code === 'silent';

interface Holder { who: string; what: string; since: string | null; mine: boolean; note: string; bytes: number | null }

// The users of a GPU: claims of runs, the user's own jobs without a claim, and processes that no claim explains.
function holders(g: GPU): Holder[] {
  const me = app.session?.user, hangs = (job: string) => (g.stalled.includes(job) ? 'stalled' : '');
  const list: Holder[] = g.claims.map((c) => ({
    who: c.user ?? '?', what: c.job, since: c.since, mine: c.user === me, bytes: c.memory_bytes,
    note: c.gathering ? 'kept until it has all its GPUs' : c.over ? 'ended; goes to the next job' : hangs(c.job),
  }));
  for (const j of g.jobs) if (!g.claims.some((c) => c.job === j)) list.push({ who: me ?? '', what: j, since: null, mine: true, note: hangs(j), bytes: null });
  const claimants = new Set(g.claims.map((c) => c.user));
  for (const p of g.processes ?? []) {
    if (claimants.has(p.user)) continue;
    const idle = p.idle_seconds != null && p.idle_seconds > 60 ? `idle for ${duration(p.idle_seconds)}` : '';
    list.push({ who: p.user ?? '?', what: `${p.command ?? 'process'} ${p.pid}`, since: null, mine: p.user === me, note: idle, bytes: p.memory_bytes });
  }
  return list;
}

function Strip({ gpus, past }: { gpus: GPU[]; past: Past | null }) {
  const [opened, open] = useState<string | null>(null);
  useKeys([{ keys: ['Escape'], does: 'close', run: () => open(null) }]);
  return (
    <ul class="strip">
      {gpus.map((g, i) => {
        const hour = past?.gpus.find((p) => p.uuid === g.uuid);
        const list = holders(g), silent = isSilent(g);
        const isOpen = opened === g.uuid;
        return (
          <li key={g.uuid} class={`gpu ${list.some((h) => h.mine) ? 'mine' : list.length ? 'theirs' : ''} ${silent ? 'silent' : ''}`}>
            <button class="gpu-name" aria-expanded={isOpen} aria-controls={`gpu-${i}`} title={clean(g.name)} onClick={() => open(isOpen ? null : g.uuid)}>
              <b>GPU {g.index}</b> <span class="muted"><Text of={short(g.name)} /></span>
            </button>
            <Meter label={`GPU ${g.index} memory`} value={g.memory_used_bytes} max={g.memory_total_bytes} tone={!list.length ? 'none' : list.some((h) => h.mine) ? 'mine' : 'theirs'} />
            <span class="val">{g.memory_used_bytes == null ? '?' : bytesOf(g.memory_used_bytes, g.memory_total_bytes)}</span>
            <span class="val" title="utilization">{g.utilization_percent == null ? '?' : `${g.utilization_percent} %`}</span>
            <Spark past={past} hour={hour} label={`GPU ${g.index}, last hour`} />
            <p class="gpu-who">
              {silent && <span class="bad"><Text of={g.text} /> </span>}
              {list.slice(0, 1).map((h) => (
                <><span class={`who ${h.mine ? 'mine' : 'theirs'}`}><Text of={h.mine ? 'you' : h.who} /></span>{h.note === 'stalled' && <span class="bad"> stalled</span>} <Text of={h.what} />
                  {h.since && <span class="muted"> for <Lasted from={h.since} /></span>}{h.note && h.note !== 'stalled' && <span class="muted">, {h.note}</span>}</>
              ))}
              {list.length > 1 && <span class="muted" title={list.slice(1).map((h) => `${clean(h.mine ? 'you' : h.who)} ${clean(h.what)}`).join('\n')}> +{list.length - 1}</span>}
              {!silent && !list.length && <span class="muted">{g.text && !g.fits ? <Text of={g.text} /> : 'free'}</span>}
              {g.quarantines.map((q) => <span class="warn"> quarantined until {time(q.until)}: <Text of={q.text} /></span>)}
              {g.row_remap_pending && <span class="warn"> has faulty memory until the GPU is reset</span>}
            </p>
            {isOpen && <Details id={`gpu-${i}`} g={g} />}
          </li>
        );
      })}
    </ul>
  );
}

const short = (name: string) => name.replace(/^NVIDIA /, '').replace(/^GeForce /, '');

function Details({ id, g }: { id: string; g: GPU }) {
  return (
    <div class="gpu-more" id={id}>
      <dl class="facts">
        <dt>Model</dt><dd><Text of={g.name} />{g.mig ? ' (MIG instance)' : ''}</dd>
        <dt>UUID</dt><dd class="mono"><Text of={g.uuid} /></dd>
        <dt>PCI</dt><dd class="mono"><Text of={g.pci} /></dd>
        <dt>Free memory</dt><dd>{bytes(g.memory_free_bytes)}</dd>
        <dt>A job now</dt><dd>{g.fits ? 'could start here' : 'could not start here'}{g.text ? <>: <Text of={g.text} /></> : ''}</dd>
      </dl>
      {g.processes == null ? <p class="muted">Cannot list the GPU's processes.</p> : g.processes.length > 0 && (
        <div class="scroll"><table class="data">
          <caption class="hidden-text">Processes on GPU {g.index}</caption>
          <thead><tr><th scope="col" class="num">PID</th><th scope="col">User</th><th scope="col">Command</th><th scope="col" class="num">Memory</th><th scope="col">Idle for</th></tr></thead>
          <tbody>{g.processes.map((p) => (
            <tr key={p.pid}><td class="num">{p.pid}</td><td><Text of={p.user ?? '?'} /></td><td><Text of={p.command ?? '?'} /></td>
              <td class="num">{bytes(p.memory_bytes)}</td><td>{p.idle_seconds ? duration(p.idle_seconds) : ''}</td></tr>
          ))}</tbody>
        </table></div>
      )}
    </div>
  );
}

function Waiting({ waiting, gpus }: { waiting: Waiter[]; gpus: GPU[] }) {
  const index = (uuid: string) => gpus.find((g) => g.uuid === uuid)?.index;
  const which = (uuids: string[]) => {
    const ids = uuids.map(index).filter((i): i is number => i != null);
    return ids.length && ids.length < gpus.length ? `, GPU ${ranges(ids)}` : '';
  };
  return (
    <div class="card scroll" tabIndex={0} role="region" aria-label="Waiting runs"><table class="data">
      <caption class="hidden-text">Runs waiting for GPUs, in order</caption>
      <thead><tr><th scope="col" class="num">#</th><th scope="col">User</th><th scope="col">Requests</th><th scope="col" class="num">Holds</th><th scope="col">Waited</th></tr></thead>
      <tbody>{waiting.map((w) => (
        <tr key={w.position} class={w.you ? 'you' : ''}>
          <td class="num">{w.position}</td>
          <td><span class={`who ${w.you ? 'mine' : 'theirs'}`}><Text of={w.you ? 'you' : w.user} /></span>{w.background && <span class="muted"> background</span>}
            {w.run == null && <div class="muted">your place if you joined now</div>}</td>
          <td>{w.asks.map((a) => <div>{a.jobs > 1 ? `${a.jobs} × ` : ''}{count(a.gpus, 'GPU')} with {bytes(a.memory_bytes)}{a.share ? ', shared' : ''}{which(a.uuids)}</div>)}
            {w.text && <div class="muted clamp" title={clean(w.text)}><Text of={w.text} /></div>}</td>
          <td class="num">{+w.holds_gpus.toFixed(2)}</td>
          <td><span title={stamp(w.since)}><Lasted from={w.since} /></span>
            {w.expected_start && Date.parse(w.expected_start) > now() && <div class="muted">starts by {time(w.expected_start)}</div>}</td>
        </tr>
      ))}</tbody>
    </table></div>
  );
}

function Rules({ rules: r }: { rules: HostRules }) {
  const rows: [string, string][] = [];
  if (r.devices) rows.push(['GPUs for gpurun', r.devices.join(', ')]);
  if (r.reserve) rows.push(['Reserved for others', count(r.reserve, 'GPU')]);
  if (r.max_gpus != null) rows.push(['Your GPU limit', `${count(r.max_gpus, 'GPU')}${r.max_gpus_by ? ` (${r.max_gpus_by})` : ''}; you hold ${r.held_gpus}`]);
  if (r.max_gpus_per_job != null) rows.push(['GPU limit per job', count(r.max_gpus_per_job, 'GPU')]);
  if (r.max_timeout_seconds != null) rows.push(['Time limit per job', duration(r.max_timeout_seconds)]);
  if (r.others === 'avoid') rows.push(['Other users', "nothing starts on a GPU with another user's process"]);
  for (const h of r.hours) rows.push(['Hours', h]);
  rows.push(['Order', r.schedule === 'fifo' ? 'longest wait first' : 'fewest GPUs held first']);
  if (r.priority !== 1) rows.push(['Your priority', String(r.priority)]);
  rows.push(['From', r.file]);
  return <div class="card"><dl class="facts body">{rows.map(([k, v]) => <><dt>{k}</dt><dd><Text of={v} /></dd></>)}</dl></div>;
}
