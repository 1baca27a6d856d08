//! The parser on the grammar: precedence, associativity, scopes of variables, and nesting limits.

use super::fixture::{brief, run};

#[test]
fn operators_have_the_precedence_of_the_grammar() {
    let rows = [
        ("1 + 2 * 3 == 7 && true || false", "true"),
        ("10 - 3 - 2", "5"),
        ("2 * 3 % 4", "2"),
        ("true || false && false", "true"),
        ("false ? 1 : true ? 2 : 3", "2"),
        ("!true == false", "true"),
        ("-2 * -3", "6"),
        ("1 - -1", "2"),
        ("1 < 2 == true", "true"),
        ("[1, 2, 3,].size()", "3"),
        ("{'a': 1,}.a", "1"),
        ("1 // comment\n + 1", "2"),
        ("-self.nested.b", "-2"),
        (".self.a", "1"),
    ];
    for (text, wanted) in rows {
        assert_eq!(run(text).0, Ok(wanted.to_owned()), "{text}");
    }
}

#[test]
fn a_variable_of_a_loop_hides_that_of_the_environment() {
    let rows = [
        ("[1, 2].map(self, self * 2)", "[2, 4]"),
        ("[1].map(self, .self.a + self)", "[2]"),
        ("[1].map(x, [2].map(x, x))", "[[2]]"),
        ("[1, 2].map(x, [x].map(y, [x, y]))", "[[[1, 1]], [[2, 2]]]"),
    ];
    for (text, wanted) in rows {
        assert_eq!(run(text).0, Ok(wanted.to_owned()), "{text}");
    }
}

/// Expressions that are nested as deep as the limits allow.
fn deepest() -> Vec<String> {
    let around = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    vec![
        around("[", "1", "]", 248),
        around("(", "1", ")", 248),
        around("dyn(", "1", ")", 248),
        around("[1].map(x, ", "x", ")", 240),
        around("[1].all(x, ", "x == 1", ")", 240),
        around("{'a': ", "1", "}", 248),
        around("true ? 1 : ", "2", "", 240),
        around("!(", "true", ")", 240),
        format!("1{}", " + 1".repeat(249)),
        format!("dyn({{}}){}", ".a".repeat(248)),
        format!("[1]{}", ".map(x, x)".repeat(248)),
    ]
}

/// Half of the default stack of a thread.
const STACK: usize = 1 << 20;

#[test]
fn expressions_at_the_nesting_limit_pass_all_stages_on_half_a_stack() {
    let all_stages = || {
        for text in deepest() {
            let found = brief(&text);
            assert!(found.is_empty(), "{}: {found:?}", &text[..20]);
            let estimate = super::fixture::env().compile(&text).unwrap().estimate(&crate::UnknownSizes);
            assert!(estimate.min <= estimate.max);
            let (_, cost) = run(&text);
            assert!(cost <= estimate.max.saturating_add(2), "{}: {cost} {estimate:?}", &text[..20]);
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(all_stages).unwrap().join().unwrap();
}

#[test]
fn types_that_double_at_each_step_are_refused() {
    let text =
        format!("[1]{}", ".map(x, {string(1): [x], 'b': [x]}).map(y, [y, y].map(z, {'k': z}))".repeat(20));
    assert!(brief(&text).len() <= 1);
    let text = format!("[dyn(1)]{}", ".map(x, {x: x})".repeat(60));
    assert!(brief(&text)[0].ends_with("type of the expression is too complex"), "{:?}", brief(&text));
}
