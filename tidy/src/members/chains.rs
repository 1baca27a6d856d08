//! Chains of members that code follows into a value: `spec["template"]["spec"]`, `object.get("spec")?.get("nodeName")`,
//! `object.pointer("/spec/nodeName")`, field paths in texts and in `child("…")`.

use super::table::{Content, Shape, Table, ValueType};
use super::tokens::{Kind, Token, after_brackets, end_of_part};

/// Methods whose first argument is a member.
const METHODS: [&str; 6] = ["contains_key", "entry", "get", "get_mut", "remove", "insert"];

/// Functions whose arguments that are texts name members.
const HELPERS: [&str; 34] = [
    "aggregates",
    "amount",
    "amounts",
    "bound",
    "changed",
    "copy",
    "copy_metadata",
    "default",
    "default_nonzero",
    "differs",
    "each",
    "equal_except",
    "exclusive",
    "field",
    "has_text",
    "immutable",
    "is_filled",
    "is_set",
    "items",
    "judged",
    "make",
    "member",
    "names_of",
    "need",
    "none_negative",
    "pairs",
    "put",
    "set_entry",
    "strings",
    "take",
    "text",
    "text_of",
    "texts",
    "unique_names",
];

/// Methods of a JSON value that lead to the value itself.
const SAME_VALUE: [&str; 5] = ["as_mut", "as_object", "as_object_mut", "as_ref", "cloned"];

/// Words after which a bracket begins a list.
const NO_VALUES: [&str; 9] = ["as", "break", "else", "if", "in", "match", "mut", "return", "while"];

/// First members of field paths in texts.
const PATH_STARTS: [&str; 3] = ["metadata", "spec", "status"];

/// One member of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link<'t> {
    Member(&'t str),
    /// An index in a list, or a member in a variable.
    Variable,
}

/// Members that code names one below the other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chain<'t> {
    pub(super) line: usize,
    pub(super) links: Vec<Link<'t>>,
    /// Whether the chain is a field path, which names members of a list's items directly below the list.
    pub(super) is_path: bool,
}

/// Whether a text can be the name of a member.
pub(super) fn is_name(text: &str) -> bool {
    let word =
        text.strip_prefix("x-kubernetes-").map_or_else(|| text.to_owned(), |rest| rest.replace('-', ""));
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Whether a text is written as only members are: `nodeName`.
pub(super) fn is_camel_case(text: &str) -> bool {
    let has_case =
        text.starts_with(|c: char| c.is_ascii_lowercase()) && text.contains(|c: char| c.is_ascii_uppercase());
    has_case && is_name(text)
}

/// The chains of a file.
pub(super) fn chains<'t>(tokens: &[Token<'t>]) -> Vec<Chain<'t>> {
    let mut found = Vec::new();
    let mut after = 0;
    for (at, token) in tokens.iter().enumerate() {
        if token.kind == Kind::Text {
            found.extend(path_in_text(token));
        }
        if at >= after && (is_index(tokens, at) || method_argument(tokens, at).is_some()) {
            let (links, end) = read_links(tokens, at);
            after = end;
            let first = links.iter().position(|link| *link != Link::Variable).unwrap_or(links.len());
            found.push(Chain { line: token.line, links: links[first..].to_vec(), is_path: false });
        }
        if token.is_sign("[") && !is_index(tokens, at) {
            found.extend(path_in_list(tokens, at));
        }
        found.extend(path_of_children(tokens, at));
        found.extend(helper_arguments(tokens, at));
    }
    found.retain(|chain| !chain.links.is_empty());
    found
}

/// Whether a bracket at `at` indexes a value.
fn is_index(tokens: &[Token<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before]);
    tokens[at].is_sign("[")
        && before.is_some_and(|token| match token.kind {
            Kind::Word => !NO_VALUES.contains(&token.text),
            Kind::Sign => matches!(token.text, ")" | "]" | "?"),
            Kind::Text | Kind::Other => false,
        })
}

