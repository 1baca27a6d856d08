//! Every bound and interval of the simulated kubelet, with its reason. Not configuration: what users vary is in `config`.

use kstore_nondet::Backoff;
use std::time::Duration;

/// Interval of a node's lease renewals; a quarter of the lease duration, as in Kubernetes.
pub(crate) const LEASE_INTERVAL: Duration = Duration::from_secs(10);
/// Heartbeats are due at multiples of this: all nodes that are due in one tick share a wake-up and a
/// transaction, so that idle nodes cost at most four wake-ups a second, however many there are. Short
/// compared with [`LEASE_INTERVAL`].
pub(crate) const HEARTBEAT_TICK: Duration = Duration::from_millis(250);
/// How long a lease lasts without renewal; Kubernetes' default.
pub(crate) const LEASE_DURATION_SECONDS: i32 = 40;
/// A second process with the same nodes is reported this often at most: each renewal of a lease may show it again.
pub(crate) const TWIN_REPORTS: Duration = Duration::from_secs(300);
/// A node posts its status at least this often even if nothing has changed; Kubernetes' default.
pub(crate) const STATUS_INTERVAL: Duration = Duration::from_secs(300);

/// First wait before a crashed container or a failed pull is retried; doubles up to [`BACKOFF_MAX`].
pub(crate) const BACKOFF_BASE: Duration = Duration::from_secs(10);
/// Longest wait between two retries.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A container that ran this long since the last back-off restarts without a wait.
pub(crate) const BACKOFF_RESET: Duration = Duration::from_secs(600);
/// How long `ErrImagePull` is shown before it becomes `ImagePullBackOff`.
pub(crate) const PULL_ERROR_SHOWN: Duration = Duration::from_secs(1);
/// Wait before the setup of a failed sandbox is retried.
pub(crate) const SANDBOX_RETRY: Duration = Duration::from_secs(10);
/// How long a pod that does not fit waits until it is judged again: time for the informer of nodes to show what a scheduler knew already.
pub(crate) const SECOND_LOOK: Duration = Duration::from_millis(100);
/// How long a resize takes from its allocation until it is in effect: a kubelet's relist of containers.
pub(crate) const RESIZE_ACTUATION: Duration = Duration::from_secs(1);
/// Shortest time of a container between SIGTERM and SIGKILL after other containers used up the grace period.
pub(crate) const MIN_KILL_GRACE: Duration = Duration::from_secs(2);

