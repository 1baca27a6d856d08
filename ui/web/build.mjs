// Builds the page into ../dist, or with --tests the unit tests into build/. One program makes the output, without minifying it, so that it
// is the same everywhere and a change of it can be read.

import { build } from 'esbuild';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.KSTORE_UI_DIST ?? join(here, '..', 'dist');
const common = { absWorkingDir: here, bundle: true, format: 'esm', target: 'es2022', charset: 'utf8', jsx: 'automatic', jsxImportSource: 'preact', logLevel: 'warning' };

if (process.argv.includes('--tests')) {
  await build({ ...common, entryPoints: ['tests/all.ts'], outfile: 'build/tests.mjs', platform: 'node' });
} else {
  await mkdir(out, { recursive: true });
  await build({ ...common, entryPoints: ['src/main.tsx'], outfile: join(out, 'app.js'), legalComments: 'none', define: { 'process.env.NODE_ENV': '"production"' } });
  const licences = await Promise.all(['preact', '@preact/signals', '@preact/signals-core'].map(async (name) => {
    const text = await readFile(join(here, 'node_modules', name, 'LICENSE'), 'utf8');
    return `${name}\n\n${text.trim()}`;
  }));
  const script = await readFile(join(out, 'app.js'), 'utf8');
  await writeFile(join(out, 'app.js'), `${script}/*\nThe licences of what is in this file besides kstore:\n\n${licences.join('\n\n').replaceAll('*/', '* /')}\n*/\n`);
  await copyFile(join(here, 'src', 'app.css'), join(out, 'app.css'));
  await copyFile(join(here, 'index.html'), join(out, 'index.html'));
}
