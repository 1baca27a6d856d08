//! The kinds of aggregated API servers: the groups and versions whose APIService names a Service, with the
//! resources that discovery lists for them.

use crate::resource::Resource;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kstore_client::{ApiError, Client, DiscoveredResource, DiscoveredVersion, Obj};
use kstore_informer::Informer;
use std::collections::BTreeSet;

/// Groups with their versions.
type GroupVersions = BTreeSet<(String, String)>;

/// A kind of an aggregated API server, in the version that its group prefers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AggregatedKind {
    /// The kind as in owner references.
    pub kind: String,
    /// Its resource.
    pub resource: Resource,
    /// Whether the objects are namespaced.
    pub namespaced: bool,
    /// Verbs that the server supports.
    pub verbs: Vec<String>,
}

impl AggregatedKind {
    /// Whether the server supports all these verbs.
    pub(crate) fn supports(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|supported| supported == verb))
    }
}

/// The kinds of all aggregated API servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AggregatedKinds {
    /// The kinds of the servers that answer.
    pub kinds: Vec<AggregatedKind>,
    /// The groups and versions whose server does not answer: their kinds are unknown.
    pub unavailable: GroupVersions,
}

impl AggregatedKinds {
    /// Reads the kinds from discovery. Without aggregated API servers it sends no request.
    ///
    /// # Errors
    /// The request failed: nothing is known about any kind.
    pub(crate) async fn discover(
        client: &Client,
        services: &Informer<Obj<APIService>>,
    ) -> Result<Self, ApiError> {
        let services = group_versions(services.view().iter().map(|service| &***service));
        match services.is_empty() {
            true => Ok(Self::default()),
            false => Ok(Self::of(&services, client.discover().await?)),
        }
    }

    /// The kinds of these aggregated groups and versions. A resource that several versions of a group have
    /// counts in the first of them; if that one is of this API server, it is no aggregated kind.
    fn of(services: &GroupVersions, discovered: Vec<DiscoveredVersion>) -> Self {
        let (mut found, mut known) = (Self::default(), BTreeSet::new());
        for DiscoveredVersion { group, version, is_stale, resources } in discovered {
            let is_aggregated = services.contains(&(group.clone(), version.clone()));
            if is_stale && is_aggregated {
                found.unavailable.insert((group, version));
                continue;
            }
            for DiscoveredResource { plural, kind, is_namespaced, verbs } in resources {
                if !known.insert((group.clone(), plural.clone())) || !is_aggregated {
                    continue;
                }
                let resource =
                    Resource { is_aggregated, ..Resource::named(group.clone(), version.clone(), plural) };
                found.kinds.push(AggregatedKind { kind, resource, namespaced: is_namespaced, verbs });
            }
        }
        found
    }

    /// Whether the server of this resource does not answer.
    pub(crate) fn is_unavailable(&self, resource: &Resource) -> bool {
        let group_version = (resource.group.to_string(), resource.version.to_string());
        resource.is_aggregated && self.unavailable.contains(&group_version)
    }

    /// Kubernetes' message about the servers that do not answer; `None` if all do.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed: Vec<String> = self
            .unavailable
            .iter()
            .map(|(group, version)| {
                format!("{group}/{version}: stale GroupVersion discovery: {group}/{version}")
            })
            .collect();
        (!failed.is_empty()).then(|| {
            format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
                failed.len(),
                failed.join(", ")
            )
        })
    }
}

/// The groups and versions of the APIServices with a Service.
pub(crate) fn group_versions<'a>(services: impl Iterator<Item = &'a APIService>) -> GroupVersions {
    let specs = services.filter_map(|service| service.spec.as_ref()).filter(|spec| spec.service.is_some());
    specs
        .map(|spec| (spec.group.clone().unwrap_or_default(), spec.version.clone().unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn version(name: &str, is_stale: bool, resources: &[&str]) -> DiscoveredVersion {
        let resource = |plural: &&str| DiscoveredResource {
            plural: (*plural).to_owned(),
            kind: plural.to_uppercase(),
            is_namespaced: true,
            verbs: ["delete", "get", "list"].map(str::to_owned).into(),
        };
        DiscoveredVersion {
            group: "wardle.example.com".to_owned(),
            version: name.to_owned(),
            is_stale,
            resources: resources.iter().map(resource).collect(),
        }
    }

    fn services(versions: &[&str]) -> GroupVersions {
        let service = |version: &&str| -> APIService {
            from_value(json!({ "metadata": {}, "spec": { "group": "wardle.example.com", "version": version,
                "groupPriorityMinimum": 1, "versionPriority": 1, "service": { "name": "wardle" } } }))
            .unwrap()
        };
        let mut all: Vec<APIService> = versions.iter().map(service).collect();
        let mut local = service(&"local");
        local.spec.as_mut().unwrap().service = None;
        all.push(local);
        group_versions(all.iter())
    }

    fn found(all: &AggregatedKinds) -> Vec<String> {
        all.kinds.iter().map(|kind| format!("{}/{}", kind.resource.version, kind.resource.plural)).collect()
    }

    #[test]
    fn a_resource_counts_in_the_preferred_version_of_its_group() {
        let discovered = vec![
            version("v1", false, &["a"]),
            version("v1beta1", false, &["a", "b"]),
            version("local", false, &["c"]),
        ];
        let all = AggregatedKinds::of(&services(&["v1", "v1beta1"]), discovered.clone());
        assert_eq!(found(&all), ["v1/a", "v1beta1/b"]);
        assert!(all.kinds.iter().all(|kind| kind.resource.is_aggregated));
        assert!(all.kinds[0].supports(&["list", "delete"]) && !all.kinds[0].supports(&["list", "watch"]));
        assert_eq!(all.failure(), None);
        let some = AggregatedKinds::of(&services(&["v1beta1"]), discovered);
        assert_eq!(found(&some), ["v1beta1/b"], "this API server stores the other one");
    }

    #[test]
    fn versions_of_a_server_that_does_not_answer_are_unavailable() {
        let discovered = vec![version("v1", true, &["a"]), version("v1beta1", false, &["b"])];
        let all = AggregatedKinds::of(&services(&["v1", "v1beta1"]), discovered);
        assert_eq!(found(&all), ["v1beta1/b"]);
        let resource = |version: &'static str| Resource {
            is_aggregated: true,
            ..Resource::named("wardle.example.com", version, "a")
        };
        assert!(all.is_unavailable(&resource("v1")) && !all.is_unavailable(&resource("v1beta1")));
        let message = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                       wardle.example.com/v1: stale GroupVersion discovery: wardle.example.com/v1";
        assert_eq!(all.failure().as_deref(), Some(message));
    }
}
