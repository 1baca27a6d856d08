// useCluster for node:test.
'use strict';

const { after, before } = require('node:test');
const { useClusterWith } = require('./fixture');

module.exports = { useCluster: (options) => useClusterWith(before, after, options) };
