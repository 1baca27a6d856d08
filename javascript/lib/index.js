// A Kubernetes-style control plane for tests, in memory and in a process of its own. The types and what they promise: index.d.ts.
'use strict';

const { Cluster } = require('./cluster');
const { findServer } = require('./binary');
const { ApiError, KstoreError, LabBusy, OperatorDied, StartError, UsageError, WaitTimeout } = require('./errors');
const { Lab } = require('./lab');

module.exports = { Cluster, Lab, findServer, ApiError, KstoreError, LabBusy, OperatorDied, StartError, UsageError, WaitTimeout };