/// The text that a method at the dot `at` takes as its first argument.
fn method_argument<'t>(tokens: &[Token<'t>], at: usize) -> Option<(&'t str, Token<'t>)> {
    let [dot, method, open, text, ..] = tokens.get(at..)? else { return None };
    let is_call =
        dot.is_sign(".") && method.kind == Kind::Word && open.is_sign("(") && text.kind == Kind::Text;
    let is_member = METHODS.contains(&method.text) && is_name(text.text);
    let is_pointer = matches!(method.text, "pointer" | "pointer_mut") && text.text.starts_with('/');
    (is_call && (is_member || is_pointer)).then_some((method.text, *text))
}

/// The links of the chain that begins at `at`, and the index after it.
fn read_links<'t>(tokens: &[Token<'t>], mut at: usize) -> (Vec<Link<'t>>, usize) {
    let mut links = Vec::new();
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is_sign("[") {
            let end = after_brackets(tokens, at);
            let member = tokens[at + 1..end].first().filter(|text| end == at + 3 && text.kind == Kind::Text);
            let member = member.filter(|text| is_name(text.text));
            links.push(member.map_or(Link::Variable, |text| Link::Member(text.text)));
            at = end;
        } else if let Some((method, text)) = method_argument(tokens, at) {
            match method {
                "pointer" | "pointer_mut" => links.extend(text.text.split('/').skip(1).map(link)),
                _ => links.push(Link::Member(text.text)),
            }
            at = after_brackets(tokens, at + 2);
        } else if token.is_sign("?") {
            at += 1;
        } else if token.is_sign(".") && tokens.get(at + 1).is_some_and(|name| SAME_VALUE.contains(&name.text))
        {
            at = after_brackets(tokens, at + 2);
        } else {
            break;
        }
    }
    (links, at)
}

/// A part of a path; what cannot be a member is the key of a map or an index.
fn link(part: &str) -> Link<'_> {
    match is_name(part) {
        true => Link::Member(part),
        false => Link::Variable,
    }
}

/// A field path that is a text of its own: `spec.nodeName` or `/spec/nodeName`.
fn path_in_text<'t>(token: &Token<'t>) -> Option<Chain<'t>> {
    let (text, separator) = match token.text.strip_prefix('/') {
        Some(below) => (below, '/'),
        None => (token.text, '.'),
    };
    let parts: Vec<_> = text.split(separator).collect();
    let is_part = |part: &&str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-[]*".contains(c))
    };
    if parts.len() < 2 || !PATH_STARTS.contains(&parts[0]) || !parts.iter().all(is_part) {
        return None;
    }
    let mut links = Vec::new();
    for part in parts {
        let name = part.split('[').next().unwrap_or(part);
        links.push(link(name));
        links.extend((name.len() < part.len()).then_some(Link::Variable));
    }
    // A field path names the items of a list with an index or without one.
    Some(Chain { line: token.line, links, is_path: true })
}

/// A field path that is a list of texts: `["spec", "nodeName"]`. The members that begin a path are siblings, and no path.
fn path_in_list<'t>(tokens: &[Token<'t>], open: usize) -> Option<Chain<'t>> {
    let texts = &tokens[open + 1..after_brackets(tokens, open).saturating_sub(1).max(open + 1)];
    let is_list = texts.iter().enumerate().all(|(at, token)| match at % 2 {
        0 => token.kind == Kind::Text && is_name(token.text),
        _ => token.is_sign(","),
    });
    let links: Vec<_> = texts.iter().step_by(2).map(|token| Link::Member(token.text)).collect();
    let is_path = is_list
        && links.len() > 1
        && PATH_STARTS.contains(&texts[0].text)
        && !texts[1..]
            .iter()
            .any(|text| [PATH_STARTS.as_slice(), &["apiVersion", "kind"]].concat().contains(&text.text));
    is_path.then(|| Chain { line: texts[0].line, links, is_path: true })
}

