import type { Fixture } from './fixture.js';
import type { FixtureOptions } from './index.js';

/** Starts a cluster before the tests of this file or describe block of Vitest, and stops it after them. */
export function useCluster(options?: FixtureOptions): Fixture;
