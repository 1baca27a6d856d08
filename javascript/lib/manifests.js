// Manifests in every form that tests have them in, as a list of objects.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { fileURLToPath } = require('node:url');
const { UsageError } = require('./errors');

const SUFFIXES = ['.yaml', '.yml', '.json'];

/**
 * The objects, in their order; those of a `List` one by one. An object is a manifest; a text is JSON or YAML; `{ path }` or a file: URL is
 * a file, or a folder of .yaml, .yml and .json files in order of name; an array has any of these.
 * An error names the file, else `source`.
 */
function objectsOf(manifest, source = 'the manifest') {
  if (Array.isArray(manifest)) return manifest.flatMap((item) => objectsOf(item, source));
  if (typeof manifest === 'string') return documents(manifest, source).flatMap((document) => objectsOf(document, source));
  if (manifest instanceof URL) return fromPath(fileURLToPath(manifest));
  if (manifest === null || typeof manifest !== 'object') throw new UsageError(`${source} is no object: ${JSON.stringify(manifest)}`);
  if (typeof manifest.path === 'string' && manifest.kind === undefined) return fromPath(manifest.path);
  if (String(manifest.kind ?? '').endsWith('List') && Array.isArray(manifest.items)) return manifest.items.flatMap((item) => objectsOf(item, source));
  if (!manifest.apiVersion || !manifest.kind || !manifest.metadata?.name) {
    throw new UsageError(`${source} needs apiVersion, kind and metadata.name: ${JSON.stringify(manifest).slice(0, 200)}`);
  }
  return [manifest];
}

function fromPath(place) {
  if (!fs.statSync(place).isDirectory()) return objectsOf(fs.readFileSync(place, 'utf8'), place);
  const files = fs.readdirSync(place).filter((name) => SUFFIXES.includes(path.extname(name)));
  if (files.length === 0) throw new UsageError(`the folder ${place} has no .yaml, .yml or .json file`);
  return files.sort().flatMap((name) => fromPath(path.join(place, name)));
}

function documents(text, source) {
  try {
    return [JSON.parse(text)];
  } catch {
    // Not JSON: YAML, or neither.
  }
  const found = [];
  try {
    yaml().loadAll(text, (document) => document !== null && document !== undefined && found.push(document));
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const place = error.mark === undefined ? source : `${source}, line ${error.mark.line + 1}`;
    throw new UsageError(`${place}: neither JSON nor YAML: ${error.reason ?? error.message}`);
  }
  for (const document of found) {
    if (typeof document !== 'object') {
      throw new UsageError(`${source} is no object: ${String(document).slice(0, 80)}; a file is given as { path } or a file: URL`);
    }
  }
  return found;
}

// From the test's project first: an installation from a folder is a link, beside which nothing of that project is found.
function yaml() {
  try {
    return require(require.resolve('js-yaml', { paths: [process.cwd(), __dirname] }));
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new UsageError('YAML needs js-yaml: npm install --save-dev js-yaml, or give JSON or objects');
  }
}

module.exports = { objectsOf };
