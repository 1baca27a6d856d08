//! Turns the field table, `schema/*.tbl`, into the statics that `src/schema/table.rs` includes, so that no program parses it when it
//! starts: the types of the default version as they are used, and the lines of all versions in packed form, from which
//! `src/schema/version_types.rs` makes the types of another version. `src/schema/mod.rs` has the notation. A malformed table fails the
//! build, with the wrong line.

use crate::packed;
use crate::version::{Minor, Versions};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the statics of all tables in the folder `schema` to the file `out`.
pub(crate) fn write(schema: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let texts = texts(schema)?;
    let table = Table::read(&texts);
    let gates = table.gates();
    let default = table.only(Minor::DEFAULT).statics(&gates);
    fs::write(out, default + &packed::statics(&table, &gates))?;
    Ok(())
}

/// The texts of all tables, by name of their files.
fn texts(schema: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(schema)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tbl"));
    paths.sort();
    Ok(paths.iter().map(fs::read_to_string).collect::<Result<_, _>>()?)
}

/// Types of all packages, with their lines.
pub(crate) struct Table<'t> {
    packages: Vec<Package<'t>>,
    pub(crate) types: Vec<Type<'t>>,
    /// Index of a type by package index and type name.
    by_name: BTreeMap<(usize, &'t str), usize>,
}

/// Head of a file: group and version of its types.
#[derive(Clone)]
struct Package<'t> {
    short: &'t str,
    openapi: &'t str,
    group: &'t str,
    version: &'t str,
    /// Priorities of group and version, if the version has an APIService.
    priority: Option<(i64, i64)>,
    /// Index of its first type; its types are those before the next package's.
    first: usize,
}

/// Type with its lines as they are in the file.
#[derive(Clone)]
pub(crate) struct Type<'t> {
    pub(crate) package: usize,
    pub(crate) name: &'t str,
    pub(crate) has_kind: bool,
    pub(crate) is_atomic: bool,
    pub(crate) versions: Versions,
    lines: Vec<&'t str>,
}

/// One line of a type.
#[derive(Clone)]
pub(crate) enum Line<'t> {
    Field(Field<'t>),
    /// Protobuf number and index of an inlined type.
    Inline(u32, usize),
}

/// Field, most of it as Rust text.
#[derive(Clone)]
pub(crate) struct Field<'t> {
    pub(crate) name: &'t str,
    pub(crate) number: u32,
    pub(crate) shape: &'static str,
    pub(crate) elem: String,
    /// Bits of `field` in `src/schema/table.rs`: pointer, omit_empty, omit_zero, required, atomic.
    pub(crate) flags: u8,
    /// Members of `Field` that few fields state, as Rust text.
    pub(crate) extra: String,
    /// The versions that have the line.
    pub(crate) versions: Versions,
    /// Feature gates, joined by `+`; empty if there is none.
    pub(crate) gates: &'t str,
}

const POINTER: u8 = 1;
const OMIT_EMPTY: u8 = 2;
const OMIT_ZERO: u8 = 4;
const REQUIRED: u8 = 8;
const ATOMIC: u8 = 16;

impl<'t> Table<'t> {
    /// Collects the packages and types. Types are sorted by name inside their package.
    fn read(texts: &'t [String]) -> Self {
        let (mut packages, mut types): (Vec<Package<'t>>, Vec<Type<'t>>) = Default::default();
        for line in texts.iter().flat_map(|text| text.lines()) {
            if let Some(head) = line.strip_prefix("@ ") {
                packages.push(Package { first: types.len(), ..package(head) });
            } else if let Some(field) = line.strip_prefix("  ") {
                types
                    .last_mut()
                    .unwrap_or_else(|| panic!("a field before any type: {line}"))
                    .lines
                    .push(field);
            } else if !line.is_empty() && !line.starts_with('#') {
                let mut words = line.split(' ');
                let name = words.next().unwrap_or_default();
                let flags: Vec<_> = words.collect();
                let versions = versions(flags.iter().copied(), line);
                let package =
                    packages.len().checked_sub(1).unwrap_or_else(|| panic!("a type before any head: {line}"));
                let (has_kind, is_atomic) = (flags.contains(&"kind"), flags.contains(&"atomic"));
                types.push(Type { package, name, has_kind, is_atomic, versions, lines: Vec::new() });
            }
        }
        types.sort_by_key(|ty| (ty.package, ty.name));
        Self::of(packages, types)
    }

    fn of(packages: Vec<Package<'t>>, types: Vec<Type<'t>>) -> Self {
        let by_name: BTreeMap<_, _> =
            types.iter().enumerate().map(|(at, ty)| ((ty.package, ty.name), at)).collect();
        assert_eq!(by_name.len(), types.len(), "a package states a type twice");
        Self { packages, types, by_name }
    }

