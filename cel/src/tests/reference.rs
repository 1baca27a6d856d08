//! A simple evaluator as a reference for random programs.

use super::fixture::show;
use crate::ast::{Call, Comprehension, Expr, ExprKind, Literal};
use crate::parse::{operator, parse};
use crate::source::Source;
use crate::{Env, Type, Val};
use proptest::prelude::*;

/// A value of the simple evaluator.
#[derive(Debug, Clone, PartialEq)]
enum Model {
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Model>),
}

/// A value, or an error without details.
type Outcome = Result<Model, ()>;

fn shown(model: &Model) -> String {
    match model {
        Model::Bool(value) => value.to_string(),
        Model::Int(value) => value.to_string(),
        Model::Text(text) => format!("{text:?}"),
        Model::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
    }
}

fn eval(expr: &Expr, names: &[(String, Outcome)]) -> Outcome {
    match &expr.kind {
        ExprKind::Literal(Literal::Bool(value)) => Ok(Model::Bool(*value)),
        ExprKind::Literal(Literal::Int(value)) => Ok(Model::Int(*value)),
        ExprKind::Literal(Literal::String(text)) => Ok(Model::Text(text.to_string())),
        ExprKind::Ident(name) => names.iter().rev().find(|(known, _)| *known == **name).ok_or(())?.1.clone(),
        ExprKind::List(list) => {
            list.elements.iter().map(|item| eval(item, names)).collect::<Result<_, _>>().map(Model::List)
        }
        ExprKind::Call(call) => apply(call, names),
        ExprKind::Comprehension(c) => fold(c, names),
        _ => Err(()),
    }
}

fn fold(c: &Comprehension, names: &[(String, Outcome)]) -> Outcome {
    let Model::List(items) = eval(&c.range, names)? else { return Err(()) };
    let mut accu = eval(&c.init, names);
    for (index, item) in items.into_iter().enumerate() {
        let mut inner = names.to_vec();
        inner.push((c.accu.to_string(), accu));
        match &c.var2 {
            Some(var2) => {
                inner.push((c.var.to_string(), Ok(Model::Int(index as i64))));
                inner.push((var2.to_string(), Ok(item)));
            }
            None => inner.push((c.var.to_string(), Ok(item))),
        }
        let ends = eval(&c.condition, &inner) == Ok(Model::Bool(false));
        accu = if ends { inner[names.len()].1.clone() } else { eval(&c.step, &inner) };
        if ends {
            break;
        }
    }
    let mut inner = names.to_vec();
    inner.push((c.accu.to_string(), accu));
    eval(&c.result, &inner)
}

fn apply(call: &Call, names: &[(String, Outcome)]) -> Outcome {
    let args: Vec<Outcome> = call.target.iter().chain(&call.args).map(|arg| eval(arg, names)).collect();
    let decides = |value| args.contains(&Ok(Model::Bool(value)));
    match &*call.function {
        operator::AND if decides(false) => return Ok(Model::Bool(false)),
        operator::OR if decides(true) => return Ok(Model::Bool(true)),
        operator::NOT_STRICTLY_FALSE => return Ok(Model::Bool(!decides(false))),
        operator::CONDITIONAL => {
            let Model::Bool(condition) = args[0].clone()? else { return Err(()) };
            return args[if condition { 1 } else { 2 }].clone();
        }
        _ => {}
    }
    let args: Vec<Model> = args.into_iter().collect::<Result<_, _>>()?;
    use Model::{Bool, Int, List, Text};
    Ok(match (&*call.function, &args[..]) {
        (operator::AND, _) => Bool(true),
        (operator::OR, _) => Bool(false),
        (operator::NOT, [Bool(a)]) => Bool(!a),
        (operator::EQUALS, [a, b]) => Bool(a == b),
        (operator::NOT_EQUALS, [a, b]) => Bool(a != b),
        (operator::NEGATE, [Int(a)]) => Int(a.checked_neg().ok_or(())?),
        (operator::ADD, [Int(a), Int(b)]) => Int(a.checked_add(*b).ok_or(())?),
        (operator::ADD, [Text(a), Text(b)]) => Text(format!("{a}{b}")),
        (operator::ADD, [List(a), List(b)]) => List([&a[..], &b[..]].concat()),
        ("_-_", [Int(a), Int(b)]) => Int(a.checked_sub(*b).ok_or(())?),
        ("_*_", [Int(a), Int(b)]) => Int(a.checked_mul(*b).ok_or(())?),
        ("_/_", [Int(a), Int(b)]) => Int(a.checked_div(*b).ok_or(())?),
        ("_%_", [Int(a), Int(b)]) => Int(a.checked_rem(*b).ok_or(())?),
        ("_<_", [Int(a), Int(b)]) => Bool(a < b),
        ("_>=_", [Int(a), Int(b)]) => Bool(a >= b),
        (operator::IN, [item, List(items)]) => Bool(items.contains(item)),
        (operator::INDEX, [List(items), Int(at)]) => {
            items.get(usize::try_from(*at).map_err(|_| ())?).cloned().ok_or(())?
        }
        ("size", [List(items)]) => Int(items.len() as i64),
        ("size", [Text(text)]) => Int(text.chars().count() as i64),
        ("startsWith", [Text(text), Text(start)]) => Bool(text.starts_with(&**start)),
        _ => return Err(()),
    })
}

