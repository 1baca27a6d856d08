// The frame of the page: search, views, kinds, the slider; login and errors.

import { useEffect, useRef } from 'preact/hooks';
import * as data from './data.ts';
import { kindName } from './lanes.ts';
import * as store from './store.ts';
import type { View } from './route.ts';
import { Compare } from './views/compare.tsx';
import { List } from './views/list.tsx';
import { ObjectView } from './views/object.tsx';
import { Overview } from './views/overview.tsx';
import { Scheduling } from './views/scheduling.tsx';
import { Server } from './views/server.tsx';
import { Slider } from './views/slider.tsx';
import { Timeline } from './views/timeline.tsx';
import { natural } from './tree.ts';

export function App() {
  const phase = store.phase.value;
  if (phase === 'login' || phase === 'failed') return <Closed isLogin={phase === 'login'} />;
  if (phase !== 'ready') return <Loading />;
  return <Page />;
}

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <rect x="1.5" y="3" width="10" height="3.2" rx="1.6" />
      <rect x="5.5" y="8.4" width="13" height="3.2" rx="1.6" class="second" />
      <rect x="8.5" y="13.8" width="8" height="3.2" rx="1.6" />
    </svg>
  );
}

function Loading() {
  return (
    <main class="center" aria-busy="true">
      <div class="box">
        <Logo />
        <h1>kstore</h1>
        <p role="status">Loading: {store.message.value || 'starting'}…</p>
        <progress aria-label="Loading" />
      </div>
    </main>
  );
}

function Closed({ isLogin }: { isLogin: boolean }) {
  return (
    <main class="center">
      <div class="box">
        <Logo />
        <h1>{isLogin ? 'Log in' : data.isReport ? 'The report cannot be read' : 'The server does not answer'}</h1>
        {store.message.value && <p class="problem">{store.message.value}</p>}
        {isLogin ? (
          <p>
            A link opens this page once, within a minute. Get one with <code>kstore-server ui</code>
          </p>
        ) : data.isReport ? null : (
          <button type="button" onClick={() => location.reload()}>
            Try again
          </button>
        )}
      </div>
    </main>
  );
}

function Page() {
  useKeys();
  const { view, subject } = store.route.value;
  const main = useRef<HTMLElement>(null);
  // Another view begins at its top.
  useEffect(() => main.current?.scrollTo(0, 0), [view, subject]);
  return (
    <div class="page" data-at={store.revision.value} data-view={view}>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById('main')?.focus())}>
        To the content
      </a>
      <Top />
      <Kinds />
      <main id="main" ref={main} tabIndex={-1} class={store.isLive.value ? '' : 'past'}>
        <h1 class="hidden">{view}</h1>
        {view === 'overview' && <Overview />}
        {view === 'timeline' && <Timeline />}
        {view === 'object' && <ObjectView key={store.route.value.subject} />}
        {view === 'list' && <List key={subject} />}
        {view === 'compare' && <Compare />}
        {view === 'scheduling' && <Scheduling />}
        {view === 'server' && <Server />}
      </main>
      <Slider />
      {store.showsHelp.value && <Help />}
    </div>
  );
}

const VIEWS: [View, string][] = [
  ['overview', 'Overview'],
  ['timeline', 'Timeline'],
  ['list', 'Objects'],
  ['compare', 'Compare'],
  ['scheduling', 'Scheduling'],
  ['server', 'Server'],
];

