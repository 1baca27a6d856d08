//! The objects that describe this server: the addresses behind the Service `default/kubernetes`, and the
//! certificate authorities that it trusts. Each start writes them again. They bypass the request pipeline,
//! because its validation refuses loopback addresses, as Kubernetes' does, but a server on a laptop has no
//! other address.

use super::objects;
use crate::pipeline::Pipeline;
use kstore_api::patch::apply::{self, ObjectType, Write};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_api::{defaults, meta, schema, strategy};
use kstore_registry::provenance::Note;
use kstore_registry::registry::{Decision, WriteContext};
use kstore_registry::request::Target;
use serde_json::{Map, Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The common name of the client certificate that this server presents to aggregated API servers.
pub const FRONT_PROXY: &str = "front-proxy-client";

/// The default port of the Kubernetes API.
const DEFAULT_PORT: u16 = 6443;

/// The address of this server and the certificate authorities that it trusts.
#[derive(Clone, Debug, Default)]
pub struct ServerIdentity {
    /// `None` if clients know the server only by a host name.
    address: Option<SocketAddr>,
    /// Whether other programs write the endpoints of the Service `default/kubernetes`.
    leaves_endpoints: bool,
    client_ca: Option<String>,
    front_proxy_ca: Option<String>,
    /// Allowed common names of front proxies; empty: every name.
    front_proxy_names: Vec<String>,
}

impl ServerIdentity {
    /// From the advertised `host:port`, the PEM of the authority of client certificates, and the PEM of the
    /// authority of this server's own certificate as a front proxy.
    pub fn new(advertised: &str, client_ca: Option<String>, front_proxy_ca: Option<String>) -> Self {
        let address = advertised.parse::<SocketAddr>().ok().map(|address| match address.ip() {
            // A server that listens on all addresses can certainly be reached at the loopback address.
            ip if !ip.is_unspecified() => address,
            IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
            IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        });
        let front_proxy_names = vec![FRONT_PROXY.to_owned()];
        Self { address, leaves_endpoints: false, client_ca, front_proxy_ca, front_proxy_names }
    }

    /// Replaces the front proxies: PEM of their authorities, and their common names.
    pub fn with_front_proxies(self, authorities: String, names: Vec<String>) -> Self {
        Self { front_proxy_ca: Some(authorities), front_proxy_names: names, ..self }
    }

    /// Replaces the authorities that are given.
    pub(super) fn with_authorities(self, client_ca: Option<String>, front_proxy_ca: Option<String>) -> Self {
        Self {
            client_ca: client_ca.or(self.client_ca),
            front_proxy_ca: front_proxy_ca.or(self.front_proxy_ca),
            ..self
        }
    }

    /// Leaves the endpoints of the Service `default/kubernetes` to other programs.
    pub fn without_endpoints(self) -> Self {
        Self { leaves_endpoints: true, ..self }
    }

    /// The target port of the API's Service.
    pub(super) fn port(&self) -> u16 {
        self.address.map_or(DEFAULT_PORT, |address| address.port())
    }

    /// Writes the objects that differ from the current state.
    pub(super) async fn reconcile(&self, pipeline: &Pipeline) -> Result<(), Status> {
        let mut wanted = Vec::new();
        if let Some(address) = self.address.filter(|_| !self.leaves_endpoints) {
            wanted.extend([endpoints(address), endpoint_slice(address)]);
            wanted.push(service_ports(address.port()));
        }
        wanted.extend(self.authentication());
        let kept = futures::future::join_all(wanted.iter().map(|wanted| reconcile(pipeline, wanted))).await;
        kept.into_iter().collect()
    }

    /// Writes the ConfigMap with the authorities if it differs from the current state.
    pub(super) async fn reconcile_authentication(&self, pipeline: &Pipeline) -> Result<(), Status> {
        match self.authentication() {
            Some(wanted) => reconcile(pipeline, &wanted).await,
            None => Ok(()),
        }
    }

    /// The ConfigMap with the authorities that extension API servers trust; `None` if there are none.
    fn authentication(&self) -> Option<Value> {
        let mut data = Map::new();
        if let Some(ca) = &self.client_ca {
            data.insert("client-ca-file".into(), ca.as_str().into());
        }
        if let Some(ca) = &self.front_proxy_ca {
            let list = |names: &[&str]| json!(names).to_string().into();
            data.insert("requestheader-client-ca-file".into(), ca.as_str().into());
            data.insert(
                "requestheader-allowed-names".into(),
                json!(self.front_proxy_names).to_string().into(),
            );
            data.insert("requestheader-username-headers".into(), list(&["X-Remote-User"]));
            data.insert("requestheader-uid-headers".into(), list(&["X-Remote-Uid"]));
            data.insert("requestheader-group-headers".into(), list(&["X-Remote-Group"]));
            data.insert("requestheader-extra-headers-prefix".into(), list(&["X-Remote-Extra-"]));
        }
        let metadata = json!({ "name": "extension-apiserver-authentication", "namespace": "kube-system" });
        (!data.is_empty())
            .then(|| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }))
    }
}

