//! Parses `schema/*.tbl` into memory, once. A malformed table is a bug of this crate and panics; a test reads
//! all files.

use super::{Elem, Field, ListType, Member, Package, PatchStrategy, Priority, Shape, Type, TypeId};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Files about the types of one group and version.
pub(crate) struct PackageFiles {
    /// Name of the files without their extension.
    #[cfg(test)]
    pub(crate) name: &'static str,
    /// The field table.
    pub(crate) table: &'static str,
}

macro_rules! files {
    ($($name:literal)*) => {
        /// All files of the folder `schema` about groups and versions.
        pub(crate) static FILES: &[PackageFiles] = &[$(PackageFiles {
            #[cfg(test)]
            name: $name,
            table: include_str!(concat!("../../schema/", $name, ".tbl")),
        }),*];
    };
}

files! {
    "admissionregistration_v1"
    "apiextensions_v1"
    "apiextensions_v1beta1"
    "apiregistration_v1"
    "apps_v1"
    "authentication_v1"
    "authorization_v1"
    "autoscaling_v1"
    "autoscaling_v2"
    "batch_v1"
    "certificates_v1"
    "certificates_v1beta1"
    "coordination_v1"
    "core_v1"
    "discovery_v1"
    "events_v1"
    "flowcontrol_v1"
    "meta_v1"
    "networking_v1"
    "networking_v1beta1"
    "node_v1"
    "policy_v1"
    "rbac_v1"
    "resource_v1"
    "scheduling_v1"
    "storage_v1"
    "storagemigration_v1beta1"
}

/// Parsed field table.
pub(super) struct Table {
    pub(super) packages: Vec<&'static Package>,
    pub(super) types: Vec<Type>,
    /// Index of a type by package index and type name.
    by_name: BTreeMap<(usize, &'static str), u16>,
}

impl Table {
    pub(super) fn find(&'static self, package: usize, name: &str) -> Option<&'static Type> {
        // The key borrows `name` for the look-up only.
        let id = self.by_name.get(&(package, name) as &(usize, &str))?;
        Some(&self.types[usize::from(*id)])
    }
}

/// The field table, parsed at first use.
pub(super) fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Draft::read(FILES).finish())
}

/// One line of a type: a field, or an inlined type (its name is empty).
enum TableLine {
    Field(Field),
    Inline(u32, u16),
}

struct DraftType {
    package: usize,
    name: &'static str,
    has_kind: bool,
    atomic: bool,
    lines: Vec<&'static str>,
}

struct Draft {
    packages: Vec<&'static Package>,
    types: Vec<DraftType>,
    by_name: BTreeMap<(usize, &'static str), u16>,
}

impl Draft {
    /// First pass: collects the types.
    fn read(files: &[PackageFiles]) -> Self {
        let mut draft = Self { packages: Vec::new(), types: Vec::new(), by_name: BTreeMap::new() };
        for line in files.iter().flat_map(|file| file.table.lines()) {
            if let Some(head) = line.strip_prefix("@ ") {
                draft.packages.push(Box::leak(Box::new(package(head))));
            } else if line.starts_with("  ") {
                draft.types.last_mut().expect("a field follows its type").lines.push(line.trim_start());
            } else if !line.is_empty() && !line.starts_with('#') {
                draft.add_type(line);
            }
        }
        draft
    }

    fn add_type(&mut self, line: &'static str) {
        let mut words = line.split(' ');
        let name = words.next().expect("a type line has a name");
        let flags: Vec<_> = words.collect();
        let package = self.packages.len() - 1;
        let id = u16::try_from(self.types.len()).expect("fewer than 65536 types");
        self.by_name.insert((package, name), id);
        let (has_kind, atomic) = (flags.contains(&"kind"), flags.contains(&"atomic"));
        self.types.push(DraftType { package, name, has_kind, atomic, lines: Vec::new() });
    }

    /// Second and third pass: parses the fields and resolves their types, then adds the members of inlined
    /// types.
    fn finish(self) -> Table {
        let lines: Vec<Vec<TableLine>> = self.types.iter().map(|t| self.parse_lines(t)).collect();
        let types =
            self.types.iter().zip(&lines).map(|(draft, own)| self.build(draft, own, &lines)).collect();
        Table { packages: self.packages, types, by_name: self.by_name }
    }

    fn parse_lines(&self, draft: &DraftType) -> Vec<TableLine> {
        let mut out: Vec<TableLine> = draft.lines.iter().map(|l| self.parse_line(draft.package, l)).collect();
        if draft.has_kind {
            out.extend(["apiVersion", "kind"].map(|name| TableLine::Field(string_field(name))));
        }
        out
    }

