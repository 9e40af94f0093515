// Actions on a run. Each can also be copied as a command, which is the only way if the server is
// read-only. An action that ends jobs shows what would be lost and needs a second click.
import { useEffect, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { base, clean, copy, count } from '../common/format';
import { get, post, Refused } from './api';
import { changed, now } from './live';
import { Dialog, narrow, Text, tell, useMedia } from './parts';
import { batchPath, jobPath } from './route';
import { app, may, type BatchStore } from './store';
import { quote, split, unfinished } from './words';
import type { Alike, BatchRow, GPUs, JobRow, Summary } from '../common/types';

/** Requests a change and shows the result. Returns the reason if the server refuses. */
export async function act(path: string, body: unknown): Promise<Refused | null> {
  try {
    const said = await post(path, body);
    tell(said[0] ?? 'done', false, said.slice(1));
    return null;
  } catch (err) {
    tell((err as Error).message, true, err instanceof Refused ? err.more : []);
    return err instanceof Refused ? err : null;
  }
}

// The open confirmation.
let question: { title: string; text: ComponentChildren; yes: string; run: () => void } | null = null;

function ask(title: string, text: ComponentChildren, yes: string, run: () => void) {
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

export interface Verb {
  word: string;
  title: string;
  command?: string[]; // arguments of gpurun
  path?: string; // path of the request; undefined if the server is read-only
  body?: object;
  others?: Pick<Verb, 'command' | 'body'>[]; // the same action for jobs in other files, which may have the same names
  force?: [string, object]; // question to ask after a refusal, and the body that overrides it
  loss?: string; // what the action would end; shown before the second click that it needs
  danger?: boolean;
  href?: string; // follows a link
  open?: () => void; // opens a dialog
}

const parts = (v: Verb) => [v, ...v.others ?? []];
const written = (commands: string[][]) => commands.map((c) => ['gpurun', ...c].map(quote).join(' ')).join('; ');

function copied(...commands: string[][]) {
  const text = written(commands);
  void copy(text).then(() => tell(`Copied: ${text}`), () => tell(text));
}

const perform = (v: Verb) => {
  const run = async () => {
    for (const { body } of parts(v)) {
      const refused = await act(v.path!, body ?? {});
      if (refused?.status === 409 && v.force) ask(v.force[0], refused.message, v.word, () => void act(v.path!, { ...body, ...v.force![1] }));
    }
  };
  v.loss ? ask(`${v.word.replace(/ …$/, '')}?`, v.loss, v.word, () => void run()) : void run();
};

const Sheets = () => <svg class="sheets" viewBox="0 0 16 16" aria-hidden="true"><path d="M5.5 5.5h8v8h-8zM2.5 10.5v-8h8" /></svg>;

/** Buttons for some actions. A narrow page shows them as a menu. */
export function Verbs({ verbs, small, label }: { verbs: Verb[]; small?: boolean; label: string }) {
  const [copying, copy] = useState(false), menu = useMedia(narrow);
  if (!verbs.length) return null;
  const cls = (v: Verb) => `button ${small ? 'small' : ''} ${v.danger ? 'danger' : ''}`;
  const buttons = (
    <div class="buttons" role="group" aria-label={label}>
      {verbs.map((v) => {
        if (v.href) return <a key={v.word} class={cls(v)} href={v.href} title={v.title}>{v.word}</a>;
        const copies = !v.open && (copying || !v.path);
        return <button key={v.word} class={cls(v)} title={copies ? `Copy: ${written(parts(v).map((p) => p.command!))}` : v.title} onClick={() => v.open ? v.open() : copies ? copied(...parts(v).map((p) => p.command!)) : perform(v)}>{v.word}{copies && <Sheets />}</button>;
      })}
      {verbs.some((v) => v.path) && <button class={`button ${small ? 'small' : ''}`} aria-pressed={copying} aria-label="Copy as commands" title="Copy these actions as commands" onClick={() => copy(!copying)}><Sheets /></button>}
    </div>
  );
  return menu && verbs.length > 1 ? <details class="menu"><summary class="button">Actions</summary>{buttons}</details> : buttons;
}

type Target = Pick<JobRow, 'file' | 'name' | 'state' | 'wait'> & Partial<Pick<JobRow, 'gpus' | 'started' | 'ended'>>;

/** "Ends 6 jobs, losing 0.1 GPU hours." */
export function lossOf(jobs: Target[]): string {
  const running = jobs.filter((j) => j.state === 'running');
  return `Ends ${count(running.length, 'job')}, losing ${gpuHours(running)}.`;
}

function gpuHours(jobs: Target[]): string {
  const ms = jobs.reduce((sum, j) => sum + (j.started ? ((j.ended ? Date.parse(j.ended) : now()) - Date.parse(j.started)) * (j.gpus?.length ?? 0) : 0), 0);
  return ms < 360_000 ? count(Math.round(ms / 60_000), 'GPU minute') : `${(ms / 3_600_000).toFixed(1)} GPU hours`;
}

const fileOf = (s: Summary | null, index = 0) => s?.batch.files[index]?.path ?? 'FILE';

/** The actions that apply to some jobs of a batch now. */
export function verbsFor(batch: string, summary: Summary | null, jobs: Target[]): Verb[] {
  if (!jobs.length) return [];
  const alive = summary?.run?.alive ?? false, many = jobs.length > 1;
  const is = (...states: string[]) => jobs.filter((j) => states.includes(j.state));
  const verbs: Verb[] = [];
  const add = (word: string, title: string, verb: string, list: Target[], more: Partial<Verb> = {}, words = (names: string[]) => [verb, ...names]) => {
    if (!list.length) return;
    const [first, ...others] = [...new Set(list.map((j) => j.file))].map((f) => {
      const names = list.filter((j) => j.file === f).map((j) => j.name), file = fileOf(summary, f);
      return { command: [...words(names), '--file', file], body: { jobs: names, ...(summary && summary.batch.files.length > 1 && { file }), ...more.body } };
    });
    verbs.push({
      word, title, path: may('control') ? `/batches/${encodeURIComponent(batch)}/${verb}` : undefined,
      loss: many ? `${word} ${count(list.length, 'job')}: no work is lost.` : undefined, ...more, ...first, others,
    });
  };
  const todo = is('pending', 'waiting', 'queued'), held = todo.filter((j) => j.wait?.code === 'paused'), good = is('succeeded', 'up_to_date');
  const again = is('failed', 'timeout', 'oom', 'stalled', 'lost', 'cancelled', 'interrupted', ...(alive ? ['waiting'] : []));
  if (again.length && alive) add('Retry', 'Try again now, with all retries', 'retry', again);
  else if (again.length && summary) verbs.push(rerun(summary, 'Retry', again.map((j) => j.name)));
  if (!many && again.length) {
    verbs.push({ word: 'Log', title: 'Show its output', href: batchPath(batch, 'log', { job: jobs[0].name }) });
    verbs.push({ word: 'Why', title: 'Why it failed', href: jobPath(batch, jobs[0].name) });
  }
  if (alive) {
    for (const place of ['first', 'last']) {
      add(place === 'first' ? 'First' : 'Last', place === 'first' ? 'Start before all other jobs' : 'Start after all other jobs', 'set', todo,
        { body: { set: { priority: place } } }, (names) => ['set', `priority=${place}`, ...names.flatMap((n) => ['--job', n])]);
    }
    add('Pause', 'Do not start until resumed', 'pause', todo.filter((j) => !held.includes(j)));
    add('Resume', 'Start when its turn comes', 'resume', held);
  }
  add('Forget', 'Run it again next time, even though it succeeded', 'forget', good, many ? { loss: `The next run repeats ${count(good.length, 'job')}, ${gpuHours(good)}. Logs and outputs stay until then.` } : {});
  add('Mark as done', 'Record it as done without running it', 'done', jobs.filter((j) => j.state !== 'running' && !good.includes(j)), { force: ['Mark as done without outputs?', { without_outputs: true }] });
  const stop = [...is('running'), ...(alive ? todo : [])];
  add('Stop', 'End it, or keep it from starting in this run; it runs in the next run', 'stop', stop, { danger: true, ...(is('running').length ? { loss: `${lossOf(stop)}${todo.length && alive ? ` ${count(todo.length, 'waiting job')} will not start.` : ''}` } : {}) });
  return verbs;
}

function rerun(s: Summary, word: string, only: string[] = []): Verb {
  const files = s.batch.files.map((f) => f.path), param = Object.entries(s.batch.params ?? {}).map(([k, v]) => `${k}=${v}`);
  return {
    word, title: 'Run jobs that are not up to date', command: ['run', '-d', ...files, ...param.flatMap((p) => ['-p', p]), ...only.flatMap((n) => ['--only', n])],
    path: may('run') ? '/runs' : undefined, body: { files, options: { ...(param.length && { param }), ...(only.length && { only }) } },
  };
}

/** Retries the jobs of a failure group. */
export function RetryGroup({ batch, group }: { batch: BatchStore; group: Alike }) {
  const jobs = batch.jobs.filter((j) => j.kind === group.kind);
  const retry = verbsFor(batch.id, batch.summary, jobs).filter((v) => v.word === 'Retry').map((v) => ({ ...v, word: `Retry ${jobs.length}`, loss: undefined }));
  return <Verbs small label={`Actions for ${clean(group.cause.text)}`} verbs={retry} />;
}

/** The buttons of a run. */
export function RunControl({ batch, summary: s }: { batch: string; summary: Summary }) {
  const [dialog, show] = useState<'settings' | 'add' | 'gpu' | ''>('');
  const phase = s.run?.alive ? s.run.phase ?? 'silent' : '', file = fileOf(s);
  const verb = (word: string, title: string, verb: string, more: Partial<Verb> = {}): Verb =>
    ({ word, title, command: [verb, '--file', file], path: may('control') ? `/batches/${encodeURIComponent(batch)}/${verb}` : undefined, ...more });
  const verbs: Verb[] = [];
  if (phase === 'paused' || phase === 'draining') verbs.push(verb('Resume', 'Start jobs again', 'resume'));
  if (phase === 'running' || phase === 'waiting') verbs.push(verb('Pause', 'Start no jobs until resumed; running jobs continue', 'pause'));
  if (phase) {
    verbs.push({ word: 'Settings …', title: 'GPUs, and the number of concurrent jobs', open: () => show('settings') });
    if (inUse().length) verbs.push({ word: 'Free a GPU …', title: 'End the jobs on a GPU, and stop using it in this run', open: () => show('gpu') });
    verbs.push(verb('Reload', 'Reread the job files', 'reload'));
  }
  if (may('run')) verbs.push({ word: 'Add a job …', title: 'Append a job to the job file', open: () => show('add') });
  if (!phase) verbs.push(rerun(s, 'Run'));
  if (phase && phase !== 'draining' && phase !== 'stopping') verbs.push(verb('Drain', 'Start no more jobs; the run ends once its running jobs have ended. Resume undoes this', 'stop', { body: { drain: true }, command: ['stop', '--drain', '--file', file] }));
  if (phase && phase !== 'stopping') verbs.push(verb('Stop', 'End the run and its jobs', 'stop', { danger: true, loss: `${lossOf(app.batch?.jobs ?? [])} The next run of the file continues from here.` }));
  const send = (verb: string, body: object) => act(`/batches/${encodeURIComponent(batch)}/${verb}`, body);
  return (
    <>
      <Verbs verbs={verbs} label="Actions for the run" />
      {dialog === 'settings' && <SettingsDialog summary={s} onClose={() => show('')} send={send} />}
      {dialog === 'gpu' && <FreeDialog file={file} onClose={() => show('')} send={send} />}
      {dialog === 'add' && <AddDialog file={file} onClose={() => show('')} send={send} />}
    </>
  );
}

// The bottom of a dialog: its command, and the button that runs it.
function Deed({ word, command, onClose, danger }: { word: string; command: string[]; onClose: () => void; danger?: boolean }) {
  return (
    <div class="buttons">
      <button type="button" class="button" title={`gpurun ${command.map(quote).join(' ')}`} onClick={() => copied(command)}>Copy as command</button>
      <button type="button" class="button" onClick={onClose}>Cancel</button>
      {may('control') && <button class={`button ${danger ? 'danger' : 'primary'}`}>{word}</button>}
    </div>
  );
}

type Send = (verb: string, body: object) => Promise<unknown>;

// The dialog for a run's GPUs and its number of concurrent jobs.
function SettingsDialog({ summary, onClose, send }: { summary: Summary; onClose: () => void; send: Send }) {
  const settings = summary.run?.settings ?? {};
  const [gpus, setGPUs] = useState<GPUs['gpus'] | null>(null);
  const [ids, setIDs] = useState(settings.gpu_ids === 'not set' ? '' : settings.gpu_ids ?? '');
  const [most, setMost] = useState(/^\d+$/.test(settings.max_concurrent) ? settings.max_concurrent : '');
  useEffect(() => {
    if (summary.run?.sim) return; // simulated GPUs are not the host's
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
  const set: Record<string, string> = {};
  if (ids && ids !== settings.gpu_ids) set.gpu_ids = ids;
  if (most && most !== settings.max_concurrent) set.max_concurrent = most;
  const save = () => {
    if (gpus ? !chosen.size : !ids && settings.gpu_ids !== 'not set') return tell('A run needs a GPU: choose at least one', true);
    if (Object.keys(set).length) void send('set', { set });
  };
  return (
    <Dialog title="Settings of this run" onClose={onClose}>
      <form method="dialog" onSubmit={save}>
        <label class="field">Concurrent jobs
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
        <p class="muted">Changes last until this run ends. Jobs already running on a GPU that you remove will continue.</p>
        <Deed word="Set" onClose={onClose} command={['set', ...Object.entries(set).map(([k, v]) => `${k}=${v}`), '--file', fileOf(summary)]} />
      </form>
    </Dialog>
  );
}

// inUse lists the GPUs with running jobs of the batch, and these jobs.
function inUse(): [number, JobRow[]][] {
  const by = new Map<number, JobRow[]>();
  for (const j of app.batch?.jobs ?? []) {
    if (j?.state === 'running') for (const g of j.gpus) by.set(g, [...by.get(g) ?? [], j]);
  }
  return [...by].sort((a, b) => a[0] - b[0]);
}

// The dialog that frees one of the run's GPUs immediately.
function FreeDialog({ file, onClose, send }: { file: string; onClose: () => void; send: Send }) {
  const [gpu, choose] = useState<number | null>(null), there = inUse();
  const free = () => { if (gpu != null) void send('stop', { gpu }); };
  return (
    <Dialog title="Free a GPU" onClose={onClose}>
      <form method="dialog" onSubmit={free}>
        <fieldset class="field"><legend>GPUs with jobs of this run</legend>
          {there.map(([g, jobs]) => (
            <label key={g} class="check"><input type="radio" name="gpu" required checked={gpu === g} onChange={() => choose(g)} /> GPU {g} <span class="muted">{jobs.slice(0, 3).map((j) => clean(j.name)).join(', ')}{jobs.length > 3 && ` and ${jobs.length - 3} more`}</span></label>
          ))}
        </fieldset>
        <p role="status">{gpu != null && lossOf(there.find(([g]) => g === gpu)?.[1] ?? [])}</p>
        <p class="muted">The jobs on the GPU restart on other GPUs. This run no longer uses the GPU.</p>
        <Deed word="Free it" danger onClose={onClose} command={['stop', '--gpu', String(gpu ?? 0), '--file', file]} />
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

const unmatched = (text: string) => tell('Nothing done: unclosed quote or trailing backslash', true, [text]);

function AddDialog({ file, onClose, send }: { file: string; onClose: () => void; send: Send }) {
  const [text, setText] = useState('');
  const add = () => {
    if (unfinished(text)) return unmatched(text);
    const words = split(text);
    if (words.length) void send('add', { command: words });
  };
  return (
    <Dialog title="Add a job" onClose={onClose}>
      <form method="dialog" onSubmit={add}>
        <label class="field">Command
          <input type="text" class="mono" value={text} placeholder="python train.py --lr 0.1" onInput={(e) => setText(e.currentTarget.value)} autofocus /></label>
        <p class="muted">gpurun appends the job to <Text of={base(file)} />. A live run also starts the job.</p>
        <Deed word="Add" onClose={onClose} command={['add', file, ...split(text)]} />
      </form>
    </Dialog>
  );
}

export function StartDialog({ onClose }: { onClose: () => void }) {
  const [file, setFile] = useState('');
  const [params, setParams] = useState('');
  const start = () => {
    if (unfinished(params)) return unmatched(params);
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
        <p class="muted">Jobs that are up to date do not run again.</p>
        <Deed word="Run" onClose={onClose} command={['run', '-d', file, ...split(params).flatMap((p) => ['-p', p])]} />
      </form>
    </Dialog>
  );
}