/// Concurrent writes of pods, over all nodes. Enough to fill the store's group commit, few enough that a
/// burst of thousands of pods does not keep thousands of bodies in memory.
pub(crate) const POD_WRITES: usize = 64;
/// Concurrent writes of nodes and leases: a few transactions of [`NODE_BATCH`].
pub(crate) const NODE_WRITES: usize = 256;
/// Writes of nodes and leases in one transaction. Half of the server's limit, so that little is repeated when
/// it refuses one of them.
pub(crate) const NODE_BATCH: usize = 64;
/// Concurrent writes of a batch that is no transaction: the batches of [`NODE_WRITES`] together are below what a client sends at a time to
/// a server without transactions.
pub(crate) const SINGLE_WRITES: usize = 8;
/// First wait after a write that failed for a transient reason; doubles up to [`WRITE_RETRY_MAX`].
pub(crate) const WRITE_RETRY_BASE: Duration = Duration::from_millis(100);
/// Longest wait between two attempts of one write.
pub(crate) const WRITE_RETRY_MAX: Duration = Duration::from_secs(10);
/// A pod's status that another writer overwrote is written again at most this often; Kubernetes' status sync
/// period.
pub(crate) const RECONCILE_INTERVAL: Duration = Duration::from_secs(10);
/// Queued requests of fault handles to the manager. A sender waits when the queue is full.
pub(crate) const FAULT_QUEUE: usize = 64;
/// How many times as long a fault may make things take: more is a node that does nothing, for which there are other faults.
pub(crate) const SLOWEST: u32 = 1000;
/// How many millionths a simulated clock may be too fast or too slow: a tenth, far more than a broken crystal.
pub(crate) const DRIFT_MAX: i32 = 100_000;
/// Changes of a node's clock that are remembered for times of containers: older times are shown as the cluster's clock has them.
pub(crate) const CLOCK_CHANGES: usize = 64;
/// From the last answer of a container runtime until a kubelet also reports its relist as unhealthy; Kubernetes' threshold.
pub(crate) const PLEG_THRESHOLD: Duration = Duration::from_secs(180);
/// How long a kubelet waits for a volume plugin until it reports that the mount has failed; the timeout of calls to CSI drivers.
pub(crate) const MOUNT_TIMEOUT: Duration = Duration::from_secs(120);
/// Faults that an annotation of one node asks for; more is most likely a mistake, and each is a deadline.
pub(crate) const FAULTS_PER_NODE: usize = 16;
/// How long a kubelet ends its pods before a reboot: its `shutdownGracePeriod`.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(5);
/// How long an instance of a group has to end its pods, if the group drains and does not say how long: kubectl's usual grace period.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);
/// From the end of the last pod of an instance that drains until its machine ends: time for the last writes of its kubelet.
pub(crate) const DRAIN_REPORT: Duration = Duration::from_secs(1);
/// How long a group waits after an instance that failed before it asks for another.
pub(crate) const INSTANCE_RETRY: Duration = Duration::from_secs(10);
/// How often a node under pressure evicts a pod; kubelet's monitoring interval.
pub(crate) const EVICTION_INTERVAL: Duration = Duration::from_secs(10);
/// How long a pressure is shown after it has ended; kubelet's `evictionPressureTransitionPeriod`.
pub(crate) const PRESSURE_TRANSITION: Duration = Duration::from_secs(300);
/// Instances that one group creates, cancels and terminates in a turn. The others follow in the next turn, so that a group that is scaled
/// by thousands does not hold up the pods of the others.
pub(crate) const INSTANCE_CHANGES: usize = 1024;
/// Most instances of one group, whatever its `maxReplicas`: those of the largest cluster that one process simulates.
pub(crate) const GROUP_INSTANCES: u32 = 20_000;
/// The status of a group is written again after this time even if only what it has cost has changed.
pub(crate) const COST_INTERVAL: Duration = Duration::from_secs(3600);
/// Devices of one entry of a NodeGroup's template: more than any machine has, and few enough for some ten ResourceSlices of a node.
pub(crate) const DEVICES_OF_A_KIND: u32 = 1024;
/// Divided devices of one entry: their counters are in one ResourceSlice, which has eight sets at most.
pub(crate) const PARTITIONED_DEVICES: u32 = 8;
/// Partitions of a device of the example driver: those of a pool fill eight ResourceSlices then.
pub(crate) const PARTITIONS: u32 = 50;
/// Devices in a ResourceSlice if none has taints or counters; Kubernetes' limit.
pub(crate) const SLICE_PLAIN_DEVICES: usize = 128;
/// Devices in another ResourceSlice; Kubernetes' limit.
pub(crate) const SLICE_DEVICES: usize = 64;
/// From the end of a driver until its ResourceSlices vanish; kubelet's `wipingDelay`.
pub(crate) const SLICE_WIPE: Duration = Duration::from_secs(30);
/// Nodes that the status of a NodeFault names.
pub(crate) const FAULT_NODES_SHOWN: usize = 100;
/// Queued reports about referenced objects to the manager. Their watches wait when the queue is full.
pub(crate) const SOURCE_QUEUE: usize = 64;
/// Secrets that are read concurrently, over all nodes. A node that starts with thousands of pods reads theirs
/// in turns.
pub(crate) const SECRET_GETS: usize = 32;
/// First wait before a Secret that a pod waits for is read again, like Kubernetes' for a volume that cannot
/// be mounted; doubles up to [`SECRET_RETRY_MAX`].
pub(crate) const SECRET_RETRY_BASE: Duration = Duration::from_millis(500);
/// Longest wait between two reads of a Secret that a pod waits for. Shorter than Kubernetes' two minutes, for
/// users who try things interactively; a missing Secret costs the server one get.
pub(crate) const SECRET_RETRY_MAX: Duration = Duration::from_secs(5);
/// A Secret for which no pod waits is read again after this time, or when another pod refers to it; as in
/// Kubernetes.
pub(crate) const SECRET_REFRESH: Duration = Duration::from_secs(60);
/// Images that a node reports in its status, largest first; Kubernetes' default.
pub(crate) const IMAGES_REPORTED: usize = 50;

