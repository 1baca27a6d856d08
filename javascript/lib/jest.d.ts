import type { Fixture } from './fixture';
import type { FixtureOptions } from './index';

/** Starts a cluster before the tests of this file or describe block of Jest, and stops it after them. `hooks` has Jest's own if they are not global. */
export function useCluster(options?: FixtureOptions, hooks?: { beforeAll: Function; afterAll: Function }): Fixture;
