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
