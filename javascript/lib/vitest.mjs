// useCluster for Vitest, which is a module and can only be imported by one.
import { afterAll, beforeAll } from 'vitest';
import fixture from './fixture.js';

export const useCluster = (options) => fixture.useClusterWith(beforeAll, afterAll, options);
