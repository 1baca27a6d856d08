//! Writes the field table of all versions as arrays of plain numbers beside one text of names. They need no relocation, so that a
//! server that serves the default version neither copies nor reads them.

use crate::field_table::{Field, Line, Table, Type};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The statics `GATES`, `NAMES`, `EXTRAS`, `ALL_TYPES` and `ALL_LINES`, as Rust text.
pub(crate) fn statics(table: &Table<'_>, gates: &[&str]) -> String {
    let (mut names, mut extras) = (Names::default(), vec![String::new()]);
    let (mut types, mut lines, mut count) = (String::new(), String::new(), 0);
    for ty in &table.types {
        for line in table.lines(ty) {
            lines.push_str(&line_text(&line, &mut names, &mut extras, gates));
            count += 1;
        }
        let Type { package, name, has_kind, is_atomic, versions, .. } = ty;
        let (name, versions) = (names.place(name), minors(|minor| versions.has(minor)));
        let _ = writeln!(
            types,
            "    PackedType {{ package: {package}, name: {name}, has_kind: {has_kind}, atomic: {is_atomic}, \
             versions: {versions}, end: {count} }},"
        );
    }
    let mut text = String::new();
    let sets = gates
        .iter()
        .map(|set| format!("&{:?}, ", set.split('+').filter(|name| !name.is_empty()).collect::<Vec<_>>()));
    let _ = writeln!(text, "static GATES: [&[&str]; {}] = [{}];", gates.len(), sets.collect::<String>());
    let _ = writeln!(text, "static NAMES: &str = {:?};", names.text);
    let rows = extras.iter().map(|extra| match extra.as_str() {
        "" => format!("{PLAIN}, "),
        extra => format!("Field {{ {extra}..{PLAIN} }}, "),
    });
    let _ = writeln!(text, "static EXTRAS: [Field; {}] = [{}];", extras.len(), rows.collect::<String>());
    let _ = writeln!(text, "static ALL_TYPES: [PackedType; {}] = [\n{types}];", table.types.len());
    let _ = writeln!(text, "static ALL_LINES: [PackedLine; {count}] = [\n{lines}];");
    text
}

/// A field whose members are not used.
const PLAIN: &str = "field(\"\", 0, Shape::One, Elem::Json, 0, 0)";

/// Names in one text, each once.
#[derive(Default)]
struct Names {
    text: String,
    at: BTreeMap<String, usize>,
}

impl Names {
    /// The place of a name, as Rust text: its offset and length.
    fn place(&mut self, name: &str) -> String {
        let text = &mut self.text;
        let at = *self.at.entry(name.to_owned()).or_insert_with(|| {
            text.push_str(name);
            text.len() - name.len()
        });
        format!("({at}, {})", name.len())
    }
}

fn line_text(line: &Line<'_>, names: &mut Names, extras: &mut Vec<String>, gates: &[&str]) -> String {
    let Field { name, number, shape, elem, flags, extra, versions, gates: own } = match line {
        Line::Field(field) => field,
        Line::Inline(number, id) => {
            let elem = format!("Elem::Struct(TypeId({id}))");
            return format!("    PackedLine {{ number: {number}, elem: {elem}, ..INLINE }},\n");
        }
    };
    let extra_at = extras.iter().position(|known| known == extra).unwrap_or_else(|| {
        extras.push(extra.clone());
        extras.len() - 1
    });
    let (name, versions, gate) = (names.place(name), minors(|minor| versions.has(minor)), index(gates, own));
    format!(
        "    PackedLine {{ name: {name}, number: {number}, shape: Shape::{shape}, elem: Elem::{elem}, flags: {flags}, \
         extra: {extra_at}, versions: {versions}, gate: {gate} }},\n"
    )
}

/// A set of versions, as Rust text.
fn minors(has: impl Fn(crate::version::Minor) -> bool) -> String {
    let all: Vec<_> = crate::version::Minor::ALL.into_iter().filter(|minor| has(*minor)).collect();
    match (all.first(), all.last()) {
        (Some(first), Some(last)) => format!("Versions::between(Minor::{first:?}, Minor::{last:?})"),
        _ => panic!("a line of no version"),
    }
}

/// Index of the gates of a field among all.
pub(crate) fn index(gates: &[&str], own: &str) -> usize {
    gates.iter().position(|set| *set == own).expect("all gates of fields were collected")
}
