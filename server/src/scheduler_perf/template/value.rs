//! [`TemplateValue`] and the functions of templates. Pure.

use std::cmp::Ordering;
use std::fmt;

/// A value in a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TemplateValue {
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// A list, which `range` goes through.
    List(Vec<TemplateValue>),
}

/// As Go prints the value.
impl fmt::Display for TemplateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Bool(value) => value.fmt(f),
            Self::List(elements) => {
                f.write_str("[")?;
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        f.write_str(" ")?;
                    }
                    element.fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

impl From<serde_json::Value> for TemplateValue {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Text(String::new()),
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::Float(number.as_f64().unwrap_or_default()),
            },
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(elements) => Self::List(elements.into_iter().map(Self::from).collect()),
            object @ serde_json::Value::Object(_) => Self::Text(object.to_string()),
        }
    }
}

impl TemplateValue {
    /// Whether `if` takes its first branch: as in Go, a value that is not its type's zero.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Bool(value) => *value,
            Self::List(elements) => !elements.is_empty(),
        }
    }

    /// The index and the element of each round of a `range`, at most `most`.
    pub(super) fn elements(self, most: usize) -> Result<Vec<(Self, Self)>, String> {
        let index = |index: usize| Self::Int(i64::try_from(index).unwrap_or(i64::MAX));
        match self {
            Self::Int(count) => {
                let rounds = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
                if rounds > most {
                    return Err(format!("a range over {count} is longer than {most} rounds"));
                }
                Ok((0..rounds).map(|round| (index(round), index(round))).collect())
            }
            Self::List(elements) => {
                Ok(elements.into_iter().enumerate().map(|(nth, element)| (index(nth), element)).collect())
            }
            other @ (Self::Float(_) | Self::Text(_) | Self::Bool(_)) => {
                Err(format!("range cannot go over {other}"))
            }
        }
    }

    fn int(&self) -> Result<i64, String> {
        match self {
            Self::Int(number) => Ok(*number),
            // Go converts a float64 with `int()`, which drops the fraction.
            Self::Float(number) if number.is_finite() => {
                number.trunc().to_string().parse().map_err(|_| format!("{number} is too large"))
            }
            other => Err(not_a_number(other)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as Go converts it; counts are far below 2^53")]
    fn float(&self) -> Result<f64, String> {
        match self {
            Self::Int(number) => Ok(*number as f64),
            Self::Float(number) => Ok(*number),
            other => Err(not_a_number(other)),
        }
    }

    fn compare(&self, other: &Self) -> Result<Ordering, String> {
        match (self, other) {
            (Self::Text(one), Self::Text(two)) => Ok(one.cmp(two)),
            (Self::Bool(one), Self::Bool(two)) => Ok(one.cmp(two)),
            _ => Ok(self.float()?.total_cmp(&other.float()?)),
        }
    }
}

fn not_a_number(value: &TemplateValue) -> String {
    match value {
        TemplateValue::Text(text) => format!("{text:?} is not a number"),
        other => format!("{other} is not a number"),
    }
}

/// A function of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Add(Number),
    Subtract(Number),
    Multiply(Number),
    Divide(Number),
    Mod,
    Compare(Comparison),
    And,
    Or,
    Not,
}

/// The type of number of an arithmetic function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Int,
    Float,
}

