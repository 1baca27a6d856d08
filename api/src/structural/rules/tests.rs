//! Tests of rules: measured costs, values in expressions, errors, transition rules, ratcheting and budgets.

use super::types::NodeTypes;
use crate::expression::base;
use crate::expression::limits::CALL_COST;
use crate::structural::{Tree, ValidationScope};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn tree(schema: &Value) -> Arc<Tree> {
    Arc::new(Tree::compile(schema).unwrap())
}

/// The schema whose rule costs were measured on a Kubernetes API server.
fn measured() -> Value {
    let int = json!({"type": "integer"});
    json!({"type": "object", "properties": {
        "replicas": int, "minReplicas": int, "maxReplicas": int,
        "s": {"type": "string", "maxLength": 100},
        "u": {"type": "string"},
        "e": {"type": "string", "enum": ["a", "bbb"]},
        "ios": {"x-kubernetes-int-or-string": true},
        "items": {"type": "array", "maxItems": 100, "items": {"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 63}, "value": {"type": "string", "maxLength": 63}, "port": int}}},
        "names": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 20}},
        "free": {"type": "array", "items": {"type": "string"}},
    }})
}

fn measured_object() -> Value {
    let items: Vec<Value> =
        (1..=10).map(|n| json!({"name": format!("n{n:02}"), "value": "v", "port": n})).collect();
    json!({"replicas": 3, "minReplicas": 1, "maxReplicas": 5, "s": "hello world", "u": "unbounded", "e": "a",
        "ios": 5, "items": items, "names": ["aa", "bb", "cc"], "free": ["aa", "bb", "cc"]})
}

/// The cost estimate of a rule at the root of a schema, and its actual cost on an object.
fn costs(schema: &Value, object: &Value, rule: &str) -> (u64, u64) {
    let tree = tree(schema);
    let root = tree.root().id();
    let types = NodeTypes::new(tree.clone(), root);
    let env = base::environment().extend().types(Arc::new(types.clone()));
    let env = env.variable("self", types.self_type().unwrap()).build();
    let checked = env.compile(rule).unwrap_or_else(|errors| panic!("{rule}: {errors}"));
    let program = checked.program().unwrap();
    let shape = super::shapes::Shapes::new(&tree).of(root).unwrap();
    let (value, cost) = program.eval(&[("self", shape.value(object).unwrap())], CALL_COST);
    value.unwrap_or_else(|error| panic!("{rule}: {error}"));
    (checked.estimate(&types).max, cost)
}

#[test]
fn estimates_and_costs_equal_those_of_a_kubernetes_api_server() {
    let cases = [
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
        ("!format.dns1123Label().validate(self.s).hasValue()", 1285, 21),
        ("'%s-%d'.format([self.s, self.replicas]) == 'a'", 16, 16),
        ("string(self.replicas) + 'a' == '3a'", 1_844_674_407_370_955_268, 5),
        ("self.s.startsWith('he')", 3, 4),
        ("type(self.ios) == int ? self.ios > 1 : self.ios == 'a'", 7, 7),
        ("self.e == 'a'", 3, 3),
    ];
    let (schema, object) = (measured(), measured_object());
    for (rule, estimate, cost) in cases {
        assert_eq!(costs(&schema, &object, rule), (estimate, cost), "{rule}");
    }
}

/// The texts of the errors that a schema's rules give for an object.
fn errors(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    tree(schema).validate_rules(object, old).errors.iter().map(ToString::to_string).collect()
}

/// A schema with one field, and rules at the root.
fn with_field(field: &Value, rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    json!({"type": "object", "properties": {"f": field}, "x-kubernetes-validations": rules})
}

