//! The part of jq that stages use: paths, `[]`, `|`, `,`, `select`, comparisons, `and`, `or`, `//`, and some functions. Anything else is an
//! error when the expression is read. A subset and no library: an interpreter of the whole language is larger than this crate, and could
//! not be bounded in steps. Pure.

use crate::limits::{JQ_DEPTH, TEMPLATE_STEPS};
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

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

/// An error of jq, which ends the expression without a result.
struct Failed;

type Outputs<'v> = Vec<Cow<'v, Value>>;

impl Query {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong or not supported.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let filter = parser.pipe().map_err(|problem| format!("jq {text:?}: {problem}"))?;
        parser.space();
        match parser.rest() {
            "" => Ok(Self(filter)),
            rest => Err(format!("jq {text:?}: {:?} is not supported", shortened(rest))),
        }
    }

    /// The results but null; `None` if the expression fails, as KWOK has it.
    pub(crate) fn run<'v>(&'v self, input: &'v Value) -> Option<Outputs<'v>> {
        let mut steps = TEMPLATE_STEPS;
        let mut outputs = self.0.run(&Cow::Borrowed(input), &mut steps).ok()?;
        outputs.retain(|value| !value.is_null());
        Some(outputs)
    }
}

impl Filter {
    fn run<'v>(&'v self, input: &Cow<'v, Value>, steps: &mut usize) -> Result<Outputs<'v>, Failed> {
        *steps = steps.checked_sub(1).ok_or(Failed)?;
        match self {
            Self::Identity => Ok(vec![input.clone()]),
            Self::Literal(value) => Ok(vec![Cow::Borrowed(value)]),
            Self::Path(of, index) => {
                let mut all = Vec::new();
                for value in of.run(input, steps)? {
                    indexed(value, index, steps, &mut all)?;
                }
                Ok(all)
            }
            Self::Try(filter) => Ok(filter.run(input, steps).unwrap_or_default()),
            Self::Pipe(one, two) => {
                let mut all = Vec::new();
                for value in one.run(input, steps)? {
                    all.extend(two.run(&value, steps)?);
                }
                Ok(all)
            }
            Self::Comma(one, two) => {
                let mut all = one.run(input, steps)?;
                all.extend(two.run(input, steps)?);
                Ok(all)
            }
            Self::Alternative(one, two) => {
                let mut first = one.run(input, steps).unwrap_or_default();
                first.retain(|value| is_true(value));
                if first.is_empty() { two.run(input, steps) } else { Ok(first) }
            }
            Self::And(one, two) => both(one, two, input, steps, |one, two| one && two()),
            Self::Or(one, two) => both(one, two, input, steps, |one, two| one || two()),
            Self::Compare(sign, one, two) => {
                let (ones, twos) = (one.run(input, steps)?, two.run(input, steps)?);
                let mut all = Vec::new();
                for two in &twos {
                    for one in &ones {
                        *steps = steps.checked_sub(1).ok_or(Failed)?;
                        all.push(Cow::Owned(Value::Bool(holds(sign, order(one, two)))));
                    }
                }
                Ok(all)
            }
            Self::Call(name, None) => called(name, input),
            Self::Call(name, Some(argument)) => called_with(name, argument, input, steps),
        }
    }
}

/// `and` and `or` of all pairs of outputs.
fn both<'v>(
    one: &'v Filter,
    two: &'v Filter,
    input: &Cow<'v, Value>,
    steps: &mut usize,
    combine: impl Fn(bool, &mut dyn FnMut() -> bool) -> bool,
) -> Result<Outputs<'v>, Failed> {
    let mut all = Vec::new();
    for first in one.run(input, steps)? {
        let (mut seconds, mut failed) = (None, false);
        let whole = combine(is_true(&first), &mut || match two.run(input, steps) {
            Ok(found) => {
                let is_one_true = found.first().is_some_and(|value| is_true(value));
                seconds = Some(found);
                is_one_true
            }
            Err(Failed) => {
                failed = true;
                false
            }
        });
        if failed {
            return Err(Failed);
        }
        match seconds {
            None => all.push(Cow::Owned(Value::Bool(whole))),
            // The second decides: each of its outputs is one.
            Some(found) => all.extend(found.iter().map(|value| Cow::Owned(Value::Bool(is_true(value))))),
        }
    }
    Ok(all)
}

