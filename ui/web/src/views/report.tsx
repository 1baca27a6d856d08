// What a report says about itself: what it is about, why a test failed, and what was left out.

import * as data from '../data.ts';
import { count } from '../text.ts';
import { Card } from './parts.tsx';

/** The card of the overview of a report; nothing on the page of a server. */
export function AboutReport() {
  const about = data.aboutReport();
  if (!about) return null;
  return (
    <Card id="report" title="Report" note={about.clock === 'virtual' ? 'virtual time' : undefined}>
      <p class="why">
        <bdi>{about.title || 'a cluster'}</bdi>
        {about.time && <span class="faint">, {about.time}</span>}
        <span class="faint">
          , read as <bdi>{about.user}</bdi>
          {about.namespace && (
            <>
              , namespace <bdi>{about.namespace}</bdi>
            </>
          )}
          {about.version && `, kstore ${about.version}`}
        </span>
      </p>
      <p class="note">
        This file has the objects that this user may list, with their names, specifications and status. Values of Secrets, keys, certificates and tokens are hidden; values elsewhere, such as variables of containers, are not.
      </p>
      {about.leftOut.length > 0 && (
        <p class="note problem" role="note">
          Left out: {about.leftOut.map(({ what, count: number }) => `${number.toLocaleString('en')} ${what}`).join('; ')}.
        </p>
      )}
      {about.failure && <pre class="failure" tabIndex={0}>{about.failure}</pre>}
      {about.output && (
        <details>
          <summary>Output, {count(about.output.split('\n').length, 'line')}</summary>
          <pre class="failure" tabIndex={0}>{about.output}</pre>
        </details>
      )}
    </Card>
  );
}