function Top() {
  const { view, namespace, search, subject } = store.route.value;
  const namespaces = [...store.tree.value.rows.values()].filter((row) => row.k === 'namespaces').map((row) => row.m).sort(natural);
  if (namespace && !namespaces.includes(namespace)) namespaces.push(namespace);
  const about = store.about.value;
  return (
    <header class="top">
      <a class="brand" href={store.address({ view: 'overview', subject: '', search: '' })} aria-label="kstore: overview">
        <Logo /> kstore
      </a>
      <nav aria-label="Views">
        {VIEWS.map(([own, name]) => (
          <a key={own} href={store.address({ view: own, subject: '', ...(own === 'list' ? {} : { search: '' }) })} aria-current={view === own ? 'page' : undefined}>
            {name}
          </a>
        ))}
        {view === 'object' && (
          <a href={store.address({})} aria-current="page">
            {kindName(subject.split('/')[0])}
          </a>
        )}
      </nav>
      <span class="space" />
      <label class="choice">
        <span class="hidden">Namespace</span>
        <select value={namespace} onChange={(event) => store.go({ namespace: event.currentTarget.value })}>
          <option value="">all namespaces</option>
          {namespaces.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label class="search">
        <span class="hidden">Search</span>
        <input
          id="search"
          type="search"
          placeholder="Search: web, kind:pod, app=web …"
          value={search}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => {
            const text = event.currentTarget.value;
            const stays = view === 'timeline' || (view === 'list' && store.route.value.subject === subject);
            store.go(stays ? { search: text } : { view: 'list', subject: '', search: text }, stays);
          }}
        />
        <kbd aria-hidden="true">/</kbd>
      </label>
      {about && (
        <span class="user" title={`You see what ${about.user} may see`}>
          <bdi>{about.user}</bdi>
          {data.isReport ? <span class="tag">report</span> : about.clock === 'virtual' && <span class="tag">virtual time</span>}
        </span>
      )}
      <button type="button" class="icon" aria-label="Dark or light (d)" title="Dark or light (d)" onClick={store.toggleTheme}>
        <svg viewBox="0 0 12 12" width="14" height="14" aria-hidden="true">
          <path d="M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1zm0 1.3v7.4a3.7 3.7 0 0 1 0-7.4z" fill-rule="evenodd" />
        </svg>
      </button>
      <button type="button" class="icon" aria-label="Help (?)" title="Help (?)" onClick={() => (store.showsHelp.value = true)}>
        ?
      </button>
    </header>
  );
}

/** The kinds with objects at the cursor. */
function Kinds() {
  const { view, subject, namespace } = store.route.value;
  const counts = new Map<string, number>();
  for (const row of store.tree.value.rows.values()) {
    if (!namespace || row.n === namespace) counts.set(row.k, (counts.get(row.k) ?? 0) + 1);
  }
  const found = [...counts.entries()].sort(([a], [b]) => place(a) - place(b) || natural(kindName(a), kindName(b)));
  const main = found.filter(([kind]) => place(kind) < MAIN.length || isCustom(kind));
  const rest = found.filter((entry) => !main.includes(entry));
  const hidden = [...store.kinds.value.values()].filter((kind) => kind.visible === 'none').map((kind) => kind.plural);
  const link = ([kind, number]: [string, number]) => (
    <li key={kind}>
      <a href={store.address({ view: 'list', subject: kind, search: '' })} aria-current={view === 'list' && subject === kind ? 'page' : undefined} title={kind}>
        <span>{kindName(kind)}</span> <span class="number">{number.toLocaleString('en')}</span>
      </a>
    </li>
  );
  return (
    <nav class="kinds" aria-label="Kinds">
      <ul>{main.map(link)}</ul>
      {rest.length > 0 && (
        <details>
          <summary>other kinds</summary>
          <ul>{rest.map(link)}</ul>
        </details>
      )}
      {store.isCut.value && <p class="note">The server has more objects than the page shows.</p>}
      {hidden.length > 0 && hidden.length < store.kinds.value.size && (
        <p class="note" title={hidden.join(', ')}>
          not shown, for want of permission: {hidden.length > 4 ? `${hidden.slice(0, 3).join(', ')} and ${hidden.length - 3} more kinds` : hidden.join(', ')}
        </p>
      )}
    </nav>
  );
}

const MAIN = ['deployments.apps', 'statefulsets.apps', 'daemonsets.apps', 'replicasets.apps', 'jobs.batch', 'cronjobs.batch', 'pods', 'nodes', 'services', 'ingresses.networking.k8s.io', 'configmaps',
  'secrets', 'persistentvolumeclaims', 'persistentvolumes', 'namespaces', 'events'];
