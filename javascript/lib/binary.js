// Where the program kstore-server is.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { StartError } = require('./errors');

const PROGRAM = 'kstore-server';

/**
 * The path of kstore-server: KSTORE_SERVER if it is set, else that of the platform's package, else the first on PATH.
 * Throws StartError if there is none.
 */
function findServer() {
  const named = process.env.KSTORE_SERVER;
  if (named) {
    if (!isExecutable(named)) throw new StartError(`KSTORE_SERVER names ${named}, which cannot be run`);
    return path.resolve(named);
  }
  const found = fromPackage() ?? fromPath();
  if (found === undefined) {
    throw new StartError(`there is no ${PROGRAM}: install ${platformPackage()}, put it on PATH, or set KSTORE_SERVER`);
  }
  return found;
}

function platformPackage() {
  return `kstore-${process.platform}-${process.arch}`;
}

function fromPackage() {
  try {
    const manifest = require.resolve(`${platformPackage()}/package.json`);
    const program = path.join(path.dirname(manifest), 'bin', PROGRAM);
    return isExecutable(program) ? program : undefined;
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

function fromPath() {
  const folders = (process.env.PATH ?? '').split(path.delimiter).filter((folder) => folder !== '');
  // npm puts this package's own command on the path of its scripts, which would only call back here.
  const own = fs.realpathSync(path.join(__dirname, 'cli.js'));
  return folders
    .map((folder) => path.join(folder, PROGRAM))
    .find((program) => isExecutable(program) && fs.realpathSync(program) !== own);
}

function isExecutable(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

module.exports = { findServer };
