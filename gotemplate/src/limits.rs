//! Bounds of templates and of their runs.

/// Default of the steps of a run: enough for lists of a few thousand elements, and over in milliseconds.
pub(crate) const STEPS: usize = 100_000;
/// Default of the bytes that a run makes: most objects that an API server stores are at most that large.
pub(crate) const BYTES: usize = 1 << 20;
/// Blocks in blocks and parentheses in parentheses, so that the stack suffices.
pub(crate) const DEPTH: usize = 64;
/// Commands of one action that pass their values on, over all of its parentheses.
pub(crate) const COMMANDS: usize = 256;
/// Blocks, calls and arguments in each other while a template runs, over all templates that call each other.
pub(crate) const NESTING: usize = 256;
/// Lists and maps of a made value in each other, as many as readers of JSON and YAML take.
pub(crate) const VALUE_DEPTH: usize = 128;
/// Templates that call each other.
pub(crate) const CALLS: usize = 64;
/// Bytes of a made value that count as a step.
pub(crate) const BYTES_PER_STEP: usize = 256;
/// Width and precision of a verb of `printf`.
pub(crate) const WIDTH: usize = 1024;
