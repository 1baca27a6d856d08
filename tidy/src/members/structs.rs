//! Types that serde reads from objects or writes to them: the members that their fields stand for.

use super::table::{Content, Shape, Table};
use super::tokens::{Kind, Token, after_brackets, end_of_part};
use std::collections::{BTreeMap, BTreeSet};

/// Types that stand for what is in them.
const WRAPPERS: [&str; 9] = ["Arc", "BTreeMap", "Box", "Cow", "HashMap", "IndexMap", "Option", "Rc", "Vec"];

/// A member of a [`Struct`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The name in JSON; empty for a flattened field, whose members are those of its type.
    pub(super) name: String,
    /// The last name of the field's type, inside lists and options; empty if the field has its own decoder.
    pub(super) ty: String,
    pub(super) line: usize,
}

/// A struct with named fields that serde reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) members: Vec<Member>,
}

/// What attributes of serde say of a struct or a field.
#[derive(Default)]
struct Attributes {
    is_serde: bool,
    case: Case,
    is_skipped: bool,
    is_flat: bool,
    is_with: bool,
    rename: Option<String>,
    /// The type from which a struct is made.
    from: Option<String>,
}

/// How the names of fields are written in JSON.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Case {
    /// As in the source.
    #[default]
    Own,
    Camel,
    Kebab,
}

impl Attributes {
    /// Reads the attributes before `at`, and returns the index after them.
    fn read(tokens: &[Token<'_>], mut at: usize) -> (Self, usize) {
        let mut attributes = Self::default();
        while tokens.get(at).is_some_and(|token| token.is_sign("#")) {
            let end = after_brackets(tokens, at + 1);
            attributes.add(&tokens[at..end]);
            at = end;
        }
        (attributes, at)
    }

    fn add(&mut self, tokens: &[Token<'_>]) {
        let has = |word: &str| tokens.iter().any(|token| token.is_word(word));
        self.is_serde |= has("derive") && (has("Deserialize") || has("Serialize"));
        if !has("serde") {
            return;
        }
        self.is_skipped |= has("skip");
        self.is_flat |= has("flatten");
        self.is_with |= has("deserialize_with") || has("serialize_with") || has("with");
        let value = |name: &str| {
            let at = tokens.iter().position(|token| token.is_word(name))?;
            tokens[at..].iter().find(|token| token.kind == Kind::Text).map(|token| token.text.to_owned())
        };
        match value("rename_all").as_deref() {
            Some("camelCase") => self.case = Case::Camel,
            Some("kebab-case") => self.case = Case::Kebab,
            _ => {}
        }
        self.rename = value("rename").or(self.rename.take());
        self.from = value("from").or(value("try_from")).or(self.from.take());
    }
}

/// The structs of a file.
pub(super) fn structs(tokens: &[Token<'_>]) -> Vec<Struct> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at].is_sign("#") {
            at += 1;
            continue;
        }
        let (attributes, after) = Attributes::read(tokens, at);
        at = after.max(at + 1);
        let start = after_visibility(tokens, after);
        if attributes.is_serde && tokens.get(start).is_some_and(|token| token.is_word("struct")) {
            found.extend(read_struct(tokens, start + 1, &attributes));
        }
    }
    found
}

fn after_visibility(tokens: &[Token<'_>], at: usize) -> usize {
    let is_public = tokens.get(at).is_some_and(|token| token.is_word("pub"));
    match tokens.get(at + 1) {
        Some(open) if is_public && open.is_sign("(") => after_brackets(tokens, at + 1),
        _ if is_public => at + 1,
        _ => at,
    }
}

/// The struct whose name is at `at`; none for a tuple.
fn read_struct(tokens: &[Token<'_>], at: usize, attributes: &Attributes) -> Option<Struct> {
    let name = tokens.get(at)?;
    let is_end = |token: &Token<'_>| token.is_sign("{") || token.is_sign("(") || token.is_sign(";");
    let open = at + tokens[at..].iter().position(is_end)?;
    if !tokens[open].is_sign("{") {
        return None;
    }
    if let Some(from) = &attributes.from {
        let ty = from.rsplit("::").next().unwrap_or(from).to_owned();
        let members = vec![Member { name: String::new(), ty, line: name.line }];
        return Some(Struct { name: name.text.to_owned(), line: name.line, members });
    }
    let mut members = Vec::new();
    let mut field = open + 1;
    while field < tokens.len() && !tokens[field].is_sign("}") {
        let (own, after) = Attributes::read(tokens, field);
        let start = after_visibility(tokens, after);
        let end = end_of_type(tokens, start);
        let own_name = tokens.get(start)?;
        if !own.is_skipped {
            let name = match own.is_flat {
                true => String::new(),
                false => own.rename.unwrap_or_else(|| in_json(own_name.text, attributes.case)),
            };
            let ty = if own.is_with { "" } else { inner_type(&tokens[(start + 2).min(end)..end]) };
            members.push(Member { name, ty: ty.to_owned(), line: own_name.line });
        }
        if !tokens.get(end).is_some_and(|token| token.is_sign(",")) {
            break;
        }
        field = end + 1;
    }
    Some(Struct { name: name.text.to_owned(), line: name.line, members })
}

/// The index of the comma after a field, or of the bracket that closes the fields: commas between `<` and `>` are none.
fn end_of_type(tokens: &[Token<'_>], start: usize) -> usize {
    let (mut at, mut angles) = (start, 0_i32);
    loop {
        let end = end_of_part(tokens, at);
        for (index, token) in tokens.iter().enumerate().take(end).skip(at) {
            let is_arrow = index > 0 && tokens[index - 1].is_sign("-");
            angles += i32::from(token.is_sign("<")) - i32::from(token.is_sign(">") && !is_arrow);
        }
        if angles <= 0 || !tokens.get(end).is_some_and(|token| token.is_sign(",")) {
            return end;
        }
        at = end + 1;
    }
}

/// The last name of the type inside wrappers: `Container` of `Option<Vec<Container>>`.
fn inner_type<'t>(tokens: &[Token<'t>]) -> &'t str {
    let words = tokens.iter().filter(|token| token.kind == Kind::Word && token.text != "dyn");
    let last = words.clone().next_back().map_or("", |token| token.text);
    // A generic type of ours says nothing of the member's type.
    let is_plain = words.rev().skip(1).all(|token| {
        let is_path = token.text.starts_with(|c: char| c.is_lowercase());
        is_path || WRAPPERS.contains(&token.text) || token.text == "String"
    });
    if is_plain { last } else { "" }
}

/// The name of a field in JSON.
fn in_json(field: &str, case: Case) -> String {
    let field = field.strip_prefix("r#").unwrap_or(field);
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    match case {
        Case::Own => field.to_owned(),
        Case::Kebab => field.replace('_', "-"),
        Case::Camel => words.fold(first, |name, word| {
            let (head, tail) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
            name + &head.to_uppercase() + tail
        }),
    }
}

/// The structs of a crate that no type of the table fits, as file, struct and the member that is wrong.
pub(super) fn misfits<'s>(
    table: &Table,
    structs: &'s [(String, Vec<usize>, Struct)],
) -> Vec<(&'s str, &'s Struct, &'s Member)> {
    let mut candidates: Vec<BTreeSet<usize>> = Vec::new();
    for (_, visible, own) in structs {
        let has = |at: &&usize, member: &Member| table.types[**at].fields.contains_key(&member.name);
        // What is no name of a member is the key of a map: an annotation or a label.
        let is_key = |member: &Member| member.name.contains(['/', '.']) || member.name.is_empty();
        let fits = |at: &&usize| own.members.iter().all(|member| is_key(member) || has(at, member));
        let named = visible
            .iter()
            .copied()
            .filter(|at| table.types[*at].parts.is_empty() || table.types[*at].name == own.name);
        candidates.push(named.filter(|at| fits(&at)).collect());
    }
    let mut wrong: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, (_, visible, own)) in structs.iter().enumerate() {
        if candidates[at].is_empty() {
            wrong.insert(at, furthest(table, visible, own));
        }
    }
    // A type stays as long as the members of its structs fit too.
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for (at, (file, _, own)) in structs.iter().enumerate() {
            for (number, member) in own.members.iter().enumerate() {
                let Some(below) = find(structs, file, &member.ty) else { continue };
                let below = candidates[below].clone();
                if below.is_empty() {
                    continue;
                }
                let before = candidates[at].len();
                candidates[at].retain(|ty| member_fits(table, *ty, member, &below));
                is_changed |= candidates[at].len() < before;
                if before > 0 && candidates[at].is_empty() {
                    wrong.entry(at).or_insert(number);
                }
            }
        }
    }
    wrong
        .into_iter()
        .map(|(at, member)| (structs[at].0.as_str(), &structs[at].2, &structs[at].2.members[member]))
        .collect()
}