/// A comparison of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Function {
    /// The function with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "AddInt" => Self::Add(Number::Int),
            "AddFloat" => Self::Add(Number::Float),
            "SubtractInt" => Self::Subtract(Number::Int),
            "SubtractFloat" => Self::Subtract(Number::Float),
            "MultiplyInt" => Self::Multiply(Number::Int),
            "MultiplyFloat" => Self::Multiply(Number::Float),
            "DivideInt" => Self::Divide(Number::Int),
            "DivideFloat" => Self::Divide(Number::Float),
            "Mod" => Self::Mod,
            "eq" => Self::Compare(Comparison::Eq),
            "ne" => Self::Compare(Comparison::Ne),
            "lt" => Self::Compare(Comparison::Lt),
            "le" => Self::Compare(Comparison::Le),
            "gt" => Self::Compare(Comparison::Gt),
            "ge" => Self::Compare(Comparison::Ge),
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            _ => return None,
        })
    }

    /// The value of the function.
    ///
    /// # Errors
    /// A wrong number or type of arguments, or a number that has no result.
    pub(super) fn call(self, arguments: &[TemplateValue]) -> Result<TemplateValue, String> {
        match self {
            Self::Add(kind) => fold(kind, arguments, i64::checked_add, |one, two| one + two),
            Self::Subtract(kind) => fold(kind, arguments, i64::checked_sub, |one, two| one - two),
            Self::Multiply(kind) => fold(kind, arguments, i64::checked_mul, |one, two| one * two),
            Self::Divide(kind) => {
                if arguments.iter().skip(1).any(|divisor| divisor.float() == Ok(0.0)) {
                    return Err("division by zero".to_owned());
                }
                fold(kind, arguments, i64::checked_div, |one, two| one / two)
            }
            Self::Mod => {
                let [one, two] = pair(arguments)?;
                let rest = one.int()?.checked_rem(two.int()?).ok_or("division by zero")?;
                Ok(TemplateValue::Int(rest))
            }
            Self::Compare(comparison) => compare(comparison, arguments).map(TemplateValue::Bool),
            Self::And => Ok(chosen(arguments, |value| !value.is_true())?.clone()),
            Self::Or => Ok(chosen(arguments, TemplateValue::is_true)?.clone()),
            Self::Not => match arguments {
                [value] => Ok(TemplateValue::Bool(!value.is_true())),
                _ => Err("\"not\" takes one argument".to_owned()),
            },
        }
    }
}

/// Combines numbers from left to right.
fn fold(
    kind: Number,
    arguments: &[TemplateValue],
    whole: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
) -> Result<TemplateValue, String> {
    let (first, rest) = arguments.split_first().ok_or("a function for numbers needs an argument")?;
    match kind {
        Number::Int => {
            let sum = rest.iter().try_fold(first.int()?, |sum, next| {
                whole(sum, next.int()?).ok_or_else(|| "the number is too large".to_owned())
            });
            sum.map(TemplateValue::Int)
        }
        Number::Float => {
            let sum =
                rest.iter().try_fold(first.float()?, |sum, next| Ok::<_, String>(float(sum, next.float()?)));
            sum.map(TemplateValue::Float)
        }
    }
}

fn compare(comparison: Comparison, arguments: &[TemplateValue]) -> Result<bool, String> {
    if comparison == Comparison::Eq {
        // As in Go, the first is compared with each of the others.
        let (first, others) = arguments.split_first().ok_or("\"eq\" needs arguments")?;
        return others
            .iter()
            .try_fold(false, |is_equal, other| Ok(is_equal || first.compare(other)?.is_eq()));
    }
    let [one, two] = pair(arguments)?;
    let order = one.compare(two)?;
    Ok(match comparison {
        Comparison::Eq => order.is_eq(),
        Comparison::Ne => order.is_ne(),
        Comparison::Lt => order.is_lt(),
        Comparison::Le => order.is_le(),
        Comparison::Gt => order.is_gt(),
        Comparison::Ge => order.is_ge(),
    })
}

fn pair(arguments: &[TemplateValue]) -> Result<&[TemplateValue; 2], String> {
    arguments.try_into().map_err(|_| format!("the function takes two arguments, not {}", arguments.len()))
}

/// The first argument that decides, or else the last one.
fn chosen(
    arguments: &[TemplateValue],
    decides: impl Fn(&TemplateValue) -> bool,
) -> Result<&TemplateValue, String> {
    let found = arguments.iter().find(|value| decides(value)).or_else(|| arguments.last());
    found.ok_or_else(|| "\"and\" and \"or\" need arguments".to_owned())
}
