//! The field table as statics: `build_script/field_table.rs` makes them of `schema/*.tbl` when the crate is built. A start
//! of the server parses nothing, and the memory of a type's rows is first read when the type is looked up.

use super::{Elem, Field, ListType, Member, Package, PatchStrategy, Priority, Shape, Type, TypeId};

// `TYPES` by package and name, `PACKAGES` in the order of their short names' files, and `FIRST_TYPES`: the index of each package's first
// type, and the number of types.
include!(concat!(env!("OUT_DIR"), "/field_table.rs"));

/// The type with this name in the package with this index.
pub(super) fn find(package: usize, name: &str) -> Option<&'static Type> {
    let range = usize::from(*FIRST_TYPES.get(package)?)..usize::from(*FIRST_TYPES.get(package + 1)?);
    let types = &TYPES[range];
    let at = types.binary_search_by(|ty| ty.name.cmp(name)).ok()?;
    Some(&types[at])
}

/// Field without rules for lists and patches. Bits of `flags`, lowest first: pointer, omit_empty, omit_zero, required, atomic.
const fn field(name: &'static str, number: u32, shape: Shape, elem: Elem, flags: u8) -> Field {
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
    }
}
