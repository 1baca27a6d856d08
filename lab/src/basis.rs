//! The basis of a write: what its writer had been shown when it wrote, and which changes it had not seen. Pure.

use serde::Serialize;
use serde_json::Value;

/// Most unseen changes of one basis, related ones first.
pub const UNSEEN: usize = 64;
/// Most inferred causes of one write.
pub const INFERRED: usize = 16;

/// The newest revision of a kind that a client had been shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ViewAt {
    /// Resource as `plural.group`.
    pub resource: String,
    /// Revision; 0: nothing.
    pub delivered: i64,
    /// Whether something was delivered in a form that the lab does not read: then it may have been shown more, and no change of the kind
    /// is called unseen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// A change of an object, as a writer may have seen it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// Revision.
    pub revision: i64,
    /// Resource as `plural.group`.
    pub resource: String,
    /// `namespace/name`, or the name.
    pub name: String,
    /// UID; empty if the history does not have it.
    pub uid: String,
    /// UIDs of its owners.
    pub owners: Vec<String>,
}

/// How a change relates to the written object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// The object itself.
    Same,
    /// An owner of the object.
    Owner,
    /// An object that it owns.
    Owned,
    /// An object whose name the written object has in its body.
    Named,
    /// No relation is known.
    Other,
}

/// A change that the writer had not been shown, of a kind that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// Revision.
    pub revision: i64,
    /// `plural.group/namespace/name`.
    pub object: String,
    /// Relation to the written object.
    pub relation: Relation,
}

/// The basis of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Basis {
    /// The writer's view of each kind that it reads.
    pub views: Vec<ViewAt>,
    /// What it had not been shown, related changes first, then the newest.
    pub unseen: Vec<Unseen>,
}

/// The written object.
#[derive(Clone, Debug)]
pub struct Written<'w> {
    /// The change itself.
    pub change: &'w ObjectChange,
    /// The object after the write, or before its deletion.
    pub object: &'w Value,
}

/// How a change relates to the written object.
pub fn relation(change: &ObjectChange, written: &Written<'_>) -> Relation {
    let own = written.change;
    let is_owner = |owner: &String| !change.uid.is_empty() && *owner == change.uid;
    if change.resource == own.resource && change.name == own.name {
        Relation::Same
    } else if own.owners.iter().any(is_owner) {
        Relation::Owner
    } else if !own.uid.is_empty() && change.owners.contains(&own.uid) {
        Relation::Owned
    } else {
        let name = change.name.rsplit('/').next().unwrap_or_default();
        let is_named = ["spec", "data", "subjects", "roleRef", "status"];
        let is_named = is_named.iter().any(|part| mentions(&written.object[part], name, 32));
        if is_named { Relation::Named } else { Relation::Other }
    }
}

/// Whether a string in a value, to a depth, is a name.
fn mentions(value: &Value, name: &str, depth: usize) -> bool {
    match value {
        _ if depth == 0 || name.is_empty() => false,
        Value::String(text) => text == name,
        Value::Array(list) => list.iter().any(|value| mentions(value, name, depth - 1)),
        Value::Object(members) => members.values().any(|value| mentions(value, name, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The basis of a write by a client with these views. `changes` are those before the write, ascending.
pub fn basis(views: &[ViewAt], changes: &[ObjectChange], written: &Written<'_>) -> Basis {
    let delivered = |resource: &str| {
        let view = views.iter().find(|view| view.resource == resource && !view.partial);
        view.map(|view| view.delivered)
    };
    let mut unseen: Vec<Unseen> = changes
        .iter()
        .filter(|change| change.revision < written.change.revision)
        .filter(|change| delivered(&change.resource).is_some_and(|delivered| delivered < change.revision))
        .map(|change| Unseen {
            revision: change.revision,
            object: format!("{}/{}", change.resource, change.name),
            relation: relation(change, written),
        })
        .collect();
    unseen.sort_by_key(|unseen| (unseen.relation, std::cmp::Reverse(unseen.revision)));
    unseen.truncate(UNSEEN);
    Basis { views: views.to_vec(), unseen }
}

/// Revisions that probably led to a write for which its writer names no cause: changes that the writer was shown since its last write, of
/// objects that relate to the written one; newest first.
pub fn inferred(views: &[ViewAt], since: i64, changes: &[ObjectChange], written: &Written<'_>) -> Vec<i64> {
    let was_shown = |change: &&ObjectChange| {
        let view = views.iter().find(|view| view.resource == change.resource);
        view.is_some_and(|view| change.revision > since && change.revision <= view.delivered)
    };
    let related = changes.iter().rev().filter(was_shown).filter(|change| {
        change.revision < written.change.revision && relation(change, written) != Relation::Other
    });
    related.map(|change| change.revision).take(INFERRED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(revision: i64, resource: &str, name: &str, owners: &[&str]) -> ObjectChange {
        let owners = owners.iter().map(|owner| (*owner).to_owned()).collect();
        let uid = format!("uid-{name}");
        ObjectChange { revision, resource: resource.to_owned(), name: name.to_owned(), uid, owners }
    }

    fn view(resource: &str, delivered: i64) -> ViewAt {
        ViewAt { resource: resource.to_owned(), delivered, partial: false }
    }

    #[test]
    fn a_basis_has_what_the_writer_was_not_shown_with_related_changes_first() {
        let own = change(20, "pods", "ns/p", &["uid-ns/set"]);
        let object = json!({"spec": {"volumes": [{"configMap": {"name": "settings"}}]}});
        let written = Written { change: &own, object: &object };
        let changes = [
            change(8, "pods", "ns/p", &[]),
            change(11, "sets.apps", "ns/set", &[]),
            change(12, "configmaps", "ns/settings", &[]),
            change(13, "configmaps", "ns/unrelated", &[]),
            change(14, "secrets", "ns/s", &[]),
            change(15, "pods", "ns/p", &[]),
            change(16, "claims", "ns/c", &["uid-ns/p"]),
            change(20, "pods", "ns/p", &[]),
        ];
        let views = [view("pods", 10), view("sets.apps", 11), view("configmaps", 5), view("claims", 0)];
        let found = basis(&views, &changes, &written);
        let rows: Vec<_> = found.unseen.iter().map(|unseen| (unseen.revision, unseen.relation)).collect();
        let expected =
            [(15, Relation::Same), (16, Relation::Owned), (12, Relation::Named), (13, Relation::Other)];
        assert_eq!(rows, expected, "kinds that the client does not read are left out");
        let partial = views.clone().map(|view| ViewAt { partial: true, ..view });
        assert_eq!(basis(&partial, &changes, &written).unseen, [], "it may have been shown them");
        assert_eq!(inferred(&views, 0, &changes, &written), [11, 8]);
        assert_eq!(inferred(&views, 9, &changes, &written), [11]);
    }
}
