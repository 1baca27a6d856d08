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
/// Bytes of the files on all disks of one namespace: two full ones, so that other namespaces always have space. A write beyond it
/// fails as above.
pub(crate) const NAMESPACE_DISKS_BYTES: usize = 2 * DISK_BYTES;
/// Bytes of the files on all disks of one capacity. A write beyond it fails as above.
pub(crate) const DISKS_BYTES: usize = 256 * 1024 * 1024;
/// Bytes that a file, folder or link costs beside its content and path, so that empty ones are bounded too.
pub(crate) const DISK_ENTRY: usize = 256;
/// Bytes of a command's input and of a pipe: an archive of a full disk, and a little more. A command with more input fails.
pub(crate) const INPUT_BYTES: usize = DISK_BYTES + 16 * 1024 * 1024;
/// Bytes of variables, words, pipes, unread output and incomplete input that each command line may always hold, independent
/// of others: more than a full screen.
pub(crate) const COMMAND_BYTES: usize = 64 * 1024;
/// Bytes that the command lines of one container hold together beyond that: an archive of a full disk, and a pipe beside it.
/// A command that needs more is killed, as in a container with a memory limit.
pub(crate) const CONTAINER_BYTES: usize = 96 * 1024 * 1024;
/// Bytes that the command lines of one namespace hold together, as above: less than the whole, so that other namespaces always
/// have memory.
pub(crate) const NAMESPACE_BYTES: usize = 128 * 1024 * 1024;
/// Bytes that all command lines of one simulation hold together, as above. A command does not wait for memory, since the
/// readers of the other outputs may never read.
pub(crate) const COMMANDS_BYTES: usize = 192 * 1024 * 1024;
/// Reservations up to this size are exact, so that many small commands fit; larger ones grow by [`RESERVATION_CHUNK`].
pub(crate) const EXACT_RESERVATION: usize = 16 * 1024;
/// Bytes by which a large reservation grows, so that appending single bytes is cheap.
pub(crate) const RESERVATION_CHUNK: usize = 64 * 1024;
/// Bytes that a word or variable costs beside its text.
pub(crate) const WORD_COST: usize = 64;
/// Bytes that a text in a queue of output costs beside its length, so that many empty lines are bounded too.
pub(crate) const BUFFER_COST: usize = 256;
/// Bytes of the longest argument of a program, a script among them: Linux' `MAX_ARG_STRLEN`. It also bounds what the parser
/// makes of a script.
pub(crate) const ARGUMENT_BYTES: usize = 128 * 1024;
/// Bytes of all arguments, or of all variables, with which a program starts: Linux' `ARG_MAX` at the usual stack size. Beyond it
/// a program does not start: `Argument list too long`.
pub(crate) const ARGUMENTS_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of the longest path. It also bounds the depth of folders, because some programs recurse into them.
pub(crate) const PATH_BYTES: usize = 1024;

