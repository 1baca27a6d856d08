// The errors of this package; each says what to do.
'use strict';

/** The base of all errors of this package. */
class KstoreError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A call that cannot mean anything: a manifest without a kind, a kind that the cluster does not have. */
class UsageError extends KstoreError {}

/** The server is missing or did not become ready; the message has the end of its log. */
class StartError extends KstoreError {}

/** An object did not become what was waited for; `last` is the object as it was last seen, undefined if it did not exist. */
class WaitTimeout extends KstoreError {
  constructor(message, last) {
    super(message);
    this.last = last;
  }
}

/** A program that `Cluster.operator` started ended by itself; the message has its last lines. */
class OperatorDied extends KstoreError {
  constructor(message, exitCode, signal) {
    super(message);
    this.exitCode = exitCode;
    this.signal = signal;
  }
}

/** A call of the lab ran out of its limit; `busy` has a line for each thing that is busy. */
class LabBusy extends KstoreError {
  constructor(message, busy) {
    super(message);
    this.busy = busy;
  }
}

/** The API refused a request: `code` is the HTTP status, `status` the Kubernetes Status, `reason` its reason. */
class ApiError extends KstoreError {
  constructor(code, status, request) {
    super([`${request}: ${code} ${status.reason ?? ''}`.trimEnd(), status.message ?? ''].filter(Boolean).join(': '));
    this.code = code;
    this.status = status;
    this.reason = status.reason ?? '';
  }
}

module.exports = { KstoreError, LabBusy, UsageError, StartError, WaitTimeout, OperatorDied, ApiError };
