//! What decides about the usage of pods besides their annotations: PodBehaviors and ServiceLoads, looked at whenever a client asks for
//! usage. So loads cost nothing between requests, and a cluster without these objects does no more than before.

use super::Streams;
use crate::load::record::LoadRecord;
use crate::load::share;
use crate::pod_behavior::record::BehaviorRecord;
use crate::pod_behavior::{PodFacts, effective, ordered};
use crate::usage::ExternalUsage;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kstore_client::{ApiError, ListParams};
use kstore_informer::{Informer, Object as _};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The caches of the objects that decide about the usage of pods.
#[derive(Clone)]
pub(crate) struct UsageCaches {
    pub(crate) loads: Informer<LoadRecord>,
    pub(crate) behaviors: Informer<BehaviorRecord>,
}

impl Streams {
    /// What decides about the usage of these pods.
    pub(super) async fn external_usage(&self, pods: &[Pod]) -> Result<ExternalUsage, ApiError> {
        let mut usage = ExternalUsage::default();
        let Some(caches) = &self.usage_caches else { return Ok(usage) };
        let rules = ordered(caches.behaviors.list());
        if !rules.is_empty() {
            usage.annotations = pods.iter().filter_map(|pod| with_rules(&rules, pod)).collect();
        }
        let namespaces: BTreeSet<&str> =
            pods.iter().filter_map(|pod| pod.metadata.namespace.as_deref()).collect();
        let loads =
            caches.loads.list().into_iter().filter(|load| namespaces.contains(load.key().namespace()));
        let now = self.clock.now();
        for load in loads {
            let Ok(spec) = &load.spec else { continue };
            let params =
                ListParams::default().labels(&format!("kubernetes.io/service-name={}", spec.service));
            let (slices, _) =
                self.client.api::<EndpointSlice>().list(load.key().namespace(), &params).await?;
            share::add(&mut usage.loads, &load, &share::serving(&slices), now);
        }
        Ok(usage)
    }
}

/// The uid and the annotations of a pod if rules add some.
fn with_rules(
    rules: &[std::sync::Arc<BehaviorRecord>],
    pod: &Pod,
) -> Option<(String, BTreeMap<String, String>)> {
    let (metadata, none) = (&pod.metadata, BTreeMap::new());
    let facts = PodFacts {
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        labels: metadata.labels.as_ref().unwrap_or(&none),
        annotations: metadata.annotations.as_ref().unwrap_or(&none),
    };
    let spec = pod.spec.as_ref()?;
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let containers: Vec<_> =
        all.map(|one| (one.name.as_str(), one.image.as_deref().unwrap_or_default())).collect();
    match effective(rules, facts, &containers) {
        Cow::Owned(merged) => Some((metadata.uid.clone()?, merged)),
        Cow::Borrowed(_) => None,
    }
}
