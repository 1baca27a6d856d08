//! Types of the field table in a version other than the default. The first look-up of such a type makes all types of its version, once
//! in a process: some 300 KiB, in less than a millisecond. A server of the default version never comes here.

use super::table::{self, PackedLine, PackedType};
use super::{Elem, Field, Member, PACKAGES, Type, TypeId};
use crate::version::Minor;
use std::ops::Range;
use std::sync::OnceLock;

/// Bits of a [`TypeId`] that are an index among the types of a version. The bits above are zero in the default version, and one more
/// than the version's place in [`Minor::ALL`] in others.
const INDEX_BITS: u32 = 12;

/// Indices below this are those of the default version.
pub(super) const FIRST_OTHER: u16 = 1 << INDEX_BITS;

/// The types of one version.
pub(super) struct VersionTypes {
    /// By package and name.
    types: Box<[Type]>,
    /// The index of each package's first type, and the number of types.
    firsts: Vec<usize>,
}

/// The types of a version.
pub(super) fn of(minor: Minor) -> &'static VersionTypes {
    static ALL: [OnceLock<VersionTypes>; Minor::ALL.len()] = [const { OnceLock::new() }; Minor::ALL.len()];
    ALL[minor as usize].get_or_init(|| VersionTypes::make(minor))
}

/// The type with an index of a version that is not the default.
pub(super) fn get(TypeId(id): TypeId) -> &'static Type {
    let minor = Minor::ALL[usize::from(id >> INDEX_BITS) - 1];
    &of(minor).types[usize::from(id & (FIRST_OTHER - 1))]
}

impl VersionTypes {
    /// All types, in table order.
    pub(super) fn all(&'static self) -> &'static [Type] {
        &self.types
    }

    /// The type with this name in the package with this index.
    pub(super) fn find(&'static self, package: usize, name: &str) -> Option<&'static Type> {
        let types = &self.types[*self.firsts.get(package)?..*self.firsts.get(package + 1)?];
        let at = types.binary_search_by(|ty| ty.name.cmp(name)).ok()?;
        Some(&types[at])
    }

    fn make(minor: Minor) -> Self {
        let ids = ids(minor);
        let made = table::all_types().iter().enumerate().filter(|(at, _)| ids[*at].is_some());
        let types: Box<[Type]> = made.map(|(at, ty)| make_type(minor, &ids, at, ty)).collect();
        let first = |package: usize| {
            let kept = table::all_types().iter().filter(|ty| ty.versions.has(minor));
            kept.take_while(|ty| usize::from(ty.package) < package).count()
        };
        Self { types, firsts: (0..=PACKAGES.len()).map(first).collect() }
    }
}

/// The index that each type of the table has in a version; `None` if the version does not have it.
fn ids(minor: Minor) -> Vec<Option<TypeId>> {
    let mut next = (minor as u16 + 1) << INDEX_BITS;
    let id = |ty: &PackedType| {
        ty.versions.has(minor).then(|| {
            next += 1;
            TypeId(next - 1)
        })
    };
    table::all_types().iter().map(id).collect()
}

fn make_type(minor: Minor, ids: &[Option<TypeId>], at: usize, ty: &PackedType) -> Type {
    let mut fields = Vec::new();
    add_fields(minor, ids, at, &mut fields);
    fields.sort_by_key(|field| field.name);
    let member = |line: &PackedLine| {
        if line.is_inline() {
            return Some((line.number, Member::Inline(struct_of(line, ids)?)));
        }
        let name = line.field().name;
        let place = fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        Some((line.number, Member::Field(u16::try_from(place).ok()?))).filter(|(number, _)| *number != 0)
    };
    let mut members: Vec<(u32, Member)> = lines(minor, at).filter_map(member).collect();
    members.sort_by_key(|(number, _)| *number);
    Type {
        package: &PACKAGES[usize::from(ty.package)],
        name: ty.name(),
        has_kind: ty.has_kind,
        atomic: ty.atomic,
        fields: Box::leak(fields.into()),
        members: Box::leak(members.into()),
    }
}

/// Adds the fields of a type and of the types that are inlined in it, which the build has found to be no circle.
fn add_fields(minor: Minor, ids: &[Option<TypeId>], at: usize, fields: &mut Vec<Field>) {
    let mut open = vec![at];
    while let Some(at) = open.pop() {
        for line in lines(minor, at) {
            match (line.elem, line.is_inline()) {
                (Elem::Struct(TypeId(inline)), true) => open.push(usize::from(inline)),
                (Elem::Struct(_), false) => {
                    let elem = struct_of(line, ids).map(Elem::Struct);
                    let elem = elem.expect("a version has the types of its fields");
                    fields.push(Field { elem, ..line.field() });
                }
                _ => fields.push(line.field()),
            }
        }
    }
}

/// The type of a line in a version.
fn struct_of(line: &PackedLine, ids: &[Option<TypeId>]) -> Option<TypeId> {
    match line.elem {
        Elem::Struct(TypeId(at)) => ids[usize::from(at)],
        _ => None,
    }
}

/// The lines of a type that a version has.
fn lines(minor: Minor, at: usize) -> impl Iterator<Item = &'static PackedLine> {
    let end = |at: usize| usize::from(table::all_types()[at].end);
    let range: Range<usize> = at.checked_sub(1).map_or(0, end)..end(at);
    table::all_lines()[range].iter().filter(move |line| line.versions.has(minor))
}
