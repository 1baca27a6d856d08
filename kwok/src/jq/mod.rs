//! The part of jq that stages use: paths, `[]`, `|`, `,`, `select`, comparisons, `and`, `or`, `//`, and some functions. Anything else is an
//! error when the expression is read. A subset and no library: an interpreter of the whole language is larger than this crate, and could
//! not be bounded in steps. Pure.

mod parse;
mod run;

use crate::limits::TEMPLATE_STEPS;
use parse::Parser;
use run::{Budget, Outputs};
use serde_json::Value;
use std::borrow::Cow;

/// A parsed expression.
#[derive(Clone, Debug)]
pub(crate) struct Query(Filter);

#[derive(Clone, Debug)]
enum Filter {
    Identity,
    Literal(Value),
    Path(Box<Filter>, Index),
    /// `filter?`
    Try(Box<Filter>),
    Pipe(Box<Filter>, Box<Filter>),
    Comma(Box<Filter>, Box<Filter>),
    Alternative(Box<Filter>, Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Compare(&'static str, Box<Filter>, Box<Filter>),
    Call(&'static str, Option<Box<Filter>>),
}

#[derive(Clone, Debug)]
enum Index {
    Name(String),
    At(i64),
    Each,
}

/// Functions without an argument.
const PLAIN: [&str; 14] = [
    "not",
    "length",
    "tostring",
    "tonumber",
    "keys",
    "type",
    "first",
    "last",
    "any",
    "all",
    "empty",
    "ascii_downcase",
    "ascii_upcase",
    "add",
];
/// Functions with one argument.
const WITH_ARGUMENT: [&str; 10] =
    ["select", "map", "has", "startswith", "endswith", "split", "join", "any", "all", "first"];
/// Comparisons; a longer one comes before its beginning.
const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

impl Query {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong or not supported.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Parser::whole(text).map(Self).map_err(|problem| format!("jq {text:?}: {problem}"))
    }

    /// The results but null; `None` if the expression fails, as KWOK has it, or takes more steps than an expression may, or than `left`,
    /// from which its steps are taken.
    pub(crate) fn run<'v>(&'v self, input: &'v Value, left: &mut usize) -> Option<Outputs<'v>> {
        let most = TEMPLATE_STEPS.min(*left);
        let mut budget = Budget::new(most);
        let outputs = self.0.run(&Cow::Borrowed(input), &mut budget);
        *left -= most - budget.left();
        let mut outputs = outputs.ok()?;
        outputs.retain(|value| !value.is_null());
        Some(outputs)
    }
}
