//! Go's `text/template` on JSON values: actions, pipelines, variables, `if`, `range`, `with`, `define`, the built-in functions, and a part
//! of sprig. Functions, fields and variables that a template cannot have are errors when it is parsed, with their line; a run is bounded
//! in steps and bytes. Pure.
//!
//! Values are JSON: a member that an object lacks is `null`, which prints as `<no value>` and is false, unless [`Missing::Refused`]. Whole
//! numbers print without a fraction. Not there: methods, channels, complex numbers, the functions `call`, `html`, `js` and `urlquery`.
//!
//! ```
//! use kstore_gotemplate::{Limits, NoFunctions, Template};
//! use serde_json::json;
//!
//! let text = "{{ range $i, $c := .containers }}{{ $i }}: {{ $c.name | upper }}\n{{ end }}";
//! let template = Template::parse(text, &NoFunctions)?;
//! let data = json!({"containers": [{"name": "web"}, {"name": "log"}]});
//! assert_eq!(template.render(&data, &NoFunctions, Limits::default())?, "0: WEB\n1: LOG\n");
//! # Ok::<(), kstore_gotemplate::TemplateError>(())
//! ```

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod builtin;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod lexer;
mod limits;
mod parser;
mod print;
mod run;
mod sprig;
#[cfg(test)]
mod tests;
mod value;

use serde_json::Value;
use std::collections::BTreeMap;

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<parser::Node>,
    defined: BTreeMap<String, Vec<parser::Node>>,
}

/// What is wrong with a template, or with a run of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct TemplateError {
    /// The line of the template, counted from one.
    pub line: usize,
    /// The problem, as a sentence without full stop.
    pub problem: String,
}

impl TemplateError {
    pub(crate) fn new(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// The functions that a caller adds. They come before the built-in ones and sprig's.
pub trait Functions {
    /// Whether a function has this name.
    fn has(&self, name: &str) -> bool;
    /// Calls a function that [`Self::has`] knows.
    ///
    /// # Errors
    /// Why the arguments do not fit, as a sentence.
    fn call(&self, name: &str, arguments: &[&Value]) -> Result<Value, String>;
}

/// No functions besides the built-in ones and sprig's.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn has(&self, _: &str) -> bool {
        false
    }
    fn call(&self, name: &str, _: &[&Value]) -> Result<Value, String> {
        Err(format!("function {name:?} is not supported"))
    }
}

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Actions and calls; a call also counts the size of its result.
    pub steps: usize,
    /// Bytes of the output, and of each value that a function makes.
    pub bytes: usize,
    /// What reading a member that an object lacks means.
    pub missing: Missing,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: limits::STEPS, bytes: limits::BYTES, missing: Missing::Null }
    }
}

/// What reading a member that an object lacks means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is `null`.
    Null,
    /// It is an error.
    Refused,
}

impl Template {
    /// Parses a template, which may call `functions`.
    ///
    /// # Errors
    /// The first construct that is wrong or not supported, and its line.
    pub fn parse(text: &str, functions: &dyn Functions) -> Result<Self, TemplateError> {
        let (nodes, defined) = parser::parse(lexer::pieces(text)?, functions)?;
        Ok(Self { nodes, defined })
    }

    /// The text of the template for `data`.
    ///
    /// # Errors
    /// A value that does not fit its function, or a limit that is exceeded, and its line.
    pub fn render(
        &self,
        data: &Value,
        functions: &dyn Functions,
        limits: Limits,
    ) -> Result<String, TemplateError> {
        run::render(self, data, functions, limits)
    }
}
