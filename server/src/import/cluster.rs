//! Reads a running cluster by lists of all its kinds, as the user of a kubeconfig. All lists are of one revision where the server has one.

use super::UnusableSource;
use super::objects::ObjectSet;
use super::report::ImportReport;
use anyhow::Context as _;
use kstore_api::{meta, object};
use kstore_client::{ApiError, Client, Kubeconfig};
use kstore_cluster::escape;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Most tries of a request that the server refuses because it is busy.
const TRIES: u32 = 10;
/// Pause before a further try, if the server names none.
const BUSY: Duration = Duration::from_secs(1);
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// How fast a cluster is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPace {
    /// Objects that one request asks for.
    pub(crate) page: usize,
    /// Most requests in a second.
    pub(crate) requests_per_second: u32,
}

/// A cluster whose objects were read.
pub(crate) struct ReadCluster {
    /// A client of it, as the user of the kubeconfig.
    pub(crate) client: Client,
    /// The URL of its API server.
    pub(crate) server: String,
    /// The revision of the lists that the server could answer at one revision.
    pub(crate) revision: i64,
    /// The lists that the user may read.
    pub(crate) lists: Vec<ReadList>,
}

/// A list that was read, of a resource as a whole or in one namespace.
pub(crate) struct ReadList {
    pub(crate) resource: ListedResource,
    /// Empty for all namespaces, and for a resource without them.
    pub(crate) namespace: String,
    /// The revision of the list: a watch from it misses nothing.
    pub(crate) revision: i64,
    /// The keys of its objects that are imported, with the revisions of the objects.
    pub(crate) known: BTreeMap<String, i64>,
}

/// A cluster that is read.
struct Source {
    client: Client,
    page: usize,
    /// Time between two requests.
    pause: Duration,
}

/// A resource that the cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedResource {
    /// Empty for the core group.
    pub(crate) group: String,
    /// Group and version, as objects have them.
    pub(crate) api_version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) is_namespaced: bool,
}

/// Objects of a resource, and the revision of the list.
struct List {
    items: Vec<Value>,
    revision: i64,
}

/// Reads all objects of a cluster into a set. The report says what cannot be read.
///
/// # Errors
/// The kubeconfig cannot be used, or the cluster does not answer.
pub(crate) async fn read(
    kubeconfig: &Path,
    pace: ReadPace,
    objects: &mut ObjectSet,
    report: &mut ImportReport,
) -> anyhow::Result<ReadCluster> {
    let kubeconfig = Kubeconfig::read(kubeconfig)
        .map_err(|error| UnusableSource(format!("cannot use the kubeconfig: {error}")))?;
    let client = Client::connect_lazy(&kubeconfig, "kstore-import")?;
    let pause = Duration::from_secs(1) / pace.requests_per_second.max(1);
    let source = Source { client: client.clone(), page: pace.page.max(1), pause };
    let server = kubeconfig.server;
    let version = source.version().await.with_context(|| format!("cannot read {server}"))?;
    report.source = format!("{server} ({version})");
    let resources = source.resources(report).await.with_context(|| format!("cannot read {server}"))?;
    let (revision, lists) = source.read_all(resources, objects, report).await?;
    Ok(ReadCluster { client, server, revision, lists })
}

