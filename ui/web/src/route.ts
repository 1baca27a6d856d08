// Addresses of the page: `#/VIEW/PARTS?at=REVISION&q=SEARCH&ns=NAMESPACE`. Pure.

export type View = 'overview' | 'timeline' | 'object' | 'list' | 'compare' | 'scheduling' | 'server';

export interface Route {
  view: View;
  /** Key of the object or of the pod whose scheduling is shown, or the resource of a list. */
  subject: string;
  /** Revision; null: live. */
  at: number | null;
  namespace: string;
  search: string;
  /** Selected write of the timeline. */
  write: number | null;
  /** The revision that the slider's is compared with; null: that before the last change from outside. */
  mark: number | null;
}

export const HOME: Route = { view: 'overview', subject: '', at: null, namespace: '', search: '', write: null, mark: null };

export function parse(hash: string): Route {
  const text = hash.replace(/^#\/?/, '');
  const mark = text.indexOf('?');
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1));
  const parts = path.split('/').map(decode);
  const view = (['timeline', 'object', 'list', 'compare', 'scheduling', 'server'] as View[]).find((known) => known === parts[0]) ?? 'overview';
  const number = (name: string) => (/^[1-9][0-9]{0,15}$/.test(query.get(name) ?? '') ? Number(query.get(name)) : null);
  const route: Route = { view, subject: '', at: number('at'), namespace: query.get('ns') ?? '', search: query.get('q') ?? '', write: number('write'), mark: number('mark') };
  if (view === 'object') {
    if (parts.length < 3) return { ...route, view: 'overview' };
    const [, kind, ...rest] = parts;
    const namespace = rest.length > 1 ? rest[0] : '';
    route.subject = `${kind}/${namespace}/${rest[rest.length - 1]}`;
  } else if (view === 'list') {
    route.subject = parts[1] ?? '';
  } else if (view === 'scheduling' && parts.length === 3) {
    route.subject = `pods/${parts[1]}/${parts[2]}`;
  }
  return route;
}

export function format(route: Route): string {
  let path = route.view === 'overview' ? '' : route.view;
  if (route.view === 'object') {
    const [kind, namespace, ...name] = route.subject.split('/');
    path += `/${encodeURIComponent(kind)}${namespace ? `/${encodeURIComponent(namespace)}` : ''}/${encodeURIComponent(name.join('/'))}`;
  } else if (route.view === 'list' && route.subject) {
    path += `/${encodeURIComponent(route.subject)}`;
  } else if (route.view === 'scheduling' && route.subject) {
    path += route.subject.split('/').slice(1).map((part) => `/${encodeURIComponent(part)}`).join('');
  }
  const query = new URLSearchParams();
  if (route.at !== null) query.set('at', String(route.at));
  if (route.namespace) query.set('ns', route.namespace);
  if (route.search) query.set('q', route.search);
  if (route.write !== null) query.set('write', String(route.write));
  if (route.mark !== null) query.set('mark', String(route.mark));
  const text = query.toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
