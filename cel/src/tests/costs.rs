//! Estimated and actual costs against measurements of the reference implementation.

use super::fixture::{Schema, document, env, run, shape};
use crate::{EvalError, Shape};
use std::sync::Arc;

/// Rows of expression, maximum of the estimate, actual cost.
const VECTORS: [(&str, u64, u64); 25] = [
    ("true", 0, 0),
    ("self.replicas > 1", 3, 3),
    ("has(self.replicas)", 1, 1),
    ("self.replicas >= self.minReplicas && self.replicas <= self.maxReplicas", 10, 10),
    ("self.s == self.u", 44, 5),
    ("self.s.contains('lo w')", 42, 4),
    ("self.s.matches('^h.*d$')", 84, 6),
    ("self.u.matches('^h.*d$')", 629_148, 4),
    ("(self.s + self.s).size() < 10", 86, 9),
    ("self.s.split('o').size() == 2", 84, 7),
    ("'a' in self.names", 52, 5),
    ("'a' in self.free", 1_048_577, 5),
    ("self.free.exists(x, x == 'a')", 6_291_453, 21),
    ("self.names.exists(x, x == 'a')", 303, 21),
    ("self.items.all(i, i.name.startsWith('n') && size(i.name) <= 63)", 1003, 103),
    ("self.items.all(x, self.items.exists_one(y, x.name == y.name))", 320_703, 593),
    ("self.items.map(i, i.name).size() == 3", 1415, 145),
    ("self.items.filter(i, i.port > 1).size() == 2", 1615, 152),
    ("self.names.transformList(i, v, v).size() == 3", 665, 44),
    ("[1,2,3].exists(x, x == 2)", 26, 16),
    ("self.names.distinct().size() == 3", 5015, 33),
    ("self.names.sort() == self.names", 5270, 34),
    ("'%s-%d'.format([self.s, self.replicas]) == 'a'", 16, 16),
    ("string(self.replicas) + 'a' == '3a'", 1_844_674_407_370_955_268, 5),
    ("self.s.startsWith('he')", 3, 4),
];

#[test]
fn estimates_and_actual_costs_are_those_of_the_reference_implementation() {
    let (env, sizes) = (env(), Schema(shape()));
    for (text, estimate, actual) in VECTORS {
        let checked = env.compile(text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let (value, cost) = run(text);
        value.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((checked.estimate(&sizes).max, cost), (estimate, actual), "{text}");
    }
}

#[test]
fn dynamic_values_cost_what_the_reference_implementation_counts() {
    let text = "type(self.ios) == int ? self.ios > 1 : self.ios == 'a'";
    let estimate = env().compile(text).unwrap().estimate(&Schema(shape()));
    assert_eq!((estimate.max, run(text).1), (7, 7));
    assert_eq!(
        (env().compile("self.e == 'a'").unwrap().estimate(&Schema(shape())).max, run("self.e == 'a'").1),
        (3, 3)
    );
}

#[test]
fn evaluation_stops_when_the_limit_is_spent() {
    let (document, shape) = (document(), Shape::Object(Arc::new(shape())));
    let program = env().compile("self.items.all(i, i.port > 0)").unwrap().program().unwrap();
    let value = shape.value(&document).unwrap();
    let (_, full) = program.eval(&[("self", value.clone())], u64::MAX);
    for limit in 0..full {
        let (outcome, spent) = program.eval(&[("self", value.clone())], limit);
        assert_eq!(outcome.unwrap_err(), EvalError::CostLimitExceeded, "limit {limit}");
        assert!(spent > limit && spent <= full);
    }
    assert!(program.eval(&[("self", value)], full).0.is_ok());
}

#[test]
fn an_interrupt_ends_a_loop() {
    let program = env().compile("lists.range(1000).all(i, i >= 0)").unwrap().program().unwrap();
    let variables: [(&str, crate::Val<'_>); 0] = [];
    let (outcome, spent) = program.eval_interruptible(&variables, u64::MAX, &|| true);
    assert_eq!(outcome.unwrap_err(), EvalError::Interrupted);
    assert!(spent < 2_000, "{spent}");
}

/// Rows of constant expression and cost. Sizes of constants are known, so that estimate and actual cost are equal.
const KNOWN: [(&str, u64); 32] = [
    ("dyn(1) == 2", 1),
    ("size('0123456789abc')", 1),
    ("'0123456789abc' == '0123456789abc'", 2),
    ("'0123456789abc' < '0123456789abc'", 2),
    ("b'0123456789abc' >= b'0123456789abc'", 2),
    ("'0123456789abc' + '0123456789abc'", 3),
    ("b'0123456789abc' + b'0123456789abc'", 3),
    ("'0123456789abc'.contains('0123456789abc')", 4),
    ("'0123456789abc'.matches('[a-z]+')", 4),
    ("matches('0123456789abc', '[a-z]+')", 1),
    ("'0123456789abc'.find('[a-z]+')", 4),
    ("'0123456789abc'.findAll('[a-z]+')", 4),
    ("'0123456789abc'.lowerAscii()", 2),
    ("'0123456789abc'.upperAscii()", 2),
    ("'0123456789abc'.trim()", 2),
    ("'0123456789abc'.substring(1)", 2),
    ("'0123456789abc'.replace('a', 'b')", 3),
    ("'0123456789abc'.split('a')", 3),
    ("'0123456789abc'.charAt(1)", 1),
    ("strings.quote('0123456789abc')", 2),
    ("bytes('0123456789abc' + '')", 4),
    ("string(b'0123456789abc' + b'')", 4),
    ("'0123456789abc'.indexOf('a')", 1),
    ("lists.range(5)", 16),
    ("lists.range(5).reverse()", 32),
    ("lists.range(5).slice(1, 3)", 29),
    ("lists.range(5).distinct()", 77),
    ("lists.range(5).sort()", 77),
    ("lists.range(5).sum() + lists.range(5).max()", 43),
    ("sets.contains(lists.range(5), lists.range(2))", 40),
    ("sets.equivalent(lists.range(5), lists.range(2))", 50),
    ("timestamp('2024-01-01T00:00:00Z').getFullYear()", 1),
];

#[test]
fn functions_of_constants_have_their_documented_cost() {
    for (text, wanted) in KNOWN {
        let (value, cost) = run(text);
        value.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(cost, wanted, "{text}");
    }
}
