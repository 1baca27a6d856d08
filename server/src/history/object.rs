//! [`HistoryObject`]: the object of a command, and a revision of it: `deployment/web@244`.

use crate::revision::{SelectedObject, expression};
use crate::served_kinds::{FoundKind, KindFinder};
use anyhow::bail;
use kstore_cluster::escape;

/// An object of a running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistoryObject {
    pub(super) kind: FoundKind,
    /// Empty for kinds without namespaces.
    pub(super) namespace: String,
    pub(super) name: String,
}

impl HistoryObject {
    /// Finds the kind of `KIND/NAME`.
    ///
    /// # Errors
    /// The text has another form, or there is no such kind.
    pub(super) async fn find(finder: &KindFinder<'_>, text: &str, namespace: &str) -> anyhow::Result<Self> {
        let Some((kind, name)) =
            text.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
        else {
            bail!("say which object: KIND/NAME, for example deployment/web, and not {text:?}");
        };
        let kind = finder.find(kind).await?;
        let namespace = if kind.namespaced { namespace.to_owned() } else { String::new() };
        Ok(Self { kind, namespace, name: name.to_owned() })
    }

    /// Whether its values are hidden.
    pub(super) fn is_secret(&self) -> bool {
        self.kind.plural == "secrets" && self.kind.group.is_empty()
    }

    /// The path of its collection.
    pub(super) fn collection(&self) -> String {
        collection(&self.kind, &self.namespace)
    }

    /// The object as the server takes it to resolve revisions; `resource` is its qualified plural.
    pub(super) fn selected<'o>(&'o self, resource: &'o str) -> SelectedObject<'o> {
        SelectedObject { resource, namespace: &self.namespace, name: &self.name }
    }

    /// The object in a few words: `deployments.apps default/web`.
    pub(super) fn title(&self) -> String {
        let name = [&*self.namespace, &*self.name];
        let name: Vec<&str> = name.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{} {}", self.kind.qualified(), name.join("/"))
    }
}

/// The path of the collection of a kind in a namespace; empty: in all of them.
pub(super) fn collection(kind: &FoundKind, namespace: &str) -> String {
    let FoundKind { plural, group, version, .. } = kind;
    let version =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    match namespace.is_empty() {
        true => format!("{version}/{plural}"),
        false => format!("{version}/namespaces/{}/{plural}", escape(namespace)),
    }
}

/// Splits `deployment/web@244` into the object and the revision; `None`: none is said, or `now`.
///
/// # Errors
/// What follows the `@` is no revision.
pub(super) fn with_revision(text: &str) -> anyhow::Result<(&str, Option<&str>)> {
    match text.rsplit_once('@') {
        None => Ok((text, None)),
        Some((object, revision)) => Ok((object, self::revision(revision)?)),
    }
}

/// Checks the form of a revision; `None` for `now`, which needs no question to the server.
///
/// # Errors
/// It has none of the forms.
pub(super) fn revision(text: &str) -> anyhow::Result<Option<&str>> {
    expression(text)?;
    Ok(Some(text).filter(|text| *text != "now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_follows_the_last_at_sign() {
        assert_eq!(with_revision("deployment/web@244").unwrap(), ("deployment/web", Some("244")));
        assert_eq!(with_revision("clusterrole/a@b@#7").unwrap(), ("clusterrole/a@b", Some("#7")));
        assert_eq!(with_revision("deployment/web@5m~2").unwrap(), ("deployment/web", Some("5m~2")));
        assert_eq!(with_revision("deployment/web@now").unwrap(), ("deployment/web", None));
        assert_eq!(with_revision("deployment/web").unwrap(), ("deployment/web", None));
        for text in ["a/b@", "a/b@-1", "a/b@0", "a/b@Yesterday"] {
            assert!(with_revision(text).unwrap_err().to_string().contains("is no revision"), "{text}");
        }
    }

    #[test]
    fn the_collection_of_an_object_has_group_version_and_namespace() {
        let object = |kind: &str, namespace: &str| {
            let kind = crate::served_kinds::built_in(kind).unwrap();
            HistoryObject { kind, namespace: namespace.to_owned(), name: "a".to_owned() }
        };
        assert_eq!(object("deploy", "x").collection(), "/apis/apps/v1/namespaces/x/deployments");
        assert_eq!(object("node", "").collection(), "/api/v1/nodes");
        assert_eq!(object("pod", "x").title(), "pods x/a");
        assert!(object("secret", "x").is_secret() && !object("configmap", "x").is_secret());
    }
}