/// The field path of `Path::new("…")` and of the calls of `child("…")` that follow.
fn path_of_children<'t>(tokens: &[Token<'t>], start: usize) -> Option<Chain<'t>> {
    let is_call = |at: usize, name: &str| {
        let [word, open, text, ..] = tokens.get(at..)? else { return None };
        (word.is_word(name) && open.is_sign("(") && text.kind == Kind::Text).then_some(*text)
    };
    let is_sign = |at: usize, sign: &str| tokens.get(at).is_some_and(|token| token.is_sign(sign));
    let mut links = Vec::new();
    let mut at = start;
    if tokens[start].is_word("Path") && is_sign(start + 1, ":") {
        let text = is_call(start + 3, "new")?;
        links.extend(text.text.split('.').map(link));
        at = after_brackets(tokens, start + 4);
    } else if !is_sign(start, ".") || is_call(start + 1, "child").is_none() || follows_child(tokens, start) {
        return None;
    }
    while is_sign(at, ".") {
        match is_call(at + 1, "child") {
            Some(text) => links.extend(text.text.split('.').map(link)),
            None if tokens.get(at + 1).is_some_and(|word| matches!(word.text, "index" | "key")) => {
                links.push(Link::Variable);
            }
            None => break,
        }
        at = after_brackets(tokens, at + 2);
    }
    Some(Chain { line: tokens[start].line, links, is_path: true })
}

/// The members that the call of a helper at `at` names, each a chain of its own.
fn helper_arguments<'t>(tokens: &[Token<'t>], at: usize) -> Vec<Chain<'t>> {
    let is_call = tokens[at].kind == Kind::Word
        && HELPERS.contains(&tokens[at].text)
        && tokens.get(at + 1).is_some_and(|open| open.is_sign("("))
        && !at
            .checked_sub(1)
            .is_some_and(|before| tokens[before].is_word("fn") || tokens[before].is_sign("."));
    let mut found = Vec::new();
    let mut start = at + 2;
    while is_call && start < tokens.len() {
        let end = end_of_part(tokens, start);
        // A capital begins a value, or the head of a column.
        let is_member = |text: &str| is_name(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
        if end == start + 1 && tokens[start].kind == Kind::Text && is_member(tokens[start].text) {
            let links = vec![Link::Member(tokens[start].text)];
            found.push(Chain { line: tokens[start].line, links, is_path: false });
        }
        if !tokens.get(end).is_some_and(|token| token.is_sign(",")) {
            break;
        }
        start = end + 1;
    }
    found
}

/// Whether the dot at `at` stands behind a call that belongs to the same path.
fn follows_child(tokens: &[Token<'_>], at: usize) -> bool {
    let before =
        (0..at).rev().find(|before| after_brackets(tokens, *before) == at && tokens[*before].is_sign("("));
    let name = before.and_then(|open| open.checked_sub(1)).map(|name| tokens[name].text);
    matches!(name, Some("child" | "index" | "key" | "new"))
}

/// How many links of a chain exist in the types; all, if the chain is right.
pub(super) fn existing(table: &Table, visible: &[usize], chain: &Chain<'_>) -> usize {
    let mut current: Vec<ValueType> = visible.iter().map(|at| ValueType::one(Content::Struct(*at))).collect();
    for (at, link) in chain.links.iter().enumerate() {
        let mut next = Vec::new();
        for value in current {
            follow(table, value, *link, chain.is_path, &mut next);
        }
        next.sort_unstable();
        next.dedup();
        if next.is_empty() {
            return at;
        }
        current = next;
    }
    chain.links.len()
}

/// Adds the types that a link leads to.
fn follow(table: &Table, value: ValueType, link: Link<'_>, is_path: bool, next: &mut Vec<ValueType>) {
    let one = ValueType::one(value.content);
    match (value.shape, value.content, link) {
        (Shape::One, Content::Any, _) => next.push(ValueType::ANY),
        (Shape::Map, _, _) | (Shape::List, _, Link::Variable) => next.push(one),
        (Shape::List, _, Link::Member(_)) if is_path => follow(table, one, link, false, next),
        (Shape::List, _, Link::Member(_)) | (Shape::One, Content::Scalar, _) => {}
        (Shape::One, Content::Struct(id), Link::Member(name)) => {
            next.extend(table.types[id].fields.get(name));
        }
        (Shape::One, Content::Struct(id), Link::Variable) => next.extend(table.types[id].fields.values()),
    }
}
