//! How expressions are read: precedence, associativity, positions of what macros expand to.

use super::fixture::run;

#[test]
fn operators_bind_as_the_grammar_says() {
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
