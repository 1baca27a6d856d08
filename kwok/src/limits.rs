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
