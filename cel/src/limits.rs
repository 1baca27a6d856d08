//! Limits of the crate. Each bounds the work for one expression, one pattern or one value.

/// Code points of an expression. The parser refuses longer texts before it reads them.
pub const EXPRESSION_CODE_POINTS: usize = 100_000;

/// Nesting depth of expressions in the text, and of operators in the syntax tree.
pub const RECURSION: usize = 250;

/// Nodes of a syntax tree. Macros that copy their target can double a tree at each step of a chain.
pub const NODES: usize = 300_000;

/// Syntax errors after which the parser stops.
pub const SYNTAX_ERRORS: usize = 100;

/// Errors of an expression that are kept; further errors are only counted.
pub const LISTED_ERRORS: usize = 100;

/// Recoveries from syntax errors after which the parser stops.
pub const MAX_RECOVERIES: usize = 30;

/// Loop iterations between two checks of the interrupt of an evaluation.
pub const INTERRUPT_INTERVAL: u32 = 100;

/// Bytes that a compiled regular expression may occupy.
pub const REGEX_BYTES: usize = 1 << 20;

/// Compiled regular expressions that one evaluation keeps, in addition to those of constant patterns.
pub const KEPT_PATTERNS: usize = 16;

/// Elements of a list that one call of `lists.range` may create.
pub const RANGE_ELEMENTS: i64 = 1_000_000;

/// Bytes of a string that one operation may create.
pub const STRING_BYTES: usize = 16 << 20;

/// Digits after the decimal point that a format clause may ask for.
pub const FORMAT_PRECISION: usize = 1_000;

/// Nesting depth of values that are compared, formatted or exported.
pub const VALUE_DEPTH: usize = 512;

/// Parts of a type: the type and the types of its elements, keys and values. Each nested comprehension can double a type.
pub const TYPE_PARTS: usize = 1_000;
