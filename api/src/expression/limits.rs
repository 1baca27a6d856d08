//! Bounds of expressions, equal to those of Kubernetes. Costs are in units of `kstore-cel`: about one
//! comparison of numbers.

/// Highest cost of one evaluation of one expression.
pub const CALL_COST: u64 = 1_000_000;

/// Highest total cost of the expressions for one object: the rules of a custom resource, or one binding of an
/// admission policy with one parameter object.
pub const OBJECT_COST: u64 = 10_000_000;

/// Cost for one object from which on expressions take several milliseconds. An API server should not evaluate
/// them on a thread that serves other requests.
pub const COSTLY: u64 = 100_000;

/// Highest total cost of the match conditions of one webhook or admission policy for one request.
pub const MATCH_CONDITIONS_COST: u64 = 2_500_000;

/// Highest estimated cost of one rule of a CustomResourceDefinition, times the number of positions where its
/// schema can occur in an object.
pub const RULE_ESTIMATE: u64 = 10_000_000;

/// Highest estimated cost of all rules of one schema of a CustomResourceDefinition.
pub const SCHEMA_ESTIMATE: u64 = 100_000_000;

/// Bytes of a message from a `messageExpression`; the fixed message replaces longer ones.
pub const MESSAGE_BYTES: usize = 5 * 1024;

/// Bytes of a request. No value of an object is larger, which bounds sizes that a schema leaves open.
pub const REQUEST_BYTES: u64 = 3 * 1024 * 1024;
