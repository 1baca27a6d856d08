//! Messages and positions of compile errors.

use super::fixture::{brief, errors};

const FIRST: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

#[test]
fn an_error_quotes_its_line_and_marks_its_position() {
    assert_eq!(
        errors("self.a =="),
        format!(
            "ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' expecting {FIRST}\n | self.a ==\n | .........^"
        )
    );
    assert_eq!(errors("self.zz > 1"), "ERROR: <input>:1:5: undefined field 'zz'\n | self.zz > 1\n | ....^");
    assert_eq!(
        errors("'é' + '😁' + x"),
        "ERROR: <input>:1:13: undeclared reference to 'x' (in container '')\n | 'é' + '😁' + x\n | .．.....．....^"
    );
}

#[test]
fn syntax_errors_are_those_of_the_generated_parser() {
    let mismatch = |token: &str| format!("Syntax error: mismatched input '{token}' expecting {FIRST}");
    let extraneous = |token: &str| format!("Syntax error: extraneous input '{token}' expecting {FIRST}");
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("\"x\" +", vec![format!("1:6 {}", mismatch("<EOF>"))]),
        ("1 + +", vec![format!("1:5 {}", mismatch("+")), format!("1:6 {}", mismatch("<EOF>"))]),
        ("?", vec![format!("1:1 {}", mismatch("?")), format!("1:2 {}", mismatch("<EOF>"))]),
        ("in", vec![format!("1:1 {}", mismatch("in")), format!("1:3 {}", mismatch("<EOF>"))]),
        (
            "--",
            vec![
                "1:3 Syntax error: no viable alternative at input '-'".to_owned(),
                format!("1:3 {}", mismatch("<EOF>")),
            ],
        ),
        (
            "*@a | b",
            vec![
                format!("1:1 {}", extraneous("*")),
                "1:2 Syntax error: token recognition error at: '@'".to_owned(),
                "1:5 Syntax error: token recognition error at: '| '".to_owned(),
                "1:7 Syntax error: extraneous input 'b' expecting <EOF>".to_owned(),
            ],
        ),
        (
            "1 + $",
            vec![
                "1:5 Syntax error: token recognition error at: '$'".to_owned(),
                format!("1:6 {}", mismatch("<EOF>")),
            ],
        ),
        (
            "self.a = 1",
            vec![
                "1:8 Syntax error: token recognition error at: '= '".to_owned(),
                "1:10 Syntax error: extraneous input '1' expecting <EOF>".to_owned(),
            ],
        ),
        ("1 1", vec!["1:3 Syntax error: extraneous input '1' expecting <EOF>".to_owned()]),
        ("1 + 2\n3 +", vec!["2:1 Syntax error: mismatched input '3' expecting <EOF>".to_owned()]),
        ("a..b", vec!["1:3 Syntax error: no viable alternative at input '..'".to_owned()]),
        ("{\"a\": 1}.\"a\"", vec!["1:10 Syntax error: no viable alternative at input '.\"a\"'".to_owned()]),
        ("self.true == 1", vec!["1:6 Syntax error: mismatched input 'true' expecting IDENTIFIER".to_owned()]),
    ];
    for (text, wanted) in cases {
        check(text, wanted);
    }
}

#[test]
fn expected_tokens_depend_on_the_position() {
    let extraneous = |token: &str| format!("Syntax error: extraneous input '{token}' expecting {FIRST}");
    let mismatch = |token: &str| format!("Syntax error: mismatched input '{token}' expecting {FIRST}");
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("foo(", vec![
            "1:5 Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}".to_owned(),
        ]),
        ("Object{", vec![
            "1:8 Syntax error: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}".to_owned(),
        ]),
        ("{", vec![
            "1:2 Syntax error: mismatched input '<EOF>' expecting {'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}".to_owned(),
        ]),
        ("{a}", vec!["1:3 Syntax error: mismatched input '}' expecting ':'".to_owned()]),
        ("func{{a}}", vec![
            "1:6 Syntax error: extraneous input '{' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}".to_owned(),
            "1:8 Syntax error: mismatched input '}' expecting ':'".to_owned(),
            "1:9 Syntax error: extraneous input '}' expecting <EOF>".to_owned(),
        ]),
        ("ind[a{b}]", vec!["1:8 Syntax error: mismatched input '}' expecting ':'".to_owned()]),
        ("x{.", vec![
            "1:3 Syntax error: mismatched input '.' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}".to_owned(),
        ]),
        ("\"\\xFh\"", vec![
            "1:1 Syntax error: token recognition error at: '\"\\xFh'".to_owned(),
            "1:6 Syntax error: token recognition error at: '\"'".to_owned(),
            format!("1:7 {}", mismatch("<EOF>")),
        ]),
        ("`b-c`()", vec![
            format!("1:1 {}", extraneous("`b-c`")),
            format!("1:7 {}", mismatch(")")),
        ]),
        ("1.99e90000009", vec!["1:1 invalid double literal".to_owned()]),
        ("9223372036854775808", vec!["1:1 invalid int literal".to_owned()]),
        ("18446744073709551616u", vec!["1:1 invalid uint literal".to_owned()]),
        ("[1, 2].map(var, var * var)", vec![
            "1:12 reserved identifier: var".to_owned(),
            "1:12 argument is not an identifier".to_owned(),
            "1:17 reserved identifier: var".to_owned(),
            "1:23 reserved identifier: var".to_owned(),
        ]),
    ];
    for (text, wanted) in cases {
        check(text, wanted);
    }
}

