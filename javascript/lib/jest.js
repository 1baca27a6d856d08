// useCluster for Jest, whose hooks are global, or are given where `injectGlobals` is off.
'use strict';

const { UsageError } = require('./errors');
const { useClusterWith } = require('./fixture');

function useCluster(options, hooks = globalThis) {
  const { beforeAll, afterAll } = hooks;
  if (typeof beforeAll !== 'function' || typeof afterAll !== 'function') {
    throw new UsageError("Jest's hooks are not global: give them, as in useCluster({}, require('@jest/globals'))");
  }
  return useClusterWith(beforeAll, afterAll, options);
}

module.exports = { useCluster };
