//! Documentation of a public item does not link to a private one of its file: rustdoc refuses it, and the gate makes the pages of a
//! quarter of the crates only.

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "private-links",
    summary: "documentation of a public item links to no private item of its file",
    check,
};

/// Fewest links that the rule must recognize.
const FEWEST: usize = 200;

/// Words that begin an item, after its visibility.
const ITEMS: [&str; 9] = ["async", "unsafe", "fn", "const", "static", "struct", "enum", "trait", "type"];

fn check(tree: &Tree) -> Vec<Offence> {
    let mut count = 0;
    let mut offences = Vec::new();
    for file in tree.sources().filter(|file| !file.is_test()) {
        let (private, public) = names(file);
        for (line, name) in links(file, &private) {
            count += 1;
            if private.contains(&name) && !public.contains(&name) {
                let text = format!("the private `{name}` has no page: say what it is, without brackets");
                offences.push(Offence::new(&file.path, line, text));
            }
        }
    }
    offences.extend(Offence::if_fewer(count, FEWEST, "links"));
    offences
}

/// The names of the private and of the public items of a file, without those inside others.
fn names(file: &File) -> (Vec<&str>, Vec<&str>) {
    let items = file.lines().filter_map(|(_, line)| {
        let plain = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let name = plain.split(' ').find(|word| !ITEMS.contains(word))?;
        let is_item = ITEMS.contains(&plain.split(' ').next()?);
        is_item.then(|| (line.starts_with("pub "), identifier(name)))
    });
    let (public, private): (Vec<_>, Vec<_>) = items.partition(|(is_public, _)| *is_public);
    let only = |items: Vec<(bool, _)>| items.into_iter().map(|(_, name)| name).collect();
    (only(private), only(public))
}

/// The names to which the documentation of public items links, with their lines. Members of `private` types are not public.
fn links<'a>(file: &'a File, private: &[&str]) -> Vec<(usize, &'a str)> {
    let (mut waiting, mut found, mut is_shown) = (Vec::new(), Vec::new(), true);
    for (number, line) in (1..).zip(file.code().lines()) {
        if line.starts_with(|c: char| c.is_ascii_lowercase()) {
            let owner = line.trim_end_matches('{').trim_end().rsplit(' ').next().unwrap_or_default();
            is_shown = match line.starts_with("impl") {
                true => !private.contains(&identifier(owner)),
                false => line.starts_with("pub "),
            };
        }
        let line = line.trim_start();
        if line.starts_with("///") {
            waiting.extend(linked(line).map(|name| (number, name)));
        } else if !line.starts_with("#[") {
            match line.starts_with("pub ") && is_shown {
                true => found.append(&mut waiting),
                false => waiting.clear(),
            }
        }
    }
    found
}

/// The names between ``[` `` and `` `] `` in a line, but for those with a path or a target of their own.
fn linked(line: &str) -> impl Iterator<Item = &str> {
    line.split("[`").skip(1).filter_map(|rest| {
        let (name, after) = rest.split_once("`]")?;
        let name = name.strip_suffix("()").unwrap_or(name);
        (identifier(name) == name && !after.starts_with(['(', '[', ':'])).then_some(name)
    })
}

/// The letters, digits and underscores with which a text begins.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_private_item_is_found_in_the_documentation_of_a_public_one_alone() {
        let text = "\
//! A.
const LEAST: u64 = 32;
pub(crate) async fn inner<T>() {}
pub struct Shown;
/// At least [`LEAST`], as [`inner()`] and [`Shown`] and [`Other`] have it. [`LEAST`](crate::MOST)
#[derive(Clone)]
pub struct One {
    /// See [`LEAST`].
    hidden: u8,
    /// See [`LEAST`].
    pub shown: u8,
}
/// See [`LEAST`].
fn private() {}
struct Hidden {
    /// See [`LEAST`].
    pub shown: u8,
}
impl<T> Hidden {
    /// See [`LEAST`].
    pub fn shown() {}
}
";
        let expected = ["a/src/x.rs:5: LEAST", "a/src/x.rs:5: inner", "a/src/x.rs:10: LEAST"];
        let found = crate::rules::offences_of(RULE, [("a/src/x.rs", text)]);
        let shown = |text: &String| {
            let (place, name) = text.split_once(": the private `").unwrap();
            format!("{place}: {}", name.split('`').next().unwrap())
        };
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
    }
}
