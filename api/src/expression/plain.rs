//! [`Expression`]: an expression over a few JSON documents, as authentication and authorization configuration
//! files have them.

use super::base;
use super::limits::CALL_COST;
use kstore_cel::{Shape, Type, Val};
use serde_json::Value;

/// Compiled expression. Its variables have the dynamic type.
#[derive(Debug)]
pub struct Expression {
    text: String,
    checked: kstore_cel::Checked,
    program: kstore_cel::Program,
}

impl Expression {
    /// Compiles an expression that may use these variables.
    ///
    /// # Errors
    /// The syntax and type errors of the expression.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Self, String> {
        let builder = base::environment().extend();
        let builder = variables.iter().fold(builder, |builder, name| builder.variable(name, Type::Dyn));
        let checked = builder.build().compile(text);
        let checked = checked.map_err(|errors| format!("compilation failed: {errors}"))?;
        let program = checked.program().map_err(|error| format!("program instantiation failed: {error}"))?;
        Ok(Self { text: text.to_owned(), checked, program })
    }

    /// Compiles a boolean expression, otherwise like [`Expression::compile`].
    ///
    /// # Errors
    /// Those of [`Expression::compile`], or the type is known not to be boolean.
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

    /// Text of the expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the expression selects a member of a variable, in any of the forms that the language has for it.
    #[must_use]
    pub fn selects(&self, variable: &str, member: &str) -> bool {
        self.checked.selects(variable, member)
    }

    /// Evaluates the expression with these values of its variables.
    ///
    /// # Errors
    /// The evaluation fails or costs too much, or the value is not JSON.
    pub fn value(&self, variables: &[(&str, &Value)]) -> Result<Value, String> {
        let failed =
            |error: kstore_cel::EvalError| format!("expression '{}' resulted in error: {error}", self.text);
        let bound: Result<Vec<(&str, Val<'_>)>, _> =
            variables.iter().map(|(name, value)| Ok((*name, Shape::Dyn.value(value)?))).collect();
        let bound = bound.map_err(failed)?;
        let (value, _) = self.program.eval(&bound[..], CALL_COST);
        value.and_then(|value| value.to_json()).map_err(failed)
    }

    /// Evaluates a boolean expression.
    ///
    /// # Errors
    /// Those of [`Expression::value`], or the value is not boolean.
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
    fn expressions_use_their_variables_and_report_failures() {
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
