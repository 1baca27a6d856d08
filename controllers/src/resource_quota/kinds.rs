//! [`Kinds`]: the kinds that quotas can count: built-in ones, and custom ones from their definitions.

use super::counted::Counted;
use crate::caches::{Sources, Watched};
use crate::definition::CustomKind;
use crate::resource::{EVENTS, Resource, resource_of};
use crate::view::Meta;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kstore_api::kind::RESOURCES;
use kstore_api::lenient;
use kstore_api::quantity::Quantity;
use kstore_api::quota::{Amounts, Evaluator, Quota, Usage, count_of, kinds_of};
use kstore_api::version::Minor;
use kstore_client::WatchParams;
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A kind whose objects quotas count.
#[derive(Clone, Debug)]
pub(super) struct CountedKind {
    /// Resource of the kind, for the watch.
    pub(super) resource: Resource,
    /// Name of the kind.
    pub(super) kind: String,
    /// Computes the usage of its objects.
    pub(super) evaluator: Evaluator,
    /// Usage of each object, if the kind is only counted.
    each: Usage,
}

impl CountedKind {
    fn new(resource: Resource, kind: &str, evaluator: Evaluator) -> Self {
        let each = evaluator.usage(&Value::Null);
        Self { resource, kind: kind.to_owned(), evaluator, each }
    }

    /// The usage of an object, if it has this kind.
    pub(super) fn usage<'u>(&'u self, object: &'u Counted) -> Option<&'u Usage> {
        object.is(self).then(|| object.usage().unwrap_or(&self.each))
    }

    /// Whether a quota bounds a resource that objects of the kind use.
    pub(super) fn is_bounded_by(&self, quota: &Quota) -> bool {
        quota.wanted.keys().any(|name| self.evaluator.covers(name))
    }

    fn identity(&self) -> (&Resource, &str, &str) {
        (&self.resource, &self.kind, self.evaluator.count())
    }
}

impl PartialEq for CountedKind {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for CountedKind {}

impl PartialOrd for CountedKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CountedKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

/// All countable kinds.
pub(super) struct Kinds {
    minor: Minor,
    custom: BTreeMap<String, Arc<CustomKind>>,
    /// Whether the server serves ResourceClaims.
    has_claims: bool,
}

/// The rules of ResourceClaims in a version of Kubernetes.
pub(super) fn resource_claims(minor: Minor) -> Evaluator {
    Evaluator::of(CLAIMS.0, CLAIMS.1).in_version(minor)
}

/// Group and plural of ResourceClaims.
const CLAIMS: (&str, &str) = ("resource.k8s.io", "resourceclaims");

impl Kinds {
    /// The built-in kinds of a version of Kubernetes plus these custom ones.
    pub(super) fn with(
        minor: Minor,
        has_claims: bool,
        custom: impl Iterator<Item = Arc<CustomKind>>,
    ) -> Self {
        let of_namespaces = custom.filter(|kind| kind.namespaced);
        Self {
            minor,
            has_claims,
            custom: of_namespaces
                .map(|kind| (count_of(&kind.resource.group, &kind.resource.plural), kind))
                .collect(),
        }
    }

    /// The kinds that use the bounded resources of a quota, and these resources with zero amounts. Omits
    /// resources of kinds that are not served.
    pub(super) fn counted_by(&self, quota: &Quota) -> (BTreeSet<CountedKind>, Amounts) {
        let (mut kinds, mut amounts) = (BTreeSet::new(), Amounts::new());
        for name in quota.wanted.keys() {
            for (group, plural) in kinds_of(self.minor, name) {
                if let Some(kind) = self.find(group, plural) {
                    kinds.insert(kind);
                    amounts.insert(name.clone(), Quantity::ZERO);
                }
            }
        }
        (kinds, amounts)
    }

    fn find(&self, group: &str, plural: &str) -> Option<CountedKind> {
        let evaluator = Evaluator::of(group, plural).in_version(self.minor);
        if (group, plural) == CLAIMS && !self.has_claims {
            return None;
        }
        // Events are one kind in two API groups, stored in one of them.
        if plural == "events" && matches!(group, "" | "events.k8s.io") {
            return Some(CountedKind::new(EVENTS, "Event", evaluator));
        }
        if let Some(custom) = self.custom.get(evaluator.count()) {
            return Some(CountedKind::new(custom.resource.clone(), &custom.kind, evaluator));
        }
        let row = RESOURCES.iter().find(|row| {
            (row.group, row.plural) == (group, plural)
                && row.namespaced
                && row.storage.is_some()
                && row.storage_version.is_none()
                && ["list", "watch"].iter().all(|verb| row.verbs.contains(verb))
        })?;
        let resource = Resource::named(row.group, row.version, row.plural);
        Some(CountedKind::new(resource, row.kind, evaluator))
    }
}

/// Kind and resource of a CustomResourceDefinition.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    key: Key,
    uid: String,
    revision: Revision,
    declares: Option<Arc<CustomKind>>,
}

impl Definition {
    /// The declared kind, if the definition is established.
    pub(super) fn declares(&self) -> Option<&Arc<CustomKind>> {
        self.declares.as_ref()
    }

    /// The object count resource of the kind.
    pub(super) fn count(&self) -> Option<String> {
        self.declares().map(|kind| count_of(&kind.resource.group, &kind.resource.plural))
    }

    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            metadata: Meta,
        }
        let Head { metadata } = lenient::from_slice(json)?;
        Ok(Self {
            key: metadata.key(),
            revision: metadata.revision(),
            uid: metadata.uid,
            declares: CustomKind::from_slice(json).map(Arc::new),
        })
    }
}

impl Object for Definition {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

impl Watched for Informer<Definition> {
    fn start(from: &Sources<'_>) -> Self {
        let (params, decode) = (WatchParams::default(), Definition::decode);
        let source = from.multi.project::<CustomResourceDefinition, _, _>(params, decode);
        let resource = resource_of::<CustomResourceDefinition>();
        from.start("customresourcedefinitions", Some(resource), Builder::new(source))
    }
}
