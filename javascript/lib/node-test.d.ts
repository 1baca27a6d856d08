import type { Fixture } from './fixture';
import type { FixtureOptions } from './index';

/** Starts a cluster before the tests of this file or describe block of node:test, and stops it after them. */
export function useCluster(options?: FixtureOptions): Fixture;