/// Loops, conditions and substitutions around a command; deeper ones are a syntax error. Reading them recurses.
pub(crate) const NESTED_COMMANDS: usize = 32;
/// Operators, parentheses and signs around a part of an expression; deeper ones are an error. Evaluating them recurses.
pub(crate) const NESTED_EXPRESSIONS: usize = 32;
/// Functions, `eval` and `.` that run inside each other in one process; a deeper one ends the shell. A real shell ends when its stack
/// is full.
pub(crate) const NESTED_CALLS: usize = 256;
/// Rounds of loops, and calls of functions, that a command runs before time passes. After them each such number takes [`LOOP_ROUND`],
/// so that a loop without `sleep` does not keep the simulation from everything else.
pub(crate) const LOOP_ROUNDS: u32 = 1_000;
/// Time that such a number of rounds takes.
pub(crate) const LOOP_ROUND: Duration = Duration::from_millis(10);
/// Processes of one command at a time; beyond it `can't fork: Resource temporarily unavailable`. A real container has such a limit too.
pub(crate) const PROCESSES: usize = 256;
/// Bytes that a process costs beside its variables.
pub(crate) const PROCESS_BYTES: usize = 2048;
/// Shells and substitutions inside each other; a deeper one cannot be started.
pub(crate) const NESTED_SHELLS: usize = 64;
/// Bytes in a pipe before its writer waits, as on Linux.
pub(crate) const PIPE_BYTES: usize = 64 * 1024;
/// Words that one word with braces becomes at most, as in `{1..100000}`.
pub(crate) const BRACE_WORDS: usize = 100_000;
/// The widest field of `printf`; a wider one is cut.
pub(crate) const FIELD_WIDTH: usize = 64 * 1024;
/// Work of one step before the shell lets other programs run: a few milliseconds.
pub(crate) const TIME_SLICE_WORK: u64 = 4 * 1024 * 1024;
/// Work of one step in all. Only a single command, or a substitution or nested shell, exceeds the time slice. It is killed
/// beyond this, so that the process can always end: several passes over a full disk, or about a second.
pub(crate) const STEP_WORK: u64 = 512 * 1024 * 1024;

/// Work of a call on the network, as its caller's container pays for it: about a thousand a second.
pub(crate) const NETWORK_WORK: usize = 64 * 1024;
/// Calls on the network of one command without a reply, by processes that have ended among them; a further one fails.
pub(crate) const NETWORK_CALLS: usize = 256;
/// Bytes that `wget`, `curl` and `nc` receive at most over one connection: what a container may hold, and the rest is cut.
pub(crate) const RECEIVED_BYTES: usize = 32 * 1024 * 1024;
/// Connections that one request of `/dial` to `netexec` makes at most; a request for more is refused.
pub(crate) const DIAL_TRIES: usize = 100;
/// Bytes of host and request of `/dial`, each of whose connections has a copy; longer ones are refused.
pub(crate) const DIAL_REQUEST_BYTES: usize = 8 * 1024;
/// Bytes that each of them receives at most.
pub(crate) const DIAL_BYTES: usize = 64 * 1024;
/// Bytes of a document of an issuer of tokens that `agnhost` reads: thousands of keys. A longer one is cut, and so not understood.
pub(crate) const DISCOVERY_BYTES: usize = 1024 * 1024;
/// Work of the verification of a signature: about a tenth of a millisecond, for which a program reads that many bytes.
pub(crate) const VERIFICATION_WORK: usize = 64 * 1024;
/// Redirects that `wget`, `curl` and `agnhost` follow, so that a circle of them ends.
pub(crate) const REDIRECTS: usize = 10;
/// Bytes of the head of an HTTP request. A longer one is answered by 431 and ends the connection. Go's servers take a MiB.
pub(crate) const HTTP_HEAD_BYTES: usize = 64 * 1024;
/// Bytes of the body of an HTTP request that a simulated server reads; a larger one is answered by 413 and ends the connection.
pub(crate) const HTTP_BODY_BYTES: usize = 4 * 1024 * 1024;
/// Names that `nettest` counts, and keys that `guestbook` keeps: more than the pods of a test. Each request reads and writes all of them.
/// Of further names nothing is counted; further keys are refused.
pub(crate) const ANSWERED_KEYS: usize = 256;
/// Bytes of such a name or key: the longest name of an object. A longer one is treated as a further one.
pub(crate) const ANSWERED_KEY_BYTES: usize = 253;
/// Bytes of a text that `guestbook` keeps, so that all of them have 4 MiB at most. A longer one is refused.
pub(crate) const ANSWERED_TEXT_BYTES: usize = 16 * 1024;
/// Bytes of a line before a chunk of a body; a longer one is answered by 400.
pub(crate) const HTTP_CHUNK_LINE: usize = 8 * 1024;

/// Bytes of the largest datagram: what UDP over IPv4 carries. `nc -u` sends no more of its input.
pub(crate) const DATAGRAM_BYTES: usize = 65_507;