/// Adds what an index of a value gives.
fn indexed<'v>(
    value: Cow<'v, Value>,
    index: &Index,
    steps: &mut usize,
    all: &mut Outputs<'v>,
) -> Result<(), Failed> {
    fn parts<'v>(value: &'v Value, index: &Index) -> Result<Vec<&'v Value>, Failed> {
        static NULL: Value = Value::Null;
        Ok(match (value, index) {
            (Value::Object(members), Index::Name(name)) => vec![members.get(name).unwrap_or(&NULL)],
            (Value::Null, Index::Name(_) | Index::At(_)) => vec![&NULL],
            (Value::Array(list), Index::At(at)) => {
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let at = if *at < 0 { at + length } else { *at };
                vec![usize::try_from(at).ok().and_then(|at| list.get(at)).unwrap_or(&NULL)]
            }
            (Value::Array(list), Index::Each) => list.iter().collect(),
            (Value::Object(members), Index::Each) => members.values().collect(),
            _ => return Err(Failed),
        })
    }
    match value {
        Cow::Borrowed(value) => {
            let found = parts(value, index)?;
            *steps = steps.checked_sub(found.len()).ok_or(Failed)?;
            all.extend(found.into_iter().map(Cow::Borrowed));
        }
        Cow::Owned(value) => {
            let found = parts(&value, index)?;
            *steps = steps.checked_sub(found.len()).ok_or(Failed)?;
            all.extend(found.into_iter().map(|part| Cow::Owned(part.clone())));
        }
    }
    Ok(())
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// jq's order: null, false, true, numbers, strings, arrays, objects.
fn order(one: &Value, two: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    };
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => {
            one.as_f64().unwrap_or(0.0).total_cmp(&two.as_f64().unwrap_or(0.0))
        }
        (Value::String(one), Value::String(two)) => one.cmp(two),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            one.to_string().cmp(&two.to_string())
        }
        _ => rank(one).cmp(&rank(two)),
    }
}

fn holds(sign: &str, order: Ordering) -> bool {
    match sign {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        _ => order.is_gt(),
    }
}

fn called<'v>(name: &str, input: &Cow<'v, Value>) -> Result<Outputs<'v>, Failed> {
    let list = || input.as_array().ok_or(Failed);
    let text = || input.as_str().ok_or(Failed);
    let made = match name {
        "empty" => return Ok(Vec::new()),
        "not" => Value::Bool(!is_true(input)),
        "length" => match &**input {
            Value::Null => Value::from(0),
            Value::String(text) => Value::from(text.chars().count()),
            Value::Array(list) => Value::from(list.len()),
            Value::Object(members) => Value::from(members.len()),
            Value::Number(_) | Value::Bool(_) => return Err(Failed),
        },
        "tostring" => match &**input {
            Value::String(text) => Value::from(&**text),
            other => Value::String(other.to_string()),
        },
        "tonumber" => match &**input {
            Value::String(text) => {
                serde_json::from_str(text.trim()).ok().filter(Value::is_number).ok_or(Failed)?
            }
            Value::Number(number) => Value::Number(number.clone()),
            _ => return Err(Failed),
        },
        "keys" => {
            let mut names: Vec<&String> = input.as_object().ok_or(Failed)?.keys().collect();
            names.sort();
            names.into_iter().map(|name| Value::from(&**name)).collect()
        }
        "type" => Value::from(match &**input {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }),
        "first" => list()?.first().cloned().unwrap_or_default(),
        "last" => list()?.last().cloned().unwrap_or_default(),
        "any" => Value::Bool(list()?.iter().any(is_true)),
        "all" => Value::Bool(list()?.iter().all(is_true)),
        "ascii_downcase" => Value::String(text()?.to_ascii_lowercase()),
        "ascii_upcase" => Value::String(text()?.to_ascii_uppercase()),
        _ => added(list()?)?,
    };
    Ok(vec![Cow::Owned(made)])
}

/// The sum of numbers, or the texts or lists in a row.
fn added(list: &[Value]) -> Result<Value, Failed> {
    let mut sum = Value::Null;
    for next in list {
        sum = match (sum, next) {
            (Value::Null, next) => next.clone(),
            (sum, Value::Null) => sum,
            (Value::Number(one), Value::Number(two)) => match (one.as_i64(), two.as_i64()) {
                (Some(one), Some(two)) => Value::from(one.checked_add(two).ok_or(Failed)?),
                _ => Value::from(one.as_f64().ok_or(Failed)? + two.as_f64().ok_or(Failed)?),
            },
            (Value::String(one), Value::String(two)) => Value::String(one + two),
            (Value::Array(mut one), Value::Array(two)) => {
                one.extend_from_slice(two);
                Value::Array(one)
            }
            _ => return Err(Failed),
        };
    }
    Ok(sum)
}

