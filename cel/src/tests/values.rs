//! Documents as values, environments, and functions that callers add.

use super::fixture::{Schema, document, run, show};
use crate::{
    Activation, CallEstimate, CostEstimate, CostRule, Env, EvalError, FieldShape, Library, ListKind,
    ObjectShape, Opaque, Overload, Shape, Type, TypeProvider, UnknownSizes, Val,
};
use serde_json::json;
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

#[test]
fn fields_are_typed_by_their_shapes_and_null_is_absent() {
    let rows = [
        ("has(self.replicas) && !has(self.absent) && !has(self.labels.zz) && has(self.labels.k)", "true"),
        ("self.absent", "error: no such key: absent"),
        ("self.nested.b + self.items[0].port", "3"),
        ("self.labels['x-y']", "\"z\""),
        ("self.t == timestamp('2024-02-29T12:30:15.5Z') && self.d == duration('90m')", "true"),
        ("self.nested == self.nested && self.items[0] != self.items[1]", "true"),
        ("type(self.nested) == nested", "true"),
        ("nested{b: 2} == self.nested", "true"),
        ("self.ios.x", "error: no such key: x"),
        ("has(self.ios.x) || self.ios.?x.hasValue()", "false"),
        ("dyn(null).x.y", "error: no such key: x"),
        ("nested{}", "nested{}"),
        ("nested{?b: optional.none()}", "nested{}"),
        ("type(self.ios) == int ? 'int' : 'other'", "\"int\""),
    ];
    for (text, wanted) in rows {
        let found = run(text).0.unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(found, wanted, "{text}");
    }
}

fn field(key: &str, shape: Shape) -> FieldShape {
    FieldShape { key: Box::from(key), shape }
}

/// Evaluates on a document whose root has the shape.
fn on(shape: &Shape, document: &serde_json::Value, text: &str) -> Result<String, EvalError> {
    let root = match shape {
        Shape::Object(root) => ObjectShape::clone(root),
        _ => ObjectShape::new("none", []),
    };
    let env = Env::builder().types(Arc::new(Schema(root))).variable("self", shape.ty()).build();
    let program = env.compile(text).unwrap_or_else(|errors| panic!("{errors}")).program()?;
    let value = shape.value(document)?;
    let outcome = program.eval(&[("self", value)], u64::MAX).0;
    outcome.map(|value| show(&value))
}

#[test]
fn names_of_fields_may_differ_from_those_of_the_document() {
    let object = ObjectShape::new("o", [(Box::from("x__dash__y"), field("x-y", Shape::Int))]);
    let shape = Shape::Object(Arc::new(object));
    assert_eq!(on(&shape, &json!({"x-y": 3}), "self.x__dash__y + 1"), Ok("4".to_owned()));
}

#[test]
fn sets_and_keyed_lists_compare_without_order_and_merge() {
    let set = Shape::List(Arc::new(Shape::Int), ListKind::Set);
    let item = ObjectShape::new(
        "i",
        [(Box::from("k"), field("k", Shape::String)), (Box::from("v"), field("v", Shape::Int))],
    );
    let item = Shape::Object(Arc::new(item));
    let keyed = Shape::List(Arc::new(item), ListKind::Keyed(vec![Box::from("k")]));
    let pair = |list: &Shape| {
        let object = ObjectShape::new(
            "o",
            [(Box::from("a"), field("a", list.clone())), (Box::from("b"), field("b", list.clone()))],
        );
        Shape::Object(Arc::new(object))
    };
    let document = json!({"a": [1, 2], "b": [2, 1]});
    assert_eq!(on(&pair(&set), &document, "self.a == self.b"), Ok("true".to_owned()));
    assert_eq!(
        on(&pair(&set), &json!({"a": [1, 2], "b": [3, 2]}), "self.a + self.b"),
        Ok("[1, 2, 3]".to_owned())
    );
    let document =
        json!({"a": [{"k": "x", "v": 1}, {"k": "y", "v": 2}], "b": [{"k": "y", "v": 3}, {"k": "z", "v": 4}]});
    let merged = on(&pair(&keyed), &document, "(self.a + self.b).map(i, i.v)");
    assert_eq!(merged, Ok("[1, 3, 4]".to_owned()));
    let document = json!({"a": [{"k": "x"}, {"k": "y"}], "b": [{"k": "y"}, {"k": "x"}]});
    assert_eq!(on(&pair(&keyed), &document, "self.a == self.b"), Ok("true".to_owned()));
}

