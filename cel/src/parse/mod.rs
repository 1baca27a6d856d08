//! The parser: turns a text into a syntax tree and expands macros. Errors have the words of a parser that ANTLR generates.

pub(crate) use builder::{ACCUMULATOR, operator};

mod aggregate;
mod builder;
mod grammar;
mod literal;
mod macros;
mod recover;
mod token;

use crate::ast::Ast;
use crate::limits::EXPRESSION_CODE_POINTS;
use crate::source::{ErrorSink, Errors, NOWHERE, Source};

/// The language extensions that the parser accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// Whether macros are expanded; otherwise they are plain calls.
    pub(crate) macros: bool,
    /// `a.?b`, `a[?b]`, `[?a]`, `{?a: b}`, `optMap`, `optFlatMap`.
    pub(crate) optional: bool,
    /// Macros with an index or key variable and a value variable.
    pub(crate) two_variables: bool,
    /// The macro `sortBy`.
    pub(crate) sort_by: bool,
    /// The macro `cel.bind`.
    pub(crate) bind: bool,
    /// Field names in backquotes.
    pub(crate) escaped_fields: bool,
}

/// Parses a text.
pub(crate) fn parse(source: &Source, syntax: Syntax) -> Result<Ast, Errors> {
    let mut errors = ErrorSink::default();
    let size = source.chars().len();
    if size > EXPRESSION_CODE_POINTS {
        let message =
            format!("expression code point size exceeds limit: size: {size}, limit {EXPRESSION_CODE_POINTS}");
        errors.report(NOWHERE, message);
        errors.finish(source)?;
    }
    let Some(tokens) = token::tokens(source, &mut errors) else { return Err(errors.take_errors(source)) };
    let cursor = recover::Cursor::new(source, tokens, errors);
    let (ast, mut errors) = grammar::Parser::new(cursor, syntax).start();
    errors.finish(source)?;
    Ok(ast)
}