/// The longest delay in an annotation, and the longest `sleep`: ten years, longer than any run of a test
/// cluster. A longer one in an annotation is refused with the event `InvalidSimulation`. Sums of several
/// delays stay far below the largest timestamp.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Invalid annotations of one pod that are reported, each in an event; further ones are only ignored.
pub(crate) const PROBLEMS_REPORTED: usize = 16;

/// Containers that are compared with an unknown name to find the most similar one: comparing takes time, and
/// pods have few.
pub(crate) const NEAREST_CANDIDATES: usize = 256;

/// Threads that run commands of simulated containers, of half the processors at most, so that requests always have some.
pub(crate) const PROGRAM_THREADS: usize = 4;
/// Work that the commands of one container do a second, in the units of `kstore-container-sim`: one for a byte that is touched, some
/// thousand for a command. About a tenth of a processor.
pub(crate) const CONTAINER_WORK_PER_SECOND: u64 = 64 * 1024 * 1024;
/// Work that the commands of one namespace do a second: a quarter of a processor, so that one tenant leaves room for the others.
pub(crate) const NAMESPACE_WORK_PER_SECOND: u64 = 128 * 1024 * 1024;
/// Work of so much time is done at once, so that only commands that go on working wait.
pub(crate) const WORK_BURST: Duration = Duration::from_secs(2);
/// Bytes of one variable or argument after `$(NAME)` is replaced: Linux' `MAX_ARG_STRLEN`. A container with a longer one does not start.
pub(crate) const EXPANDED_BYTES: usize = 128 * 1024;
/// Bytes of all variables of a container, and of all its arguments: Linux' `ARG_MAX` at the usual stack size. As above.
pub(crate) const ENVIRONMENT_BYTES: usize = 2 * 1024 * 1024;
/// Bytes that a variable or mounted path costs beside its text.
pub(crate) const ENTRY_BYTES: usize = 128;
/// A command whose process died so many times in a row while it ran is not run again: it may be the cause.
pub(crate) const PROCESS_ENDS: u32 = 3;
/// Only runs that are shorter than this when the process is back count as in a row: restarts by an operator are usually rarer.
pub(crate) const PROCESS_END_WINDOW: Duration = Duration::from_secs(120);

/// Different names in `$(NAME)` that are taken for variables when a command is judged before it runs; one with more is not run.
pub(crate) const REPLACED_NAMES: usize = 16;
/// Paths of simulated nodes whose files are kept, over all nodes. Each costs little, and its bytes count against the namespace that named
/// it first. A pod with a path beyond them gets an empty one of its own.
pub(crate) const HOST_PATHS: usize = 1024;

