//! [`Kinds`]: which kinds the bounds of quotas are about: built-in ones, and custom ones by their definitions.

use super::counted::Counted;
use crate::caches::{Sources, Watched};
use crate::definition::CustomKind;
use crate::resource::{EVENTS, Resource, resource_of};
use crate::view::Meta;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kstore_api::kind::RESOURCES;
use kstore_api::lenient;
use kstore_api::quantity::Quantity;
use kstore_api::quota::{Amounts, Evaluator, Quota, Usage, count_of, kind_of};
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
    /// Where its objects are watched.
    pub(super) resource: Resource,
    /// Its name.
    pub(super) kind: String,
    /// What its objects use.
    pub(super) evaluator: Evaluator,
    /// What each of its objects uses, if they are only counted.
    each: Usage,
}

impl CountedKind {
    fn new(resource: Resource, kind: &str, evaluator: Evaluator) -> Self {
        let each = evaluator.usage(&Value::Null);
        Self { resource, kind: kind.to_owned(), evaluator, each }
    }

    /// What an object uses, if it is of this kind.
    pub(super) fn usage<'u>(&'u self, object: &'u Counted) -> Option<&'u Usage> {
        object.is(self).then(|| object.usage().unwrap_or(&self.each))
    }

    /// Whether a quota bounds something that objects of the kind use.
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

/// The kinds that can be counted.
pub(super) struct Kinds {
    custom: BTreeMap<String, Arc<CustomKind>>,
}

impl Kinds {
    /// The built-in kinds and these.
    pub(super) fn with(custom: impl Iterator<Item = Arc<CustomKind>>) -> Self {
        let of_namespaces = custom.filter(|kind| kind.namespaced);
        Self {
            custom: of_namespaces
                .map(|kind| (count_of(&kind.resource.group, &kind.resource.plural), kind))
                .collect(),
        }
    }

    /// The kinds that use what a quota bounds, and the resources that they use, with amounts of zero. Resources of kinds that
    /// are not served are left out.
    pub(super) fn counted_by(&self, quota: &Quota) -> (BTreeSet<CountedKind>, Amounts) {
        let (mut kinds, mut amounts) = (BTreeSet::new(), Amounts::new());
        for name in quota.wanted.keys() {
            let kind = kind_of(name).and_then(|(group, plural)| self.find(group, plural));
            if let Some(kind) = kind {
                kinds.insert(kind);
                amounts.insert(name.clone(), Quantity::ZERO);
            }
        }
        (kinds, amounts)
    }

    fn find(&self, group: &str, plural: &str) -> Option<CountedKind> {
        let evaluator = Evaluator::of(group, plural);
        // Events are one kind in two groups, and all of them are stored in one.
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
        let resource =
            Resource { group: row.group.into(), version: row.version.into(), plural: row.plural.into() };
        Some(CountedKind::new(resource, row.kind, evaluator))
    }
}

/// A CustomResourceDefinition, as far as quotas go.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    key: Key,
    uid: String,
    revision: Revision,
    declares: Option<Arc<CustomKind>>,
}

impl Definition {
    /// The kind that it declares, if it is established.
    pub(super) fn declares(&self) -> Option<&Arc<CustomKind>> {
        self.declares.as_ref()
    }

    /// The resource that counts objects of the kind.
    pub(super) fn count(&self) -> Option<String> {
        self.declares().map(|kind| count_of(&kind.resource.group, &kind.resource.plural))
    }

    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Head {
            metadata: Meta,
        }
        let Head { metadata: Meta { name, uid, resource_version, .. } } = lenient::from_slice(json)?;
        Ok(Self {
            key: Key::new("", &name),
            uid,
            revision: Revision(resource_version.parse().unwrap_or(0)),
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
