//! Bounds of host programs, each with its reason and what happens beyond it.

use std::time::Duration;

/// Bytes of one message between this process and a launcher. A container's variables and arguments are at most 2 MiB; a longer message is
/// an error of the start.
pub(crate) const MESSAGE_BYTES: u64 = 8 << 20;

/// Bytes of `/dev/shm` of a container, as container runtimes have it: writes beyond it fail.
#[cfg(target_os = "linux")]
pub(crate) const SHARED_MEMORY: &str = "mode=1777,size=64m";

/// Number of users and groups that containers can have where this process is root. Others cannot be used.
pub(crate) const IDS: u32 = 65_536;

/// The first user and group of this machine that stands for one of a container where this process is root.
pub(crate) const FIRST_ID: u32 = 1_000_000;

/// Names that are tried for the folder of this process, and for the request of a command in a container, before it is an error that all of
/// them are taken.
pub(crate) const FOLDER_NAMES: u32 = 100;

/// Time for a launcher's answers at the start of a container, which takes milliseconds. After it the start has failed.
pub(crate) const START_TIME: Duration = Duration::from_secs(30);

/// Processes and threads of a container, as a kubelet with a limit on them has it by default. Further ones fail to start.
pub(crate) const PROCESSES: u64 = 1024;

/// Processes in a container's control group that are not the container's: the launcher that supervises it.
pub(crate) const LAUNCHER_PROCESSES: u64 = 1;

/// Files that a process of a container may have open. Opening further ones fails.
#[cfg(target_os = "linux")]
pub(crate) const OPEN_FILES: u64 = 65_536;

/// Age up to which a sample of what containers use answers further questions: each reads all processes of the machine.
pub(crate) const SAMPLE_AGE: Duration = Duration::from_millis(500);

/// Time for the processes of an ended container to leave its control group. After it the group stays until the next start.
#[cfg(target_os = "linux")]
pub(crate) const GROUP_END: Duration = Duration::from_secs(5);

/// Entries of an image, over all of its layers. An image with more is refused.
pub(crate) const IMAGE_ENTRIES: usize = 1_000_000;

/// Bytes of the files of an image, over all of its layers. An image with more is refused.
pub(crate) const IMAGE_BYTES: u64 = 16 << 30;

/// Folders above an entry of an image. An image with a deeper one is refused.
pub(crate) const IMAGE_DEPTH: usize = 256;

/// Links that are followed for one path of an image, as Linux does. A path with more is refused.
pub(crate) const IMAGE_LINKS: usize = 40;

/// Bytes of a document of an image. An image with a longer one is refused.
pub(crate) const IMAGE_DOCUMENT: u64 = 4 << 20;

/// Bytes of the window of a layer that zstd has compressed: the largest one of its command without `--long` above 27. A layer with a larger
/// one is refused, because its reader would hold as much.
pub(crate) const ZSTD_WINDOW: u64 = 128 << 20;

/// Bytes of a packet between a pod's programs and the gateway: fewer packets for the same bytes than with Ethernet's 1,500, and datagrams
/// up to it need no fragments, which the gateway drops.
pub(crate) const LINK_MTU: u32 = 9000;

/// Connections of a pod's programs with others, those that begin among them. The first packet of a further one is dropped: it waits, and
/// fails in the end, as at a machine that has too many.
pub(crate) const POD_CONNECTIONS: usize = 1024;

/// Bytes that a connection holds in each direction between the program's kernel and the network: a pod's connections hold at most 128 MiB.
/// Beyond it the sender waits.
pub(crate) const CONNECTION_BUFFER: usize = 64 << 10;

/// Datagrams of a pod's programs that are under way to a network which has not answered them. Further ones are dropped.
pub(crate) const POD_DATAGRAMS: usize = 256;

/// Flows of datagrams to a pod's programs whose answers are expected. The one that was idle for longest goes for a further one.
pub(crate) const POD_FLOWS: usize = 256;

/// Orders and datagrams that wait for a gateway. Datagrams beyond it are dropped; who connects to the pod waits.
pub(crate) const GATEWAY_ORDERS: usize = 256;

/// Packets that a gateway reads before it looks at everything else again.
pub(crate) const PACKETS_AT_ONCE: usize = 64;

/// Rounds of a gateway before it lets other tasks run.
pub(crate) const GATEWAY_ROUNDS: usize = 16;

/// Time for a connection to a network beyond the cluster: Linux' six tries. After it the program's packets count as lost.
pub(crate) const OUTSIDE_CONNECT_TIME: Duration = Duration::from_secs(127);

/// Bytes that are read at once from a connection to a network beyond the cluster, in each direction.
pub(crate) const RELAY_BUFFER: usize = 16 << 10;

/// Flows of datagrams from a pod to networks beyond the cluster, each a socket of this machine. Datagrams of further ones are dropped.
pub(crate) const OUTSIDE_FLOWS: usize = 256;

/// Datagrams of such a flow that wait for its socket. Further ones are dropped.
pub(crate) const FLOW_DATAGRAMS: usize = 64;

/// Time after which a flow without any answer ends when it is idle, as in Linux' tables of connections.
pub(crate) const FLOW_TIME: Duration = Duration::from_secs(30);

/// The same for a flow that has been answered.
pub(crate) const ANSWERED_FLOW_TIME: Duration = Duration::from_secs(180);

/// Bytes of a datagram from a network beyond the cluster: the most that there can be.
pub(crate) const DATAGRAM_BYTES: usize = 64 << 10;

/// Name servers of this machine that are asked, as its resolver asks them. Further ones are not used.
pub(crate) const NAME_SERVERS: usize = 3;

/// Time for the answer of a name server of this machine. After it the next one is asked.
pub(crate) const NAME_SERVER_TIME: Duration = Duration::from_secs(3);
