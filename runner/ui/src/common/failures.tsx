// Failed jobs, grouped by error. Opening a group shows the end of its first job's log.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { clean } from './format';
import { stateWords } from './states';
import type { Alike } from './types';

interface Props<T> {
  groups: T[];
  name: (job: string) => ComponentChildren; // link to the job
  log: (group: T) => ComponentChildren; // end of the first job's log
  all?: (group: T) => ComponentChildren; // link to all its jobs
  actions?: (group: T) => ComponentChildren;
}

const first = 5, named = 3;

export function Failures<T extends Alike>(p: Props<T>) {
  const [all, setAll] = useState(false);
  return (
    <>
      <ol class="failures">{p.groups.slice(0, all ? undefined : first).map((g) => <One key={g.cause.text + g.jobs[0]} {...p} group={g} />)}</ol>
      {p.groups.length > first && !all && <button class="button" onClick={() => setAll(true)}>{p.groups.length - first} more errors</button>}
    </>
  );
}

function One<T extends Alike>({ group: g, name, log, all, actions }: Props<T> & { group: T }) {
  const [open, setOpen] = useState(false);
  return (
    <li>
      <div class="head">
        <button class="cause" aria-expanded={open} onClick={() => setOpen(!open)} title={`${stateWords(g.state)}: ${clean(g.cause.text)}`}>
          <span class="state bad"><span class="symbol" aria-hidden="true">✗</span>{g.count.toLocaleString('en-US')}</span> <b>{clean(g.cause.text).split('; no retry: ')[0]}</b></button>
        {g.apart && <span class="apart">{clean(g.apart)}</span>}
        <span class="names">{g.jobs.slice(0, named).map(name)}{g.count > named && (all?.(g) ?? <span class="muted">and {g.count - named} more</span>)}</span>
        {actions && <span class="buttons">{actions(g)}</span>}
      </div>
      {open && log(g)}
    </li>
  );
}