/// Commands of containers that read their environment and files from the API at once. The others wait for them.
pub(crate) const PROGRAM_STARTS: usize = 16;
/// Most queued messages of streams to the manager: requests for the state of a pod, and reports that a process ended. Streams wait while
/// the queue is full.
pub(crate) const MANAGER_MESSAGES: usize = 64;
/// Waits before a tunnel that ended is opened again.
pub(crate) const TUNNEL_BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(250), TUNNEL_RETRY_MAX);
/// The longest wait between two tries.
pub(crate) const TUNNEL_RETRY_MAX: Duration = Duration::from_secs(10);
/// Bytes of the output of a command of a hook or probe that are kept, as in kubelet; the rest is dropped.
pub(crate) const EXECUTION_OUTPUT: usize = 10 * 1024;
/// First wait before a PodCertificateRequest is created again; doubles up to [`CERTIFICATE_RETRY_MAX`].
pub(crate) const CERTIFICATE_RETRY_BASE: Duration = Duration::from_secs(1);
/// Longest wait before a PodCertificateRequest is created again.
pub(crate) const CERTIFICATE_RETRY_MAX: Duration = Duration::from_secs(300);
/// Longest time from `beginRefreshAt` of a pod's certificate until another is requested; kubelet's `jitterDuration`.
pub(crate) const CERTIFICATE_JITTER: Duration = Duration::from_secs(300);
/// How long a pod's certificate may be due for replacement before an event says so; kubelet's `refreshOverdueDuration`.
pub(crate) const CERTIFICATE_OVERDUE: Duration = Duration::from_secs(600);

/// Bytes of a termination message, from the end of its file; kubelet's `MaxContainerTerminationMessageLength`.
pub(crate) const TERMINATION_MESSAGE: usize = 4096;
/// Bytes of the log that are the termination message of a failed container; kubelet's `MaxContainerTerminationMessageLogLength`.
pub(crate) const TERMINATION_LOG_BYTES: usize = 2048;
/// Lines at the end of the log from which the termination message is taken; kubelet's `MaxContainerTerminationMessageLogLines`.
pub(crate) const TERMINATION_LOG_LINES: u64 = 80;
/// Bytes of the termination messages in the status of a pod, shared equally by its containers; kubelet's
/// `MaxPodTerminationMessageLogLength`.
pub(crate) const POD_TERMINATION_MESSAGES: usize = 12 * 1024;
/// The longest line that a simulated shell reads; a longer one ends its input.
pub(crate) const LINE_BYTES: usize = 64 * 1024;
/// The longest body of an HTTP request that a simulated server reads; it is dropped.
pub(crate) const HTTP_BODY: usize = 64 * 1024 * 1024;
/// Bytes of HTTP under way in each direction between a simulated server and its stream.
pub(crate) const HTTP_PIPE: usize = 16 * 1024;

/// How long a connection to an address without a pod takes to fail: Linux' six tries.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(127);
/// Time for the answer to a datagram of a program of this machine whose receiver is simulated, or is a name server. After it none comes.
pub(crate) const DATAGRAM_TIME: Duration = Duration::from_secs(30);
/// Clients of Services whose endpoint is remembered for session affinity; beyond them the one that would be forgotten first is.
pub(crate) const AFFINITIES: usize = 4096;
/// Names that a name may stand for, one after the other, in an answer of the DNS.
pub(crate) const ALIASES: usize = 8;
/// Redirects that the HTTP request of a probe follows; Kubernetes' limit.
pub(crate) const PROBE_REDIRECTS: usize = 10;
/// Bytes of a question or an answer of a gRPC health check. A longer one is no message.
pub(crate) const HEALTH_MESSAGE: usize = 4096;
/// Bytes that are read from a connection at a time.
pub(crate) const NETWORK_BUFFER: usize = 16 * 1024;
/// Work that a connection to a server is for the server's container: reading its variables and files. About a thousand a second.
pub(crate) const CONNECTION_WORK: u64 = 64 * 1024;
/// Work that the beginning of a connection with TLS is for the server's container: a signature, some hundred a second.
pub(crate) const HANDSHAKE_WORK: u64 = 512 * 1024;
/// Work that a request is for the server's container: some thousand a second.
pub(crate) const REQUEST_WORK: u64 = 16 * 1024;

/// Bytes of output that are given to the client's stream at a time.
pub(crate) const OUTPUT_CHUNK: usize = 16 * 1024;

