//! [`Expression`]: an expression over a few JSON documents, as the files that configure authentication and authorization have them.

use kstore_cel::{Shape, Type, Val};
use serde_json::Value;

use super::base;
use super::limits::CALL_COST;

/// A compiled expression. The variables it may name are of any type.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: kstore_cel::Program,
}

impl Expression {
    /// Compiles an expression that may name these variables.
    ///
    /// # Errors
    /// What is wrong with its syntax or types.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Self, String> {
        let builder = base::environment().extend();
        let builder = variables.iter().fold(builder, |builder, name| builder.variable(name, Type::Dyn));
        let checked = builder.build().compile(text);
        let checked = checked.map_err(|errors| format!("compilation failed: {errors}"))?;
        let program = checked.program().map_err(|error| format!("program instantiation failed: {error}"))?;
        Ok(Self { text: text.to_owned(), program })
    }

    /// Compiles an expression that is true or false, by the rules of [`Expression::compile`].
    ///
    /// # Errors
    /// As there; or its value is known to be something else.
    pub fn condition(text: &str, variables: &[&str]) -> Result<Self, String> {
        let expression = Self::compile(text, variables)?;
        let checked = base::environment().extend();
        let checked = variables.iter().fold(checked, |builder, name| builder.variable(name, Type::Dyn));
        match checked.build().compile(text).map(|checked| checked.result_type().clone()) {
            Ok(Type::Bool | Type::Dyn) => Ok(expression),
            Ok(other) => Err(format!("must evaluate to bool but got {other}")),
            Err(errors) => Err(format!("compilation failed: {errors}")),
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value, with these values of the variables.
    ///
    /// # Errors
    /// It has no value, or none that is JSON, or costs too much.
    pub fn value(&self, variables: &[(&str, &Value)]) -> Result<Value, String> {
        let failed =
            |error: kstore_cel::EvalError| format!("expression '{}' resulted in error: {error}", self.text);
        let bound: Result<Vec<(&str, Val<'_>)>, _> =
            variables.iter().map(|(name, value)| Ok((*name, Shape::Dyn.value(value)?))).collect();
        let bound = bound.map_err(failed)?;
        let (value, _) = self.program.eval(&bound[..], CALL_COST);
        value.and_then(|value| value.to_json()).map_err(failed)
    }

    /// Whether the expression is true.
    ///
    /// # Errors
    /// The errors of [`Expression::value`]; or the value is neither true nor false.
    pub fn is_true(&self, variables: &[(&str, &Value)]) -> Result<bool, String> {
        let value = self.value(variables)?;
        value.as_bool().ok_or_else(|| format!("expression '{}' is neither true nor false", self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_expression_reads_its_variables_and_says_what_fails() {
        let request = json!({"user": "ann", "groups": ["a"], "resourceAttributes": {"namespace": "x"}});
        let is_true = |text: &str| {
            Expression::condition(text, &["request"])
                .and_then(|expression| expression.is_true(&[("request", &request)]))
        };
        assert_eq!(is_true("request.user == 'ann' && has(request.resourceAttributes)"), Ok(true));
        assert_eq!(is_true("'b' in request.groups"), Ok(false));
        assert!(is_true("request.nothing == 'x'").unwrap_err().contains("no such key"));
        for wrong in ["request.", "other == 1", "1 + 1", "request.user"] {
            assert!(is_true(wrong).is_err(), "{wrong}");
        }
        let joined = Expression::compile("request.groups.map(g, 'p:' + g)", &["request"]).unwrap();
        assert_eq!(joined.value(&[("request", &request)]), Ok(json!(["p:a"])));
    }
}
