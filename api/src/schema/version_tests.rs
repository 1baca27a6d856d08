//! Tests of the versions of the field table: every mark of a line is held, and nothing but marks makes versions differ.

use super::{Elem, Member, Type, all, all_minor, lookup_minor, of_minor, version_types};
use crate::gate;
use crate::version::{Minor, Versions};
use std::collections::BTreeMap;
use std::path::Path;

/// A line of a table with its marks: package, type, and the field of the type or nothing.
struct MarkedLine {
    ty: String,
    field: Option<String>,
    versions: Versions,
    is_required: bool,
}

/// The lines of all tables.
fn marked_lines() -> Vec<MarkedLine> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tbl"));
    let (mut lines, mut package, mut ty) = (Vec::new(), String::new(), (String::new(), Versions::ALL));
    for text in paths.iter().map(|path| std::fs::read_to_string(path).unwrap()) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let mark = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
            let minor = |text: &str| Minor::ALL.into_iter().find(|minor| minor.to_string() == text).unwrap();
            let first = mark("since=").map_or(Minor::V33, minor);
            let versions = Versions::between(first, mark("until=").map_or(Minor::V37, minor));
            if words[0] == "@" {
                package = words[2].to_owned();
            } else if line.starts_with("  ") {
                let field = (words[0] != "^").then(|| words[0].to_owned());
                let is_required = words.contains(&"!");
                lines.extend(field.map(|field| MarkedLine {
                    ty: ty.0.clone(),
                    field: Some(field),
                    versions,
                    is_required,
                }));
            } else {
                ty = (format!("{package}.{}", words[0]), versions);
                lines.push(MarkedLine { ty: ty.0.clone(), field: None, versions, is_required: false });
            }
        }
    }
    lines
}

#[test]
fn a_version_has_the_types_and_fields_that_its_marks_say_and_no_others() {
    let (mut types, mut fields): (BTreeMap<_, _>, BTreeMap<_, Vec<_>>) = Default::default();
    for line in marked_lines() {
        match line.field {
            None => drop(types.insert(line.ty, line.versions)),
            Some(field) => {
                fields.entry((line.ty, field)).or_default().push((line.versions, line.is_required));
            }
        }
    }
    let (mut with_versions, mut checked) = (0, 0);
    for ((ty, field), lines) in &fields {
        with_versions += usize::from(lines.len() > 1 || lines[0].0 != Versions::ALL);
        for minor in Minor::ALL {
            let expected = lines.iter().find(|(versions, _)| versions.has(minor) && types[ty].has(minor));
            let found = lookup_minor(minor, ty).and_then(|ty| ty.field(field));
            let required = found.map(|field| field.required);
            assert_eq!(required, expected.map(|(_, required)| *required), "{minor} {ty}.{field}");
            checked += 1;
        }
    }
    for (ty, versions) in &types {
        for minor in Minor::ALL {
            assert_eq!(lookup_minor(minor, ty).is_some(), versions.has(minor), "{minor} {ty}");
        }
    }
    assert!(with_versions > 100 && checked > 10_000, "{with_versions} fields with versions, {checked}");
}

/// What a type is, with the names of other types instead of their indices.
fn outline(ty: &'static Type) -> String {
    let elem = |elem: Elem| match elem {
        Elem::Struct(id) => id.get().openapi_name(),
        other => format!("{other:?}"),
    };
    let fields = ty.fields.iter().map(|field| {
        let plain = super::Field { elem: Elem::Json, ..field.clone() };
        format!("{plain:?} {}", elem(field.elem))
    });
    let members = ty.members.iter().map(|(number, member)| match member {
        Member::Field(at) => format!("{number} {at}"),
        Member::Inline(id) => format!("{number} {}", id.get().openapi_name()),
    });
    let (fields, members) = (fields.collect::<Vec<_>>().join("\n"), members.collect::<Vec<_>>().join(" "));
    format!("{} {} {}\n{fields}\n{members}", ty.openapi_name(), ty.has_kind, ty.atomic)
}

#[test]
fn the_default_version_is_the_same_from_its_statics_and_from_the_packed_lines() {
    let made = version_types::of(Minor::DEFAULT).all();
    assert_eq!(made.len(), all().count());
    for (made, own) in made.iter().zip(all()) {
        assert_eq!(outline(made), outline(own));
    }
}

#[test]
fn types_of_a_version_refer_only_to_types_of_the_same_version() {
    for minor in Minor::ALL.into_iter().filter(|minor| *minor != Minor::DEFAULT) {
        let types = version_types::of(minor).all();
        assert!(types.len() < usize::from(version_types::FIRST_OTHER), "{} types", types.len());
        for field in types.iter().flat_map(|ty| ty.fields) {
            if let Some(ty) = field.struct_type() {
                assert!(types.as_ptr_range().contains(&std::ptr::from_ref(ty)), "{minor} {}", ty.name);
            }
        }
    }
}

#[test]
fn a_protobuf_number_means_the_same_field_in_all_versions() {
    let mut names: BTreeMap<(String, u32), &str> = BTreeMap::new();
    for ty in Minor::ALL.into_iter().flat_map(all_minor) {
        for (number, member) in ty.members {
            let name = match member {
                Member::Field(at) => ty.fields[usize::from(*at)].name,
                Member::Inline(id) => id.get().name,
            };
            let known = *names.entry((ty.openapi_name(), *number)).or_insert(name);
            assert_eq!(known, name, "{} {number}", ty.openapi_name());
        }
        assert!(ty.fields.is_sorted_by(|a, b| a.name < b.name), "{}", ty.openapi_name());
    }
}

#[test]
fn gates_of_fields_are_known_to_some_version_that_has_the_field() {
    let mut count = 0;
    for minor in Minor::ALL {
        for (ty, field) in all_minor(minor).flat_map(|ty| ty.fields.iter().map(move |field| (ty, field))) {
            let known = |name: &&str| Minor::ALL.into_iter().any(|minor| gate::find(minor, name).is_some());
            assert!(field.gates().iter().all(known), "{}.{}: {:?}", ty.name, field.name, field.gates());
            count += field.gates().len();
        }
    }
    assert!(count > 400, "{count} gates");
}

#[test]
fn kinds_of_a_version_are_found_by_group_version_and_kind() {
    assert!(of_minor(Minor::V34, "", "v1", "Pod").is_some());
    assert!(of_minor(Minor::V35, "admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy").is_none());
    assert!(of_minor(Minor::V36, "admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy").is_some());
    assert!(of_minor(Minor::V36, "storagemigration.k8s.io", "v1", "StorageVersionMigration").is_none());
    assert!(of_minor(Minor::V37, "storagemigration.k8s.io", "v1", "StorageVersionMigration").is_some());
    let pod = |minor| lookup_minor(minor, "io.k8s.api.core.v1.PodSpec").unwrap();
    let has = |minor, field| pod(minor).field(field).is_some();
    assert_eq!(Minor::ALL.map(|minor| has(minor, "workloadRef")), [false, false, true, false, false]);
    assert_eq!(Minor::ALL.map(|minor| has(minor, "schedulingGroup")), [false, false, false, true, true]);
    assert_eq!(Minor::ALL.map(|minor| has(minor, "hostnameOverride")), [false, true, true, true, true]);
}
