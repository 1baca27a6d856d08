//! Tests of the whole table, and of facts in it that other modules rely on.

use super::{Elem, ListType, Member, PatchStrategy, Shape, all, lookup, of};
use crate::version::{Minor, Versions};

#[test]
fn the_whole_table_parses_and_every_field_is_found_by_name_and_number() {
    let mut count = 0;
    for ty in all() {
        for field in ty.fields {
            assert!(ty.field(field.name).is_some(), "{}.{}", ty.name, field.name);
            assert!(!matches!(field.list_type, Some(ListType::Map)) || !field.list_keys.is_empty());
            for key in field.list_keys {
                assert!(
                    field.struct_type().is_some_and(|t| t.field(key).is_some()),
                    "{}.{}",
                    ty.name,
                    field.name
                );
            }
            count += 1;
        }
        for window in ty.members.windows(2) {
            assert!(window[0].0 < window[1].0, "numbers of {} repeat", ty.name);
        }
        for window in ty.fields.windows(2) {
            assert!(window[0].name < window[1].name, "names of {} repeat", ty.name);
        }
    }
    assert!(count > 2500, "only {count} fields");
}

#[test]
fn types_are_found_by_openapi_name_and_by_kind() {
    let by_name = lookup("io.k8s.api.apps.v1.Deployment").unwrap();
    let by_kind = of("apps", "v1", "Deployment").unwrap();
    assert!(std::ptr::eq(by_name, by_kind));
    assert_eq!(by_name.openapi_name(), "io.k8s.api.apps.v1.Deployment");
    assert!(of("apps", "v1", "DeploymentSpec").is_none(), "a part is not a kind");
    assert!(of("apps", "v1", "DeleteOptions").is_some(), "options are sent under any group");
    assert!(of("", "v1", "Pod").is_some() && of("autoscaling", "v2", "HorizontalPodAutoscaler").is_some());
    assert!(of("example.com", "v1", "Foo").is_none());
    for odd in ["", ".", "io.k8s.api.apps.v1.", "Deployment"] {
        assert!(lookup(odd).is_none());
    }
}

#[test]
fn inlined_members_are_visible_in_json_and_nested_in_protobuf() {
    let volume = lookup("io.k8s.api.core.v1.Volume").unwrap();
    assert!(volume.field("emptyDir").is_some());
    assert!(matches!(volume.member(2), Some(Member::Inline(t)) if t.get().name == "VolumeSource"));
    let rule = lookup("io.k8s.api.admissionregistration.v1.NamedRuleWithOperations").unwrap();
    assert!(rule.field("apiGroups").is_some() && rule.field("operations").is_some());
}

#[test]
fn inlined_types_match_the_nested_messages_of_kubernetes() {
    let wanted = "
        admissionregistration.k8s.io NamedRuleWithOperations:RuleWithOperations RuleWithOperations:Rule
        core ConfigMapEnvSource:LocalObjectReference ConfigMapKeySelector:LocalObjectReference
            ConfigMapProjection:LocalObjectReference ConfigMapVolumeSource:LocalObjectReference
            EphemeralContainer:EphemeralContainerCommon PersistentVolumeSpec:PersistentVolumeSource
            Probe:ProbeHandler SecretEnvSource:LocalObjectReference SecretKeySelector:LocalObjectReference
            SecretProjection:LocalObjectReference Volume:VolumeSource
        networking.k8s.io IngressRule:IngressRuleValue
        resource.k8s.io DeviceAllocationConfiguration:DeviceConfiguration DeviceClaimConfiguration:DeviceConfiguration
            DeviceClassConfiguration:DeviceConfiguration";
    let (mut group, mut want) = ("", std::collections::BTreeSet::new());
    for word in wanted.split_whitespace() {
        match word.split_once(':') {
            None => group = word,
            Some((outer, inner)) => {
                want.insert((group.to_owned(), outer.to_owned(), inner.to_owned()));
            }
        }
    }
    let mut found = std::collections::BTreeSet::new();
    for ty in all() {
        for number in 1..64 {
            if let Some(Member::Inline(inner)) = ty.member(number) {
                let group = if ty.package.group.is_empty() { "core" } else { ty.package.group };
                found.insert((group.to_owned(), ty.name.to_owned(), inner.get().name.to_owned()));
            }
        }
    }
    assert_eq!(found, want);
}

#[test]
fn well_known_fields_have_their_patch_strategies_and_list_types() {
    let pod = lookup("io.k8s.api.core.v1.PodSpec").unwrap();
    let containers = pod.field("containers").unwrap();
    assert_eq!((containers.shape, containers.merge_key), (Shape::List, Some("name")));
    assert!(pod.field("volumes").unwrap().patch.retain_keys);
    let ports = lookup("io.k8s.api.core.v1.Container").unwrap().field("ports").unwrap();
    assert_eq!(ports.merge_key, Some("containerPort"));
    assert_eq!(ports.list_keys, ["containerPort", "protocol"]);
    assert!(lookup("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").unwrap().atomic);
    assert_eq!(pod.field("overhead").unwrap().elem, Elem::Quantity);
}

