//! The types whose members code may name: those of api's field table (`api/schema/*.tbl`, everywhere), and the documents of
//! `tidy/documents.tbl`, each in the files that it lists.

use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// The file of documents that are no API objects.
pub(super) const DOCUMENTS: &str = "tidy/documents.tbl";

/// Most types that inline each other.
const MAX_INLINED: usize = 4;

/// What a value holds, or each element of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    /// JSON without a type in the table.
    Any,
    Scalar,
    /// The type of this index.
    Struct(usize),
}

/// How many elements a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValueType {
    pub(super) shape: Shape,
    pub(super) content: Content,
}

impl ValueType {
    pub(super) const ANY: Self = Self { shape: Shape::One, content: Content::Any };

    pub(super) fn one(content: Content) -> Self {
        Self { shape: Shape::One, content }
    }
}

/// A type of objects with members.
#[derive(Default)]
pub(super) struct Type {
    /// `core/v1.PodSpec`, or the name of a document.
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, ValueType>,
    /// Where a document may be named: parts of paths. A type of the field table has none, and may be named everywhere.
    pub(super) paths: Vec<String>,
    /// The types whose members a struct of this name reads, in any of them.
    pub(super) parts: Vec<usize>,
    /// Line of a document in its file.
    pub(super) line: usize,
}

/// All types.
#[derive(Default)]
pub(super) struct Table {
    pub(super) types: Vec<Type>,
    /// Files that know the kinds of their objects: parts of paths, and the types.
    kinds: Vec<Kinds>,
}

/// The types that files may name, apart from documents.
pub(super) struct Kinds {
    pub(super) paths: Vec<String>,
    types: BTreeSet<usize>,
    /// Names that are no types.
    pub(super) unknown: Vec<String>,
    pub(super) line: usize,
}

/// A type as its lines have it.
struct Draft<'t> {
    package: &'t str,
    name: &'t str,
    has_kind: bool,
    lines: Vec<&'t str>,
}

impl Table {
    /// Reads the field table and the documents.
    pub(super) fn of(tree: &Tree) -> Self {
        let mut drafts: Vec<Draft<'_>> = Vec::new();
        let files = tree.files.iter().filter(|file| file.path.starts_with("api/schema/"));
        for file in files.filter(|file| file.path.ends_with(".tbl")) {
            read_package(&file.text, &mut drafts);
        }
        let names: Vec<String> =
            drafts.iter().map(|draft| format!("{}.{}", draft.package, draft.name)).collect();
        let by_name: BTreeMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
        let mut table = Self::default();
        for (draft, name) in drafts.iter().zip(&names) {
            let mut fields = BTreeMap::new();
            add_fields(draft, &drafts, &by_name, &mut fields, 0);
            table.types.push(Type { name: name.clone(), fields, ..Type::default() });
        }
        table.add_documents(tree.file(DOCUMENTS).map_or("", |file| &file.text));
        table
    }

    /// Adds documents: `@ PATH…`, a line with a name, and indented lines of members.
    fn add_documents(&mut self, text: &str) {
        let mut paths: Vec<String> = Vec::new();
        let first = self.types.len();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#')) {
            if let Some((files, kinds)) = line.strip_prefix("> ").and_then(|rest| rest.split_once(" : ")) {
                self.kinds.push(self.read_kinds(files, kinds, number));
            } else if let Some(head) = line.strip_prefix("@ ") {
                paths = head.split_whitespace().map(str::to_owned).collect();
            } else if !line.starts_with(' ') && !line.is_empty() {
                let (name, parts) = line.split_once(" = ").unwrap_or((line, ""));
                let parts: Vec<_> = parts.split(" + ").filter_map(|part| self.find(part)).collect();
                let fields = parts.iter().flat_map(|at| self.types[*at].fields.clone()).collect();
                let (name, paths) = (name.trim().to_owned(), paths.clone());
                self.types.push(Type { name, fields, paths, parts, line: number });
            } else if let Some(document) = self.types.get_mut(first..).and_then(<[_]>::last_mut) {
                document.fields.extend(line.split_whitespace().map(|name| (name.to_owned(), ValueType::ANY)));
            }
        }
    }

    fn read_kinds(&self, files: &str, kinds: &str, line: usize) -> Kinds {
        let mut types: BTreeSet<usize> =
            (0..self.types.len()).filter(|at| self.types[*at].name.starts_with("meta/v1.")).collect();
        let mut unknown = Vec::new();
        let mut open = Vec::new();
        for name in kinds.split_whitespace() {
            match self.find(name) {
                Some(at) => open.push(at),
                None => unknown.push(name.to_owned()),
            }
        }
        while let Some(at) = open.pop() {
            if types.insert(at) {
                open.extend(self.types[at].fields.values().filter_map(|field| match field.content {
                    Content::Struct(below) => Some(below),
                    Content::Any | Content::Scalar => None,
                }));
            }
        }
        Kinds { paths: files.split_whitespace().map(str::to_owned).collect(), types, unknown, line }
    }

    /// The rows about the kinds of files.
    pub(super) fn kinds(&self) -> &[Kinds] {
        &self.kinds
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.types.iter().position(|ty| ty.name == name)
    }

    /// The types that a file may name, as indices.
    pub(super) fn visible(&self, path: &str) -> Vec<usize> {
        let is_part = |part: &String| path.contains(part.as_str());
        let rows: Vec<_> = self.kinds.iter().filter(|row| row.paths.iter().any(is_part)).collect();
        let is_visible = |at: &usize| match self.types[*at].paths.as_slice() {
            [] => rows.is_empty() || rows.iter().any(|row| row.types.contains(at)),
            paths => paths.iter().any(is_part),
        };
        (0..self.types.len()).filter(is_visible).collect()
    }

    /// All names of members of these types.
    pub(super) fn names(&self, visible: &[usize]) -> BTreeSet<&str> {
        visible.iter().flat_map(|at| self.types[*at].fields.keys().map(String::as_str)).collect()
    }
}

