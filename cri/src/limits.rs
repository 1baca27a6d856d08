//! Every bound of a runtime's client, with its reason and what happens when it is reached.

use std::time::Duration;

/// Time for a call: kubelet's `runtimeRequestTimeout`. The call fails after it.
pub(crate) const CALL_TIME: Duration = Duration::from_secs(120);
/// Time for a sandbox to be made: twice as long as for other calls, as kubelets give it, because its image may be pulled.
pub(crate) const SANDBOX_TIME: Duration = Duration::from_secs(240);
/// Time for an image to be pulled: that of gigabytes over a slow line. The pull fails after it.
pub(crate) const PULL_TIME: Duration = Duration::from_secs(3600);
/// Time to learn the state of a runtime: longer, and it counts as gone.
pub(crate) const STATE_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer: kubelet's bound. A larger one fails.
pub(crate) const ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of the head of the answer to an upgrade. A longer one fails the stream.
pub(crate) const HEAD_BYTES: usize = 16 * 1024;
/// Bytes of data that one frame to the runtime has.
pub(crate) const DATA_BYTES: usize = 32 * 1024;
/// Bytes of the status at the end of a command. What exceeds them is dropped.
pub(crate) const STATUS_BYTES: usize = 64 * 1024;
/// Time for a connection to the streaming server, which is on the same machine.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Bytes that one reading of a log file takes, so that a container that floods its log does not hold a thread.
pub(crate) const LOG_READ: usize = 256 * 1024;
/// Bytes of a line of a log file: runtimes split lines at 16 KiB. A longer one is cut.
pub(crate) const LOG_LINE: usize = 64 * 1024;