/// Expressions for integers, lists of integers and booleans, by depth.
fn programs() -> impl Strategy<Value = String> {
    let ints = prop_oneof![
        (0i64..4).prop_map(|n| n.to_string()),
        Just("n".to_owned()),
        Just("9223372036854775807".to_owned()),
    ];
    let lists = prop_oneof![Just("l".to_owned()), Just("[1, 2, n]".to_owned()), Just("[0, 1]".to_owned())];
    let bools =
        prop_oneof![Just("true".to_owned()), Just("b".to_owned()), Just("'ab'.startsWith(s)".to_owned())];
    let leaves = (ints, lists, bools);
    leaves
        .prop_map(|(i, l, b)| [i, l, b])
        .prop_recursive(4, 48, 3, |inner| {
            (inner.clone(), inner.clone(), inner, 0usize..24).prop_map(|(x, y, z, pick)| {
                let ([xi, xl, xb], [yi, yl, yb], [zi, _, zb]) = (&x, &y, &z);
                let int = match pick % 8 {
                    0 => format!("({xi} + {yi})"),
                    1 => format!("({xi} - {yi})"),
                    2 => format!("({xi} * {yi})"),
                    3 => format!("({xi} / {yi})"),
                    4 => format!("({xb} ? {yi} : {zi})"),
                    5 => format!("{xl}[{yi}]"),
                    6 => format!("size({xl})"),
                    _ => format!("({xi} % {yi})"),
                };
                let list = match pick % 6 {
                    0 => format!("{xl}.map(v, v + {yi})"),
                    1 => format!("{xl}.filter(v, v >= {yi} || {zb})"),
                    2 => format!("({xl} + {yl})"),
                    3 => format!("[{xi}, {yi}]"),
                    4 => format!("{xl}.transformList(i, v, v != {yi}, i + v)"),
                    _ => format!("{xl}.map(v, {yb}, v * {zi})"),
                };
                let truth = match pick % 12 {
                    0 => format!("({xb} && {yb})"),
                    1 => format!("({xb} || {yb})"),
                    2 => format!("!{xb}"),
                    3 => format!("({xi} < {yi})"),
                    4 => format!("{xl}.all(v, v / {yi} < 3)"),
                    5 => format!("{xl}.exists(v, v == {yi} && {zb})"),
                    6 => format!("{xl}.exists_one(v, v >= {yi})"),
                    7 => format!("({xi} in {yl})"),
                    8 => format!("({xl} == {yl})"),
                    9 => format!("{xl}.all(i, v, i < v || {yb})"),
                    10 => format!("({xi} in [1, 2, 3])"),
                    _ => format!("({xb} ? {yb} : {zb})"),
                };
                [int, list, truth]
            })
        })
        .prop_flat_map(|texts| (0usize..3).prop_map(move |at| texts[at].clone()))
}

fn env() -> Env {
    let builder = super::fixture::plain().extend();
    let builder = builder.variable("n", Type::Int).variable("b", Type::Bool).variable("s", Type::String);
    builder.variable("l", Type::list(Type::Int)).build()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_have_the_values_of_the_simple_evaluator(
        text in programs(), n in -2i64..4, b: bool, l in proptest::collection::vec(-2i64..4, 0..4),
    ) {
        let syntax = crate::parse::Syntax {
            macros: true, optional: false, two_variables: true, sort_by: false, bind: false, escaped_fields: false,
        };
        let ast = parse(&Source::new(&text), syntax).unwrap();
        let list = Model::List(l.iter().map(|n| Model::Int(*n)).collect());
        let names = [
            ("n".to_owned(), Ok(Model::Int(n))), ("b".to_owned(), Ok(Model::Bool(b))),
            ("s".to_owned(), Ok(Model::Text("a".to_owned()))), ("l".to_owned(), Ok(list)),
        ];
        let wanted = eval(&ast.root, &names).map(|model| shown(&model));
        let checked = env().compile(&text).unwrap();
        let program = checked.program().unwrap();
        let values = [
            ("n", Val::Int(n)), ("b", Val::Bool(b)), ("s", Val::str("a")),
            ("l", Val::list(l.iter().map(|n| Val::Int(*n)).collect())),
        ];
        let (found, spent) = program.eval(&values, u64::MAX);
        let failed = found.is_err();
        prop_assert_eq!(found.map(|value| show(&value)).map_err(|_| ()), wanted, "{}", text);
        // A limit of exactly the cost changes nothing; a lower limit ends the evaluation.
        prop_assert_eq!(program.eval(&values, spent).0.is_err(), failed);
        if spent > 0 {
            let (short, at) = program.eval(&values, spent - 1);
            prop_assert_eq!(short.err(), Some(crate::EvalError::CostLimitExceeded), "{}", text);
            prop_assert!(at >= spent);
        }
        // Two counts are above their estimates, as in the reference implementation: selections from computed values cost one
        // more, and `startsWith` counts its object, not its argument.
        let is_bounded = !["][", ")[", "startsWith"].iter().any(|part| text.contains(part));
        if !failed && is_bounded {
            prop_assert!(spent <= checked.estimate(&Sizes).max, "{} cost {}", text, spent);
        }
    }
}

/// The sizes of the variables: lists of three elements, strings of one character.
struct Sizes;

impl crate::SizeProvider for Sizes {
    fn size(&self, path: &[std::sync::Arc<str>], _ty: &Type) -> Option<crate::SizeEstimate> {
        match path.iter().map(|part| &**part).collect::<Vec<_>>()[..] {
            ["l"] => Some(crate::SizeEstimate { min: 0, max: 3 }),
            ["s" | "n" | "b"] => Some(crate::SizeEstimate { min: 0, max: 1 }),
            _ => None,
        }
    }
}