    fn parse_line(&self, package: usize, line: &'static str) -> TableLine {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("incomplete table line: {line}"));
        let (name, number, kind) = (word(), word(), word());
        let number = number.parse().unwrap_or_else(|_| panic!("bad number in table line: {line}"));
        if name == "^" {
            return TableLine::Inline(number, self.resolve(package, kind));
        }
        let (pointer, kind) = kind.strip_prefix('*').map_or((false, kind), |rest| (true, rest));
        let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
            (Some(rest), _) => (Shape::List, rest),
            (_, Some(rest)) => (Shape::Map, rest),
            (None, None) => (Shape::One, kind),
        };
        let mut field =
            Field { number, shape, elem: self.elem(package, kind), pointer, ..string_field(name) };
        field.omit_empty = false;
        words.for_each(|flag| apply_flag(&mut field, flag));
        TableLine::Field(field)
    }

    fn elem(&self, package: usize, word: &'static str) -> Elem {
        match word {
            "str" => Elem::String,
            "bool" => Elem::Bool,
            "i32" => Elem::Int32,
            "i64" => Elem::Int64,
            "f64" => Elem::Float64,
            "bytes" => Elem::Bytes,
            "time" => Elem::Time,
            "microtime" => Elem::MicroTime,
            "quantity" => Elem::Quantity,
            "intstr" => Elem::IntOrString,
            "raw" => Elem::Raw,
            "fields" => Elem::FieldsV1,
            "json" => Elem::Json,
            "items" => Elem::Items,
            "schemaorlist" => Elem::SchemaOrList,
            "schemaorbool" => Elem::SchemaOrBool,
            "schemaorstrings" => Elem::SchemaOrStrings,
            name => Elem::Struct(TypeId(self.resolve(package, name))),
        }
    }

    fn resolve(&self, package: usize, word: &'static str) -> u16 {
        let (package, name) = match word.split_once('.') {
            Some((short, name)) => {
                (self.packages.iter().position(|p| p.short == short).unwrap_or(package), name)
            }
            None => (package, word),
        };
        *self
            .by_name
            .get(&(package, name))
            .unwrap_or_else(|| panic!("the table names an unknown type: {word}"))
    }

    fn build(&self, draft: &DraftType, own: &[TableLine], all: &[Vec<TableLine>]) -> Type {
        let mut fields = Vec::new();
        spread(own, all, &mut fields);
        fields.sort_by_key(|f| f.name);
        let at = |name| {
            fields.binary_search_by_key(&name, |f: &Field| f.name).expect("own fields are among the fields")
        };
        let mut members: Vec<(u32, Member)> = own
            .iter()
            .filter_map(|line| match line {
                TableLine::Field(f) if f.number == 0 => None,
                TableLine::Field(f) => Some((
                    f.number,
                    Member::Field(u16::try_from(at(f.name)).expect("fewer than 65536 fields")),
                )),
                TableLine::Inline(number, id) => Some((*number, Member::Inline(TypeId(*id)))),
            })
            .collect();
        members.sort_by_key(|m| m.0);
        Type {
            package: self.packages[draft.package],
            name: draft.name,
            has_kind: draft.has_kind,
            atomic: draft.atomic,
            fields: fields.into(),
            members: members.into(),
        }
    }
}

/// Appends all members that JSON shows, including those of inlined types.
fn spread(own: &[TableLine], all: &[Vec<TableLine>], out: &mut Vec<Field>) {
    for line in own {
        match line {
            TableLine::Field(f) => out.push(f.clone()),
            TableLine::Inline(_, id) => spread(&all[usize::from(*id)], all, out),
        }
    }
}

fn package(head: &'static str) -> Package {
    let words: Vec<&'static str> = head.split(' ').collect();
    let [short, openapi, group, version, ref priority @ ..] = words[..] else {
        panic!("bad table head: {head}")
    };
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("bad priority in table head: {head}"));
    let priority = match *priority {
        [] => None,
        [of_group, of_version] => {
            Some(Priority { of_group: number(of_group), of_version: number(of_version) })
        }
        _ => panic!("bad table head: {head}"),
    };
    Package { short, openapi, group: if group == "-" { "" } else { group }, version, priority }
}

fn string_field(name: &'static str) -> Field {
    Field {
        name,
        number: 0,
        shape: Shape::One,
        elem: Elem::String,
        pointer: false,
        omit_empty: true,
        omit_zero: false,
        required: false,
        patch: PatchStrategy::default(),
        merge_key: None,
        list_type: None,
        list_keys: Box::default(),
        atomic: false,
    }
}

fn apply_flag(field: &mut Field, flag: &'static str) {
    match flag.split_once('=').unwrap_or((flag, "")) {
        ("?", _) => field.omit_empty = true,
        ("z", _) => field.omit_zero = true,
        ("!", _) => field.required = true,
        ("atomic", _) => field.atomic = true,
        ("key", key) => field.merge_key = Some(key),
        ("by", keys) => field.list_keys = keys.split(',').collect(),
        ("patch", names) => {
            let has = |name| names.split(',').any(|n| n == name);
            field.patch = PatchStrategy {
                merge: has("merge"),
                replace: has("replace"),
                retain_keys: has("retainKeys"),
            };
        }
        ("list", "atomic") => field.list_type = Some(ListType::Atomic),
        ("list", "set") => field.list_type = Some(ListType::Set),
        ("list", "map") => field.list_type = Some(ListType::Map),
        _ => panic!("unknown flag in the table: {flag}"),
    }
}