/// Compares errors in any order: errors at one position have no defined order.
fn check(text: &str, mut wanted: Vec<String>) {
    let mut found = brief(text);
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted, "{text}");
}

#[test]
fn type_errors_are_those_of_the_reference_implementation() {
    let cases = [
        ("self.a > 'x'", "1:8 found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.a.reverse()", "1:15 found no matching overload for 'reverse' applied to 'int.()'"),
        ("'a'.reverse()", "1:12 found no matching overload for 'reverse' applied to 'string.()'"),
        (
            "optional.of(1).orValue('x')",
            "1:23 found no matching overload for 'orValue' applied to 'optional_type(int).(string)'",
        ),
        ("self.a.orValue(1)", "1:15 found no matching overload for 'orValue' applied to 'int.(int)'"),
        (
            "1 >= optional.of(1)",
            "1:3 found no matching overload for '_>=_' applied to '(int, optional_type(int))'",
        ),
        ("self.a.b.c", "1:7 type 'int' does not support field selection"),
        (
            "self.a.all(x, true)",
            "1:5 expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("has(self)", "1:5 invalid argument to has() macro"),
        ("has(self.a) && has(self.zz)", "1:19 undefined field 'zz'"),
        ("[1].all(self.a, true)", "1:13 argument must be a simple name"),
        ("self.a in [1, 'a']", "1:15 expected type 'int' but found 'string'"),
        ("[1, 2.0].size() == 2", "1:5 expected type 'int' but found 'double'"),
        (
            "self.a == 1 ? true : 'x'",
            "1:13 found no matching overload for '_?_:_' applied to '(bool, bool, string)'",
        ),
        ("undefinedFn(self.a)", "1:12 undeclared reference to 'undefinedFn' (in container '')"),
        ("self.a.size() > 1", "1:12 found no matching overload for 'size' applied to 'int.()'"),
        ("self.t > 'x'", "1:8 found no matching overload for '_>_' applied to '(timestamp, string)'"),
        ("self.a == null", "1:8 found no matching overload for '_==_' applied to '(int, null)'"),
        ("1 && true", "1:1 expected type 'bool' but found 'int'"),
        ("'a'.matches('(')", "1:13 invalid matches argument"),
        ("duration('1x') == self.d", "1:10 invalid duration argument"),
        ("timestamp('x') == self.t", "1:11 invalid timestamp argument"),
        ("'%z'.format([1])", "1:12 could not parse formatting clause: unrecognized formatting clause \"z\""),
        (
            "'%d'.format(['a'])",
            "1:14 error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("nested{c: 1}", "1:9 undefined field 'c'"),
        ("nested{b: 'x'}", "1:9 expected type of field 'b' is 'int' but provided type is 'string'"),
        ("cel.bind(x, 1, 2)", "1:1 undeclared reference to 'cel' (in container '')"),
    ];
    for (text, wanted) in cases {
        assert_eq!(brief(text).first().map(String::as_str), Some(wanted), "{text}");
    }
}

#[test]
fn all_errors_of_a_pass_are_reported() {
    let found = brief("math.greatest(1, 2) == 2 && base64.encode(b'a') == 'YQ=='");
    assert_eq!(
        found,
        [
            "1:1 undeclared reference to 'math' (in container '')",
            "1:14 undeclared reference to 'greatest' (in container '')",
            "1:29 undeclared reference to 'base64' (in container '')",
            "1:42 undeclared reference to 'encode' (in container '')",
        ]
    );
}

#[test]
fn nesting_is_bounded() {
    let sum = vec!["1"; 5000].join(" + ");
    assert_eq!(brief(&sum), ["-1:0 max recursion depth exceeded"]);
    assert_eq!(errors(&sum), "ERROR: <input>:-1:0: max recursion depth exceeded");
    let parens = format!("{}1{}", "(".repeat(250), ")".repeat(250));
    assert_eq!(brief(&parens), ["-1:0 expression recursion limit exceeded: 250"]);
    assert!(brief(&format!("{}1{}", "(".repeat(200), ")".repeat(200))).is_empty());
    assert!(brief(&vec!["true"; 1000].join(" && ")).is_empty());
    let long = "a".repeat(100_001);
    assert_eq!(brief(&long), ["-1:0 expression code point size exceeds limit: size: 100001, limit 100000"]);
}

#[test]
fn errors_are_bounded() {
    let many = format!("[{}]", vec!["a"; 20_000].join(","));
    let errors = super::fixture::env().compile(&many).unwrap_err();
    assert_eq!(errors.entries().len(), 100);
    assert!(errors.to_string().ends_with("\n19900 more errors were truncated"));
    let found = brief(&"@".repeat(50_000));
    assert_eq!(
        (found.len(), found[99].as_str()),
        (100, "1:100 Syntax error: token recognition error at: '@'")
    );
    let found = super::fixture::errors(&"@".repeat(50_000));
    assert!(found.ends_with("\n1 more errors were truncated"));
    assert!(!brief(&"(a b".repeat(2_000)).is_empty());
}

#[test]
fn chains_of_copying_macros_are_refused_beyond_the_node_limit() {
    let chain = |steps: usize| format!("optional.of(1){}", ".optMap(x, x)".repeat(steps));
    assert!(brief(&chain(8)).is_empty());
    let found = brief(&chain(100));
    assert!(found.iter().all(|error| error.ends_with("expression is too complex")), "{found:?}");
    assert!(!found.is_empty());
}