/// Whether a member of a type can be a struct with these candidates.
fn member_fits(table: &Table, ty: usize, member: &Member, below: &BTreeSet<usize>) -> bool {
    if member.name.is_empty() {
        return below.contains(&ty);
    }
    table.types[ty].fields.get(&member.name).is_some_and(|field| match field.content {
        Content::Any => true,
        Content::Scalar => field.shape == Shape::Map,
        Content::Struct(id) => below.iter().any(|at| *at == id || table.types[*at].parts.contains(&id)),
    })
}

/// The struct of a name: that of the file, or the only one of the crate.
fn find(structs: &[(String, Vec<usize>, Struct)], file: &str, name: &str) -> Option<usize> {
    let all: Vec<_> = (0..structs.len()).filter(|at| structs[*at].2.name == name).collect();
    let own: Vec<_> = all.iter().copied().filter(|at| structs[*at].0 == file).collect();
    match (own.as_slice(), all.as_slice()) {
        ([only], _) | ([], [only]) => Some(*only),
        _ => None,
    }
}

/// The first member that the best type lacks.
fn furthest(table: &Table, visible: &[usize], own: &Struct) -> usize {
    let lacks = |at: &usize, member: &Member| {
        !member.name.is_empty() && !table.types[*at].fields.contains_key(&member.name)
    };
    let missing = |at: &usize| own.members.iter().filter(|member| lacks(at, member)).count();
    let best = visible.iter().min_by_key(|at| missing(at));
    best.and_then(|at| own.members.iter().position(|member| lacks(at, member))).unwrap_or(0)
}
