//! Label selectors: the text form of `?labelSelector=`, the object form `metav1.LabelSelector`, and matching.
//! Error texts are those of Kubernetes; the main type is [`Selector`].

mod parse;
#[cfg(test)]
mod tests;

use crate::name;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Set of labels that a selector can match.
pub trait Labels {
    /// Value of one label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Labels as pairs sorted by key.
impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok().map(|at| self[at].1.as_ref())
    }
}

impl<L: Labels + ?Sized> Labels for Option<&L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.and_then(|labels| labels.label(key))
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn label(&self, key: &str) -> Option<&str> {
        (**self).label(key)
    }
}

/// Operator and values of a requirement. An absent label satisfies the negative operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// `key`.
    Exists,
    /// `!key`.
    DoesNotExist,
    /// `key=value`.
    Equals(String),
    /// `key!=value`.
    NotEquals(String),
    /// `key in (a,b)`, values sorted.
    In(Vec<String>),
    /// `key notin (a,b)`, values sorted.
    NotIn(Vec<String>),
    /// `key>n`: the value is a number greater than `n`.
    GreaterThan(i64),
    /// `key<n`: the value is a number less than `n`.
    LessThan(i64),
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Operator and values.
    pub test: Test,
}

impl Requirement {
    /// Whether labels satisfy the requirement.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let value = labels.label(&self.key);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Equals(wanted) => value == Some(wanted),
            Test::NotEquals(other) => value != Some(other),
            Test::In(set) => value.is_some_and(|v| contains(set, v)),
            Test::NotIn(set) => value.is_none_or(|v| !contains(set, v)),
            Test::GreaterThan(bound) => number().is_some_and(|n| n > *bound),
            Test::LessThan(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

fn contains(sorted: &[String], value: &str) -> bool {
    sorted.binary_search_by(|item| item.as_str().cmp(value)).is_ok()
}

/// Label selector: a conjunction of requirements, or the selector that matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    nothing: bool,
    requirements: Vec<Requirement>,
}

/// Error of a malformed label selector; the text is the message of the response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl Selector {
    /// The selector that matches every object.
    pub const fn everything() -> Self {
        Selector { nothing: false, requirements: Vec::new() }
    }

    /// The selector that matches no object.
    pub const fn nothing() -> Self {
        Selector { nothing: true, requirements: Vec::new() }
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// The text is malformed; the message is that of Kubernetes, and the response a 400.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::parse(text).map(Self::from_requirements)
    }

    /// The conjunction of these requirements, sorted by key.
    pub fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Selector { nothing: false, requirements }
    }

    /// The selector of a plain map (`spec.selector` of Services and ReplicationControllers): all pairs must
    /// match.
    pub fn from_map(map: &Map<String, Value>) -> Self {
        let equals = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            test: Test::Equals(value.as_str().unwrap_or_default().to_owned()),
        };
        Self::from_requirements(map.iter().map(equals).collect())
    }

    /// The selector of a `metav1.LabelSelector`: null matches nothing, `{}` matches everything.
    ///
    /// # Errors
    /// An operator is unknown or its values do not fit. Validation refuses such objects before.
    pub fn from_object(selector: &Value) -> Result<Self, SelectorError> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let mut all = match selector["matchLabels"].as_object() {
            Some(map) => Self::from_map(map).requirements,
            None => Vec::new(),
        };
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default();
            let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let values: Vec<String> = values.map(str::to_owned).collect();
            let test = match expression["operator"].as_str().unwrap_or_default() {
                "In" => In,
                "NotIn" => NotIn,
                "Exists" => Exists,
                "DoesNotExist" => DoesNotExist,
                other => {
                    return Err(SelectorError(format!("\"{other}\" is not a valid label selector operator")));
                }
            };
            all.push(requirement(key, test, values)?);
        }
        Ok(Self::from_requirements(all))
    }

    /// Whether labels satisfy all requirements.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

/// Operator of a requirement, without its values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    Equals,
    NotEquals,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}
use Operator::{DoesNotExist, Equals, Exists, GreaterThan, In, LessThan, NotEquals, NotIn};

/// Builds a requirement after checking key and values.
fn requirement(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Requirement, SelectorError> {
    let faults = name::qualified_name(key);
    if !faults.is_empty() {
        return Err(SelectorError(format!("key: Invalid value: {key:?}: {}", faults.join("; "))));
    }
    let wrong = |why: &str| {
        let values = serde_json::to_string(&values).expect("strings serialize");
        SelectorError(format!("values: Invalid value: {values}: {why}"))
    };
    match operator {
        In | NotIn if values.is_empty() => {
            return Err(wrong("for 'in', 'notin' operators, values set can't be empty"));
        }
        Exists | DoesNotExist if !values.is_empty() => {
            return Err(wrong("values set must be empty for exists and does not exist"));
        }
        Equals | NotEquals if values.len() != 1 => {
            return Err(wrong("exact-match compatibility requires one single value"));
        }
        GreaterThan | LessThan if values.len() != 1 => {
            return Err(wrong("for 'Gt', 'Lt' operators, exactly one value is required"));
        }
        _ => {}
    }
    for (i, value) in values.iter().enumerate() {
        let faults = name::label_value(value);
        if !faults.is_empty() {
            let faults = faults.join("; ");
            return Err(SelectorError(format!("values[{i}][{key}]: Invalid value: {value:?}: {faults}")));
        }
    }
    values.sort();
    values.dedup();
    let one = |values: Vec<String>| values.into_iter().next().unwrap_or_default();
    let number = |values: Vec<String>| {
        let text = one(values);
        text.parse::<i64>().map_err(|_| {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            SelectorError(format!("values[0]: Invalid value: {text:?}: {why}"))
        })
    };
    let test = match operator {
        Exists => Test::Exists,
        DoesNotExist => Test::DoesNotExist,
        Equals => Test::Equals(one(values)),
        NotEquals => Test::NotEquals(one(values)),
        In => Test::In(values),
        NotIn => Test::NotIn(values),
        GreaterThan => Test::GreaterThan(number(values)?),
        LessThan => Test::LessThan(number(values)?),
    };
    Ok(Requirement { key: key.to_owned(), test })
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::Exists => write!(f, "{key}"),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::Equals(value) => write!(f, "{key}={value}"),
            Test::NotEquals(value) => write!(f, "{key}!={value}"),
            Test::In(set) => write!(f, "{key} in ({})", set.join(",")),
            Test::NotIn(set) => write!(f, "{key} notin ({})", set.join(",")),
            Test::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Test::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

/// Formats the text form, requirements sorted by key; `/scale` has it in `status.selector`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
