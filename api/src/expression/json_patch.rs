//! The CEL library `kubernetes.jsonpatch` of mutating policies.

use super::row::{self, Row};
use kstore_cel::{Overload, Type, Val};

/// Functions of the library.
pub(crate) fn overloads() -> Vec<Row> {
    let escape =
        Overload::function("string_jsonpatch_escapeKey_string", [Type::String], Type::String, |args| {
            Ok(Val::string(row::text(args, 0)?.replace('~', "~0").replace('/', "~1")))
        });
    vec![("jsonpatch.escapeKey", escape.cost(row::conversion()))]
}

#[cfg(test)]
mod tests {
    use crate::admission_expression::{Budget, Environment, Evaluation, Inputs, ResultType, Uses};

    #[test]
    fn keys_are_escaped_for_json_pointers() {
        let environment = Environment::new(Uses { patch_types: true, ..Uses::default() });
        let program = environment.compile("jsonpatch.escapeKey('a/b~c')", ResultType::String).unwrap();
        let evaluation = Evaluation::new(&environment, Inputs::default());
        let text = evaluation.text(&program, &mut Budget::for_object()).unwrap();
        assert_eq!(text.as_deref(), Some("a~1b~0c"));
    }
}
