import type { Fixture } from './fixture';
import type { ClusterOptions } from './index';

/** Starts a cluster before the tests of this file or describe block of node:test, and stops it after them. */
export function useCluster(options?: ClusterOptions): Fixture;
