//! Descriptions of types and members, as Kubernetes publishes them. The build script collects them from `k8s-openapi`.
//! Only documents use them, so a package is read when the first document refers to it.
//!
//! # Notation
//!
//! ```text
//! @ io.k8s.api.apps.v1            OpenAPI prefix of the types after it
//! Deployment Enables declarative updates.     a type with its description
//!   spec The wanted state.        a member (two spaces) with its description
//! ```
//!
//! A backslash begins an escape: `\n` is the end of a line, `\t` a tab, `\\` a backslash, and `\s` a space at the
//! beginning or end.

use std::collections::BTreeMap;

static TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/descriptions.txt"));

/// Lines of the types of one package, by type. The first line of a type is its own description.
type Package = BTreeMap<&'static str, Vec<&'static str>>;

/// Descriptions of the packages that one document needs.
#[derive(Default)]
pub(super) struct Descriptions {
    /// Packages read so far, by OpenAPI prefix.
    packages: BTreeMap<String, Package>,
}

/// Descriptions of one type and its members.
#[derive(Default)]
pub(super) struct TypeDescriptions<'d> {
    lines: &'d [&'static str],
}

impl Descriptions {
    /// Descriptions of a type, by its OpenAPI name. Types without published descriptions have none.
    pub(super) fn of(&mut self, openapi_name: &str) -> TypeDescriptions<'_> {
        let Some((prefix, name)) = openapi_name.rsplit_once('.') else { return TypeDescriptions::default() };
        if !self.packages.contains_key(prefix) {
            self.packages.insert(prefix.to_owned(), package(prefix));
        }
        let lines = self.packages.get(prefix).and_then(|types| types.get(name));
        TypeDescriptions { lines: lines.map_or(&[], Vec::as_slice) }
    }
}

impl TypeDescriptions<'_> {
    /// Description of the type.
    pub(super) fn text(&self) -> Option<String> {
        self.lines.first().filter(|text| !text.is_empty()).map(|text| unescaped(text))
    }

    /// Description of a member.
    pub(super) fn member(&self, name: &str) -> Option<String> {
        let of_member = |line: &&'static str| line.strip_prefix(name)?.strip_prefix(' ');
        self.lines.iter().skip(1).find_map(of_member).map(unescaped)
    }
}

/// Reads the lines of a package.
fn package(prefix: &str) -> Package {
    let head = format!("@ {prefix}");
    let lines =
        TEXT.lines().skip_while(|line| *line != head).skip(1).take_while(|line| !line.starts_with("@ "));
    let (mut types, mut name) = (Package::new(), "");
    for line in lines {
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

    #[test]
    fn escapes_stand_for_the_letters_that_a_line_cannot_have() {
        assert_eq!(unescaped(r"a\nb\tc\\\s"), "a\nb\tc\\ ");
        assert_eq!(unescaped("plain: 50 % < 1"), "plain: 50 % < 1");
    }

    #[test]
    fn types_of_the_field_table_have_descriptions_of_their_members() {
        let mut all = Descriptions::default();
        let mut described = 0;
        for ty in schema::all() {
            let texts = all.of(&ty.openapi_name());
            described += ty.fields.iter().filter(|field| texts.member(field.name).is_some()).count();
        }
        assert!(described > 2000, "{described} members have descriptions");
    }
}
