//! [`ApiServices`]: the stored APIServices, compiled: which groups and versions other API servers serve, and the priorities of all
//! groups and versions. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_api::group_version::by_priority;
use kstore_api::meta;
use kstore_api::object::{int, text};
use kstore_registry::outbound::{ApiBackend, Trust};
use serde_json::Value;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The type of the condition that says whether requests are proxied.
pub(super) const AVAILABLE: &str = "Available";

/// Priorities of custom groups, and of groups and versions without an APIService.
const USUAL: (i64, i64) = (1000, 100);

/// An APIService that another API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiService {
    /// The name of the object: `<version>.<group>`.
    pub(crate) name: Arc<str>,
    /// The UID: it differs if the object was deleted and created again.
    pub(super) uid: Arc<str>,
    pub(crate) group: Arc<str>,
    pub(crate) version: Arc<str>,
    /// The API server.
    pub(crate) backend: ApiBackend,
    /// Whether the stored condition is true; used until the first probe after a start.
    pub(super) was_available: bool,
}

impl ApiService {
    /// Whether both are the same object and name the same backend, so that probe results stay valid.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (&self.uid, &self.backend) == (&other.uid, &other.backend)
    }

    /// The path of its discovery document.
    pub(crate) fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }
}

/// The priorities of the versions of a group: the group's and the version's own.
type Versions = BTreeMap<Arc<str>, (i64, i64)>;

/// The stored APIServices, compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiServices {
    /// The APIServices with a Service, by name.
    remote: BTreeMap<Arc<str>, Arc<ApiService>>,
    /// `groupPriorityMinimum` and `versionPriority` of each group and version, unless they are [`USUAL`].
    /// Most custom groups have the usual ones, and there may be many.
    priorities: BTreeMap<Arc<str>, Versions>,
}

impl ApiServices {
    /// Compiles stored objects.
    pub(super) fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut services = Self::default();
        objects.into_iter().for_each(|object| services.set(object));
        services
    }

    /// Adds or replaces an APIService. An invalid Service reference counts as none.
    pub(super) fn set(&mut self, object: &Value) {
        self.remove(meta::name(object));
        let spec = &object["spec"];
        let priorities = (int(&spec["groupPriorityMinimum"]), int(&spec["versionPriority"]));
        if priorities != USUAL {
            let versions = self.priorities.entry(text(&spec["group"]).into()).or_default();
            versions.insert(text(&spec["version"]).into(), priorities);
        }
        if let Some(remote) = remote(object) {
            self.remote.insert(remote.name.clone(), Arc::new(remote));
        }
    }

    /// Removes an APIService.
    pub(super) fn remove(&mut self, name: &str) {
        self.remote.remove(name);
        let (version, group) = name.split_once('.').unwrap_or((name, ""));
        if let Some(versions) = self.priorities.get_mut(group) {
            versions.remove(version);
            if versions.is_empty() {
                self.priorities.remove(group);
            }
        }
    }

    /// The APIService of this name, if it has a Service.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<ApiService>> {
        self.remote.get(name)
    }

    /// The APIServices with a Service, sorted by name.
    pub(crate) fn remote(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        self.remote.values()
    }

    /// The priority of a group: the greatest `groupPriorityMinimum` of its versions. Clients prefer greater priorities; equal ones are
    /// ordered by name. `apiregistration.k8s.io` has the greatest of all.
    pub(crate) fn group_priority(&self, group: &str) -> i64 {
        if group == "apiregistration.k8s.io" {
            return i64::MAX;
        }
        let versions = self.priorities.get(group).into_iter().flat_map(BTreeMap::values);
        versions.map(|(of_group, _)| *of_group).max().unwrap_or(USUAL.0)
    }

    /// Orders versions of a group: the greatest `versionPriority` first, then as Kubernetes orders version names.
    pub(crate) fn compare_versions(&self, group: &str, a: &str, b: &str) -> Ordering {
        let versions = self.priorities.get(group);
        let key = |version: &str| {
            let known = versions.and_then(|versions| versions.get(version));
            Reverse(known.map_or(USUAL.1, |(_, of_version)| *of_version))
        };
        key(a).cmp(&key(b)).then_with(|| by_priority(a, b))
    }
}

