// Drives the page in a headless browser against a running server, whose kubeconfig is KUBECONFIG and whose program is KSTORE_SERVER:
//
//   kstore-server run --nodes 3 -- node tests/browser.mjs
//
// CHROMIUM names the browser. With PICTURE=FILE the overview is saved there. With FILES=FOLDER the page's files come from there.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const PROGRAM = process.env.KSTORE_SERVER ?? 'kstore-server';
const PATIENCE = 30_000;
const HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>\u202e"\'&';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

function kubectl(...args) {
  const done = spawnSync('kubectl', args, { encoding: 'utf8' });
  assert.equal(done.status, 0, `kubectl ${args.join(' ')}: ${done.stderr}`);
  return done.stdout;
}

/** Starts the local proxy and returns its link. */
async function start(env = process.env) {
  const child = spawn(PROGRAM, ['ui', '--no-browser'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  for await (const part of child.stdout) {
    text += part;
    const link = /http:\/\/127\.0\.0\.1:\d+\/ui\/#login=[\w-]+/.exec(text)?.[0];
    if (link) return { link, origin: new URL(link).origin, stop: () => child.kill('SIGINT') };
  }
  throw new Error(`no link: ${text}`);
}

/** A page that fails the test on errors, and on requests to other origins. */
async function open(browser, proxy, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.problems = [];
  if (process.env.FILES) {
    await page.route('**/ui/app.*', async (route) => route.fulfill({ response: await route.fetch(), body: readFileSync(join(process.env.FILES, basename(new URL(route.request().url()).pathname))) }));
  }
  page.on('pageerror', (error) => page.problems.push(error.stack));
  page.on('console', (line) => line.type() === 'error' && !/status of 40[13]/.test(line.text()) && page.problems.push(line.text()));
  page.on('request', (request) => new URL(request.url()).origin !== proxy.origin && !request.url().startsWith('data:') && page.problems.push(request.url()));
  return page;
}

const at = (page) => page.getAttribute('.page', 'data-at').then(Number);
/** Does something that moves the slider, and returns the revision after it. */
const moved = async (page, act) => {
  const before = await at(page);
  await act();
  await page.waitForFunction((r) => Number(document.querySelector('.page').dataset.at) !== r, before);
  return at(page);
};
const step = async (name, run) => {
  await run();
  console.log(`ok  ${name}`);
};

/** What axe finds on the page as it is. Nothing is the aim. */
async function accessible(page, name) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  const text = found.violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join('; ')}`);
  return text.map((line) => `${name}: ${line}`);
}

kubectl('create', 'deployment', 'web', '--image=nginx:1.27', '--replicas=3');
kubectl('create', 'deployment', 'api', '--image=ghcr.io/example/api:v3', '--replicas=2');
kubectl('create', 'configmap', 'hostile', `--from-literal=key=${HOSTILE}`);
kubectl('annotate', 'configmap', 'hostile', `note=${HOSTILE}`);
kubectl('create', 'secret', 'generic', 'password', '--from-literal=password=hunter2');
kubectl('create', 'job', 'import', '--image=busybox', '--', 'true');
kubectl('run', 'big', '--image=huge', '--overrides', JSON.stringify({ spec: { containers: [{ name: 'big', image: 'huge', resources: { requests: { cpu: '900' } } }] } }));
kubectl('rollout', 'status', 'deployment/web', '--timeout=60s');
kubectl('set', 'image', 'deployment/web', 'nginx=nginx:1.28');
kubectl('rollout', 'status', 'deployment/web', '--timeout=60s');

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const proxy = await start();
const folder = await mkdtemp(join(tmpdir(), 'kstore-ui-test-'));
let code = 0;
try {
  const page = await open(browser, proxy);

  await step('the link opens the overview, and is gone from the address', async () => {
    await page.goto(proxy.link);
    await page.locator('#workloads td', { hasText: 'Deployment web' }).waitFor();
    assert.equal(new URL(page.url()).hash, '#/');
    await page.locator('#workloads tr', { hasText: 'Deployment web' }).getByText('3/3').waitFor();
    await page.locator('#waiting', { hasText: 'Insufficient cpu' }).waitFor();
    assert.equal(await page.locator('#nodes li', { hasText: 'node-' }).count(), 3);
  });

  await step('new writes appear without a reload', async () => {
    kubectl('scale', 'deployment', 'api', '--replicas=4');
    await page.locator('#workloads tr', { hasText: 'Deployment api' }).getByText('4/4').waitFor();
    await page.locator('.live.on').waitFor();
  });
  // Quiet from here on, for a picture that does not move.
  await page.waitForTimeout(300);
  if (process.env.PICTURE) {
    await page.setViewportSize({ width: 1180, height: 700 });
    await page.waitForTimeout(300);
    await page.screenshot({ path: process.env.PICTURE });
    await page.setViewportSize({ width: 1360, height: 850 });
  }

  await step('the slider moves all views to one revision', async () => {
    const newest = await at(page);
    const scaled = await moved(page, () => page.keyboard.press('Shift+ArrowLeft'));
    assert.ok(scaled < newest, `${scaled} is before ${newest}`);
    await page.locator('.where', { hasText: 'kubernetes-admin (kubectl)' }).locator('text=api').waitFor();
    const before = await moved(page, () => page.keyboard.press('ArrowLeft'));
    await page.locator('#workloads tr', { hasText: 'Deployment api' }).getByText('2/2').waitFor();
    await page.waitForFunction((r) => location.hash.includes(`at=${r}`), before);
    for (const [key, view] of [['2', 'timeline'], ['3', 'list'], ['1', 'overview']]) {
      await page.keyboard.press(key);
      await page.locator(`.page[data-view=${view}]`).waitFor();
      assert.equal(await at(page), before, view);
    }
    const box = await page.locator('.track').boundingBox();
    await page.mouse.move(box.x + box.width * 0.9, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 20, { steps: 5 });
    await page.mouse.up();
    await page.waitForFunction((r) => Number(document.querySelector('.page').dataset.at) < r, before);
    await moved(page, () => page.keyboard.press('Home'));
    await page.locator('.live.past', { hasText: 'behind' }).click();
    await page.locator('.live.on').waitFor();
    assert.ok((await at(page)) >= newest);
  });

  await step('an object has its YAML, who set each field, and its history; back and forward work', async () => {
    await page.locator('#workloads').getByRole('link', { name: 'Deployment web' }).click();
    await page.locator('.code', { hasText: 'image: nginx:1.28' }).waitFor();
    await page.locator('.code tr', { hasText: 'image:' }).locator('.owner').waitFor();
    await page.locator('.history li', { hasText: 'spec.template.spec.containers[nginx].image' }).locator('del', { hasText: 'nginx:1.27' }).waitFor();
    const change = page.locator('.history li', { hasText: 'nginx:1.27 → nginx:1.28' }).last();
    const changed = await moved(page, () => change.locator('.rev').first().click());
    await moved(page, () => page.keyboard.press('ArrowLeft'));
    await page.locator('.code', { hasText: 'image: nginx:1.27' }).waitFor();
    await page.waitForFunction((r) => !location.hash.includes(`at=${r}`) && location.hash.includes('at='), changed);
    await page.goBack();
    await page.goBack();
    await page.locator('.page[data-view=overview]').waitFor();
    await page.goForward();
    await page.locator('.page[data-view=object]').waitFor();
    await page.keyboard.press('End');
  });

  await step('the timeline shows what a write led to', async () => {
    await page.locator('.history li', { hasText: 'nginx:1.27' }).last().getByText(/led to \d+ writes/).click();
    await page.locator('#selected', { hasText: 'kubernetes-admin' }).locator('text=create').first().waitFor();
    await page.locator('#selected').getByText(/Led to \d+ writes/).waitFor();
    await page.keyboard.press('t');
    await page.locator('table.writes tr', { hasText: 'deployment-controller' }).first().waitFor();
    await page.keyboard.press('t');
    await page.locator('.lanes canvas').waitFor();
    await page.keyboard.press('Escape');
  });

  await step('two revisions are compared', async () => {
    await page.keyboard.press('4');
    await page.keyboard.press('Home');
    await page.keyboard.press('[');
    await page.keyboard.press('End');
    const web = page.locator('.differing li', { hasText: 'Deployment default/web' });
    await web.locator('.sign', { hasText: '+' }).waitFor();
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Shift+ArrowLeft');
    await page.getByRole('button', { name: 'mark before the last change' }).click();
    await web.getByRole('button', { name: 'what changed' }).click();
    await web.locator('dt', { hasText: 'spec.template.spec.containers[nginx].image' }).waitFor();
    await page.keyboard.press('End');
  });

  await step('a pending pod shows what each node lacks, its attempts, and the smallest changes that help', async () => {
    await page.keyboard.press('1');
    await page.locator('#waiting li', { hasText: 'default/big' }).getByText('what would help').click();
    await page.waitForFunction(() => location.hash === '#/scheduling/default/big');
    await page.keyboard.press('4');
    await page.keyboard.press('5');
    await page.locator('.page[data-view=scheduling]').waitFor();
    await page.locator('#waiting-pods a[aria-current]', { hasText: 'default/big' }).waitFor();
    await page.locator('#verdicts tr', { hasText: 'node-0' }).locator('td', { hasText: /cpu [\d.]+ of 900/ }).waitFor();
    assert.equal(await page.locator('#verdicts tbody tr').count(), 3);
    await page.locator('#verdicts td.refuses', { hasText: 'refuses' }).first().waitFor();
    await page.locator('#attempts tbody tr', { hasText: 'Insufficient cpu' }).first().waitFor();
    await page.locator('#helps tr', { hasText: /request cpu .* instead of 900 in container big/ }).waitFor();
    await page.locator('#commands code', { hasText: /^kstore-server what-if --with-nodes 1xnode\/node-\d$/ }).waitFor();
    for (const key of ['j', 'j', 'j', 'k', 'Enter']) await page.keyboard.press(key);
    await page.locator('#placed-pods li:first-child a[aria-current]').waitFor();
    await page.keyboard.press('5');
  });

  await step('a placed pod shows the scores of the nodes, and before its bind that it waits', async () => {
    await page.locator('#placed-pods a', { hasText: 'default/web-' }).first().click();
    await page.waitForFunction(() => location.hash.startsWith('#/scheduling/default/web-'));
    await page.locator('#verdicts tr.current td.number', { hasText: /^\d{2,}$/ }).first().waitFor();
    const bind = page.locator('#placement p', { hasText: 'It is on' }).locator('.rev');
    const bound = Number((await bind.textContent()).slice(1));
    assert.equal(await moved(page, () => bind.click()), bound);
    await page.locator('#commands code', { hasText: `--at ${bound}` }).first().waitFor();
    await moved(page, () => page.keyboard.press('ArrowLeft'));
    await page.locator('#placement', { hasText: 'It is pending' }).waitFor();
    await page.keyboard.press('End');
    await page.locator('#placement', { hasText: 'It is on' }).waitFor();
  });

  await step('the load of the server is drawn, and is a table', async () => {
    await page.keyboard.press('6');
    await page.locator('#server dd', { hasText: /^v1\.\d+/ }).waitFor();
    await page.locator('#server dd', { hasText: /iB of it live/ }).waitFor();
    await page.locator('#verbs tbody tr', { hasText: '≤' }).first().waitFor();
    await page.locator('#requests .series').waitFor({ state: 'attached' });
    await page.keyboard.press('t');
    await page.locator('#readings tbody tr', { hasText: '%' }).first().waitFor();
    await page.keyboard.press('t');
    await page.locator('#memory .note', { hasText: 'MiB' }).waitFor();
  });

  await step('a broken stream goes on where it was', async () => {
    await page.keyboard.press('1');
    const before = await at(page);
    await page.route('**/kstore/v1/changes*', (route) => route.abort());
    await page.evaluate(() => window.dispatchEvent(new Event('offline')));
    await page.locator('.live.off').waitFor();
    kubectl('annotate', 'deployment', 'api', 'a=b');
    await page.unroute('**/kstore/v1/changes*');
    await page.locator('.live.on').waitFor();
    await page.waitForFunction((r) => Number(document.querySelector('.page').dataset.at) > r, before);
    await page.locator('#workloads tr', { hasText: 'Deployment api' }).getByText('4/4').waitFor();
  });

  await step('the search finds by words, members and labels', async () => {
    await page.keyboard.press('/');
    await page.keyboard.type('kind:pod app=web');
    await page.keyboard.press('Escape');
    await page.keyboard.press('3');
    await page.locator('#list tbody tr').nth(2).waitFor();
    assert.equal(await page.locator('#list tbody tr').count(), 3);
    await page.fill('#search', 'no such thing');
    await page.locator('#list', { hasText: 'Nothing matches' }).waitFor();
    await page.fill('#search', '');
    await page.locator('#search').blur();
  });

  await step('text of objects is text, and values of Secrets are hidden', async () => {
    await page.goto(`${proxy.origin}/ui/#/object/configmaps/default/hostile`);
    await page.locator('.code', { hasText: 'onerror' }).waitFor();
    assert.equal(await page.locator('main img, main script').count(), 0);
    assert.equal(await page.title(), 'kstore');
    await page.goto(`${proxy.origin}/ui/#/object/secrets/default/password`);
    await page.locator('.code', { hasText: '(7 bytes)' }).waitFor();
    assert.ok(!(await page.content()).includes(Buffer.from('hunter2').toString('base64')));
  });

  for (const scheme of ['light', 'dark']) {
    await step(`axe finds nothing on any view, ${scheme}`, async () => {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      const found = [];
      for (const view of ['', 'timeline', 'list/pods', 'list?q=none-at-all', 'compare', 'scheduling', 'server', 'object/deployments.apps/default/web', 'object/pods/default/none']) {
        await page.goto(`${proxy.origin}/ui/#/${view}`);
        await page.locator('main .card').first().waitFor();
        await page.waitForTimeout(250);
        found.push(...(await accessible(page, `${scheme} ${view}`)));
      }
      await page.goto(`${proxy.origin}/ui/#/timeline`);
      await page.keyboard.press('t');
      await page.locator('table.writes').waitFor();
      found.push(...(await accessible(page, `${scheme} table`)));
      await page.keyboard.press('t');
      await page.keyboard.press('?');
      await page.locator('dialog[open]').waitFor();
      found.push(...(await accessible(page, `${scheme} help`)));
      await page.keyboard.press('Escape');
      assert.deepEqual(found, []);
    });
  }

  await step('nothing went wrong, and nothing was asked of another origin', async () => assert.deepEqual(page.problems, []));

  await step('a second use of the link ends the session', async () => {
    // A link of its own: it is used twice within a minute, however long the steps before took.
    const own = await start();
    const [first, other] = [await open(browser, own), await open(browser, own)];
    await first.goto(own.link);
    await first.locator('#workloads td', { hasText: 'Deployment web' }).waitFor();
    await other.goto(own.link);
    await other.getByText('used before').waitFor();
    const status = await first.evaluate(() => fetch('/kstore/v1/revisions', { headers: { 'kstore-ui': sessionStorage.getItem('kstore-ui-key') } }).then((response) => response.status));
    assert.equal(status, 401);
    for (const opened of [first, other]) await opened.context().close();
    own.stop();
  });

  await step('the file that a browser is opened with leads to the page', async () => {
    const again = await start();
    const other = await open(browser, again);
    const file = join(folder, 'link.html');
    await writeFile(file, `<!doctype html><meta http-equiv=refresh content="0; url=${again.link}">`);
    other.problems.length = 0;
    await other.goto(`file://${file}`);
    await other.locator('#workloads td', { hasText: 'Deployment web' }).waitFor();
    await other.context().close();
    again.stop();
  });

  await step('a report opens from its file without a server, shows the same, and asks for nothing', async () => {
    const file = join(folder, 'report.html');
    const tagged = spawnSync(PROGRAM, ['tag', 'before-report'], { encoding: 'utf8' });
    assert.equal(tagged.status, 0, tagged.stderr);
    const made = spawnSync(PROGRAM, ['report', file, '--title', 'TestPage', '--failure', '-', '--mark', 'before-report=the report <b>begins</b>'], { encoding: 'utf8', input: 'it failed on purpose' });
    assert.equal(made.status, 0, made.stderr);
    assert.ok(statSync(file).size <= 5 * 1024 * 1024);
    const address = pathToFileURL(file).href;
    const other = await open(browser, { origin: 'null' }, { offline: true });
    const requests = [];
    other.on('request', (request) => !request.url().startsWith('data:') && requests.push(request.url()));
    await other.goto(address);
    await other.locator('#report', { hasText: 'read as kubernetes-admin' }).waitFor();
    await other.locator('#workloads tr', { hasText: 'Deployment web' }).getByText('3/3').waitFor();
    await other.locator('#workloads tr', { hasText: 'Deployment api' }).getByText('4/4').waitFor();
    assert.equal(await other.locator('#nodes li', { hasText: 'node-' }).count(), 3);
    await other.locator('#report', { hasText: 'it failed on purpose' }).locator('text=TestPage').waitFor();
    await other.locator('#marks tr', { hasText: 'test' }).getByText('the report <b>begins</b>').waitFor();
    await other.locator('#marks tr', { hasText: 'tag' }).getByText('before-report').waitFor();
    const problems = await accessible(other, 'report');
    await other.keyboard.press('5');
    await other.locator('#waiting-pods a[aria-current]', { hasText: 'default/big' }).waitFor();
    await other.locator('#verdicts tr', { hasText: 'node-0' }).locator('td', { hasText: /cpu [\d.]+ of 900/ }).waitFor();
    await other.locator('#attempts tbody tr', { hasText: 'Insufficient cpu' }).first().waitFor();
    await other.locator('#helps tr', { hasText: /request cpu .* instead of 900 in container big/ }).waitFor();
    assert.equal(await other.locator('#commands').count(), 0);
    problems.push(...(await accessible(other, 'report scheduling')));
    await other.locator('#placed-pods a', { hasText: 'default/web-' }).first().click();
    await other.locator('#attempts tbody tr', { hasText: /chose node-\d: 3 evaluated/ }).first().waitFor();
    const bind = other.locator('#placement p', { hasText: 'It is on' }).locator('.rev');
    await moved(other, () => bind.click());
    await moved(other, () => other.keyboard.press('ArrowLeft'));
    await other.locator('#placement', { hasText: 'It is pending' }).waitFor();
    await other.keyboard.press('End');
    await other.keyboard.press('6');
    await other.locator('#server dd', { hasText: /^v1\.\d+/ }).waitFor();
    await other.locator('#verbs tbody tr', { hasText: '≤' }).first().waitFor();
    await other.locator('#writes .series').waitFor({ state: 'attached' });
    problems.push(...(await accessible(other, 'report server')));
    await other.keyboard.press('t');
    await other.locator('#rates tbody tr').first().waitFor();
    problems.push(...(await accessible(other, 'report server table')));
    await other.keyboard.press('2');
    await other.locator('table.writes tr', { hasText: 'the report <b>begins</b>' }).waitFor();
    await other.keyboard.press('t');
    await other.keyboard.press('1');
    await other.keyboard.press('Shift+ArrowLeft');
    await other.locator('.where', { hasText: 'kubernetes-admin' }).waitFor();
    await other.keyboard.press('End');
    await other.locator('#workloads').getByRole('link', { name: 'Deployment web' }).click();
    await other.locator('.code', { hasText: 'image: nginx:1.28' }).waitFor();
    await other.locator('.code tr', { hasText: 'image:' }).locator('.owner').waitFor();
    const change = other.locator('.history li', { hasText: 'nginx:1.27 → nginx:1.28' }).last();
    await moved(other, () => change.locator('.rev').first().click());
    await moved(other, () => other.keyboard.press('ArrowLeft'));
    await other.locator('.code', { hasText: 'image: nginx:1.27' }).waitFor();
    await other.keyboard.press('2');
    await other.locator('.lanes canvas').waitFor();
    await other.keyboard.press('4');
    await other.keyboard.press('Home');
    await other.keyboard.press('[');
    await other.keyboard.press('End');
    await other.locator('.differing li', { hasText: 'Deployment default/web' }).locator('.sign', { hasText: '+' }).waitFor();
    await other.goto(`${address}#/object/secrets/default/password`);
    await other.locator('.code', { hasText: '(7 bytes)' }).waitFor();
    assert.deepEqual([requests, problems, other.problems], [[address], [], []]);
    const damaged = join(folder, 'damaged.html');
    await writeFile(damaged, readFileSync(file, 'utf8').replace(/(id="kstore-report">.{1000})/, '$1AAAA'));
    await other.goto(pathToFileURL(damaged).href);
    await other.getByText('The report cannot be read').waitFor();
    await other.getByText('The report is damaged').waitFor();
    await other.context().close();
  });

  await step('a user without permissions sees why', async () => {
    const file = join(folder, 'jane.kubeconfig');
    const made = spawnSync(PROGRAM, ['kubeconfig', 'jane', '--file', file], { encoding: 'utf8' });
    assert.equal(made.status, 0, made.stderr);
    const hers = await start({ ...process.env, KUBECONFIG: file });
    const other = await open(browser, hers);
    await other.goto(hers.link);
    await other.getByText('/kstore/v1/revisions').waitFor();
    await other.context().close();
    hers.stop();
  });

  await step('a user of kstore:see sees what she may list, and which permission the rest needs', async () => {
    for (const role of ['kstore:see', 'view']) kubectl('create', 'clusterrolebinding', `jane-${role.replace(':', '-')}`, `--clusterrole=${role}`, '--user=jane');
    const hers = await start({ ...process.env, KUBECONFIG: join(folder, 'jane.kubeconfig') });
    const other = await open(browser, hers);
    await other.goto(hers.link);
    await other.locator('#workloads td', { hasText: 'Deployment web' }).waitFor();
    await other.keyboard.press('5');
    await other.locator('#attempts tbody tr', { hasText: 'Insufficient cpu' }).first().waitFor();
    await other.locator('#placement', { hasText: 'no verdicts on nodes' }).waitFor();
    assert.equal(await other.locator('#verdicts').count(), 0);
    await other.keyboard.press('6');
    await other.locator('#server', { hasText: 'system:monitoring' }).waitFor();
    assert.deepEqual(other.problems, []);
    await other.context().close();
    hers.stop();
  });
} catch (error) {
  console.error(error);
  for (const context of browser.contexts()) for (const page of context.pages()) {
    await page.screenshot({ path: join(tmpdir(), 'kstore-ui-failed.png') }).catch(() => {});
    console.error(`at ${page.url()}`, page.problems ?? []);
  }
  code = 1;
}
await browser.close();
proxy.stop();
await rm(folder, { recursive: true });
process.exit(code);