impl ListedResource {
    /// Plural and group, as kubectl takes them.
    pub(crate) fn label(&self) -> String {
        match &*self.group {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The path of the resource, in a namespace or with an empty one in all.
    fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let below = match namespace {
            "" => String::new(),
            namespace => format!("namespaces/{}/", escape(namespace)),
        };
        format!("{root}/{}/{below}{}", self.api_version, self.plural)
    }
}

#[derive(Deserialize)]
struct ServerVersion {
    #[serde(rename = "gitVersion")]
    git_version: String,
}

/// The part of an `APIResourceList` that names resources.
#[derive(Deserialize)]
struct CoreResources {
    resources: Vec<CoreResource>,
}

#[derive(Deserialize)]
struct CoreResource {
    name: String,
    namespaced: bool,
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Source {
    /// Reads the objects of these resources into a set. Returns the revision of the lists, and the lists.
    async fn read_all(
        &self,
        resources: Vec<ListedResource>,
        objects: &mut ObjectSet,
        report: &mut ImportReport,
    ) -> anyhow::Result<(i64, Vec<ReadList>)> {
        let is_definition = |resource: &ListedResource| (&*resource.group, &*resource.plural) == DEFINITIONS;
        let mut revision = None;
        if let Some(definitions) = resources.iter().find(|resource| is_definition(resource)) {
            let list = self.list(definitions, "", None).await?;
            revision = Some(list.revision);
            list.items.iter().for_each(|definition| objects.define(definition));
        }
        let (mut namespaces, mut lists) = (Vec::new(), Vec::new());
        // Namespaces first: kinds that may not be listed as a whole are listed in each.
        let (first, others): (Vec<_>, Vec<_>) = resources
            .into_iter()
            .partition(|resource| resource.api_version == "v1" && resource.plural == "namespaces");
        for resource in first.iter().chain(&others) {
            if !objects.is_importable(&resource.api_version, &resource.kind) {
                let reason = "computed, or served by another API server".to_owned();
                report.not_read.insert(resource.label(), reason);
                continue;
            }
            for (namespace, list) in self.list_readable(resource, &mut revision, &namespaces, report).await? {
                if resource.plural == "namespaces" {
                    let name = |item: &Value| meta::name(item).to_owned();
                    namespaces = list.items.iter().map(name).collect();
                }
                let added = list.items.into_iter().filter_map(|item| objects.add(item, report));
                let known = added.collect();
                lists.push(ReadList {
                    resource: resource.clone(),
                    namespace,
                    revision: list.revision,
                    known,
                });
            }
        }
        Ok((revision.unwrap_or_default(), lists))
    }

    /// The body of a GET, at the pace of the import. A busy server is asked again.
    async fn get(&self, path: &str) -> Result<bytes::Bytes, ApiError> {
        let mut tries = 1;
        loop {
            tokio::time::sleep(self.pause).await;
            match self.client.get_path(path).await {
                Err(error) if error.code() == Some(429) && tries < TRIES => {
                    let seconds = error.status().and_then(|status| status.retry_after_seconds());
                    tokio::time::sleep(seconds.map_or(BUSY, |seconds| Duration::from_secs(seconds.into())))
                        .await;
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn version(&self) -> anyhow::Result<String> {
        let answer = self.get("/version").await?;
        Ok(serde_json::from_slice::<ServerVersion>(&answer).context("/version is no version")?.git_version)
    }

    /// The resources that can be listed, each in the version that the server prefers.
    async fn resources(&self, report: &mut ImportReport) -> anyhow::Result<Vec<ListedResource>> {
        let core: CoreResources = serde_json::from_slice(&self.get("/api/v1").await?)?;
        let can_list = |verbs: &[String]| verbs.iter().any(|verb| verb == "list");
        let core = core.resources.into_iter().filter(|resource| can_list(&resource.verbs));
        let core = core.map(|CoreResource { name, namespaced, kind, .. }| ListedResource {
            group: String::new(),
            api_version: "v1".to_owned(),
            plural: name,
            kind,
            is_namespaced: namespaced,
        });
        let mut found: Vec<ListedResource> = core.collect();
        let mut known = BTreeSet::new();
        for version in self.client.discover().await? {
            if version.is_stale {
                report.not_read.insert(version.group.clone(), "its API server does not answer".to_owned());
                continue;
            }
            for resource in version.resources.into_iter().filter(|resource| can_list(&resource.verbs)) {
                // Both groups show the same Events.
                let is_repeated = version.group == "events.k8s.io";
                if is_repeated || !known.insert((version.group.clone(), resource.plural.clone())) {
                    continue;
                }
                found.push(ListedResource {
                    group: version.group.clone(),
                    api_version: format!("{}/{}", version.group, version.version),
                    plural: resource.plural,
                    kind: resource.kind,
                    is_namespaced: resource.is_namespaced,
                });
            }
        }
        Ok(found)
    }

    /// What the user may list of a resource: all of it, or, if that is forbidden, of some namespaces. Each list comes with its namespace.
    async fn list_readable(
        &self,
        resource: &ListedResource,
        revision: &mut Option<i64>,
        namespaces: &[String],
        report: &mut ImportReport,
    ) -> anyhow::Result<Vec<(String, List)>> {
        match self.list_at(resource, "", revision, report).await {
            Ok(list) => return Ok(vec![(String::new(), list)]),
            Err(error) if error.is_forbidden() && resource.is_namespaced && !namespaces.is_empty() => {}
            Err(error) if error.status().is_some() => {
                report.not_read.insert(resource.label(), error.to_string());
                return Ok(Vec::new());
            }
            Err(error) => return Err(error).with_context(|| format!("cannot list {}", resource.label())),
        }
        let (mut lists, mut refused) = (Vec::new(), 0);
        for namespace in namespaces {
            match self.list_at(resource, namespace, revision, report).await {
                Ok(list) => lists.push((namespace.clone(), list)),
                Err(error) if error.status().is_some() => refused += 1,
                Err(error) => return Err(error).with_context(|| format!("cannot list {}", resource.label())),
            }
        }
        if refused > 0 {
            let text = format!("forbidden in {refused} of {} namespaces", namespaces.len());
            report.not_read.insert(resource.label(), text);
        }
        Ok(lists)
    }

    /// Lists at the revision of the first list, or, where the server does not have that any more, the newest state.
    async fn list_at(
        &self,
        resource: &ListedResource,
        namespace: &str,
        revision: &mut Option<i64>,
        report: &mut ImportReport,
    ) -> Result<List, ApiError> {
        let list = match self.list(resource, namespace, *revision).await {
            Err(error) if revision.is_some() && matches!(error.code(), Some(400 | 410 | 504)) => {
                report.newer.insert(resource.label());
                self.list(resource, namespace, None).await?
            }
            list => list?,
        };
        revision.get_or_insert(list.revision);
        Ok(list)
    }

    /// Lists a resource in pages, at this exact revision or at the newest one.
    async fn list(
        &self,
        resource: &ListedResource,
        namespace: &str,
        revision: Option<i64>,
    ) -> Result<List, ApiError> {
        let path = format!("{}?limit={}", resource.path(namespace), self.page);
        let mut next = match revision {
            Some(revision) => format!("{path}&resourceVersion={revision}&resourceVersionMatch=Exact"),
            None => path.clone(),
        };
        let mut all = List { items: Vec::new(), revision: 0 };
        loop {
            let answer = self.get(&next).await?;
            let mut list: Value =
                serde_json::from_slice(&answer).map_err(|error| ApiError::Json(error.to_string()))?;
            for mut item in list["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
                if item.is_object() && object::kind(&item).is_empty() {
                    // The items of a list leave out what they all are.
                    object::set_type_meta(&mut item, &resource.api_version, &resource.kind);
                }
                all.items.push(item);
            }
            all.revision = object::text(&list["metadata"]["resourceVersion"]).parse().unwrap_or(all.revision);
            match object::text(&list["metadata"]["continue"]) {
                "" => return Ok(all),
                token => next = format!("{path}&continue={}", escape(token)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::convert::Conversion;
    use axum::body::Body;
    use http::{Request, Response};
    use kstore_nondet::{Nondet, Rng};
    use serde_json::json;
    use std::convert::Infallible;

    /// A cluster with two pages of ConfigMaps, Secrets that may be listed in one namespace, and Nodes without history.
    fn answer(path: &str) -> (u16, Value) {
        let status = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": reason}),
            )
        };
        let list = |items: Value, token: &str| {
            (200, json!({"metadata": {"resourceVersion": "900", "continue": token}, "items": items}))
        };
        let named = |name: &str, namespace: &str, revision: &str| json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": revision}});
        match path {
            "/api/v1/namespaces?limit=2" => list(json!([named("a", "", "10"), named("b", "", "11")]), ""),
            "/api/v1/configmaps?limit=2&resourceVersion=900&resourceVersionMatch=Exact" => {
                list(json!([named("one", "a", "20"), named("two", "a", "21")]), "t+1")
            }
            "/api/v1/configmaps?limit=2&continue=t%2B1" => list(json!([named("three", "b", "22")]), ""),
            "/api/v1/namespaces/a/secrets?limit=2&resourceVersion=900&resourceVersionMatch=Exact" => {
                list(json!([named("s", "a", "30")]), "")
            }
            "/api/v1/nodes?limit=2" => list(json!([named("n", "", "905")]), ""),
            path if path.contains("secrets") => status(403, "Forbidden"),
            path if path.contains("nodes") => status(410, "Expired"),
            _ => status(404, "NotFound"),
        }
    }

    fn source() -> Source {
        let service = tower::service_fn(|request: Request<tonic::body::Body>| async move {
            let (code, body) = answer(&request.uri().to_string());
            let response = Response::builder().status(code).body(Body::from(body.to_string()));
            Ok::<_, Infallible>(response.unwrap())
        });
        Source { client: Client::over(service, "test"), page: 2, pause: Duration::ZERO }
    }

    fn resource(plural: &str, kind: &str, is_namespaced: bool) -> ListedResource {
        let (group, api_version) = (String::new(), "v1".to_owned());
        ListedResource { group, api_version, plural: plural.to_owned(), kind: kind.to_owned(), is_namespaced }
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_of_one_revision_and_what_may_not_be_read_is_named() {
        let (source, mut report, mut revision) = (source(), ImportReport::default(), None);
        let namespaces = ["a".to_owned(), "b".to_owned()];
        let mut objects = ObjectSet::new(
            Conversion::new(crate::args::SecretPolicy::Mask, false, Vec::new(), &Rng::seeded(1)),
            &Nondet::simulated(1),
        );
        let mut counts = Vec::new();
        for resource in [
            resource("namespaces", "Namespace", false),
            resource("configmaps", "ConfigMap", true),
            resource("secrets", "Secret", true),
            resource("nodes", "Node", false),
            resource("pods", "Pod", true),
        ] {
            let lists =
                source.list_readable(&resource, &mut revision, &namespaces, &mut report).await.unwrap();
            let items: Vec<Value> = lists.into_iter().flat_map(|(_, list)| list.items).collect();
            counts.push(items.len());
            items.into_iter().for_each(|item| drop(objects.add(item, &mut report)));
        }
        assert_eq!((counts, revision), (vec![2, 3, 1, 1, 0], Some(900)));
        assert_eq!(report.left_out, []);
        let not_read: Vec<_> = report.not_read.iter().map(|(kind, why)| (&**kind, &**why)).collect();
        assert_eq!(not_read, [("pods", "NotFound"), ("secrets", "forbidden in 1 of 2 namespaces")]);
        assert_eq!(report.newer.iter().collect::<Vec<_>>(), ["nodes"]);
        assert!(objects.is_importable("v1", "Pod") && !objects.is_importable("v1", "ComponentStatus"));
        assert!(!objects.is_importable("metrics.k8s.io/v1beta1", "NodeMetrics"));
    }
}