fn called_with<'v>(
    name: &str,
    argument: &'v Filter,
    input: &Cow<'v, Value>,
    steps: &mut usize,
) -> Result<Outputs<'v>, Failed> {
    if name == "select" {
        let outputs = argument.run(input, steps)?;
        return Ok(outputs.iter().filter(|value| is_true(value)).map(|_| input.clone()).collect());
    }
    if name == "first" {
        return Ok(argument.run(input, steps)?.into_iter().take(1).collect());
    }
    if matches!(name, "map" | "any" | "all") {
        let mut all = Vec::new();
        for element in input.as_array().ok_or(Failed)? {
            all.extend(argument.run(&Cow::Owned(element.clone()), steps)?.into_iter().map(Cow::into_owned));
        }
        let made = match name {
            "map" => Value::Array(all),
            "any" => Value::Bool(all.iter().any(is_true)),
            _ => Value::Bool(all.iter().all(is_true)),
        };
        return Ok(vec![Cow::Owned(made)]);
    }
    let argument = argument.run(input, steps)?.into_iter().next().ok_or(Failed)?;
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or(Failed);
    let made = match (name, &**input) {
        ("has", Value::Object(members)) => Value::Bool(members.contains_key(&text(&argument)?)),
        ("has", Value::Array(list)) => {
            Value::Bool(argument.as_u64().is_some_and(|at| at < list.len() as u64))
        }
        ("startswith", whole) => Value::Bool(text(whole)?.starts_with(&text(&argument)?)),
        ("endswith", whole) => Value::Bool(text(whole)?.ends_with(&text(&argument)?)),
        ("split", whole) => text(whole)?.split(&text(&argument)?).map(Value::from).collect(),
        ("join", Value::Array(list)) => {
            let parts: Result<Vec<_>, _> = list.iter().map(text).collect();
            Value::String(parts?.join(&text(&argument)?))
        }
        _ => return Err(Failed),
    };
    Ok(vec![Cow::Owned(made)])
}

/// The beginning of a text, for errors.
fn shortened(text: &str) -> String {
    text.chars().take(20).collect()
}

struct Parser<'s> {
    text: &'s str,
    at: usize,
    depth: usize,
}

