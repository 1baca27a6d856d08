//! [`MarkedFields`]: where objects of a version of Kubernetes can have certain fields, so that a walk for these fields looks at the few
//! types that lead to them and skips the rest of an object.

use super::{Field, Type, all_minor};
use crate::version::Minor;
use std::collections::BTreeMap;

/// The marked fields of one type, and those of its fields that lead to types with marked fields.
#[derive(Debug, Default)]
pub(crate) struct TypeFields {
    /// Marked fields.
    pub(crate) own: Vec<&'static Field>,
    /// Fields whose type has marked fields, in itself or below.
    pub(crate) below: Vec<&'static Field>,
}

impl TypeFields {
    /// All of them in the order of Kubernetes' types, each once.
    fn in_order(&self) -> Vec<&'static Field> {
        let mut all: Vec<_> = self.own.iter().chain(&self.below).copied().collect();
        all.sort_by_key(|field| (field.number, field.name));
        all.dedup_by_key(|field| field.name);
        all
    }
}

/// The types of a version that have marked fields, in themselves or below, by address.
#[derive(Debug)]
pub(crate) struct MarkedFields(BTreeMap<usize, TypeFields>);

impl MarkedFields {
    /// The fields that `marked` returns of each type. A start pays for this, so each type is looked at once, and those that lead to marked
    /// fields once more.
    pub(crate) fn find(minor: Minor, marked: impl Fn(&'static Type) -> Vec<&'static Field>) -> Self {
        let mut found: BTreeMap<usize, TypeFields> = BTreeMap::new();
        let mut users: BTreeMap<usize, Vec<&'static Type>> = BTreeMap::new();
        for ty in all_minor(minor) {
            let own = marked(ty);
            if !own.is_empty() {
                found.insert(address(ty), TypeFields { own, below: Vec::new() });
            }
            for below in ty.fields.iter().filter_map(Field::struct_type) {
                users.entry(address(below)).or_default().push(ty);
            }
        }
        // Upwards from the types with marked fields. Types refer to each other in circles, so each is taken once.
        let mut leading: BTreeMap<usize, &'static Type> = BTreeMap::new();
        let mut left: Vec<usize> = found.keys().copied().collect();
        while let Some(below) = left.pop() {
            for &user in users.get(&below).into_iter().flatten() {
                if leading.insert(address(user), user).is_none() {
                    left.push(address(user));
                }
            }
        }
        for (&ty, user) in &leading {
            let leads = |field: &&'static Field| {
                let below = field.struct_type().map(address);
                below.is_some_and(|below| found.contains_key(&below) || leading.contains_key(&below))
            };
            let below = user.fields.iter().filter(leads).collect();
            found.entry(ty).or_default().below = below;
        }
        Self(found)
    }

    /// What a type has of them; `None` if nothing in it or below it is marked.
    pub(crate) fn of(&self, ty: &'static Type) -> Option<&TypeFields> {
        self.0.get(&address(ty))
    }

    /// The fields of each type in the order of Kubernetes' types.
    pub(crate) fn in_order(&self) -> FieldsInOrder {
        FieldsInOrder(self.0.iter().map(|(ty, fields)| (*ty, fields.in_order())).collect())
    }

    /// Number of types.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The same for walks that report what they find: marked fields, and those that lead to them, in one order.
#[derive(Debug)]
pub(crate) struct FieldsInOrder(BTreeMap<usize, Vec<&'static Field>>);

impl FieldsInOrder {
    /// The fields of a type; none if nothing in it or below it is marked.
    pub(crate) fn of(&self, ty: &'static Type) -> &[&'static Field] {
        self.0.get(&address(ty)).map_or(&[], Vec::as_slice)
    }
}

fn address(ty: &'static Type) -> usize {
    std::ptr::from_ref(ty).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::of_minor;

    #[test]
    fn only_types_that_lead_to_a_marked_field_are_found() {
        let image = |ty: &'static Type| -> Vec<&'static Field> {
            let fields =
                ty.fields.iter().filter(|field| ty.name == "ContainerStatus" && field.name == "image");
            fields.collect()
        };
        for minor in Minor::ALL {
            let marked = MarkedFields::find(minor, image);
            let kind = |name: &str| of_minor(minor, "", "v1", name).unwrap();
            let names = |fields: &[&'static Field]| fields.iter().map(|field| field.name).collect::<Vec<_>>();
            let pod = marked.of(kind("Pod")).unwrap();
            assert_eq!((names(&pod.own), names(&pod.below)), (vec![], vec!["status"]), "{minor}");
            let status = pod.below[0].struct_type().unwrap();
            let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
            // In the order of the protobuf numbers: 8, 10 and 13.
            assert_eq!(names(marked.in_order().of(status)), lists, "{minor}");
            let container = marked.of(status).unwrap().below[0].struct_type().unwrap();
            assert_eq!(names(&marked.of(container).unwrap().own), ["image"], "{minor}");
            assert!(marked.of(kind("ConfigMap")).is_none() && marked.in_order().of(kind("Node")).is_empty());
            assert!(marked.of(kind("PodList")).is_some(), "{minor}");
        }
    }
}
