//! Objects that code writes as `json!({ … })`.

use super::chains::is_name;
use super::table::{Content, Shape, Table, ValueType};
use super::tokens::{Kind, Token, after_brackets, end_of_part};

/// Deepest nesting of a literal object.
const MAX_DEPTH: usize = 32;

/// A JSON value as code writes it.
#[derive(Debug)]
pub(super) enum Literal<'t> {
    Object(Vec<(Token<'t>, Literal<'t>)>),
    List(Vec<Literal<'t>>),
    /// An expression, whose value is not known.
    Expression,
}

/// The values of the calls of `json!` in a file, without those inside others, which are parts of expressions.
pub(super) fn literals<'t>(tokens: &[Token<'t>]) -> Vec<Literal<'t>> {
    let is_call = |at: &usize| {
        let after = tokens.get(at + 1..at + 3);
        tokens[*at].is_word("json")
            && after.is_some_and(|after| after[0].is_sign("!") && after[1].is_sign("("))
    };
    (0..tokens.len()).filter(is_call).map(|at| read(tokens, at + 3, 0)).collect()
}

fn read<'t>(tokens: &[Token<'t>], at: usize, depth: usize) -> Literal<'t> {
    let Some(first) = tokens.get(at).filter(|_| depth < MAX_DEPTH) else { return Literal::Expression };
    // `{ … }.x` or `[…][0]` is an expression.
    let is_whole = || {
        let end = tokens.get(after_brackets(tokens, at));
        end.is_none_or(|token| token.kind == Kind::Sign && matches!(token.text, "," | ")" | "]" | "}"))
    };
    match first.kind {
        Kind::Sign if first.text == "{" && is_whole() => Literal::Object(read_members(tokens, at + 1, depth)),
        Kind::Sign if first.text == "[" && is_whole() => Literal::List(read_items(tokens, at + 1, depth)),
        _ => Literal::Expression,
    }
}

fn read_members<'t>(tokens: &[Token<'t>], mut at: usize, depth: usize) -> Vec<(Token<'t>, Literal<'t>)> {
    let mut members = Vec::new();
    while let [key, colon, ..] = &tokens[at.min(tokens.len())..] {
        if key.kind == Kind::Text && colon.is_sign(":") && is_name(key.text) {
            members.push((*key, read(tokens, at + 2, depth + 1)));
        }
        let end = end_of_part(tokens, at);
        if !tokens.get(end).is_some_and(|token| token.is_sign(",")) {
            break;
        }
        at = end + 1;
    }
    members
}

fn read_items<'t>(tokens: &[Token<'t>], mut at: usize, depth: usize) -> Vec<Literal<'t>> {
    let mut items = Vec::new();
    while at < tokens.len() && !tokens[at].is_sign("]") {
        items.push(read(tokens, at, depth + 1));
        at = end_of_part(tokens, at) + 1;
        if tokens.get(at - 1).is_some_and(|token| token.is_sign("]")) {
            break;
        }
    }
    items
}

/// The member of a literal that no type has, if none fits: that of the type which fits furthest.
pub(super) fn wrong_member<'t>(table: &Table, visible: &[usize], literal: &Literal<'t>) -> Option<Token<'t>> {
    match literal {
        Literal::Expression => None,
        Literal::List(items) => items.iter().find_map(|item| wrong_member(table, visible, item)),
        Literal::Object(_) => {
            let values = visible.iter().map(|at| ValueType::one(Content::Struct(*at)));
            let mut furthest: Option<Token<'t>> = None;
            for value in values {
                let wrong = misfit(table, value, literal, 0)?;
                let is_further =
                    |best: Token<'t>| (wrong.line, wrong.text.as_ptr()) > (best.line, best.text.as_ptr());
                if furthest.is_none_or(is_further) {
                    furthest = Some(wrong);
                }
            }
            furthest
        }
    }
}

/// The first member of a literal that a value of this type has not.
fn misfit<'t>(table: &Table, value: ValueType, literal: &Literal<'t>, depth: usize) -> Option<Token<'t>> {
    let one = ValueType::one(value.content);
    match (literal, value.shape, value.content) {
        (Literal::Object(members), Shape::One, Content::Struct(id)) => {
            members.iter().find_map(|(name, below)| match table.types[id].fields.get(name.text) {
                Some(field) if depth < MAX_DEPTH => misfit(table, *field, below, depth + 1),
                Some(_) => None,
                None => Some(*name),
            })
        }
        (Literal::Object(members), Shape::Map, _) => {
            members.iter().find_map(|(_, below)| misfit(table, one, below, depth + 1))
        }
        (Literal::Object(members), _, Content::Scalar) | (Literal::Object(members), Shape::List, _) => {
            members.first().map(|(name, _)| *name)
        }
        (Literal::List(items), Shape::List, _) => {
            items.iter().find_map(|item| misfit(table, one, item, depth + 1))
        }
        (Literal::Object(_), _, Content::Any) | (Literal::List(_) | Literal::Expression, _, _) => None,
    }
}