impl<'s> Parser<'s> {
    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes a sign after spaces, if it is next.
    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let is_next = self.rest().starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    /// Takes a word after spaces, if it is next.
    fn take_word(&mut self, word: &str) -> bool {
        self.space();
        let is_next = name(self.rest()) == word;
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn pipe(&mut self) -> Result<Filter, String> {
        self.depth += 1;
        if self.depth > JQ_DEPTH {
            return Err(format!("more than {JQ_DEPTH} parentheses and pipes are in each other"));
        }
        let mut one = self.alternative()?;
        while self.take(",") {
            one = Filter::Comma(Box::new(one), Box::new(self.alternative()?));
        }
        if self.take("|") {
            one = Filter::Pipe(Box::new(one), Box::new(self.pipe()?));
        }
        self.depth -= 1;
        Ok(one)
    }

    fn alternative(&mut self) -> Result<Filter, String> {
        let one = self.or()?;
        match self.take("//") {
            true => Ok(Filter::Alternative(Box::new(one), Box::new(self.alternative()?))),
            false => Ok(one),
        }
    }

    fn or(&mut self) -> Result<Filter, String> {
        let mut one = self.and()?;
        while self.take_word("or") {
            one = Filter::Or(Box::new(one), Box::new(self.and()?));
        }
        Ok(one)
    }

    fn and(&mut self) -> Result<Filter, String> {
        let mut one = self.comparison()?;
        while self.take_word("and") {
            one = Filter::And(Box::new(one), Box::new(self.comparison()?));
        }
        Ok(one)
    }

    fn comparison(&mut self) -> Result<Filter, String> {
        let one = self.postfix()?;
        match COMPARISONS.into_iter().find(|sign| self.take(sign)) {
            Some(sign) => Ok(Filter::Compare(sign, Box::new(one), Box::new(self.postfix()?))),
            None => Ok(one),
        }
    }

    fn postfix(&mut self) -> Result<Filter, String> {
        let mut filter = self.term()?;
        for _ in 0..JQ_DEPTH {
            let rest = self.rest();
            if rest.starts_with('[') || rest.starts_with(".[") {
                self.at += rest.len() - rest.trim_start_matches('.').len();
                filter = self.bracket(filter)?;
            } else if rest.starts_with('.') {
                self.at += 1;
                filter = self.member(filter)?;
            } else if rest.starts_with('?') {
                self.at += 1;
                filter = Filter::Try(Box::new(filter));
            } else {
                return Ok(filter);
            }
        }
        Err(format!("a path has more than {JQ_DEPTH} parts"))
    }

    fn term(&mut self) -> Result<Filter, String> {
        self.space();
        let rest = self.rest();
        if self.take("(") {
            let inner = self.pipe()?;
            return if self.take(")") { Ok(inner) } else { Err("\"(\" has no \")\"".to_owned()) };
        }
        if rest.starts_with(".[") || rest == "." {
            self.at += 1;
            return Ok(Filter::Identity);
        }
        if let Some(behind) = rest.strip_prefix('.') {
            self.at += 1;
            return match behind.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"') {
                true => self.member(Filter::Identity),
                false => Ok(Filter::Identity),
            };
        }
        if rest.starts_with('"') {
            return self.string().map(|text| Filter::Literal(Value::String(text)));
        }
        if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let is_part = |c: char| c.is_ascii_digit() || c == '.';
            let length = 1 + rest[1..].find(|c| !is_part(c)).unwrap_or(rest.len() - 1);
            self.at += length;
            let number = serde_json::from_str(&rest[..length]);
            return number.map(Filter::Literal).map_err(|_| format!("{:?} is not a number", &rest[..length]));
        }
        let word = name(rest);
        self.at += word.len();
        match word {
            "" => Err(format!("{:?} is not supported", shortened(rest))),
            "true" | "false" => Ok(Filter::Literal(Value::Bool(word == "true"))),
            "null" => Ok(Filter::Literal(Value::Null)),
            function => self.call(function),
        }
    }

    fn call(&mut self, function: &str) -> Result<Filter, String> {
        let argument = match self.rest().starts_with('(') {
            false => None,
            true => {
                self.at += 1;
                let argument = self.pipe()?;
                if !self.take(")") {
                    return Err("\"(\" has no \")\"".to_owned());
                }
                Some(Box::new(argument))
            }
        };
        let known: &[&'static str] = if argument.is_some() { &WITH_ARGUMENT } else { &PLAIN };
        match known.iter().find(|name| **name == function) {
            Some(name) => Ok(Filter::Call(name, argument)),
            None => Err(format!("{function:?} is not supported; supported are {}", supported())),
        }
    }

    /// `name` or `"name"` behind a point.
    fn member(&mut self, of: Filter) -> Result<Filter, String> {
        let found = match self.rest().starts_with('"') {
            true => self.string()?,
            false => {
                let found = name(self.rest());
                self.at += found.len();
                found.to_owned()
            }
        };
        match found.is_empty() {
            true => Err(format!("a name is missing before {:?}", shortened(self.rest()))),
            false => Ok(Filter::Path(Box::new(of), Index::Name(found))),
        }
    }

    /// `[]`, `["name"]`, `[1]`.
    fn bracket(&mut self, of: Filter) -> Result<Filter, String> {
        self.at += 1;
        self.space();
        let rest = self.rest();
        let index = if rest.starts_with(']') {
            Index::Each
        } else if rest.starts_with('"') {
            Index::Name(self.string()?)
        } else {
            let length = rest.find(']').unwrap_or(rest.len());
            self.at += length;
            let number = rest[..length].trim().parse();
            Index::At(number.map_err(|_| format!("[{}] is not supported", &rest[..length]))?)
        };
        match self.take("]") {
            true => Ok(Filter::Path(Box::new(of), index)),
            false => Err("\"[\" has no \"]\"".to_owned()),
        }
    }

    /// A text between quotes, as JSON.
    fn string(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        match stream.next() {
            Some(Ok(text)) if !rest[..stream.byte_offset()].contains("\\(") => {
                self.at += stream.byte_offset();
                Ok(text)
            }
            _ => Err(format!("{:?} is not a plain text", shortened(rest))),
        }
    }
}

/// The functions, for errors.
fn supported() -> String {
    let mut all: Vec<&str> = PLAIN.into_iter().chain(WITH_ARGUMENT).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

/// The name at the beginning of a text; empty if there is none.
fn name(text: &str) -> &str {
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..length]
}
