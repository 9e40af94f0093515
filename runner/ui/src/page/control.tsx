// Changes to a run: shown only where the server allows them, asked about where they would
// end work, and answered in the server's words.
import { useEffect, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { base, clean, count } from '../common/format';
import { get, post, Refused } from './api';
import { changed } from './live';
import { Dialog, Text, tell } from './parts';
import { app, may } from './store';
import { split } from './words';
import type { BatchRow, GPUs, JobRow, State, Summary } from './types';

/** Asks for a change and says what came of it; false if it was refused. */
export async function act(path: string, body: unknown): Promise<boolean> {
  try {
    const said = await post(path, body);
    tell(said[0] ?? 'done', false, said.slice(1));
    return true;
  } catch (err) {
    tell((err as Error).message, true, err instanceof Refused ? err.more : []);
    return false;
  }
}

// The question that is open now.
let question: { title: string; text: ComponentChildren; yes: string; run: () => void } | null = null;

export function ask(title: string, text: ComponentChildren, yes: string, run: () => void) {
  question = { title, text, yes, run };
  changed();
}

export function Question() {
  const q = question;
  if (!q) return null;
  const close = () => { question = null; changed(); };
  return (
    <Dialog title={q.title} onClose={close}>
      <p>{q.text}</p>
      <form method="dialog" class="buttons">
        <button class="button" autofocus>Cancel</button>
        <button class="button danger" onClick={q.run}>{q.yes}</button>
      </form>
    </Dialog>
  );
}

export interface Verb { word: string; title: string; run: () => void; danger?: boolean }

const ended: State[] = ['failed', 'timeout', 'oom', 'stalled', 'lost', 'cancelled', 'interrupted', 'blocked'];
type Target = Pick<JobRow, 'name' | 'state' | 'wait'>;

/** What can be done with some jobs of a batch now. */
export function verbsFor(batch: string, summary: Summary | null, jobs: Target[]): Verb[] {
  if (!may('control') || !jobs.length) return [];
  const alive = summary?.run?.alive ?? false;
  const is = (...states: State[]) => jobs.filter((j) => states.includes(j.state));
  const send = (verb: string, list: Target[], body: object = {}) =>
    act(`/batches/${encodeURIComponent(batch)}/${verb}`, { ...body, jobs: list.map((j) => j.name) });
  const running = is('running'), todo = is('pending', 'waiting', 'queued'), bad = jobs.filter((j) => ended.includes(j.state));
  const good = is('succeeded', 'up_to_date');
  const held = todo.filter((j) => j.wait?.code === 'paused');
  const verbs: Verb[] = [];
  if (alive && todo.length) {
    verbs.push({ word: 'First', title: 'Start before all other jobs', run: () => send('set', todo, { set: { priority: 'first' } }) });
    verbs.push({ word: 'Last', title: 'Start after all other jobs', run: () => send('set', todo, { set: { priority: 'last' } }) });
    if (held.length < todo.length) verbs.push({ word: 'Pause', title: 'Do not start until resumed', run: () => send('pause', todo) });
    if (held.length) verbs.push({ word: 'Resume', title: 'Start again when it is its turn', run: () => send('resume', held) });
  }
  const again = [...bad, ...is('waiting')];
  if (alive && again.length) verbs.push({ word: 'Retry', title: 'Try again now, with all retries', run: () => send('retry', again) });
  if (good.length) {
    verbs.push({
      word: 'Forget', title: 'Start it again in the next run, although it has succeeded', run: () => ask(
        `Run ${which(good)} again?`, <>The next run of the file starts {good.length === 1 ? 'it' : 'them'} again. Nothing is deleted: logs and outputs stay until then.</>,
        'Forget', () => send('forget', good)),
    });
  }
  const undone = jobs.filter((j) => j.state !== 'running' && !good.includes(j));
  if (undone.length) {
    let without = false;
    verbs.push({
      word: 'Done', title: 'Count it as done without running it', run: () => ask(
        `Count ${which(undone)} as done?`, <>{undone.length === 1 ? 'It does' : 'They do'} not run any more, until the command changes or you forget {undone.length === 1 ? 'it' : 'them'}.
          <label class="check"><input type="checkbox" onChange={(e) => { without = e.currentTarget.checked; }} /> even if outputs are missing</label></>,
        'Count as done', () => send('done', undone, { without_outputs: without })),
    });
  }
  if (running.length || alive && todo.length) {
    const both = [...running, ...(alive ? todo : [])];
    verbs.push({
      word: 'Stop', title: 'End it, or do not start it, until the next run', danger: true,
      run: () => running.length ? ask(
        `Stop ${running.length === 1 ? which(running) : count(running.length, 'running job')}?`,
        <>{running.length === 1 ? 'Its process is ended' : 'Their processes are ended'}. {both.length > running.length && `${count(both.length - running.length, 'waiting job')} will not start. `}
          The next run of the file starts {both.length === 1 ? 'it' : 'them'} again.</>, 'Stop', () => send('stop', both)) : void send('stop', both),
    });
  }
  return verbs;
}

const which = (jobs: Target[]) => jobs.length === 1 ? clean(jobs[0].name) : count(jobs.length, 'job');

export function Verbs({ verbs, small }: { verbs: Verb[]; small?: boolean }) {
  return <>{verbs.map((v) => (
    <button key={v.word} class={`button ${small ? 'small' : ''} ${v.danger ? 'danger' : ''}`} title={v.title} onClick={v.run}>{v.word}</button>
  ))}</>;
}

/** The buttons of a run. */
export function RunControl({ batch, summary: s }: { batch: string; summary: Summary }) {
  const [dialog, show] = useState<'settings' | 'add' | 'gpu' | ''>('');
  const alive = s.run?.alive ?? false, phase = s.run?.phase;
  const send = (verb: string, body: object = {}) => act(`/batches/${encodeURIComponent(batch)}/${verb}`, body);
  if (!may('control')) return null;
  const running = s.counts.running ?? 0;
  return (
    <div class="buttons" role="group" aria-label="Control of the run">
      {alive && (phase === 'paused' ?
        <button class="button" title="Start jobs again" onClick={() => send('resume')}>Resume</button> :
        (phase === 'running' || phase === 'waiting') && <button class="button" title="Start nothing until resumed; what runs goes on" onClick={() => send('pause')}>Pause</button>)}
      {alive && <button class="button" onClick={() => show('settings')}>Settings …</button>}
      {alive && inUse().length > 0 && <button class="button" title="End the jobs on a GPU, and use it no more in this run" onClick={() => show('gpu')}>Free a GPU …</button>}
      {alive && <button class="button" title="Read the job files again" onClick={() => send('reload')}>Reload</button>}
      {may('run') && <button class="button" onClick={() => show('add')}>Add a job …</button>}
      {!alive && may('run') && <button class="button primary" title="Run what is not up to date" onClick={() => rerun(s)}>Run</button>}
      {alive && phase !== 'draining' && phase !== 'stopping' &&
        <button class="button" title="Start nothing more; running jobs end as they would, then the run" onClick={() => send('stop', { drain: true })}>Drain</button>}
      {alive && phase !== 'stopping' && <button class="button danger" onClick={() => ask('Stop the run?',
        <>{running > 0 ? `${count(running, 'running job')} ${running === 1 ? 'is' : 'are'} ended. ` : ''}The next run of the file goes on where this one stops.</>,
        'Stop the run', () => void send('stop'))}>Stop</button>}
      {dialog === 'settings' && <SettingsDialog summary={s} onClose={() => show('')} send={send} />}
      {dialog === 'gpu' && <FreeDialog onClose={() => show('')} send={send} />}
      {dialog === 'add' && <AddDialog file={s.batch.files[0]?.path ?? ''} onClose={() => show('')} send={send} />}
    </div>
  );
}

const rerun = (s: Summary) => void act('/runs', { files: s.batch.files.map((f) => f.path), options: {} });

type Send = (verb: string, body: object) => Promise<boolean>;

// The GPUs of a run and how many jobs it runs at once.
function SettingsDialog({ summary, onClose, send }: { summary: Summary; onClose: () => void; send: Send }) {
  const settings = summary.run?.settings ?? {};
  const [gpus, setGPUs] = useState<GPUs['gpus'] | null>(null);
  const [ids, setIDs] = useState(settings.gpu_ids === 'not set' ? '' : settings.gpu_ids ?? '');
  const [most, setMost] = useState(/^\d+$/.test(settings.max_concurrent) ? settings.max_concurrent : '');
  useEffect(() => {
    if (summary.run?.sim) return; // its GPUs are not those of the host
    const over = new AbortController();
    get<GPUs>('/host', over.signal).then((d) => setGPUs(d.gpus), () => {});
    return () => over.abort();
  }, []);
  const chosen = indices(ids, gpus);
  const toggle = (i: number) => {
    const now = new Set(chosen);
    now.has(i) ? now.delete(i) : now.add(i);
    setIDs(now.size ? [...now].sort((a, b) => a - b).join(',') : 'none');
  };
  const save = () => {
    const set: Record<string, string> = {};
    if (gpus ? !chosen.size : !ids && settings.gpu_ids !== 'not set') return tell('A run needs a GPU: choose at least one', true);
    if (ids && ids !== settings.gpu_ids) set.gpu_ids = ids;
    if (most && most !== settings.max_concurrent) set.max_concurrent = most;
    if (Object.keys(set).length) void send('set', { set });
  };
  return (
    <Dialog title="Settings of this run" onClose={onClose}>
      <form method="dialog" onSubmit={save}>
        <label class="field">Jobs at once
          <input type="text" inputMode="numeric" placeholder={settings.max_concurrent} value={most} onInput={(e) => setMost(e.currentTarget.value)} autofocus /></label>
        {gpus && (
          <fieldset class="field"><legend>GPUs</legend>
            {gpus.map((g) => (
              <label class="check"><input type="checkbox" checked={chosen.has(g.index)} onChange={() => toggle(g.index)} /> GPU {g.index} <span class="muted"><Text of={g.name} /></span></label>
            ))}
          </fieldset>
        )}
        {!gpus && <label class="field">GPUs, such as 0,2-3
          <input type="text" placeholder="all" value={ids} onInput={(e) => setIDs(e.currentTarget.value)} /></label>}
        <p class="muted">Until this run ends. A job that is running on a GPU that you take away goes on.</p>
        <div class="buttons"><button type="button" class="button" onClick={onClose}>Cancel</button><button class="button primary">Set</button></div>
      </form>
    </Dialog>
  );
}

// inUse lists the GPUs on which jobs of the batch run, with their names.
function inUse(): [number, string[]][] {
  const by = new Map<number, string[]>();
  for (const j of app.batch?.jobs ?? []) {
    if (j?.state === 'running') for (const g of j.gpus) by.set(g, [...by.get(g) ?? [], clean(j.name)]);
  }
  return [...by].sort((a, b) => a[0] - b[0]);
}

// A GPU that the run is to leave, now.
function FreeDialog({ onClose, send }: { onClose: () => void; send: Send }) {
  const [gpu, choose] = useState<number | null>(null);
  const free = () => { if (gpu != null) void send('stop', { gpu }); };
  return (
    <Dialog title="Free a GPU" onClose={onClose}>
      <form method="dialog" onSubmit={free}>
        <fieldset class="field"><legend>GPUs on which jobs of this run are</legend>
          {inUse().map(([g, names]) => (
            <label key={g} class="check"><input type="radio" name="gpu" required checked={gpu === g} onChange={() => choose(g)} /> GPU {g} <span class="muted">{names.slice(0, 3).join(', ')}{names.length > 3 && ` and ${names.length - 3} more`}</span></label>
          ))}
        </fieldset>
        <p class="muted">Its jobs are ended and start again elsewhere. This run uses the GPU no more.</p>
        <div class="buttons"><button type="button" class="button" onClick={onClose}>Cancel</button><button class="button danger">Free it</button></div>
      </form>
    </Dialog>
  );
}

function indices(ids: string, gpus: GPUs['gpus'] | null): Set<number> {
  if (!ids) return new Set(gpus?.map((g) => g.index));
  const out = new Set<number>();
  for (const part of ids.split(',')) {
    const m = /^\s*(\d+)(?:-(\d+))?\s*$/.exec(part);
    if (m) for (let i = +m[1]; i <= +(m[2] ?? m[1]); i++) out.add(i);
    else for (const g of gpus ?? []) if (g.uuid === part.trim()) out.add(g.index);
  }
  return out;
}

function AddDialog({ file, onClose, send }: { file: string; onClose: () => void; send: Send }) {
  const [text, setText] = useState('');
  const add = () => { const words = split(text); if (words.length) void send('add', { command: words }); };
  return (
    <Dialog title="Add a job" onClose={onClose}>
      <form method="dialog" onSubmit={add}>
        <label class="field">Command
          <input type="text" class="mono" value={text} placeholder="python train.py --lr 0.1" onInput={(e) => setText(e.currentTarget.value)} autofocus /></label>
        <p class="muted">It is written to the end of <Text of={base(file)} />, and joins the run if one is live.</p>
        <div class="buttons"><button type="button" class="button" onClick={onClose}>Cancel</button><button class="button primary">Add</button></div>
      </form>
    </Dialog>
  );
}

export function StartDialog({ onClose }: { onClose: () => void }) {
  const [file, setFile] = useState('');
  const [params, setParams] = useState('');
  const start = () => {
    const param = split(params);
    if (file) void act('/runs', { files: [file], options: param.length ? { param } : {} });
  };
  const known = (app.batches ?? []).filter((b) => !b.run?.alive);
  return (
    <Dialog title="Run a job file" onClose={onClose}>
      <form method="dialog" onSubmit={start}>
        <label class="field">Job file below {app.session?.roots.join(', ')}
          <input type="text" class="mono" list="known-files" value={file} onInput={(e) => setFile(e.currentTarget.value)} autofocus /></label>
        <datalist id="known-files">{known.flatMap((b: BatchRow) => b.files).map((f) => <option value={f.path} />)}</datalist>
        <label class="field">Parameters, such as lr=0.1 seed=1..5
          <input type="text" class="mono" value={params} onInput={(e) => setParams(e.currentTarget.value)} /></label>
        <p class="muted">What is up to date does not run again.</p>
        <div class="buttons"><button type="button" class="button" onClick={onClose}>Cancel</button><button class="button primary">Run</button></div>
      </form>
    </Dialog>
  );
}