const place = (kind: string): number => {
  const at = MAIN.indexOf(kind);
  return at < 0 ? MAIN.length : at;
};
/** Kinds of operators: their groups are no groups of Kubernetes. */
const isCustom = (kind: string): boolean => {
  const group = store.kinds.value.get(kind)?.group ?? '';
  return group.includes('.') && !group.endsWith('.k8s.io');
};

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const keys: [string, string][] = [
    ['1 2 3 4 5 6', 'overview, timeline, objects, compare, scheduling, server'],
    ['← →', 'one revision back or on'],
    ['Shift ← →', 'to the change from outside before or after'],
    ['PgUp PgDn', 'a tenth of the window back or on'],
    ['Home End', 'the oldest revision; now'],
    ['Space', 'play'],
    ['[', 'compare with this revision'],
    ['j k, Enter', 'the row below or above; open it'],
    ['/ or Ctrl K', 'search'],
    ['t', 'timeline and charts as tables'],
    ['d', 'dark or light'],
    ['Esc', 'close'],
  ];
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (store.showsHelp.value = false)} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <div class="help">
        <h2 id="help-title">Keys and signs</h2>
        <dl>
          {keys.map(([key, text]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
        <p>
          The bar below has the writes of the window over time; stretches without writes are folded. Diamonds are <strong>changes from outside</strong>: by a person or a program that is no part of the control plane. All
          views show the revision of the slider; the address has it, so a link leads there.
        </p>
        <p>
          Search: words match names, kinds, labels and images; <code>kind:pod ns:default node:node-1 image:nginx state:pending app=web</code> narrow it.
        </p>
        <button type="button" onClick={() => dialog.current?.close()}>
          close
        </button>
      </div>
    </dialog>
  );
}

function useKeys(): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isField = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
      if ((event.key === 'k' && (event.ctrlKey || event.metaKey)) || (event.key === '/' && !isField)) {
        event.preventDefault();
        document.getElementById('search')?.focus();
        return;
      }
      if (event.key === 'Escape' && isField) target.blur();
      if (isField || event.ctrlKey || event.metaKey || event.altKey) return;
      if (store.showsHelp.value) return;
      if ((event.key === ' ' || event.key === 'Enter') && /^(BUTTON|A|SUMMARY)$/.test(target.tagName)) return;
      if (act(event.key, event.shiftKey)) event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

/** Elements of the views that are rows, each with a link to what it is about. */
const ROWS = 'main tbody tr, main .choose li, main .waiting li, main .differing li, main .history li';

/** Moves the focus to the link of the next row, or of the one before; false: there are no rows. Enter then follows the link. */
function focusRow(step: 1 | -1): boolean {
  const links = [...document.querySelectorAll(ROWS)].map((row) => row.querySelector('a')).filter((link) => link !== null);
  const current = links.findIndex((link) => link.closest(ROWS)!.contains(document.activeElement));
  const next = links[current < 0 ? 0 : Math.min(links.length - 1, Math.max(0, current + step))];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
  return next !== undefined;
}

/** Does what a key stands for; false: it stands for nothing. */
function act(key: string, shift: boolean): boolean {
  const { model } = store;
  const tenth = Math.max(1, Math.round(model.writes.length / 10));
  const isListened = document.activeElement?.closest('.yaml, .lanes, .scroll');
  switch (key) {
    case '1':
      return store.go({ view: 'overview', subject: '', search: '', write: null }), true;
    case '2':
      return store.go({ view: 'timeline', subject: '', search: '' }), true;
    case '3':
      return store.go({ view: 'list', subject: '', write: null }), true;
    case '4':
      return store.go({ view: 'compare', subject: '', search: '', write: null }), true;
    case '5':
      return store.go({ view: 'scheduling', subject: '', search: '', write: null }), true;
    case '6':
      return store.go({ view: 'server', subject: '', search: '', write: null }), true;
    case '[':
      return store.go({ view: 'compare', subject: '', search: '', write: null, mark: model.revision() }), true;
    case 'ArrowLeft':
      return store.moveTo(shift ? model.nextOutside(-1) : model.at - 1), true;
    case 'ArrowRight':
      return store.moveTo(shift ? model.nextOutside(1) : model.at + 1), true;
    case 'PageUp':
      return !isListened && (store.moveTo(model.at - tenth), true);
    case 'PageDown':
      return !isListened && (store.moveTo(model.at + tenth), true);
    case 'Home':
      return store.moveTo(0), true;
    case 'End':
      return store.now(), true;
    case ' ':
      return (store.isPlaying.value = !store.isPlaying.value), true;
    case 'j':
    case 'k':
      return focusRow(key === 'j' ? 1 : -1);
    case 't':
      return (store.showsTables.value = !store.showsTables.value), true;
    case 'd':
      return store.toggleTheme(), true;
    case '?':
      return (store.showsHelp.value = true), true;
    case 'Escape':
      return store.route.value.write !== null && (store.go({ write: null }), true);
    default:
      return false;
  }
}
