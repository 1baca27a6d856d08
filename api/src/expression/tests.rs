//! Tests of expressions without variables.

use super::base;
use kstore_cel::{EvalError, Val};

/// Compares the values of expressions with texts: JSON, `none` for an empty optional, the text of an error,
/// or `?` for any value that is not JSON.
pub(crate) fn check(cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        let checked = base::environment().compile(expression);
        let checked = checked.unwrap_or_else(|errors| panic!("{expression}: {errors}"));
        let program = checked.program().unwrap();
        let (value, _) = program.eval(&[], u64::MAX);
        let shown = match value {
            Ok(Val::Optional(None)) => "none".to_owned(),
            Ok(value) => value.to_json().map_or_else(|_: EvalError| "?".to_owned(), |json| json.to_string()),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, *expected, "{expression}");
    }
}

/// Costs of an expression: highest estimate, and actual cost.
fn costs(expression: &str) -> (u64, u64) {
    let checked = base::environment().compile(expression).unwrap();
    let program = checked.program().unwrap();
    (checked.estimate(&kstore_cel::UnknownSizes).max, program.eval(&[], u64::MAX).1)
}

#[test]
fn costs_of_functions_match_kubernetes() {
    let cases = [
        ("quantity('1000000000k')", (2, 2)),
        ("isURL('https://example.com')", (1, 1)),
        ("url('https://example.com').getHost()", (3, 3)),
        ("ip.isCanonical('2001:db8::1')", (3, 3)),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", (1 + 4 + 1, 1 + 1 + 1)),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))", (1 + 2 + 4 + 2 + 1, 1 + 2 + 1 + 1 + 1)),
        ("format.dns1123Label().validate('a')", (1 + 32, 1 + 8)),
        ("format.dns1123Label() == format.dns1123Label()", (2 + 7, 2 + 1)),
        ("ip('::1') == ip('::1')", (3, 4)),
        ("semver('1.2.3').major()", (2, 2)),
    ];
    for (expression, expected) in cases {
        assert_eq!(costs(expression), expected, "{expression}");
    }
}

/// Kubernetes 1.36 does not switch on names in backquotes; fields with such names are written with escapes.
#[test]
fn names_in_backquotes_are_unsupported_syntax() {
    for expression in ["{'a': 1}.`a` == 1", "has({'a': 1}.`a`)"] {
        let error = base::environment().compile(expression).unwrap_err().to_string();
        assert!(error.contains("unsupported syntax: '`'"), "{expression}: {error}");
    }
    assert!(base::environment().compile("{'a': 1}.a == 1").is_ok());
}

#[test]
fn libraries_outside_kubernetes_are_unknown() {
    for expression in
        ["math.greatest(1, 2)", "base64.encode(b'a')", "cel.bind(a, 1, a)", "jsonpatch.escapeKey('a')"]
    {
        assert!(base::environment().compile(expression).is_err(), "{expression}");
    }
}
