//! Every bound of simulated containers, with its reason and what happens when it is reached.

use std::time::Duration;

/// The longest `sleep`: ten years, longer than any run of a test cluster. A longer one is shortened, because sums of times
/// must stay far below what a timestamp can hold.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Lines of one run that can be read. Older lines are dropped, as if rotated away. Kubelets keep some tens of MiB.
pub(crate) const LOG_LINES: u64 = 65_536;
/// Bytes of one run's printed lines that can be read. Older lines are dropped, as if rotated away. Enough for scripts, and
/// little enough for thousands of containers.
pub(crate) const PRINTED_BYTES: usize = 256 * 1024;
/// Bytes of log text that one step returns; its last line may exceed it.
pub(crate) const LOG_CHUNK: usize = 16 * 1024;

/// Bytes of the files on one disk. Enough for what people copy into a container to try something, little beside a real
/// disk. A write beyond it fails with `No space left on device`.
pub(crate) const DISK_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of the files on all disks of one capacity. A write beyond it fails as above.
pub(crate) const DISKS_BYTES: usize = 256 * 1024 * 1024;
/// Bytes that a file, folder or link costs beside its content and path, so that empty ones are bounded too.
pub(crate) const DISK_ENTRY: usize = 256;
/// Bytes of a command's input and of a pipe: an archive of a full disk, and a little more. A command with more input fails.
pub(crate) const INPUT_BYTES: usize = DISK_BYTES + 16 * 1024 * 1024;
/// Bytes of unread output and incomplete input that each command line may always hold, independent of others: more than
/// a full screen.
pub(crate) const COMMAND_BYTES: usize = 64 * 1024;
/// Bytes that all command lines of one capacity hold together beyond that: two or three copies of a full disk. A command
/// that needs more fails, as a program does without memory. It does not wait, since the readers of the other outputs may
/// never read.
pub(crate) const COMMANDS_BYTES: usize = 192 * 1024 * 1024;
/// Bytes of the longest path. It also bounds the depth of folders, because some programs recurse into them.
pub(crate) const PATH_BYTES: usize = 1024;

/// Loops, conditions and substitutions around a command; deeper ones are a syntax error. Reading them recurses.
pub(crate) const NESTED_COMMANDS: usize = 32;
/// Rounds of loops that a command runs before time passes. After them each round takes [`LOOP_ROUND`], so that a loop without
/// `sleep` does not keep the simulation from everything else.
pub(crate) const LOOP_ROUNDS: u32 = 1_000;
/// Time that a round takes beyond that number.
pub(crate) const LOOP_ROUND: Duration = Duration::from_millis(10);
/// Rounds of loops in a substitution or a nested shell, which run to their end before their output is read. A command with
/// more fails.
pub(crate) const NESTED_ROUNDS: u32 = 10_000;