#[test]
fn every_list_has_metadata_and_the_items_of_its_kind() {
    let lists = all().filter(|ty| ty.has_kind && ty.name.ends_with("List") && ty.field("items").is_some());
    let mut count = 0;
    for ty in lists {
        let items = ty.field("items").unwrap();
        let own = items.struct_type().is_some_and(|item| item.openapi_name() + "List" == ty.openapi_name());
        assert!(items.shape == Shape::List && (own || ty.name == "List"), "{}", ty.openapi_name());
        let metadata = ty.field("metadata").and_then(super::Field::struct_type);
        assert_eq!(metadata.map(|metadata| metadata.name), Some("ListMeta"), "{}", ty.openapi_name());
        count += 1;
    }
    assert!(count > 40, "{count} lists");
}

/// The table has what its files state: each line is read again, word by word.
#[test]
fn every_line_of_the_files_is_part_of_the_table() {
    let (mut packages, mut types, mut fields) = (0, 0, 0);
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/schema")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.extension().unwrap() == "tbl") {
        let text = std::fs::read_to_string(path).unwrap();
        let (mut prefix, mut ty) = ("", None);
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let words: Vec<&str> = line.trim_start().split(' ').collect();
            // Lines of other versions are for `version_tests`.
            let is_default = Versions::marked(words.iter().copied()).unwrap().has(Minor::DEFAULT);
            if line.starts_with("@ ") {
                prefix = words[2];
                packages += 1;
            } else if !line.starts_with(' ') {
                let Some(found) = lookup(&format!("{prefix}.{}", words[0])) else {
                    assert!(!is_default, "{line}");
                    ty = None;
                    continue;
                };
                let flags = [("kind", found.has_kind), ("atomic", found.atomic)];
                flags.iter().for_each(|(flag, is_set)| assert_eq!(words.contains(flag), *is_set, "{line}"));
                ty = Some(found);
                types += 1;
            } else if let Some(ty) = ty.filter(|_| is_default)
                && words[0] == "^"
            {
                let member = ty.member(words[1].parse().unwrap());
                assert!(
                    matches!(member, Some(Member::Inline(inner)) if words[2].ends_with(inner.get().name))
                );
            } else if let Some(ty) = ty.filter(|_| is_default) {
                check_field(ty.field(words[0]).unwrap(), &words);
                fields += 1;
                // The protobuf number is not known: JSON alone has the member.
                if words[1] == "0" {
                    continue;
                }
                let Some(Member::Field(at)) = ty.member(words[1].parse().unwrap()) else { panic!("{line}") };
                assert_eq!(ty.fields[usize::from(at)].name, words[0], "{line}");
            }
        }
    }
    assert_eq!((packages, types), (super::packages().count(), all().count()));
    assert!(fields > 2000, "only {fields} fields");
}

/// Compares a field with the words of its line.
fn check_field(field: &super::Field, words: &[&str]) {
    let has = |flag: &str| words[3..].contains(&flag);
    let stated = |name: &str| words[3..].iter().find_map(|word| word.strip_prefix(name));
    assert_eq!(field.number.to_string(), words[1], "{words:?}");
    assert_eq!(
        (field.pointer, field.shape == Shape::List),
        (words[2].starts_with('*'), words[2].contains("[]"))
    );
    assert_eq!(field.shape == Shape::Map, words[2].contains("{}"), "{words:?}");
    let flags = [field.omit_empty, field.omit_zero, field.required, field.atomic];
    assert_eq!(flags, [has("?"), has("z"), has("!"), has("atomic")], "{words:?}");
    let PatchStrategy { merge, replace, retain_keys } = field.patch;
    let patch = stated("patch=").unwrap_or_default();
    let names = [("merge", merge), ("replace", replace), ("retainKeys", retain_keys)];
    names
        .iter()
        .for_each(|(name, is_set)| assert_eq!(patch.split(',').any(|n| n == *name), *is_set, "{words:?}"));
    assert_eq!(field.merge_key, stated("key="), "{words:?}");
    assert_eq!(field.list_keys.join(","), stated("by=").unwrap_or_default(), "{words:?}");
    let list_type = field.list_type.map(|ty| format!("{ty:?}").to_lowercase());
    assert_eq!(list_type.as_deref(), stated("list="), "{words:?}");
    match field.struct_type() {
        Some(ty) => assert!(words[2].ends_with(ty.name), "{words:?}"),
        None => {
            let word = words[2].trim_start_matches(['*', '[', ']', '{', '}']);
            let elems =
                [("str", Elem::String), ("i32", Elem::Int32), ("i64", Elem::Int64), ("bool", Elem::Bool)];
            let known = elems.iter().find(|(name, _)| *name == word);
            known.iter().for_each(|(_, elem)| assert_eq!(field.elem, *elem, "{words:?}"));
            assert!(word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{words:?}");
        }
    }
}
