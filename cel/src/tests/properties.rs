//! Properties: printing and parsing are inverse, and no input makes a stage panic.

use super::fixture::{document, env, shape};
use crate::Shape;
use crate::ast::{Expr, ExprKind, Literal};
use crate::parse::{Syntax, operator, parse};
use crate::source::Source;
use proptest::prelude::*;
use std::sync::Arc;

/// Syntax without macros, so that a printed tree has the calls that were parsed.
const SYNTAX: Syntax = Syntax {
    macros: false,
    optional: true,
    two_variables: false,
    sort_by: false,
    bind: false,
    escaped_fields: true,
};

/// Prints a tree with every operator in parentheses.
fn print(expr: &Expr) -> String {
    let list = |items: &[Expr]| items.iter().map(print).collect::<Vec<_>>().join(", ");
    match &expr.kind {
        ExprKind::Error | ExprKind::Comprehension(_) => "?".to_owned(),
        ExprKind::Literal(literal) => print_literal(literal),
        ExprKind::Ident(name) => name.to_string(),
        ExprKind::Select(select) => format!("{}.`{}`", print(&select.operand), select.field),
        ExprKind::List(list) => {
            let mark = |optional: &bool| if *optional { "?" } else { "" };
            let items = list.elements.iter().zip(&list.optional);
            let items: Vec<_> =
                items.map(|(item, optional)| mark(optional).to_owned() + &print(item)).collect();
            format!("[{}]", items.join(", "))
        }
        ExprKind::Map(entries) => {
            let entry = |e: &crate::ast::MapEntry| {
                format!("{}{}: {}", if e.optional { "?" } else { "" }, print(&e.key), print(&e.value))
            };
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        ExprKind::Struct(literal) => {
            let field = |f: &crate::ast::FieldInit| {
                format!("{}{}: {}", if f.optional { "?" } else { "" }, f.name, print(&f.value))
            };
            let fields: Vec<_> = literal.fields.iter().map(field).collect();
            format!("{}{{{}}}", literal.type_name, fields.join(", "))
        }
        ExprKind::Call(call) => match (&*call.function, &call.target, &call.args[..]) {
            (function, Some(target), args) => format!("{}.{function}({})", print(target), list(args)),
            (operator::CONDITIONAL, _, [a, b, c]) => format!("({} ? {} : {})", print(a), print(b), print(c)),
            (operator::INDEX, _, [a, b]) => format!("{}[{}]", print(a), print(b)),
            (operator::OPT_INDEX, _, [a, b]) => format!("{}[?{}]", print(a), print(b)),
            (operator::OPT_SELECT, _, [a, Expr { kind: ExprKind::Literal(Literal::String(field)), .. }]) => {
                format!("{}.?`{field}`", print(a))
            }
            (operator::NOT, _, [a]) => format!("(!{})", print(a)),
            (operator::NEGATE, _, [a]) => format!("(-({}))", print(a)),
            (operator::IN, _, [a, b]) => format!("({} in {})", print(a), print(b)),
            (function, _, [a, b]) if function.starts_with('_') => {
                format!("({} {} {})", print(a), function.trim_matches('_'), print(b))
            }
            (function, _, args) => format!("{function}({})", list(args)),
        },
    }
}

fn print_literal(literal: &Literal) -> String {
    match literal {
        Literal::Null => "null".to_owned(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::Uint(value) => format!("{value}u"),
        Literal::Double(value) => format!("{value:?}"),
        Literal::String(text) => {
            format!("'{}'", text.chars().map(|c| format!("\\U{:08x}", c as u32)).collect::<String>())
        }
        Literal::Bytes(bytes) => {
            format!("b'{}'", bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>())
        }
    }
}

/// Parses a text; all nodes get the number 0.
fn bare(text: &str) -> Result<Expr, crate::Errors> {
    parse(&Source::new(text), SYNTAX).map(|ast| ast.root.renumbered(&mut |_| 0))
}

fn texts() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[a-d]",
        "[0-9]{1,3}",
        "-[0-9]{1,3}",
        "[0-9]{1,3}u",
        "[0-9]\\.[0-9]e[0-9]",
        "'[a-z é]{0,4}'",
        "b'[a-z]{0,3}'",
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just(".x".to_owned()),
        Just("r\"\\d\"".to_owned()),
    ];
    leaf.prop_recursive(5, 64, 3, |inner| {
        (inner.clone(), inner.clone(), inner, 0usize..22).prop_map(|(a, b, c, pick)| match pick {
            0 => format!("({a}) + {b}"),
            1 => format!("{a} - ({b})"),
            2 => format!("({a}) * ({b})"),
            3 => format!("{a} == ({b})"),
            4 => format!("({a}) && ({b}) && {c}"),
            5 => format!("{a} || {b} || {c}"),
            6 => format!("({a}) ? ({b}) : {c}"),
            7 => format!("!({a})"),
            8 => format!("-({a})"),
            9 => format!("({a}).f"),
            10 => format!("({a}).?f"),
            11 => format!("({a})[{b}]"),
            12 => format!("({a})[?{b}]"),
            13 => format!("({a}).g({b}, {c})"),
            14 => format!("g({a}, {b})"),
            15 => format!("[{a}, ?{b}, {c},]"),
            16 => format!("{{{a}: {b}, ?{b}: {c}}}"),
            17 => format!("T.U{{x: {a}, ?y: {b}}}"),
            18 => format!("{a} in ({b})"),
            19 => format!("{a} < {b} // comment\n"),
            20 => format!("({a}).all(x, {b})"),
            _ => format!("({a})\n  .`x-y`"),
        })
    })
}