#[test]
fn values_have_the_types_of_their_schema() {
    let text = |format: &str| json!({"type": "string", "format": format});
    let cases = [
        (text("byte"), json!("aGk="), "self.f == b'hi'"),
        (text("duration"), json!("1h30m"), "self.f == duration('90m')"),
        (text("date"), json!("2024-02-29"), "self.f.getFullYear() == 2024"),
        (text("date-time"), json!("2024-02-29T12:00:00Z"), "self.f == timestamp('2024-02-29T12:00:00Z')"),
        (text("uuid"), json!("x"), "self.f == 'x'"),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("5%"),
            "type(self.f) == string && self.f == '5%'",
        ),
        (json!({"type": "number"}), json!(2), "self.f == 2.0"),
        (json!({"type": "string", "nullable": true}), json!(null), "!has(self.f)"),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"a-b": 1}),
            "self.f['a-b'] == 1 && self.f.all(k, k == 'a-b')",
        ),
        (
            json!({"type": "object", "properties": {"a-b": {"type": "integer"}, "if": {"type": "integer"}}}),
            json!({"a-b": 1, "if": 2}),
            "self.f.a__dash__b == 1 && self.f.__if__ == 2 && self.f.if == 2",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b"]),
            "self.f == ['b', 'a'] && self.f + ['a', 'c'] == ['a', 'b', 'c']",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}),
            json!([{"k": "a", "v": 1}]),
            "(self.f + self.f).size() == 1 && self.f[0].v == 1",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
            "self.f.kind == 'Pod' && self.f.metadata.name == 'p' && self.metadata.name == 'own'",
        ),
    ];
    for (field, value, rule) in cases {
        let object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "own"}, "f": value});
        assert_eq!(errors(&with_field(&field, &[rule]), &object, None), [""; 0], "{rule}");
    }
    let wrong = errors(&with_field(&json!({"type": "integer"}), &["self.f > 1"]), &json!({"f": 2.0}), None);
    assert_eq!(
        wrong,
        [
            "<nil>: Invalid value: \"object\": invalid data, expected int, got float64 evaluating rule: self.f > 1"
        ]
    );
}

#[test]
fn equality_of_objects_includes_undeclared_members() {
    let field = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": {"type": "integer"}}});
    let schema = with_field(&field, &["self.f == oldSelf.f"]);
    let of = |b: i64| json!({"f": {"a": 1, "b": b}});
    assert_eq!(errors(&schema, &of(1), Some(&of(1))), [""; 0]);
    assert_eq!(errors(&schema, &of(1), Some(&of(2))).len(), 1);
}

#[test]
fn transition_rules_run_only_on_values_with_an_old_value() {
    let plain = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "grows"}]});
    let schema = json!({"type": "object", "properties": {"f": plain}});
    assert_eq!(errors(&schema, &json!({"f": 1}), None), [""; 0]);
    assert_eq!(errors(&schema, &json!({"f": 1}), Some(&json!({}))), [""; 0]);
    assert_eq!(errors(&schema, &json!({"f": 1}), Some(&json!({"f": 2}))), ["f: Invalid value: 1: grows"]);
    let optional = json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() || self == 0", "optionalOldSelf": true, "messageExpression": "'not ' + '0'"}]});
    let schema = json!({"type": "object", "properties": {"f": optional}});
    assert_eq!(errors(&schema, &json!({"f": 1}), None), ["f: Invalid value: 1: not 0"]);
    assert_eq!(errors(&schema, &json!({"f": 1}), Some(&json!({"f": 0}))), [""; 0]);
}

#[test]
fn rules_broken_by_unchanged_values_give_warnings() {
    let positive = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]});
    let items = json!({"type": "array", "items": positive});
    let schema =
        tree(&json!({"type": "object", "properties": {"a": positive, "l": items, "x": {"type": "string"}}}));
    let old = json!({"a": 0, "l": [0], "x": "old"});
    let report = schema.validate_rules(&json!({"a": 0, "l": [0], "x": "new"}), Some(&old));
    assert!(report.errors.is_empty());
    let expected =
        ["a: Invalid value: 0: failed rule: self > 0", "l[0]: Invalid value: 0: failed rule: self > 0"];
    assert_eq!(report.warnings, expected);
    let report = schema.validate_rules(&json!({"a": -1, "l": [0, 1]}), Some(&old));
    assert_eq!(report.errors.len(), 2, "items of lists without keys are not matched");
}

#[test]
fn errors_are_ordered_by_value_then_by_member_name() {
    let broken = |message: &str| json!([{"rule": "false", "message": message}]);
    let scalar = |message: &str| json!({"type": "integer", "x-kubernetes-validations": broken(message)});
    let schema = json!({"type": "object", "x-kubernetes-validations": broken("root"), "properties": {
        "z": scalar("z"),
        "plain": {"type": "object", "properties": {"inner": scalar("inner"), "free": {"type": "string"}}},
        "map": {"type": "object", "additionalProperties": scalar("value"), "x-kubernetes-validations": broken("map")},
        "list": {"type": "array", "items": scalar("item")},
        "absent": scalar("absent"),
        "null": scalar("null")}});
    let object = json!({"z": 1, "plain": {"inner": 2, "free": "x"}, "map": {"b": 1, "a": 2}, "list": [3, 4],
        "null": null, "undeclared": 5});
    let expected = [
        "<nil>: Invalid value: root",
        "list[0]: Invalid value: 3: item",
        "list[1]: Invalid value: 4: item",
        "map: Invalid value: map",
        "map[a]: Invalid value: 2: value",
        "map[b]: Invalid value: 1: value",
        "plain.inner: Invalid value: 2: inner",
        "z: Invalid value: 1: z",
    ];
    assert_eq!(errors(&schema, &object, None), expected);
}

