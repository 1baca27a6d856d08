//! Bounds of the crate. Each keeps the work for one text, one pattern or one value finite.

/// Code points of an expression; longer texts are refused before they are read.
pub const EXPRESSION_CODE_POINTS: usize = 100_000;

/// Nesting of expressions in the text, and of operators in the syntax tree.
pub const RECURSION: usize = 250;

/// Nodes of a syntax tree. Macros that copy their object can double a tree at each step of a chain.
pub const NODES: usize = 300_000;

/// Syntax errors that are reported before parsing stops.
pub const SYNTAX_ERRORS: usize = 100;

/// Errors that a text lists; further errors are counted.
pub const LISTED_ERRORS: usize = 100;

/// Times that the parser recovers from a syntax error before it stops.
pub const RECOVERIES: usize = 30;

/// Loop iterations between two questions to the interrupt of an evaluation.
pub const INTERRUPT_INTERVAL: u32 = 100;

/// Bytes that a compiled regular expression may occupy.
pub const REGEX_BYTES: usize = 1 << 20;

/// Compiled regular expressions that one evaluation keeps, beside those of constant patterns.
pub const KEPT_PATTERNS: usize = 16;

/// Elements of a list that a single function call may create from a number alone.
pub const RANGE_ELEMENTS: i64 = 1_000_000;

/// Bytes of a string that one operation may create.
pub const STRING_BYTES: usize = 16 << 20;

/// Digits after the decimal point that a format clause may ask for.
pub const FORMAT_PRECISION: usize = 1_000;

/// Nesting of values that comparing and formatting follow.
pub const VALUE_DEPTH: usize = 512;

/// Parts of a type, such as the elements and keys within it. Types of nested comprehensions grow fast: each step can double them.
pub const TYPE_PARTS: usize = 1_000;