#[test]
fn reading_a_part_that_does_not_fit_its_shape_is_an_error() {
    let document = json!("x");
    assert!(Shape::Int.value(&document).is_err());
    let fraction = Shape::Int.value(&json!(3.0)).unwrap_err().to_string();
    assert_eq!(fraction, "invalid data, expected int, got float64");
    assert_eq!(show(&Shape::Double.value(&json!(3)).unwrap()), "3.0");
    assert_eq!(show(&Shape::Bytes.value(&json!("aGk=")).unwrap()), "b\"hi\"");
    assert!(Shape::Bytes.value(&json!("aGk")).is_err());
    assert_eq!(show(&Shape::Dyn.value(&json!(u64::MAX)).unwrap()), "1.8446744073709552e19");
    assert_eq!(show(&Shape::Date.value(&json!("2024-02-29")).unwrap()), "2024-02-29T00:00:00Z");
    assert_eq!(
        show(&Shape::Dyn.value(&json!([1, 1.5, "a", null, {"k": true}])).unwrap()),
        "[1, 1.5, \"a\", null, {\"k\": true}]"
    );
}

#[test]
fn references_ignore_loop_variables_that_hide_variables_of_the_environment() {
    let env = Env::builder()
        .variable("self", Type::list(Type::Int))
        .variable("oldSelf", Type::list(Type::Int))
        .build();
    let references = |text: &str| env.compile(text).unwrap().references("oldSelf");
    assert!(references("self.all(x, x in oldSelf)"));
    assert!(!references("self.all(oldSelf, oldSelf > 0)"));
    assert!(references("oldSelf.all(oldSelf, oldSelf > 0)"));
    assert!(!references("self.size() > 0 && 'oldSelf' == 'x'"));
}

#[test]
fn selections_of_a_member_are_found_in_all_their_forms() {
    let builder = Env::builder().library(Library::Optional);
    let env = builder.variable("claims", Type::Dyn).variable("user", Type::Dyn).build();
    let selects = |text: &str| env.compile(text).unwrap().selects("claims", "email");
    for text in [
        "claims.email",
        "claims.email.size() > 1",
        "has(claims.email)",
        "claims['email']",
        "claims.?email.orValue('')",
        "claims[?'email'].hasValue()",
        "[1].map(x, claims.email)",
        "{'a': claims.email}",
        "true ? claims.sub : 'x' + claims.email",
    ] {
        assert!(selects(text), "{text}");
    }
    for text in ["claims.email_verified", "claims.sub.email", "user.email", "'claims.email'", "claims['sub']"]
    {
        assert!(!selects(text), "{text}");
    }
}

#[test]
fn types_of_results_are_known() {
    let env = super::fixture::env();
    let ty = |text: &str| env.compile(text).unwrap().result_type().to_string();
    assert_eq!(ty("self.items.map(i, i.name)"), "list(string)");
    assert_eq!(ty("{'a': [1]}"), "map(string, list(int))");
    assert_eq!(ty("self.?s"), "optional_type(string)");
    assert_eq!(ty("self.ios"), "dyn");
    assert_eq!(ty("[]"), "list(dyn)");
    assert_eq!(ty("type(1)"), "type(int)");
    assert_eq!(ty("self.ios + self.ios"), "dyn");
}

/// An opaque type of a caller.
#[derive(Debug, PartialEq)]
struct Version(u64);

