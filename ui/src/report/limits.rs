//! Bounds of a report: a file that is sent by mail or kept by a CI system, and that a browser reads whole.

/// The largest file, in bytes. Beyond it the writer leaves parts out, in the order of `Loss`.
pub const FILE_BYTES: usize = 5 << 20;

/// The largest content of all chunks, inflated. Readers stop at it, so a writer does not exceed it: more is left out as for [`FILE_BYTES`].
pub(super) const INFLATED_BYTES: usize = 256 << 20;

/// What a recording keeps of states between the first and the newest ones, as bytes of JSON. States beyond it are not kept, and the report
/// says how many.
pub(super) const KEPT_BYTES: usize = 128 << 20;

/// What is kept of a long text when the file would be too large, in bytes.
pub(super) const VALUE_BYTES: usize = 4 << 10;

/// What is kept of the output of a test: its end, in bytes.
pub(super) const OUTPUT_BYTES: usize = 64 << 10;

/// Levels of an object's members in which differences are found; what is deeper differs as a whole.
pub(super) const DEPTH: usize = 64;

/// The largest content of the chunks about attempts, the server and marks, together and deflated. They come before states, since a reader
/// of a failed test asks for them first, and so must leave these most of the file.
pub(super) const FACT_BYTES: usize = 1 << 20;

/// The same content, inflated: a part of [`INFLATED_BYTES`].
pub(super) const FACT_INFLATED_BYTES: usize = 32 << 20;

/// Marks of a report: as many as a slider can show.
pub(super) const MARKS: usize = 1_000;

/// The longest text of a mark, in bytes; the rest is cut.
pub(super) const MARK_BYTES: usize = 512;