    /// The types and lines that one version has.
    fn only(&self, minor: Minor) -> Self {
        let has = |line: &&str| versions(line.split(' '), line).has(minor);
        let types = self.types.iter().filter(|ty| ty.versions.has(minor)).map(|ty| {
            let lines = ty.lines.iter().copied().filter(|line| has(line)).collect();
            Type { lines, ..ty.clone() }
        });
        let types: Vec<Type<'t>> = types.collect();
        let packages = self.packages.iter().enumerate().map(|(at, package)| {
            let first = types.iter().position(|ty| ty.package >= at).unwrap_or(types.len());
            Package { first, ..package.clone() }
        });
        Self::of(packages.collect(), types)
    }

    /// The distinct gates of fields, joined as the lines join them. The first is empty: that of a field without a gate.
    fn gates(&self) -> Vec<&'t str> {
        let words = self.types.iter().flat_map(|ty| &ty.lines).flat_map(|line| line.split(' '));
        let mut gates: Vec<&str> = words.filter_map(|word| word.strip_prefix("gate=")).chain([""]).collect();
        gates.sort_unstable();
        gates.dedup();
        gates
    }

    /// The statics, as Rust text.
    fn statics(&self, gates: &[&str]) -> String {
        let lines: Vec<Vec<Line<'t>>> = self.types.iter().map(|ty| self.lines(ty)).collect();
        let mut text = String::new();
        let mut rows = String::new();
        for (at, ty) in self.types.iter().enumerate() {
            let (fields, members) = (spread(at, &lines), &lines[at]);
            let _ = writeln!(
                text,
                "static F{at}: [Field; {}] = [{}];",
                fields.len(),
                fields_text(&fields, gates)
            );
            let members = members_text(members, &fields);
            let _ =
                writeln!(text, "static M{at}: [(u32, Member); {}] = [{}];", members.len(), members.concat());
            let Type { package, name, has_kind, is_atomic, .. } = ty;
            let _ = writeln!(
                rows,
                "    Type {{ package: &PACKAGES[{package}], name: {name:?}, has_kind: {has_kind}, atomic: {is_atomic}, \
                 fields: &F{at}, members: &M{at} }},"
            );
        }
        let _ = writeln!(text, "pub(super) static TYPES: [Type; {}] = [\n{rows}];", self.types.len());
        let packages = self.packages.iter().map(Package::row).collect::<String>();
        let _ = writeln!(
            text,
            "pub(super) static PACKAGES: [Package; {}] = [\n{packages}];",
            self.packages.len()
        );
        let firsts: Vec<usize> =
            self.packages.iter().map(|package| package.first).chain([self.types.len()]).collect();
        let _ = writeln!(text, "static FIRST_TYPES: [u16; {}] = {firsts:?};", firsts.len());
        text
    }

    pub(crate) fn lines(&self, ty: &Type<'t>) -> Vec<Line<'t>> {
        let mut lines: Vec<Line<'t>> = ty.lines.iter().map(|line| self.line(ty.package, line)).collect();
        if ty.has_kind {
            lines.extend(["apiVersion", "kind"].map(|name| {
                Line::Field(Field {
                    name,
                    number: 0,
                    shape: "One",
                    elem: "String".to_owned(),
                    flags: OMIT_EMPTY,
                    extra: String::new(),
                    versions: Versions::ALL,
                    gates: "",
                })
            }));
        }
        lines
    }

    fn line(&self, package: usize, line: &'t str) -> Line<'t> {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("incomplete line: {line}"));
        let (name, number, kind) = (word(), word(), word());
        let number = number.parse().unwrap_or_else(|_| panic!("bad number: {line}"));
        if name == "^" {
            return Line::Inline(number, self.resolve(package, kind));
        }
        let (flags, kind) = kind.strip_prefix('*').map_or((0, kind), |rest| (POINTER, rest));
        let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
            (Some(rest), _) => ("List", rest),
            (_, Some(rest)) => ("Map", rest),
            (None, None) => ("One", kind),
        };
        let mut field = Field {
            name,
            number,
            shape,
            elem: self.elem(package, kind),
            flags,
            extra: String::new(),
            versions: versions(words.clone(), line),
            gates: "",
        };
        words.for_each(|flag| field.apply(flag, line));
        Line::Field(field)
    }

    /// A type of the notation, as variant of `Elem`.
    fn elem(&self, package: usize, word: &str) -> String {
        let variant = match word {
            "str" => "String",
            "bool" => "Bool",
            "i32" => "Int32",
            "i64" => "Int64",
            "f64" => "Float64",
            "bytes" => "Bytes",
            "time" => "Time",
            "microtime" => "MicroTime",
            "quantity" => "Quantity",
            "intstr" => "IntOrString",
            "raw" => "Raw",
            "fields" => "FieldsV1",
            "json" => "Json",
            "items" => "Items",
            "schemaorlist" => "SchemaOrList",
            "schemaorbool" => "SchemaOrBool",
            "schemaorstrings" => "SchemaOrStrings",
            name => return format!("Struct(TypeId({}))", self.resolve(package, name)),
        };
        variant.to_owned()
    }

    /// Index of the type with this name in the package, or in that of the short name before a dot.
    fn resolve(&self, package: usize, word: &str) -> usize {
        let (package, name) = match word.split_once('.') {
            Some((short, name)) => {
                (self.packages.iter().position(|p| p.short == short).unwrap_or(package), name)
            }
            None => (package, word),
        };
        *self.by_name.get(&(package, name)).unwrap_or_else(|| panic!("unknown type: {word}"))
    }
}

