//! Bounds of stages.

/// Stages of a process: every event of an object tries all stages of its kind.
pub(crate) const STAGES: usize = 1_000;
/// Steps of a template, and of an expression of jq: a run takes milliseconds at most.
pub(crate) const TEMPLATE_STEPS: usize = 100_000;
/// Bytes of a template's text: an API server stores objects of that size at most.
pub(crate) const TEMPLATE_BYTES: usize = 1 << 20;
/// Cost of an expression of CEL, as of a rule of a CustomResourceDefinition.
pub(crate) const CEL_COST: u64 = 1_000_000;
/// Parentheses and steps of an expression of jq in each other, so that the stack suffices.
pub(crate) const JQ_DEPTH: usize = 64;
/// Names, paths, literals and calls of an expression of jq, so that the stack suffices for its parts in each other.
pub(crate) const JQ_PARTS: usize = 256;
/// Bytes that jq reads or makes in a step: texts of a whole object count, so that copies of them are bounded.
pub(crate) const BYTES_PER_STEP: usize = 64;
/// Steps of jq in all selectors and weights that one event of an object tries. An object whose stages take more follows none.
pub(crate) const SELECTION_STEPS: usize = 1_000_000;
/// The same for the cost of CEL.
pub(crate) const SELECTION_COST: u64 = 10_000_000;
