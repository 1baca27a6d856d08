// What all programs of tests have in common: their output in a file, and the errors that tell their death.
'use strict';

const fs = require('node:fs');
const { KstoreError, OperatorDied } = require('./errors');

// How much of its output an error shows.
const LOG_LINES = 20;

/** A program whose output is in a file. `word` is what messages call it. */
class LoggedProgram {
  #word;
  #log;

  constructor(word, command, log) {
    this.command = command.map(String);
    // Whether an error has told that it died.
    this.told = false;
    this.#word = word;
    this.#log = log;
  }

  log() {
    try {
      return fs.readFileSync(this.#log, 'utf8');
    } catch {
      return '';
    }
  }

  logEnd() {
    return this.log().trimEnd().split('\n').slice(-LOG_LINES).join('\n');
  }

  /** The error of its death, which counts as told. `how` is the end of "the program … ". */
  died(how, code, signal) {
    this.told = true;
    const end = this.logEnd();
    const lines = end === '' ? ' it wrote nothing' : `\n${end.replace(/^/gm, '  ')}`;
    return new OperatorDied(`the ${this.#word} \`${this.command.join(' ')}\` ${how}; its last lines:${lines}`, code, signal);
  }

  /** The error of a wait for its end. */
  notEnded(timeout) {
    return new KstoreError(`the ${this.#word} \`${this.command.join(' ')}\` has not ended after ${timeout} ms; its last lines:\n${this.logEnd()}`);
  }
}

module.exports = { LoggedProgram };