/// Bytes of a host program's output that are read at once.
pub(crate) const HOST_OUTPUT: usize = 16 << 10;
/// Work that a byte of a host program's output is: 8 MiB a second for a container, then its program waits.
pub(crate) const HOST_OUTPUT_WORK: u64 = CONTAINER_WORK_PER_SECOND / (8 << 20);
/// Shortest wait before the tokens of a host program's volumes are renewed, again where the server issued none: far less than the fifth of
/// a token's life that is left then.
pub(crate) const RENEWAL_RETRY: Duration = Duration::from_secs(10);

/// Time between two looks at the memory of a container of this machine whose limit no control group enforces. What it takes for a shorter
/// time is not seen.
pub(crate) const MEMORY_LOOK: Duration = Duration::from_secs(1);
/// Time over which the processor usage of a container of this machine is measured at least: what shorter ones show is chance.
pub(crate) const USAGE_WINDOW: Duration = Duration::from_secs(1);

/// Messages of clients that a program of this machine has not read yet. Further input waits.
pub(crate) const CONSOLE_INPUT: usize = 16;
/// Pieces of output that a client has not taken yet. The program then waits, and with it the other clients.
pub(crate) const CONSOLE_OUTPUT: usize = 16;
/// Bytes of output that a program of this machine keeps for the first client that attaches: the newest, such as a prompt.
pub(crate) const CONSOLE_KEPT: usize = 16 << 10;

/// Stages that one object plays within [`STAGE_WINDOW`]; the next one waits for its end. Stages that undo each other without a delay would
/// otherwise write as fast as the API server answers, and never let virtual time go on.
pub(crate) const STAGE_RATE: u32 = 64;
/// The time in which the stages of an object are counted.
pub(crate) const STAGE_WINDOW: Duration = Duration::from_secs(1);
/// Stages of a kind that are played at the same time: enough to keep the API server busy, and a bound for what waits in it.
pub(crate) const STAGE_PLAYS: usize = 64;

/// Addresses and names outside of the cluster whose refusal is told for a pod. Further ones are refused in silence.
pub(crate) const REFUSALS_TOLD: usize = 16;
/// Time between two looks at the containers of a container runtime: that of a kubelet. A container that ends is seen to have ended after
/// it, unless the runtime reports it before.
pub(crate) const RUNTIME_LOOK: Duration = Duration::from_secs(1);
/// Looks between two questions about the state of a ready runtime: ten seconds, a third of the time after which a kubelet takes a runtime
/// that does not answer for gone.
pub(crate) const RUNTIME_STATE_LOOKS: u64 = 10;
/// Time after which a sandbox without a known pod is removed: its pod may be one that the informer has yet to show.
pub(crate) const RUNTIME_ORPHAN: Duration = Duration::from_secs(30);
/// Time after which a container that could not be stopped is asked again.
pub(crate) const RUNTIME_STOP_RETRY: Duration = Duration::from_secs(10);
/// Ended runs of a container that its runtime keeps, as kubelets keep one.
pub(crate) const RUNTIME_DEAD_CONTAINERS: u32 = 1;
/// Time between two readings of the log of a container of a runtime.
pub(crate) const RUNTIME_LOG_LOOK: Duration = Duration::from_millis(100);
/// Bytes of a log file after which another one begins: kubelet's `containerLogMaxSize`. One older file is kept.
pub(crate) const RUNTIME_LOG_BYTES: u64 = 10 << 20;

