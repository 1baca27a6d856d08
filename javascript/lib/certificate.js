// Serving certificates of a cluster's authority, for webhooks that a test serves.
'use strict';

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { promisify } = require('node:util');
const { KstoreError, UsageError } = require('./errors');

// How long the cluster may take to sign: longer than the program waits by itself.
const ISSUE_MILLISECONDS = 60_000;

/** Has the cluster sign a certificate for these names. Resolves to the files. */
async function issue(program, kubeconfig, folder, names) {
  const isName = (name) => typeof name === 'string' && name !== '' && !name.includes(',') && !name.startsWith('-');
  if (!Array.isArray(names) || names.length === 0 || !names.every(isName)) {
    throw new UsageError(`a certificate is for host names and addresses, not ${JSON.stringify(names)}`);
  }
  const command = ['certs', 'issue', names.join(','), '--folder', folder, '--kubeconfig', kubeconfig];
  try {
    await promisify(execFile)(program, command, { timeout: ISSUE_MILLISECONDS, killSignal: 'SIGKILL' });
  } catch (error) {
    throw new KstoreError(`no certificate for ${names.join(', ')}: ${(error.stderr || error.message).trim()}`, { cause: error });
  }
  const [certificate, key, authority] = ['tls.crt', 'tls.key', 'ca.crt'].map((name) => path.join(folder, name));
  return { certificate, key, authority, caBundle: fs.readFileSync(authority).toString('base64') };
}

module.exports = { issue };
