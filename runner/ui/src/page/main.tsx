// The page: its header, the current route, and the sign-in.
import { render } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { clean } from '../common/format';
import '../common/theme.css';
import { askTabs, giveToken, hasToken, session, takeToken, unknownToken } from './api';
import { BatchPage } from './batch';
import { titleOf } from './batches';
import { Question } from './control';
import { HomePage } from './host';
import { JobPage } from './job';
import { Keys, useKeys } from './keys';
import { changed, useLive } from './live';
import { Notes, say, Text } from './parts';
import { batchPath, go, homePath, parse, type Route } from './route';
import { app, lock, unwatch, watch } from './store';
import './page.css';

function App() {
  useLive();
  const [route, setRoute] = useState<Route>(() => parse(location.hash));
  const where = route.page === 'batch' || route.page === 'job' ? route.id : null;
  useLayoutEffect(() => { // before the first frame, so that no change is missed
    const turn = () => {
      if (location.hash.startsWith('#token=')) { takeToken(); enter(); }
      setRoute(parse(location.hash));
    };
    addEventListener('hashchange', turn);
    return () => removeEventListener('hashchange', turn);
  }, []);
  const known = !app.locked && hasToken();
  useEffect(() => { if (known) watch(where); }, [where, known]);
  // A new page starts at its top, on screen and for screen readers.
  const place = route.page === 'batch' ? `${route.id} ${route.tab}` : route.page === 'job' ? `${route.id} ${route.job}` : route.page;
  const log = route.page === 'batch' && route.tab === 'log' && !!app.batch?.loaded; // the log scrolls to its own end
  useEffect(() => { scrollTo(0, 0); say(document.title); }, [place]);
  useEffect(() => { if (log) document.querySelector('.tabs')?.scrollIntoView(); }, [place, log]);
  useTitle(route);
  useKeys([
    { keys: ['h', 'b'], does: 'home: batches and GPUs', run: () => go(homePath) },
  ]);
  if (app.locked) return <><Locked /><Notes /></>;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); const m = document.getElementById('main'); m?.setAttribute('tabindex', '-1'); m?.focus(); }}>Skip to content</a>
      <Bar route={route} />
      {app.session?.prompt && <aside class="prompt" aria-label="From the owner of this host"><Text of={app.session.prompt} /></aside>}
      {app.connected === false && <p class="lost" role="alert"><b>Not connected.</b> <Text of={app.why} />; reconnecting. The page may be out of date.</p>}
      {route.page === 'home' && <HomePage />}
      {route.page === 'batch' && app.batch?.id === route.id && <BatchPage key={route.id} batch={app.batch} tab={route.tab} query={route.query} />}
      {route.page === 'job' && app.batch?.id === route.id && <JobPage key={route.job} batch={app.batch} id={route.job} query={route.query} />}
      <Question /><Keys /><Notes />
    </>
  );
}

function Bar({ route }: { route: Route }) {
  const s = app.session;
  const state = app.connected === null ? ['wait', 'connecting'] : app.connected ? ['on', 'live'] : ['off', 'not connected'];
  return (
    <header class="bar">
      <a class="brand" href={homePath} aria-current={route.page === 'home' ? 'page' : undefined}>gpurun</a>
      {route.page !== 'home' && <nav aria-label="Breadcrumb"><a href={homePath}>Batches</a>{app.batch?.summary && <> / <a href={batchPath(app.batch.id)}><Text of={titleOf(app.batch.summary.batch)} /></a></>}</nav>}
      <span class="grow" />
      {s && <span class="me muted"><Text of={`${s.user}@${s.host}`} />{s.control === 'none' && <span class="badge" title="Started without --control, or opened with the read token">read only</span>}</span>}
      <span class={`live ${state[0]}`} role="status"><i aria-hidden="true" />{state[1]}</span>
      <button class="plain" aria-label="Keys" title="Keys (?)" onClick={() => dispatchEvent(new Event('keys-help'))}>?</button>
    </header>
  );
}

// The title shows a batch's progress, in background tabs too.
function useTitle(route: Route) {
  const b = app.batch, s = b?.summary;
  let title = 'gpurun';
  if (route.page === 'home') title = `${clean(app.session?.host ?? 'Batches')} – gpurun`;
  else if (s) {
    const { failed: bad, done, total } = s.tally;
    const how = s.run?.alive ? `${done}/${total}${bad ? ` ✗${bad}` : ''}` : bad ? `✗ ${bad} failed` : '✓';
    const job = route.page === 'job' ? b.find(route.job)?.name : undefined;
    title = `${how} ${clean(job ?? titleOf(s.batch))} – gpurun`;
  }
  useEffect(() => { document.title = title; }, [title]);
  const alive = s?.run?.alive;
  useEffect(() => { if (alive === false && s) say(`The run of ${titleOf(s.batch)} has ended.`); }, [alive]);
}

// Shown without a token, or with one that the server rejects.
function Locked() {
  const [text, set] = useState('');
  return (
    <main id="main" class="locked">
      <h1>gpurun</h1>
      <p>{hasToken() ? 'This token is not valid for this server.' : 'This page needs a token.'} Open the URL that <code>gpurun web</code> printed, or paste it here.</p>
      <form onSubmit={(e) => { e.preventDefault(); giveToken(text); enter(); }}>
        <label class="field">URL or token<input type="text" class="mono" autocomplete="off" spellcheck={false} value={text} onInput={(e) => set(e.currentTarget.value)} autofocus /></label>
        <button class="button primary">Open</button>
      </form>
    </main>
  );
}

// enter opens the session, and retries until the server answers.
function enter() {
  unwatch();
  if (!hasToken()) {
    askTabs();
    return void setTimeout(() => hasToken() || lock(), 400);
  }
  app.locked = false;
  changed();
  session().then((s) => { app.session = s; changed(); }, (err) => {
    if (unknownToken(err)) return lock();
    setTimeout(() => enter(), 3000);
  });
}

// The host owner's message may change while the page is open.
setInterval(() => {
  if (app.session && app.connected && document.visibilityState === 'visible') session().then((s) => { app.session = s; changed(); }, () => {});
}, 60_000);

takeToken();
addEventListener('token', enter);
enter();
render(<App />, document.getElementById('app')!);