/// Sandboxes of clients of CRI: ten times as many pods as a kubelet has by default. A further one is refused.
pub(crate) const ENDPOINT_SANDBOXES: usize = 1000;
/// Containers of clients of CRI, those that have ended among them. A further one is refused.
pub(crate) const ENDPOINT_CONTAINERS: usize = 4000;
/// Names of containers in one sandbox: a state machine is copied with each change of it. A container with a further name is refused.
pub(crate) const SANDBOX_CONTAINERS: usize = 64;
/// Bytes of the configurations of all sandboxes and containers of clients. What exceeds them is refused.
pub(crate) const ENDPOINT_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of a message of a client: a kubelet's largest is that of a container with an environment of 1 MiB. A larger one is refused.
pub(crate) const ENDPOINT_MESSAGE: usize = 4 * 1024 * 1024;
/// Images that clients have pulled. A further one is refused.
pub(crate) const ENDPOINT_IMAGES: usize = 1000;
/// Bytes of an image's name: the longest that registries take is shorter. A longer one is refused.
pub(crate) const IMAGE_NAME_BYTES: usize = 1024;
/// Open connections of clients. Further ones wait.
pub(crate) const ENDPOINT_CONNECTIONS: usize = 64;
/// Most events that wait for a client of the CRI endpoint. A client that is slower gets an error, and then lists its containers.
pub(crate) const ENDPOINT_EVENTS: usize = 1024;
/// Commands that run to their end at a time for clients. Further ones wait.
pub(crate) const ENDPOINT_COMMANDS: usize = 64;
/// Ports that a client names at once.
pub(crate) const ENDPOINT_PORTS: usize = 64;
/// Words of a command of a client, as many as Linux takes with short ones. A longer one is refused.
pub(crate) const EXEC_ARGUMENTS: usize = 4096;
/// Bytes of each output of a command that runs to its end for a client. What exceeds them is dropped.
pub(crate) const EXEC_SYNC_OUTPUT: usize = 1024 * 1024;
/// The least time from the moment when a kubelet begins to end a deleted pod to the pod's removal, however soon its processes end: kubelets
/// look that often whether volumes are unmounted. So a client that deletes a pod can still read it.
pub(crate) const LEAST_TERMINATION: Duration = Duration::from_millis(300);
/// Time that open calls have to end with the endpoint.
pub(crate) const ENDPOINT_STOP: Duration = Duration::from_millis(200);
/// The longest time that a container has to end: a day, so that a clock can add it.
pub(crate) const ENDPOINT_KILL: Duration = Duration::from_secs(86_400);
/// Files and folders that a container sees at one of its mounts. A container with more is refused.
pub(crate) const MOUNT_ENTRIES: usize = 4096;
/// Bytes of the files of a mount: they are copied into memory. A container with more is refused.
pub(crate) const MOUNT_BYTES: usize = 16 * 1024 * 1024;
/// Levels of folders of a mount. A container with more is refused.
pub(crate) const MOUNT_DEPTH: usize = 32;
/// Bytes of a container's log file. Kubelets rotate it at 10 MiB; one that no client rotates begins anew.
pub(crate) const LOG_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Ports of a container that are served on this machine. Further ones are not.
pub(crate) const POD_PORTS: usize = 64;
/// Open connections to the ports of a container on this machine. Further ones wait.
pub(crate) const POD_PORT_CONNECTIONS: usize = 256;
/// Tokens of streams that clients have not opened. A further one is refused.
pub(crate) const STREAM_TOKENS: usize = 1000;
/// Time in which a client opens a stream, as in other runtimes. Its token is void after it.
pub(crate) const TOKEN_TIME: Duration = Duration::from_secs(60);
/// Open connections of the streaming server. Further ones wait.
pub(crate) const STREAM_CONNECTIONS: usize = 256;
/// Bytes of the head of a request to the streaming server. A longer one ends the connection.
pub(crate) const STREAM_HEAD_BYTES: usize = 16 * 1024;
/// Time for the head of a request to the streaming server. The connection ends after it.
pub(crate) const STREAM_HEAD_TIME: Duration = Duration::from_secs(10);
/// Time in which a client of a command opens its SPDY streams. The connection ends after it.
pub(crate) const STREAMS_OPENED: Duration = Duration::from_secs(30);
/// Bytes of a message of a WebSocket. A longer one ends the connection.
pub(crate) const STREAM_MESSAGE: usize = 1024 * 1024;
/// Connections of one client that forwards ports. Further ones are closed.
pub(crate) const FORWARDED_PORTS: usize = 64;
/// Pieces of data that wait for a forwarded port. The client waits when there are more.
pub(crate) const FORWARD_QUEUE: usize = 16;
