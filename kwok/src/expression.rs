//! Expressions of stages, of jq or of CEL: the requirements of selectors, durations and weights. Pure.

use crate::document::{ExpressionFrom, MatchExpression, Operator, Requirement};
use crate::jq::Query;
use crate::limits::{CEL_COST, SELECTION_COST, SELECTION_STEPS};
use jiff::Timestamp;
use kstore_cel::{Env, Program, Shape, Type, Val};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// Objects in CEL are of any shape.
static ANY: Shape = Shape::Dyn;

/// The work that the expressions of stages may still do for one event of an object.
#[derive(Debug)]
pub(crate) struct WorkBudget {
    /// Steps of jq.
    steps: usize,
    /// Cost of CEL.
    cost: u64,
}

impl WorkBudget {
    pub(crate) fn new() -> Self {
        Self { steps: SELECTION_STEPS, cost: SELECTION_COST }
    }

    /// Whether nothing is left, so that the last results may be wrong.
    pub(crate) fn is_spent(&self) -> bool {
        self.steps == 0 || self.cost == 0
    }
}

/// An expression of CEL about the object `self`.
pub(crate) struct CelExpression {
    text: String,
    program: Program,
}

impl fmt::Debug for CelExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CelExpression").field(&self.text).finish()
    }
}

impl CelExpression {
    fn parse(text: &str) -> Result<Self, String> {
        let env = Env::builder().variable("self", Type::Dyn).build();
        let checked = env.compile(text).map_err(|errors| format!("cel {text:?}: {errors}"))?;
        let program = checked.program().map_err(|error| format!("cel {text:?}: {error}"))?;
        Ok(Self { text: text.to_owned(), program })
    }

    /// What `read` makes of the value; `None` if the expression fails.
    fn eval<T>(
        &self,
        object: &Value,
        budget: &mut WorkBudget,
        read: impl FnOnce(&Val<'_>) -> Option<T>,
    ) -> Option<T> {
        let subject = ANY.value(object).ok()?;
        let (value, cost) = self.program.eval(&[("self", subject)], CEL_COST.min(budget.cost));
        budget.cost = budget.cost.saturating_sub(cost);
        read(&value.ok()?)
    }
}

/// A requirement of a selector.
#[derive(Debug)]
pub(crate) enum Condition {
    Jq { query: Query, operator: Operator, values: Vec<String> },
    Cel(CelExpression),
}

impl Condition {
    pub(crate) fn compile(document: MatchExpression) -> Result<Self, String> {
        let MatchExpression { cel, jq, key, operator, values } = document;
        let older = match (key, operator) {
            (Some(key), Some(operator)) => Some(Requirement { key, operator, values }),
            (None, None) => None,
            _ => return Err("give both key and operator".to_owned()),
        };
        let requirement = match (cel, jq, older) {
            (Some(cel), None, None) => return CelExpression::parse(&cel.expression).map(Self::Cel),
            (None, Some(requirement), None) | (None, None, Some(requirement)) => requirement,
            _ => return Err("give one of jq, cel, and key with operator".to_owned()),
        };
        let Requirement { key, operator, values } = requirement;
        let takes_values = matches!(operator, Operator::In | Operator::NotIn);
        if takes_values == values.is_empty() {
            let problem = if takes_values { "needs values" } else { "takes no values" };
            return Err(format!("operator {operator:?} {problem}"));
        }
        Ok(Self::Jq { query: Query::parse(&key)?, operator, values })
    }

    /// Whether an object meets the requirement. One that fails on an object is not met.
    pub(crate) fn holds(&self, object: &Value, budget: &mut WorkBudget) -> bool {
        let (query, operator, values) = match self {
            Self::Jq { query, operator, values } => (query, operator, values),
            Self::Cel(cel) => return cel.eval(object, budget, as_bool).unwrap_or(false),
        };
        let found = query.run(object, &mut budget.steps).unwrap_or_default();
        let is_in = || found.iter().any(|value| is_one_of(value, values));
        match operator {
            Operator::In => is_in(),
            Operator::NotIn => !is_in(),
            Operator::Exists => !found.is_empty(),
            Operator::DoesNotExist => found.is_empty(),
        }
    }
}

fn as_bool(value: &Val<'_>) -> Option<bool> {
    match value {
        Val::Bool(value) => Some(*value),
        _ => None,
    }
}

/// Whether a value is one of the texts. Numbers and truth values are compared by their texts.
fn is_one_of(value: &Value, texts: &[String]) -> bool {
    let text = match value {
        Value::String(text) => Cow::Borrowed(&**text),
        Value::Bool(_) | Value::Number(_) => Cow::Owned(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => return false,
    };
    texts.iter().any(|one| *one == text)
}

/// A number or duration: a constant, or an expression with the constant for when it gives nothing.
#[derive(Debug)]
pub(crate) struct Amount {
    constant: Option<i64>,
    from: Option<Source>,
}

#[derive(Debug)]
enum Source {
    Jq(Query),
    Cel(CelExpression),
}

impl Amount {
    pub(crate) fn compile(constant: Option<i64>, from: Option<ExpressionFrom>) -> Result<Self, String> {
        let from = from.map(|ExpressionFrom { cel, jq, expression_from }| {
            let jq = jq.map(|jq| jq.expression).or(expression_from);
            match (cel, jq) {
                (Some(cel), None) => CelExpression::parse(&cel.expression).map(Source::Cel),
                (None, Some(jq)) => Query::parse(&jq).map(Source::Jq),
                _ => Err("give one of jq, cel and expressionFrom".to_owned()),
            }
        });
        Ok(Self { constant, from: from.transpose()? })
    }

    /// The duration in nanoseconds, as of `now` for an expression that gives a time; `None` without one.
    pub(crate) fn duration(&self, object: &Value, now: Timestamp, budget: &mut WorkBudget) -> Option<i64> {
        let until = |at: Timestamp| {
            i64::try_from(at.as_nanosecond() - now.as_nanosecond()).unwrap_or(if at > now {
                i64::MAX
            } else {
                0
            })
        };
        match &self.from {
            None => self.constant,
            Some(Source::Cel(cel)) => cel.eval(object, budget, |value| match value {
                Val::Duration(nanos) => Some(*nanos),
                Val::Timestamp(at) => Some(until(*at)),
                Val::String(text) => parsed(text, until),
                _ => None,
            }),
            Some(Source::Jq(query)) => {
                let found = query.run(object, &mut budget.steps).unwrap_or_default();
                match found.first().and_then(|value| value.as_str()) {
                    Some("") => None,
                    Some(text) => parsed(text, until).or(self.constant),
                    None => self.constant,
                }
            }
        }
    }

    /// The weight; `None` if there is none because of an error.
    pub(crate) fn weight(&self, object: &Value, budget: &mut WorkBudget) -> Option<i64> {
        match &self.from {
            None => self.constant,
            Some(Source::Cel(cel)) => cel.eval(object, budget, |value| match value {
                Val::Int(number) => Some(*number),
                _ => None,
            }),
            Some(Source::Jq(query)) => {
                let found = query.run(object, &mut budget.steps).unwrap_or_default();
                match found.first().map(|value| &**value) {
                    Some(Value::String(text)) => text.parse().ok(),
                    Some(Value::Number(number)) => number.as_i64(),
                    _ => self.constant,
                }
            }
        }
    }
}

/// The duration in a text: until a time in RFC 3339, or as Go writes durations.
fn parsed(text: &str, until: impl Fn(Timestamp) -> i64) -> Option<i64> {
    match text.parse() {
        Ok(at) => Some(until(at)),
        Err(_) => kstore_go_duration::parse(text).ok(),
    }
}