impl Package<'_> {
    fn row(&self) -> String {
        let Self { short, openapi, group, version, priority, .. } = self;
        let priority = match priority {
            Some((of_group, of_version)) => {
                format!("Some(Priority {{ of_group: {of_group}, of_version: {of_version} }})")
            }
            None => "None".to_owned(),
        };
        format!(
            "    Package {{ short: {short:?}, openapi: {openapi:?}, group: {group:?}, version: {version:?}, priority: {priority} }},\n"
        )
    }
}

impl<'t> Field<'t> {
    fn apply(&mut self, flag: &'t str, line: &str) {
        match flag.split_once('=').unwrap_or((flag, "")) {
            ("?", _) => self.flags |= OMIT_EMPTY,
            ("z", _) => self.flags |= OMIT_ZERO,
            ("!", _) => self.flags |= REQUIRED,
            ("atomic", _) => self.flags |= ATOMIC,
            ("since" | "until", _) => {}
            ("gate", gates) => self.gates = gates,
            ("key", key) => self.state("merge_key", &format!("Some({key:?})")),
            ("by", keys) => self.state("list_keys", &format!("&{:?}", keys.split(',').collect::<Vec<_>>())),
            ("patch", names) => {
                let has = |name| names.split(',').any(|n| n == name);
                let (merge, replace, retain_keys) = (has("merge"), has("replace"), has("retainKeys"));
                let strategy = format!(
                    "PatchStrategy {{ merge: {merge}, replace: {replace}, retain_keys: {retain_keys} }}"
                );
                self.state("patch", &strategy);
            }
            ("list", "atomic") => self.state("list_type", "Some(ListType::Atomic)"),
            ("list", "set") => self.state("list_type", "Some(ListType::Set)"),
            ("list", "map") => self.state("list_type", "Some(ListType::Map)"),
            _ => panic!("unknown flag {flag}: {line}"),
        }
    }

    fn state(&mut self, member: &str, value: &str) {
        let _ = write!(self.extra, "{member}: {value}, ");
    }
}

/// All members that JSON shows, sorted by name, including those of inlined types.
fn spread<'t>(ty: usize, lines: &[Vec<Line<'t>>]) -> Vec<Field<'t>> {
    let (mut fields, mut open) = (Vec::new(), vec![ty]);
    while let Some(at) = open.pop() {
        assert!(fields.len() < 1000, "a type is inlined into itself");
        for line in &lines[at] {
            match line {
                Line::Field(field) => fields.push(field.clone()),
                Line::Inline(_, id) => open.push(*id),
            }
        }
    }
    fields.sort_by_key(|field| field.name);
    fields
}

fn fields_text(fields: &[Field<'_>], gates: &[&str]) -> String {
    let mut text = String::new();
    for Field { name, number, shape, elem, flags, extra, gates: own, .. } in fields {
        let gate = packed::index(gates, own);
        let plain = format!("field({name:?}, {number}, Shape::{shape}, Elem::{elem}, {flags}, {gate})");
        let _ = match extra.as_str() {
            "" => write!(text, "{plain}, "),
            extra => write!(text, "Field {{ {extra}..{plain} }}, "),
        };
    }
    text
}

/// The members of a type by protobuf number, sorted.
fn members_text(lines: &[Line<'_>], fields: &[Field<'_>]) -> Vec<String> {
    let mut members: Vec<(u32, String)> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Field(field) if field.number == 0 => None,
            Line::Field(field) => {
                let at = fields.binary_search_by_key(&field.name, |field| field.name);
                Some((
                    field.number,
                    format!("Member::Field({})", at.expect("own fields are among all fields")),
                ))
            }
            Line::Inline(number, id) => Some((*number, format!("Member::Inline(TypeId({id}))"))),
        })
        .collect();
    members.sort();
    members.into_iter().map(|(number, member)| format!("({number}, {member}), ")).collect()
}

/// The versions that the words `since=` and `until=` of a line state; all without them.
fn versions<'w>(words: impl Iterator<Item = &'w str>, line: &str) -> Versions {
    Versions::marked(words).unwrap_or_else(|| panic!("wrong versions: {line}"))
}

/// The package of a head, `first` not set.
fn package(head: &str) -> Package<'_> {
    let words: Vec<&str> = head.split(' ').collect();
    let [short, openapi, group, version, ref priority @ ..] = words[..] else { panic!("bad head: {head}") };
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("bad priority: {head}"));
    let priority = match *priority {
        [] => None,
        [of_group, of_version] => Some((number(of_group), number(of_version))),
        _ => panic!("bad head: {head}"),
    };
    Package { short, openapi, group: if group == "-" { "" } else { group }, version, priority, first: 0 }
}
