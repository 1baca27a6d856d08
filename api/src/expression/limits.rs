//! Bounds of expressions, as Kubernetes has them. Costs are in units of `kstore-cel`: about the work of one comparison of numbers.

/// Cost of one evaluation of one expression, at most.
pub const CALL_COST: u64 = 1_000_000;

/// Cost of all expressions that judge one object: the rules of a custom resource, or one binding of an admission policy with one
/// parameter object.
pub const OBJECT_COST: u64 = 10_000_000;

/// Cost of the expressions about one object from which on they take several milliseconds: an API server should not evaluate such
/// expressions on a thread that serves other requests.
pub const COSTLY: u64 = 100_000;

/// Cost of all match conditions of one webhook or admission policy for one request.
pub const MATCH_CONDITIONS_COST: u64 = 2_500_000;

/// Estimated cost of one rule of a CustomResourceDefinition, times the number of places where its schema may occur in an object.
pub const RULE_ESTIMATE: u64 = 10_000_000;

/// Estimated cost of all rules of one schema of a CustomResourceDefinition.
pub const SCHEMA_ESTIMATE: u64 = 100_000_000;

/// Bytes of a message that a `messageExpression` makes; longer ones are replaced by the fixed message.
pub const MESSAGE_BYTES: usize = 5 * 1024;

/// Bytes of a request: no value of an object is larger, which bounds the sizes that a schema leaves open.
pub const REQUEST_BYTES: u64 = 3 * 1024 * 1024;