fn remote(object: &Value) -> Option<ApiService> {
    let spec = &object["spec"];
    let service = spec["service"].as_object()?;
    let trust = match spec["insecureSkipTLSVerify"] == true {
        true => Trust::Insecure,
        false => Trust::Authorities(STANDARD.decode(text(&spec["caBundle"])).ok()?.into()),
    };
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_available = |condition: &Value| condition["type"] == AVAILABLE && condition["status"] == "True";
    Some(ApiService {
        name: meta::name(object).into(),
        uid: meta::uid(object).into(),
        group: text(&spec["group"]).into(),
        version: text(&spec["version"]).into(),
        backend: ApiBackend {
            namespace: service.get("namespace").map_or("", text).into(),
            name: service.get("name").map_or("", text).into(),
            port: service.get("port").and_then(Value::as_u64).and_then(|port| port.try_into().ok())?,
            trust,
        },
        was_available: conditions.iter().any(is_available),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// An APIService of `version` in `group` with these priorities, served by the Service `ns/name` if there is one.
    pub(in crate::aggregator) fn object(
        (group, version): (&str, &str),
        (of_group, of_version): (i64, i64),
        service: Option<&str>,
    ) -> Value {
        let mut object = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}"), "uid": "u"},
            "spec": {"group": group, "version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version},
        });
        if let Some((namespace, name)) = service.and_then(|service| service.split_once('/')) {
            object["spec"]["service"] = json!({"namespace": namespace, "name": name, "port": 443});
            object["spec"]["insecureSkipTLSVerify"] = json!(true);
        }
        object
    }

    #[test]
    fn only_apiservices_with_a_service_are_remote() {
        let objects = [
            object(("apps", "v1"), (17_800, 15), None),
            object(("metrics.k8s.io", "v1beta1"), (100, 100), Some("kube-system/metrics-server")),
        ];
        let mut services = ApiServices::of(&objects);
        let remote: Vec<_> = services.remote().collect();
        assert_eq!(remote.len(), 1);
        assert_eq!(remote[0].path(), "/apis/metrics.k8s.io/v1beta1");
        assert_eq!(remote[0].backend.host(), "metrics-server.kube-system.svc");
        assert_eq!((remote[0].backend.port, &remote[0].backend.trust), (443, &Trust::Insecure));
        assert!(!remote[0].was_available);
        objects.iter().for_each(|object| services.remove(meta::name(object)));
        assert_eq!(services, ApiServices::default());
    }

    #[test]
    fn groups_and_versions_are_ordered_by_priority_then_by_name() {
        let services = ApiServices::of([
            &object(("b.example.com", "v1"), (1000, 100), None),
            &object(("a.example.com", "v1"), (1000, 100), None),
            &object(("c.example.com", "v1alpha1"), (10, 1), Some("ns/c")),
            &object(("c.example.com", "v1"), (2000, 1), Some("ns/c")),
            &object(("c.example.com", "v2beta1"), (10, 7), Some("ns/c")),
        ]);
        let mut groups =
            ["b.example.com", "unknown.io", "a.example.com", "apiregistration.k8s.io", "c.example.com"];
        groups.sort_by_key(|group| (Reverse(services.group_priority(group)), *group));
        let wanted =
            ["apiregistration.k8s.io", "c.example.com", "a.example.com", "b.example.com", "unknown.io"];
        assert_eq!(groups, wanted);
        let mut versions = ["v1alpha1", "v1", "v2beta1"];
        versions.sort_by(|a, b| services.compare_versions("c.example.com", a, b));
        assert_eq!(versions, ["v2beta1", "v1", "v1alpha1"]);
    }
}
