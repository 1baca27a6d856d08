import type { Cluster, Lab } from './index';

/** One cluster for the tests of a file or a describe block. */
export interface Fixture {
  /** The cluster; throws UsageError before the tests begin and after they end. */
  readonly cluster: Cluster;
  /**
   * The body of a test, run with a view of a namespace of its own, which is deleted afterwards. If it fails, the error's message also has
   * the writes that led to the state of the cluster.
   */
  inNamespace(body: (cluster: Cluster) => void | Promise<void>): () => Promise<void>;
  /** The lab, with the option `lab`; throws UsageError without it. */
  readonly lab: Lab;
  /**
   * The body of a test, run with a fork of its own, which ends afterwards. If it fails, the error's message also has the writes that led to
   * the state of the cluster, the clock, the clients for which time waits, and where its snapshot file is (the option `keep`).
   */
  inFork(body: (own: { cluster: Cluster; lab: Lab }) => void | Promise<void>): (context?: any) => Promise<void>;
}
