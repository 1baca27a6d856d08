//! The field table as statics: `build_script/field_table.rs` makes them of `schema/*.tbl` when the crate is built. A start
//! of the server parses nothing, and the memory of a type's rows is first read when the type is looked up.

use super::{Elem, Field, ListType, Member, Package, PatchStrategy, Priority, Shape, Type, TypeId};
use crate::version::{Minor, Versions};

// The types of the default version: `TYPES` by package and name, `PACKAGES` in the order of their short names' files, and `FIRST_TYPES`:
// the index of each package's first type, and the number of types.
// The lines of all versions: `ALL_TYPES`, `ALL_LINES`, and what they refer to: `NAMES`, `EXTRAS` and `GATES`.
include!(concat!(env!("OUT_DIR"), "/field_table.rs"));

/// A type in any version. Its lines are those from the end of the previous type's on.
pub(super) struct PackedType {
    pub(super) package: u8,
    /// Offset and length in [`NAMES`].
    name: (u32, u8),
    pub(super) has_kind: bool,
    pub(super) atomic: bool,
    pub(super) versions: Versions,
    /// Index in [`ALL_LINES`] after its last line.
    pub(super) end: u16,
}

/// A line of a type in any version: a field, or an inlined type, whose name is empty. A [`TypeId`] in it is an index in [`ALL_TYPES`].
pub(super) struct PackedLine {
    name: (u32, u8),
    pub(super) number: u32,
    shape: Shape,
    pub(super) elem: Elem,
    flags: u8,
    /// Index in [`EXTRAS`].
    extra: u8,
    pub(super) versions: Versions,
    gate: u16,
}

/// What all inlined types have in common.
const INLINE: PackedLine = PackedLine {
    name: (0, 0),
    number: 0,
    shape: Shape::One,
    elem: Elem::Json,
    flags: 0,
    extra: 0,
    versions: Versions::ALL,
    gate: 0,
};

impl PackedType {
    pub(super) fn name(&self) -> &'static str {
        name(self.name)
    }
}

impl PackedLine {
    pub(super) fn is_inline(&self) -> bool {
        self.name.1 == 0
    }

    /// The field, whose type is not yet that of a version.
    pub(super) fn field(&self) -> Field {
        let plain = field(name(self.name), self.number, self.shape, self.elem, self.flags, self.gate);
        let Field { patch, merge_key, list_type, list_keys, .. } = EXTRAS[usize::from(self.extra)].clone();
        Field { patch, merge_key, list_type, list_keys, ..plain }
    }
}

fn name((at, length): (u32, u8)) -> &'static str {
    let from = usize::try_from(at).expect("names are far shorter than the memory");
    &NAMES[from..from + usize::from(length)]
}

/// The types of all versions, by package and name.
pub(super) fn all_types() -> &'static [PackedType] {
    &ALL_TYPES
}

/// The lines of all types.
pub(super) fn all_lines() -> &'static [PackedLine] {
    &ALL_LINES
}

/// The gates of a field, by [`Field::gate`].
pub(super) fn gates(gate: u16) -> &'static [&'static str] {
    GATES[usize::from(gate)]
}

/// The type with this name in the package with this index.
pub(super) fn find(package: usize, name: &str) -> Option<&'static Type> {
    let range = usize::from(*FIRST_TYPES.get(package)?)..usize::from(*FIRST_TYPES.get(package + 1)?);
    let types = &TYPES[range];
    let at = types.binary_search_by(|ty| ty.name.cmp(name)).ok()?;
    Some(&types[at])
}

/// The type with `apiVersion` and `kind` that a group and version call so. The compiler runs it.
pub(super) const fn constant(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let mut package = 0;
    while package < PACKAGES.len() {
        let Package { group: its_group, version: its_version, .. } = &PACKAGES[package];
        if is_same(its_group, group) && is_same(its_version, version) {
            let mut at = FIRST_TYPES[package] as usize;
            while at < FIRST_TYPES[package + 1] as usize {
                if TYPES[at].has_kind && is_same(TYPES[at].name, kind) {
                    return Some(&TYPES[at]);
                }
                at += 1;
            }
        }
        package += 1;
    }
    None
}

/// Whether two texts are equal, in constants, where `==` of texts does not exist.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Field without rules for lists and patches. Bits of `flags`, lowest first: pointer, omit_empty, omit_zero, required, atomic.
const fn field(name: &'static str, number: u32, shape: Shape, elem: Elem, flags: u8, gate: u16) -> Field {
    Field {
        name,
        number,
        shape,
        elem,
        pointer: flags & 1 != 0,
        omit_empty: flags & 2 != 0,
        omit_zero: flags & 4 != 0,
        required: flags & 8 != 0,
        patch: PatchStrategy { merge: false, replace: false, retain_keys: false },
        merge_key: None,
        list_type: None,
        list_keys: &[],
        atomic: flags & 16 != 0,
        gate,
    }
}