impl Opaque for Version {
    fn type_name(&self) -> &str {
        "version"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn estimates_and_counts_see_the_target_and_the_arguments_apart() {
    let cost = |has_target: bool, args: usize| 100 * u64::from(has_target) + args as u64;
    let rule = CostRule::new(
        move |call| Some(CallEstimate::of(CostEstimate::fixed(cost(call.target.is_some(), call.args.len())))),
        move |call| Some(cost(call.target.is_some(), call.args.len())),
    );
    let texts = || [Type::String, Type::String];
    let function = Overload::function("function", texts(), Type::Bool, |_| Ok(Val::Bool(true)));
    let method = Overload::method("method", texts(), Type::Bool, |_| Ok(Val::Bool(true)));
    let own_rule = Env::builder().function("f", function.clone().cost(rule.clone()));
    let own_rule = own_rule.function("f", method.clone().cost(rule.clone())).build();
    let common_rule = Env::builder().function("f", function).function("f", method);
    let common_rule = common_rule.function_cost("f", rule).build();
    for env in [own_rule, common_rule] {
        for (text, expected) in [("f('a', 'b')", 2), ("'a'.f('b')", 101)] {
            let checked = env.compile(text).unwrap();
            assert_eq!(checked.estimate(&UnknownSizes), CostEstimate::fixed(expected), "{text}");
            let variables: [(&str, Val<'_>); 0] = [];
            assert_eq!(checked.program().unwrap().eval(&variables, u64::MAX).1, expected, "{text}");
        }
    }
}

#[test]
fn callers_add_opaque_types_and_functions_with_costs() {
    let parse = Overload::function("version_of_string", [Type::String], Type::opaque("version"), |args| {
        let text = args[0].as_str().ok_or(EvalError::NoSuchOverload)?;
        text.parse().map(|number| Val::opaque(Version(number))).map_err(|_| EvalError::other("no version"))
    });
    let parse = parse.cost(CostRule::new(
        |call| Some(CallEstimate::of(call.arg_size(0).cost(0.1))),
        |call| Some(call.arg_size(0)),
    ));
    let number = Overload::method("version_number", [Type::opaque("version")], Type::Uint, |args| {
        args[0].as_opaque::<Version>().map(|version| Val::Uint(version.0)).ok_or(EvalError::NoSuchOverload)
    });
    let env = Env::builder().function("version", parse).function("number", number).build();
    let checked = env.compile("version('12') == version('12') && version('7').number() == 7u").unwrap();
    assert_eq!(checked.estimate(&UnknownSizes), CostEstimate { min: 3, max: 6 });
    let variables: [(&str, Val<'_>); 0] = [];
    let program = checked.program().unwrap();
    let (value, cost) = program.eval(&variables, u64::MAX);
    assert_eq!((show(&value.unwrap()).as_str(), cost), ("true", 8));
    let program = env.compile("version('x').number()").unwrap().program().unwrap();
    assert_eq!(program.eval(&variables, u64::MAX).0.unwrap_err(), EvalError::other("no version"));
    assert!(env.compile("version('1') < version('2')").is_err());
}

#[test]
fn fields_of_a_lazy_object_are_looked_up_only_when_read() {
    struct Fields;
    impl TypeProvider for Fields {
        fn field(&self, _: &str, field: &str) -> Option<Type> {
            matches!(field, "a" | "b").then_some(Type::Int)
        }

        fn has_type(&self, type_name: &str) -> bool {
            type_name == "fields"
        }
    }
    struct RecordingActivation(RefCell<Vec<String>>);
    impl<'a> Activation<'a> for RecordingActivation {
        fn variable(&self, name: &str) -> Option<Result<Val<'a>, EvalError>> {
            self.0.borrow_mut().push(name.to_owned());
            Some(if name == "variables.a" { Ok(Val::Int(1)) } else { Err(EvalError::DivisionByZero) })
        }
    }
    let env = Env::builder().types(Arc::new(Fields)).lazy_object("variables", Type::object("fields")).build();
    let recorded = RecordingActivation(RefCell::default());
    let program = env.compile("variables.a > 0 || variables.b > 0").unwrap().program().unwrap();
    let (value, cost) = program.eval(&recorded, 100);
    assert_eq!((show(&value.unwrap()).as_str(), cost), ("true", 3));
    assert_eq!(*recorded.0.borrow(), ["variables.a"]);
    let errors = env.compile("variables.zz").unwrap_err();
    assert_eq!(errors.entries()[0].message, "undefined field 'zz'");
}

#[test]
fn programs_are_shared_between_threads() {
    fn check<T: Send + Sync>(_: &T) {}
    let env = super::fixture::env();
    let program = env.compile("self.items.all(i, i.port > 0)").unwrap().program().unwrap();
    check(&program);
    check(&env);
    let (document, shape) = (document(), Shape::Object(Arc::new(super::fixture::shape())));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let value = shape.value(&document).unwrap();
                assert_eq!(show(&program.eval(&[("self", value)], 1_000).0.unwrap()), "true");
            });
        }
    });
}