/// The types of a file of the field table.
fn read_package<'t>(text: &'t str, drafts: &mut Vec<Draft<'t>>) {
    let mut package = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix("@ ") {
            package = head.split(' ').next().unwrap_or_default();
        } else if line.starts_with(' ') {
            if let Some(draft) = drafts.last_mut() {
                draft.lines.push(line.trim());
            }
        } else {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            drafts.push(Draft {
                package,
                name,
                has_kind: words.any(|word| word == "kind"),
                lines: Vec::new(),
            });
        }
    }
}

/// Adds the members of a type, and those of the types that it inlines.
fn add_fields(
    draft: &Draft<'_>,
    drafts: &[Draft<'_>],
    by_name: &BTreeMap<&str, usize>,
    fields: &mut BTreeMap<String, ValueType>,
    depth: usize,
) {
    let find = |word: &str| match word.contains('.') {
        true => by_name.get(word).copied(),
        false => by_name.get(format!("{}.{word}", draft.package).as_str()).copied(),
    };
    if draft.has_kind {
        let text = ValueType::one(Content::Scalar);
        fields.extend(["apiVersion", "kind"].map(|name| (name.to_owned(), text)));
    }
    for line in &draft.lines {
        let mut words = line.split(' ');
        let (Some(name), _, Some(ty)) = (words.next(), words.next(), words.next()) else { continue };
        match (name, find(ty)) {
            ("^", Some(inlined)) if depth < MAX_INLINED => {
                add_fields(&drafts[inlined], drafts, by_name, fields, depth + 1);
            }
            ("^", _) => {}
            _ => {
                fields.insert(name.to_owned(), value_type(ty, find));
            }
        }
    }
}

fn value_type(word: &str, find: impl Fn(&str) -> Option<usize>) -> ValueType {
    let element = word.trim_start_matches(['*', '[', ']', '{', '}']);
    let shape = match () {
        () if word.contains("{}") => Shape::Map,
        () if word.contains("[]") => Shape::List,
        () => Shape::One,
    };
    let content = match element {
        "raw" | "fields" | "json" | "items" | "schemaorlist" | "schemaorbool" | "schemaorstrings" => {
            Content::Any
        }
        _ => find(element).map_or(Content::Scalar, Content::Struct),
    };
    ValueType { shape, content }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_members_of_their_lines_and_of_inlined_types() {
        let table = Table::of(&Tree::of([
            (
                "api/schema/a_v1.tbl",
                "# A.\n@ a/v1 io.a a v1 1 2\nPod kind\n  spec 2 Spec ?\n  ^ 3 b/v1.Meta\nSpec\n  nodeName 1 str\n  tags 2 {}[]str\n",
            ),
            ("api/schema/b_v1.tbl", "@ b/v1 io.b b v1\nMeta\n  items 1 []a/v1.Pod ?\n"),
            (DOCUMENTS, "# Claims.\n@ x/src/ y/src/a.rs\nClaims\n  iss sub\n  aud\n"),
        ]));
        let names = |path: &str| table.names(&table.visible(path)).into_iter().collect::<Vec<_>>();
        assert_eq!(names("z.rs"), ["apiVersion", "items", "kind", "nodeName", "spec", "tags"]);
        assert_eq!(names("y/src/a.rs").len(), 9);
        let pod = &table.types[0];
        assert_eq!(pod.name, "a/v1.Pod");
        assert_eq!(pod.fields["spec"], ValueType::one(Content::Struct(1)));
        assert_eq!(pod.fields["items"], ValueType { shape: Shape::List, content: Content::Struct(0) });
        assert_eq!(table.types[1].fields["tags"].shape, Shape::Map);
    }
}
