//! Kinds by the names that kubectl takes: those of the built-in table, and all others by discovery.

use anyhow::{Context, anyhow, bail};
use kstore_api::kind::RESOURCES;
use kstore_client::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A kind of stored objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundKind {
    pub(crate) plural: String,
    pub(crate) group: String,
    /// A served version, without the group.
    pub(crate) version: String,
    pub(crate) namespaced: bool,
}

impl FoundKind {
    /// The plural, followed by the group if there is one.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// Finds kinds at a server.
pub(crate) struct KindFinder<'c> {
    client: &'c Client,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    group_version: String,
}

#[derive(Deserialize)]
struct Kinds {
    resources: Vec<Kind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    name: String,
    #[serde(default)]
    singular_name: String,
    namespaced: bool,
    kind: String,
    #[serde(default)]
    short_names: Vec<String>,
}

impl Kind {
    fn is_named(&self, name: &str) -> bool {
        let names = [&self.name, &self.singular_name, &self.kind].into_iter().chain(&self.short_names);
        !name.is_empty() && names.into_iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

impl<'c> KindFinder<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client }
    }

    /// Finds a kind by plural, singular, short name or kind, with or without `.group`. Built-in kinds take precedence, and
    /// need no request.
    ///
    /// # Errors
    /// There is no such kind, and the nearest one is named; or the server does not answer.
    pub(crate) async fn find(&self, text: &str) -> anyhow::Result<FoundKind> {
        if let Some(found) = built_in(text) {
            return Ok(found);
        }
        let mut known: Vec<String> = built_in_names().map(str::to_owned).collect();
        let (name, group) = split(text);
        let Groups { groups } = self.get("/apis").await?;
        for found in groups.into_iter().filter(|found| group.is_empty() || found.name == group) {
            // All versions of a group: a kind may be in some of them only.
            for version in &found.versions {
                // An aggregated API server that does not answer hides its own kinds only.
                let Ok(Kinds { resources }) = self.get(&format!("/apis/{}", version.group_version)).await
                else {
                    continue;
                };
                for kind in resources.into_iter().filter(|kind| !kind.name.contains('/')) {
                    if kind.is_named(name) {
                        let Kind { name: plural, namespaced, .. } = kind;
                        let version = version.group_version.rsplit('/').next().unwrap_or_default().to_owned();
                        return Ok(FoundKind { plural, group: found.name, version, namespaced });
                    }
                    known.extend([kind.singular_name, kind.name]);
                }
            }
        }
        bail!("{}", unknown_kind(text, name, &known))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = self.client.get_path(path).await.map_err(|error| anyhow!("{error}"))?;
        serde_json::from_slice(&answer)
            .with_context(|| format!("the server's answer to {path} is not discovery"))
    }
}

/// The refusal of a name that no kind has.
fn unknown_kind(text: &str, name: &str, known: &[String]) -> String {
    match nearest(name, known) {
        Some(meant) => format!("`{text}` is not a kind of this API; did you mean {meant}?"),
        None => format!("`{text}` is not a kind of this API; see kubectl api-resources"),
    }
}

/// The known name that a mistyped one stands for: at most two letters differ, and not more than a third.
fn nearest<'k>(name: &str, known: &'k [String]) -> Option<&'k str> {
    let name = name.to_ascii_lowercase();
    let names = known.iter().filter(|known| !known.is_empty());
    let (distance, nearest) = names
        .map(|known| (strsim::osa_distance(&name, known), known.as_str()))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 && distance * 3 <= name.chars().count()).then_some(nearest)
}

/// Singular and plural names of the built-in kinds with stored objects.
fn built_in_names() -> impl Iterator<Item = &'static str> {
    let stored = RESOURCES.iter().filter(|row| row.is_stored() && row.storage_version.is_none());
    stored.flat_map(|row| [row.singular, row.plural])
}

fn split(text: &str) -> (&str, &str) {
    text.split_once('.').unwrap_or((text, ""))
}

/// Finds a built-in kind with stored objects.
pub(crate) fn built_in(text: &str) -> Option<FoundKind> {
    let text = text.to_ascii_lowercase();
    let (name, group) = split(&text);
    let mut stored = RESOURCES.iter().filter(|row| row.is_stored() && row.storage_version.is_none());
    let found = stored.find(|row| {
        let named = row.plural == name || row.singular == name || row.short_names.contains(&name);
        (named || row.kind.eq_ignore_ascii_case(name)) && (group.is_empty() || row.group == group)
    })?;
    Some(FoundKind {
        plural: found.plural.into(),
        group: found.group.into(),
        version: found.version.into(),
        namespaced: found.namespaced,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_kind_is_found_by_any_of_its_names() {
        for (text, expected) in [
            ("deployment", Some("deployments")),
            ("deploy", Some("deployments")),
            ("Deployment.apps", Some("deployments")),
            ("po", Some("pods")),
            ("Node", Some("nodes")),
            ("deployment.batch", None),
            ("selfsubjectreview", None),
            ("gadget", None),
        ] {
            assert_eq!(built_in(text).map(|found| found.plural).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_mistyped_kind_is_refused_with_the_one_that_was_meant() {
        let known: Vec<_> = built_in_names().chain(["cache", "caches"]).map(str::to_owned).collect();
        for (text, expected) in [
            ("depoyment", "`depoyment` is not a kind of this API; did you mean deployment?"),
            ("Deploymnets.apps", "`Deploymnets.apps` is not a kind of this API; did you mean deployments?"),
            ("cahce", "`cahce` is not a kind of this API; did you mean cache?"),
            ("gadget", "`gadget` is not a kind of this API; see kubectl api-resources"),
            ("x", "`x` is not a kind of this API; see kubectl api-resources"),
        ] {
            assert_eq!(unknown_kind(text, split(text).0, &known), expected);
        }
    }

    #[test]
    fn a_discovered_kind_has_plural_singular_kind_and_short_names() {
        let kind: Kind = serde_json::from_str(
            r#"{"name":"caches","singularName":"cache","namespaced":true,"kind":"Cache","shortNames":["ca"]}"#,
        )
        .unwrap();
        for (name, expected) in [("caches", true), ("Cache", true), ("ca", true), ("c", false), ("", false)] {
            assert_eq!(kind.is_named(name), expected, "{name}");
        }
    }
}