async fn reconcile(pipeline: &Pipeline, wanted: &Value) -> Result<(), Status> {
    reconcile_with(pipeline, wanted, |row, stored| Some(changed(row, stored, wanted))).await
}

/// Creates `wanted` if it is absent, otherwise stores what `change` returns (`None`: no change).
pub(super) async fn reconcile_with(
    pipeline: &Pipeline,
    wanted: &Value,
    change: impl Fn(&'static Resource, &Value) -> Option<Value> + Send + Sync,
) -> Result<(), Status> {
    let row = crate::pipeline::row_of(wanted);
    let request = super::create(row, wanted);
    let target = Target { name: meta::name(wanted).into(), ..request.target.clone() };
    let note = Note::of(&request, &pipeline.nondet().clock).encode();
    let uid = pipeline.nondet().rng.uuid();
    let now = pipeline.nondet().clock.now_seconds();
    let decide = |stored: Option<&Value>| {
        let mut next = match stored {
            Some(stored) => match change(row, stored) {
                Some(next) => next,
                None => return Ok(Decision::Keep),
            },
            None => {
                let mut new = wanted.clone();
                meta::fill_system_fields(&mut new, &uid, now);
                completed(row, new)
            }
        };
        if let Some(ty) = row.object_type() {
            track(row, stored, &mut next, &now.to_string());
            schema::fill::fill(&mut next, ty);
        }
        Ok(Decision::Put(next))
    };
    let context = WriteContext { note, ..WriteContext::default() };
    pipeline.registry().guaranteed_update(&target, context, false, decide).await.map(drop)
}

/// Records the server as the manager of the fields that it changes, as a write through the pipeline would.
fn track(row: &'static Resource, stored: Option<&Value>, next: &mut Value, now: &str) {
    let Some(ty) = row.object_type() else { return };
    let api_version = row.api_version();
    let write = Write {
        manager: super::MANAGER,
        subresource: "",
        api_version: &api_version,
        now,
        reset: apply::reset_fields(row, ""),
    };
    apply::track_update(stored, next, &write, ObjectType::BuiltIn(ty));
    if let Some(stored) = stored {
        apply::keep_times(stored, next);
    }
}

/// A new object with the defaults that a create would apply. A given status is kept.
fn completed(row: &'static Resource, mut object: Value) -> Value {
    let status = object["status"].take();
    defaults::apply(row, &mut object);
    strategy::prepare_create(row, &mut object);
    if !status.is_null() {
        object["status"] = status;
    } else if object["status"].is_null()
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    object
}

/// The stored object with the wanted content. Labels, annotations and other additions by users are kept.
pub(super) fn changed(row: &'static Resource, stored: &Value, wanted: &Value) -> Value {
    let mut next = stored.clone();
    let members = wanted.as_object().into_iter().flatten();
    for (member, value) in
        members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
    {
        if member == "spec" {
            for (field, value) in value.as_object().into_iter().flatten() {
                next["spec"][field] = value.clone();
            }
        } else {
            next[member] = value.clone();
        }
    }
    for (label, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        next["metadata"]["labels"][label] = value.clone();
    }
    defaults::apply(row, &mut next);
    strategy::prepare_update(row, "", &mut next, stored);
    next
}

fn in_default(api_version: &str, kind: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "kubernetes", "namespace": "default" } })
}

fn service_ports(port: u16) -> Value {
    let mut service = in_default("v1", "Service");
    service["spec"] = json!({ "ports": objects::service_ports(port) });
    service
}

fn endpoints(address: SocketAddr) -> Value {
    let mut object = in_default("v1", "Endpoints");
    // The EndpointSlice is written directly, so the mirroring controller must skip this object.
    object["metadata"]["labels"] = json!({ "endpointslice.kubernetes.io/skip-mirror": "true" });
    object["subsets"] = json!([{
        "addresses": [{ "ip": address.ip().to_string() }],
        "ports": [{ "name": "https", "port": address.port(), "protocol": "TCP" }],
    }]);
    object
}

fn endpoint_slice(address: SocketAddr) -> Value {
    let mut object = in_default("discovery.k8s.io/v1", "EndpointSlice");
    object["metadata"]["labels"] = json!({ "kubernetes.io/service-name": "kubernetes" });
    object["addressType"] = json!(if address.is_ipv4() { "IPv4" } else { "IPv6" });
    object["endpoints"] =
        json!([{ "addresses": [address.ip().to_string()], "conditions": { "ready": true } }]);
    object["ports"] = json!([{ "name": "https", "port": address.port(), "protocol": "TCP" }]);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_advertises_the_loopback_address() {
        let at = |advertised: &str| {
            ServerIdentity::new(advertised, None, None).address.map(|address| address.to_string())
        };
        assert_eq!(at("10.1.2.3:7443").as_deref(), Some("10.1.2.3:7443"));
        assert_eq!(at("0.0.0.0:7443").as_deref(), Some("127.0.0.1:7443"));
        assert_eq!(at("[::]:7443").as_deref(), Some("[::1]:7443"));
        assert_eq!(at("api.example.com:7443"), None);
        assert_eq!(ServerIdentity::default().port(), DEFAULT_PORT);
    }
}
