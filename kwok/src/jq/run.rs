//! Runs expressions of jq. What they read and make is counted, so that a run is bounded in time and memory. Pure.

use super::{Filter, Index};
use crate::limits::BYTES_PER_STEP;
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

/// An error of jq, which ends the expression without a result.
pub(super) struct Failed;

pub(crate) type Outputs<'v> = Vec<Cow<'v, Value>>;

/// The steps that a run may still take.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new(steps: usize) -> Self {
        Self(steps)
    }

    /// The steps that were not taken.
    pub(super) fn left(&self) -> usize {
        self.0
    }

    fn take(&mut self, steps: usize) -> Result<(), Failed> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or(Failed)
    }

    /// Takes the steps of reading a value, or of making it.
    fn weigh(&mut self, value: &Value) -> Result<(), Failed> {
        self.take(size(value) / BYTES_PER_STEP)
    }

    /// A copy, which takes steps unless it is only a reference.
    fn copied<'v>(&mut self, value: &Cow<'v, Value>) -> Result<Cow<'v, Value>, Failed> {
        if let Cow::Owned(value) = value {
            self.weigh(value)?;
        }
        Ok(value.clone())
    }
}

/// About the bytes of a value.
fn size(value: &Value) -> usize {
    let own = size_of::<Value>();
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => own,
        Value::String(text) => own + text.len(),
        Value::Array(all) => own + all.iter().map(size).sum::<usize>(),
        Value::Object(all) => {
            own + all.iter().map(|(name, value)| own + name.len() + size(value)).sum::<usize>()
        }
    }
}

impl Filter {
    pub(super) fn run<'v>(
        &'v self,
        input: &Cow<'v, Value>,
        budget: &mut Budget,
    ) -> Result<Outputs<'v>, Failed> {
        budget.take(1)?;
        match self {
            Self::Identity => Ok(vec![budget.copied(input)?]),
            Self::Literal(value) => Ok(vec![Cow::Borrowed(value)]),
            Self::Path(of, index) => {
                let mut all = Vec::new();
                for value in of.run(input, budget)? {
                    indexed(value, index, budget, &mut all)?;
                }
                Ok(all)
            }
            Self::Try(filter) => Ok(filter.run(input, budget).unwrap_or_default()),
            Self::Pipe(one, two) => {
                let mut all = Vec::new();
                for value in one.run(input, budget)? {
                    all.extend(two.run(&value, budget)?);
                }
                Ok(all)
            }
            Self::Comma(one, two) => {
                let mut all = one.run(input, budget)?;
                all.extend(two.run(input, budget)?);
                Ok(all)
            }
            Self::Alternative(one, two) => {
                let mut first = one.run(input, budget).unwrap_or_default();
                first.retain(|value| is_true(value));
                if first.is_empty() { two.run(input, budget) } else { Ok(first) }
            }
            Self::And(one, two) => both(one, two, input, budget, |one, two| one && two()),
            Self::Or(one, two) => both(one, two, input, budget, |one, two| one || two()),
            Self::Compare(sign, one, two) => {
                let (ones, twos) = (one.run(input, budget)?, two.run(input, budget)?);
                let mut all = Vec::new();
                for two in &twos {
                    for one in &ones {
                        budget.take(1)?;
                        budget.weigh(one)?;
                        budget.weigh(two)?;
                        all.push(Cow::Owned(Value::Bool(holds(sign, order(one, two)))));
                    }
                }
                Ok(all)
            }
            Self::Call(name, None) => called(name, input, budget),
            Self::Call(name, Some(argument)) => called_with(name, argument, input, budget),
        }
    }
}

/// `and` and `or` of all pairs of outputs.
fn both<'v>(
    one: &'v Filter,
    two: &'v Filter,
    input: &Cow<'v, Value>,
    budget: &mut Budget,
    combine: impl Fn(bool, &mut dyn FnMut() -> bool) -> bool,
) -> Result<Outputs<'v>, Failed> {
    let mut all = Vec::new();
    for first in one.run(input, budget)? {
        let (mut seconds, mut failed) = (None, false);
        let whole = combine(is_true(&first), &mut || match two.run(input, budget) {
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
    budget: &mut Budget,
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
            budget.take(found.len())?;
            all.extend(found.into_iter().map(Cow::Borrowed));
        }
        Cow::Owned(value) => {
            let found = parts(&value, index)?;
            budget.take(found.len())?;
            for part in found {
                budget.weigh(part)?;
                all.push(Cow::Owned(part.clone()));
            }
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

fn called<'v>(name: &str, input: &Cow<'v, Value>, budget: &mut Budget) -> Result<Outputs<'v>, Failed> {
    // The others read their input, and what they make is not larger.
    if !matches!(name, "empty" | "not" | "type") {
        budget.weigh(input)?;
    }
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
    budget: &mut Budget,
) -> Result<Outputs<'v>, Failed> {
    if name == "select" {
        let outputs = argument.run(input, budget)?;
        return outputs.iter().filter(|value| is_true(value)).map(|_| budget.copied(input)).collect();
    }
    if name == "first" {
        return Ok(argument.run(input, budget)?.into_iter().take(1).collect());
    }
    budget.weigh(input)?;
    if matches!(name, "map" | "any" | "all") {
        let mut all = Vec::new();
        for element in input.as_array().ok_or(Failed)? {
            all.extend(argument.run(&Cow::Owned(element.clone()), budget)?.into_iter().map(Cow::into_owned));
        }
        budget.take(all.len())?;
        let made = match name {
            "map" => Value::Array(all),
            "any" => Value::Bool(all.iter().any(is_true)),
            _ => Value::Bool(all.iter().all(is_true)),
        };
        return Ok(vec![Cow::Owned(made)]);
    }
    let argument = argument.run(input, budget)?.into_iter().next().ok_or(Failed)?;
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
            let (parts, between) = (parts?, text(&argument)?);
            budget.take(parts.len().saturating_mul(between.len()) / BYTES_PER_STEP)?;
            Value::String(parts.join(&between))
        }
        _ => return Err(Failed),
    };
    Ok(vec![Cow::Owned(made)])
}