/// Fragments of expressions in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("self"),
        Just(".items"),
        Just(".all(x, "),
        Just(".map("),
        Just("("),
        Just(")"),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just("'a'"),
        Just("\""),
        Just("1"),
        Just("2u"),
        Just("1.5"),
        Just(" + "),
        Just(" - "),
        Just("!"),
        Just("?"),
        Just(":"),
        Just(","),
        Just("."),
        Just(".?"),
        Just("in"),
        Just("x"),
        Just("&&"),
        Just("|"),
        Just("=="),
        Just("true"),
        Just("null"),
        Just(".size()"),
        Just("`"),
        Just("\\"),
        Just("é"),
        Just("😁"),
        Just("//"),
        Just("\n"),
        Just("has("),
        Just("dyn("),
        Just("optional.none()"),
        Just(".sortBy(e, e)"),
        Just("duration('1s')"),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Compiles, estimates and evaluates a text, until a stage fails.
fn through_all_stages(text: &str) {
    let Ok(checked) = env().compile(text) else { return };
    let estimate = checked.estimate(&super::fixture::Schema(shape()));
    assert!(estimate.min <= estimate.max || estimate.max == 0);
    let Ok(program) = checked.program() else { return };
    let (document, shape) = (document(), Shape::Object(Arc::new(shape())));
    let value = shape.value(&document).unwrap();
    let _ = program.eval(&[("self", value)], 100_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_tree_parses_to_the_same_tree(text in texts()) {
        let Ok(tree) = bare(&text) else { return Ok(()) };
        let printed = print(&tree);
        let again = bare(&printed);
        prop_assert_eq!(Ok(&tree), again.as_ref(), "{} printed as {}", text, printed);
    }

    #[test]
    fn arbitrary_text_makes_no_stage_panic(text in "\\PC{0,40}") {
        through_all_stages(&text);
    }

    #[test]
    fn fragments_in_any_order_make_no_stage_panic(text in pieces()) {
        through_all_stages(&text);
    }

    #[test]
    fn arbitrary_patterns_make_no_panic(text in "[a-z0-9\\\\\\[\\]{},()^$*+?|.&~:-]{0,16}") {
        let _ = crate::library::pattern::compile(&text);
    }

    #[test]
    fn formatted_timestamps_parse_to_the_same_value(seconds in -62_135_596_800i64..253_402_207_200) {
        use crate::value::time::{format_timestamp, parse_timestamp, timestamp};
        let at = timestamp(i128::from(seconds) * 1_000_000_000).unwrap();
        prop_assert_eq!(parse_timestamp(&format_timestamp(at)), Some(at));
    }
}
