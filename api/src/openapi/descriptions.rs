//! Descriptions of types and members, as Kubernetes publishes them. Only documents use them, so a file is read when
//! the first document refers to its package. `examples/openapi_descriptions.rs` writes the files.
//!
//! # Notation of `schema/*.txt`
//!
//! ```text
//! @ io.k8s.api.apps.v1            OpenAPI prefix of the types after it
//! Deployment Enables declarative updates.     a type with its description
//!   spec The wanted state.        a member (two spaces) with its description
//!   metadata $metadata            the text after `$metadata` in shared.txt, which several members have
//! ```
//!
//! A backslash begins an escape: `\n` is the end of a line, `\t` a tab, `\\` a backslash, `\$` a dollar sign at the
//! beginning, and `\s` a space at the beginning or end.

use crate::schema::FILES;
use std::collections::BTreeMap;

/// Descriptions of types that are in no table: of scalars, and of what is part of no object.
static UNLISTED: &str = include_str!("../../schema/unlisted.txt");
/// Texts that several members have.
static SHARED: &str = include_str!("../../schema/shared.txt");

/// Lines of the types of one package, by type. The first line of a type is its own description.
type Package = BTreeMap<&'static str, Vec<&'static str>>;

/// Descriptions of the packages that one document needs.
pub(super) struct Descriptions {
    shared: BTreeMap<&'static str, &'static str>,
    /// Packages read so far, by OpenAPI prefix.
    packages: BTreeMap<String, Package>,
}

/// Descriptions of one type and its members.
#[derive(Default)]
pub(super) struct TypeDescriptions<'d> {
    shared: Option<&'d BTreeMap<&'static str, &'static str>>,
    lines: &'d [&'static str],
}

impl Descriptions {
    /// The descriptions, of which no package is read yet.
    pub(super) fn new() -> Self {
        let shared = SHARED.lines().filter_map(|line| line.strip_prefix('$')?.split_once(' '));
        Self { shared: shared.collect(), packages: BTreeMap::new() }
    }

    /// Descriptions of a type, by its OpenAPI name. Types without published descriptions have none.
    pub(super) fn of(&mut self, openapi_name: &str) -> TypeDescriptions<'_> {
        let Some((prefix, name)) = openapi_name.rsplit_once('.') else { return TypeDescriptions::default() };
        if !self.packages.contains_key(prefix) {
            self.packages.insert(prefix.to_owned(), package(prefix));
        }
        let lines = self.packages.get(prefix).and_then(|types| types.get(name));
        TypeDescriptions { shared: Some(&self.shared), lines: lines.map_or(&[], Vec::as_slice) }
    }
}

impl TypeDescriptions<'_> {
    /// Description of the type.
    pub(super) fn text(&self) -> Option<String> {
        self.lines.first().filter(|text| !text.is_empty()).map(|text| self.decoded(text))
    }

    /// Description of a member.
    pub(super) fn member(&self, name: &str) -> Option<String> {
        let of_member = |line: &&'static str| line.strip_prefix(name)?.strip_prefix(' ');
        self.lines.iter().skip(1).find_map(of_member).map(|text| self.decoded(text))
    }

    /// The text that a line stands for. A wrong name or escape is a bug of this crate and shows in the document; a
    /// test reads all of it.
    fn decoded(&self, text: &'static str) -> String {
        let shared = text.strip_prefix('$').and_then(|name| self.shared?.get(name).copied());
        unescaped(shared.unwrap_or(text))
    }
}

/// Reads the lines of a package: those of its own file, and of its types that are in no table.
fn package(prefix: &str) -> Package {
    let of_prefix =
        |text: &&'static str| text.lines().find_map(|line| line.strip_prefix("@ ")) == Some(prefix);
    let own = FILES.iter().map(|file| file.descriptions).find(of_prefix);
    let head = format!("@ {prefix}");
    let sections = own.into_iter().chain([UNLISTED]).flat_map(|text| {
        let lines = text.lines().skip_while(|line| *line != head).skip(1);
        lines.take_while(|line| !line.starts_with("@ "))
    });
    let (mut types, mut name) = (Package::new(), "");
    for line in sections {
        let text = line.strip_prefix("  ").unwrap_or_else(|| {
            let (own, text) = line.split_once(' ').unwrap_or((line, ""));
            name = own;
            text
        });
        types.entry(name).or_default().push(text);
    }
    types
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('s') => ' ',
                Some('t') => '\t',
                other => other.unwrap_or('\\'),
            },
            letter => letter,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// Lines of all files: the package, the type and what follows.
    fn lines() -> Vec<(&'static str, &'static str, &'static str)> {
        let (mut prefix, mut ty, mut out) = ("", "", Vec::new());
        for line in FILES.iter().map(|file| file.descriptions).chain([UNLISTED]).flat_map(str::lines) {
            match line.strip_prefix("@ ") {
                _ if line.starts_with('#') => {}
                Some(head) => prefix = head,
                None if line.starts_with("  ") => out.push((prefix, ty, line.trim_start())),
                None => {
                    ty = line.split(' ').next().unwrap();
                    out.push((prefix, ty, line.split_once(' ').map_or("", |(_, text)| text)));
                }
            }
        }
        out
    }

    #[test]
    fn escapes_stand_for_the_letters_that_a_line_cannot_have() {
        assert_eq!(unescaped(r"a\nb\tc\\\s"), "a\nb\tc\\ ");
        assert_eq!(unescaped(r"\$a\s"), "$a ");
        assert_eq!(unescaped("plain: 50 % < 1"), "plain: 50 % < 1");
    }

    #[test]
    fn every_description_is_of_a_type_or_member_of_the_field_table() {
        let members = lines();
        assert!(members.len() > 2500, "{} descriptions", members.len());
        for (prefix, ty, text) in members {
            let Some(found) = schema::lookup(&format!("{prefix}.{ty}")) else {
                assert!(UNLISTED.contains(&format!("\n{ty}")), "no type {prefix}.{ty}");
                continue;
            };
            let mut all = Descriptions::new();
            let texts = all.of(&format!("{prefix}.{ty}"));
            let name = text.split(' ').next().unwrap();
            let is_own = texts.lines[0] == text;
            assert!(is_own || found.field(name).is_some(), "no member {prefix}.{ty}.{name}");
        }
    }

    #[test]
    fn shared_texts_have_a_name_and_are_used() {
        let Descriptions { shared, .. } = Descriptions::new();
        let mut unused: Vec<&str> = shared.keys().copied().collect();
        for (prefix, ty, text) in lines() {
            let text = text
                .split_once(' ')
                .map_or(text, |(_, rest)| if rest.starts_with('$') { rest } else { text });
            if let Some(name) = text.strip_prefix('$') {
                assert!(shared.contains_key(name), "no shared text {name} for {prefix}.{ty}");
                unused.retain(|unused| *unused != name);
            }
        }
        assert_eq!(unused, [""; 0]);
    }
}