#[test]
fn functions_of_libraries_are_undeclared_without_the_library() {
    let bare = Env::builder().build();
    for text in [
        "'a'.trim()",
        "[1].sum()",
        "sets.contains([1], [1])",
        "optional.of(1)",
        "[1][?0]",
        "'a'.find('a')",
        "cel.bind(x, 1, x)",
        "[1].sort()",
        "[1].all(i, v, true)",
    ] {
        assert!(bare.compile(text).is_err(), "{text}");
    }
    let with = bare.extend().library(Library::Strings).build();
    assert!(with.compile("'a'.trim()").is_ok());
    let raw = Env::builder().macros(false).variable("x", Type::list(Type::Int)).build();
    assert!(raw.compile("x.all(y, y > 0)").is_err());
}

#[test]
fn constant_conversions_fail_when_the_program_is_made() {
    let env = super::fixture::plain();
    assert!(env.compile("int('x')").unwrap().program().is_err());
    assert!(env.compile("'a'.find('(')").unwrap().program().is_err());
}

#[test]
fn values_are_exported_to_json() {
    let env = super::fixture::env();
    let json = |text: &str| {
        let (document, shape) = (document(), Shape::Object(Arc::new(super::fixture::shape())));
        let program = env.compile(text).unwrap().program().unwrap();
        let value = program.eval(&[("self", shape.value(&document).unwrap())], u64::MAX).0.unwrap();
        value.to_json()
    };
    assert_eq!(json("{'a': 'x', 'b': self.s}"), Ok(json!({"a": "x", "b": "hello world"})));
    assert_eq!(json("{1: b'hi!', 2: b'h', 3: b'hi'}"), Ok(json!({"1": "aGkh", "2": "aA==", "3": "aGk="})));
    assert_eq!(json("[self.t]"), Ok(json!(["2024-02-29T12:30:15.5Z"])));
    assert_eq!(json("[self.d, self.d]"), Ok(json!(["5400s", "5400s"])));
    assert_eq!(json("self.items[0]"), Ok(json!({"name": "n01", "value": "v", "port": 1})));
    assert_eq!(json("nested{b: 3}"), Ok(json!({"b": 3})));
    assert_eq!(json("optional.of(1.5)"), Ok(json!(1.5)));
    assert_eq!(json("self.names"), Ok(json!(["aa", "bb", "cc"])));
    assert!(json("optional.none()").is_err() && json("int").is_err() && json("1.0 / 0.0").is_err());
}

/// Values of the formats `duration`, `date-time` and `byte` are read by the parsers of the formats, which take more than the functions
/// of the language.
#[test]
fn formatted_texts_are_read_by_the_parsers_of_their_formats() {
    let second = 1_000_000_000_i64;
    let nanos = |text: &str| match Shape::Duration.value(&json!(text)) {
        Ok(Val::Duration(nanos)) => Some(nanos),
        _ => None,
    };
    let cases = [
        ("1d", Some(86_400)),
        ("1w", Some(604_800)),
        ("3 days", Some(259_200)),
        ("1h 30m", Some(5400)),
        ("1h30m", Some(5400)),
        ("2 Weeks and 1 hr", Some(1_213_200)),
        ("-1m", Some(-60)),
        ("day", None),
        ("1 year", None),
        ("", None),
    ];
    for (text, want) in cases {
        assert_eq!(nanos(text), want.map(|seconds: i64| seconds * second), "{text}");
    }
    let is_time = |text: &str| matches!(Shape::Timestamp.value(&json!(text)), Ok(Val::Timestamp(_)));
    assert!(is_time("9999-12-31T23:59:59Z") && is_time("2024-01-02t03:04:05z"));
    assert!(!is_time("2024-01-02 03:04:05Z"));
    assert!(matches!(Shape::Bytes.value(&json!("QR==")), Ok(Val::Bytes(bytes)) if *bytes == *b"A"));
}