#[test]
fn no_rule_runs_after_the_cost_budget_is_exceeded() {
    let loops = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    let list = |rule: &str, count: usize| {
        let rules: Vec<Value> = (0..count).map(|_| json!({"rule": rule, "message": "m"})).collect();
        json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rules})
    };
    let object = json!({"f": (0..50).collect::<Vec<i64>>()});
    let schema = json!({"type": "object", "properties": {"f": list(loops, 20)}});
    let expected = "f: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: m";
    assert_eq!(errors(&schema, &object, None), [expected]);
    let object = json!({"f": (0..40).collect::<Vec<i64>>()});
    let expected = "f: Invalid value: \"array\": validation failed due to running out of cost budget, no further validation rules will be run";
    assert_eq!(errors(&schema, &object, None), [expected]);
}

#[test]
fn arbitrary_schemas_with_rules_make_no_panic() {
    for schema in [
        json!({"type": "array", "x-kubernetes-validations": [{"rule": "true"}]}),
        json!({"x-kubernetes-validations": [{"rule": "self == 1"}, {}, {"rule": "("}]}),
        json!({"type": "object", "maxProperties": -1, "additionalProperties": {"type": "object", "required": ["x"]},
            "x-kubernetes-validations": [{"rule": "self.all(k, true)", "fieldPath": ".a['"}]}),
    ] {
        let tree = tree(&schema);
        for object in [json!([1]), json!({"a": {"b": null}}), json!(1)] {
            drop(tree.validate(&object, None, ValidationScope::Whole));
            drop(tree.validate_rules(&object, Some(&object)));
        }
    }
}

/// Conditions on the measured schema. Without `==` on numbers, whose estimate is 0, and without startsWith and endsWith, whose estimate
/// counts the argument instead of the string.
fn conditions() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("self.replicas".to_owned()),
        Just("7".to_owned()),
        Just("self.names.size()".to_owned()),
        Just("self.items.map(i, i.port).sum()".to_owned()),
        Just("self.s.indexOf('w')".to_owned()),
    ];
    let text = prop_oneof![
        Just("self.s".to_owned()),
        Just("self.names[0]".to_owned()),
        Just("'some text'".to_owned()),
        Just("(self.s + self.e)".to_owned()),
        Just("self.s.lowerAscii()".to_owned()),
        Just("self.names.join(',')".to_owned()),
        Just("self.s.replace('l', 'xx')".to_owned()),
    ];
    let leaf = prop_oneof![
        (number.clone(), number).prop_map(|(a, b)| format!("{a} + {b} > 1")),
        (text.clone(), text.clone()).prop_map(|(a, b)| format!("{a} != {b}")),
        (text.clone(), text.clone()).prop_map(|(a, b)| format!("{a}.contains({b})")),
        text.clone().prop_map(|a| format!("{a}.matches('^[a-z ]+$')")),
        text.clone().prop_map(|a| format!("{a} in self.names")),
        text.clone().prop_map(|a| format!("isQuantity({a}) || isIP({a}) || isSemver({a})")),
        text.prop_map(|a| format!("self.items.exists(i, i.name == {a})")),
        Just("has(self.ios) && type(self.ios) == int".to_owned()),
        Just("self.items.filter(i, i.port > 3).all(i, i.value < i.name)".to_owned()),
        Just("self.free.map(x, x + x).isSorted()".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || !({b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a}) ? ({b}) : ({c})")),
            inner.clone().prop_map(|a| format!("self.names.all(n, {a})")),
            inner.prop_map(|a| format!("self.items.exists_one(o, {a})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_rule_costs_more_than_its_estimate(rule in conditions()) {
        let (estimate, cost) = costs(&measured(), &measured_object(), &rule);
        prop_assert!(cost <= estimate, "{}: {} of {}", rule, cost, estimate);
    }
}

#[test]
fn a_schema_has_costly_rules_after_they_were_costly_on_an_object() {
    let quadratic = "self.all(a, self.all(b, a >= 0 || b >= 0))";
    let schema = tree(&json!({"type": "object", "properties": {"l": {"type": "array", "maxItems": 1000,
        "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": quadratic}]}}}));
    let of = |length: usize| json!({"l": vec![1; length]});
    assert!(!schema.has_costly_rules());
    assert!(schema.validate_rules(&of(10), None).errors.is_empty());
    assert!(!schema.has_costly_rules(), "a small object costs little");
    assert!(schema.validate_rules(&of(300), None).errors.is_empty());
    assert!(schema.has_costly_rules());
}
