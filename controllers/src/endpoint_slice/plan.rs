//! Distribution of a Service's endpoints over slices, with few writes. Pure.
//!
//! For each address family and set of ports: (1) Endpoints stay in their slice, refreshed; missing endpoints
//! are removed. (2) New endpoints fill slices that change anyway, the fullest first. (3) The rest goes into
//! one other slice, the best fit, if it fits completely. (4) What still remains goes into new slices.
//! Unneeded slices are reused for (4) before they are deleted. A family without endpoints keeps one empty
//! slice. Last, endpoints get their hints (`hints`): an endpoint that stays keeps its hints until its slice changes
//! or they no longer fit.

use super::endpoints::{Family, Groups, Port, families, groups};
use super::{MANAGED_BY, MANAGER, SERVICE_LABEL, hints, topology};
use crate::action::{Action, Propagation, Target};
use crate::claim::controller_ref;
use crate::limits::ENDPOINTS_PER_SLICE;
use crate::object::Object;
use crate::resource::ENDPOINTSLICES;
use crate::view::Pod;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The Service.
    pub service: &'a Service,
    /// The selected pods.
    pub pods: &'a [Arc<Pod>],
    /// Zones of nodes.
    pub zones: &'a BTreeMap<String, String>,
    /// Slices of the Service, of any manager.
    pub slices: &'a [&'a EndpointSlice],
    /// Shares of the zones in the CPUs of the cluster, if known.
    pub shares: Option<&'a topology::Shares>,
}

/// Whether the controller manages the endpoints: the Service has a selector, is no ExternalName and is not being deleted.
pub(crate) fn is_managed(service: &Service) -> bool {
    let Some(spec) = service.spec.as_ref() else { return false };
    spec.selector.as_ref().is_some_and(|s| !s.is_empty())
        && spec.type_.as_deref() != Some("ExternalName")
        && service.metadata.deletion_timestamp.is_none()
}

/// Plans the slices of the Service. `is_hinted` says whether it has hints by its annotation, before and after.
pub(crate) fn plan(seen: Observed<'_>, is_hinted: &mut bool) -> Vec<Action> {
    let Some(spec) = seen.service.spec.as_ref().filter(|_| is_managed(seen.service)) else { return vec![] };
    let ours = |s: &&&EndpointSlice| {
        s.metadata.labels.as_ref().is_some_and(|l| l.get(MANAGED_BY).is_some_and(|m| m == MANAGER))
            && s.metadata.deletion_timestamp.is_none()
    };
    let slices: Vec<&EndpointSlice> = seen.slices.iter().filter(ours).copied().collect();
    let families = families(spec);
    let mut actions = vec![];
    for family in &families {
        let of_family: Vec<&EndpointSlice> =
            slices.iter().filter(|s| s.address_type == *family).copied().collect();
        let groups = groups(seen.service, family, seen.pods, seen.zones);
        let (mut drafts, freed) = spread(groups, &of_family);
        let labels = labels(seen.service, spec);
        drafts.iter_mut().for_each(|draft| draft.changed |= draft.is_outdated(&labels));
        let notices = hints::reconcile(seen.service, family, &mut drafts, seen.shares, is_hinted);
        let changed = drafts.into_iter().filter(|draft| draft.changed);
        actions.extend(changed.map(|draft| write(seen.service, &labels, family, draft)));
        actions.extend(freed.into_iter().map(delete));
        actions.extend(notices);
    }
    actions.extend(slices.iter().filter(|s| !families.contains(&s.address_type)).map(|s| delete(s)));
    actions
}

/// A slice under construction.
pub(crate) struct SliceBuilder<'a> {
    seen: Option<&'a EndpointSlice>,
    ports: Vec<Port>,
    /// Its endpoints, in an unchanged slice with their hints.
    pub endpoints: Vec<Endpoint>,
    /// Whether it is written.
    pub changed: bool,
}

impl SliceBuilder<'_> {
    /// Whether ports or labels of the stored slice differ.
    fn is_outdated(&self, labels: &BTreeMap<String, String>) -> bool {
        self.seen
            .is_none_or(|seen| ports_of(seen) != self.ports || seen.metadata.labels.as_ref() != Some(labels))
    }
}

/// The slices for these endpoints, and the slices that are not needed.
fn spread<'a>(
    mut groups: Groups,
    slices: &[&'a EndpointSlice],
) -> (Vec<SliceBuilder<'a>>, Vec<&'a EndpointSlice>) {
    if groups.is_empty() {
        groups.insert(vec![], vec![]);
    }
    let mut by_ports: BTreeMap<Vec<Port>, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in slices {
        by_ports.entry(ports_of(slice)).or_default().push(slice);
    }
    let (mut drafts, mut spare) = (vec![], vec![]);
    for (ports, endpoints) in groups {
        let have = by_ports.remove(&ports).unwrap_or_default();
        let (kept, freed) = fill(&ports, endpoints, &have);
        drafts.extend(kept);
        spare.extend(freed);
    }
    spare.extend(by_ports.into_values().flatten());
    if drafts.is_empty() {
        drafts.push(SliceBuilder { seen: None, ports: vec![], endpoints: vec![], changed: true });
    }
    let mut spare = spare.into_iter();
    for draft in drafts.iter_mut().filter(|draft| draft.seen.is_none()) {
        draft.seen = spare.next();
    }
    (drafts, spare.collect())
}

fn ports_of(slice: &EndpointSlice) -> Vec<Port> {
    let mut ports: Vec<Port> = slice.ports.iter().flatten().map(Port::of_slice).collect();
    ports.sort();
    ports
}

/// Returns the resulting slices of one group, and the unneeded ones.
fn fill<'a>(
    ports: &[Port],
    endpoints: Vec<Endpoint>,
    slices: &[&'a EndpointSlice],
) -> (Vec<SliceBuilder<'a>>, Vec<&'a EndpointSlice>) {
    let mut wanted: BTreeMap<(String, String), Endpoint> =
        endpoints.into_iter().map(|e| (identity(&e), e)).collect();
    let mut drafts: Vec<SliceBuilder<'a>> = slices
        .iter()
        .map(|slice| {
            let have = endpoints_of(slice);
            let kept: Vec<Endpoint> = have.iter().filter_map(|e| wanted.remove(&identity(e))).collect();
            let changed = kept.len() != have.len() || kept.iter().zip(have).any(|(a, b)| !is_same(a, b));
            let endpoints = if changed { kept } else { have.to_vec() };
            SliceBuilder { seen: Some(slice), changed, endpoints, ports: ports.to_vec() }
        })
        .collect();
    let mut rest = wanted.into_values().collect::<Vec<_>>().into_iter();
    let mut changing: Vec<&mut SliceBuilder<'a>> = drafts.iter_mut().filter(|d| d.changed).collect();
    changing.sort_by_key(|d| Reverse(d.endpoints.len()));
    for draft in changing {
        let room = ENDPOINTS_PER_SLICE.saturating_sub(draft.endpoints.len());
        draft.endpoints.extend(rest.by_ref().take(room));
    }
    let left = rest.len();
    let fits = |d: &&mut SliceBuilder<'a>| !d.changed && d.endpoints.len() + left <= ENDPOINTS_PER_SLICE;
    if left > 0
        && let Some(best) = drafts.iter_mut().filter(fits).max_by_key(|d| d.endpoints.len())
    {
        best.endpoints.extend(rest.by_ref());
        best.changed = true;
    }
    while rest.len() > 0 {
        let endpoints: Vec<Endpoint> = rest.by_ref().take(ENDPOINTS_PER_SLICE).collect();
        drafts.push(SliceBuilder { seen: None, ports: ports.to_vec(), endpoints, changed: true });
    }
    let placeholder = ports.is_empty() && drafts.iter().all(|d| d.endpoints.is_empty());
    let (mut kept, empty): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|d| !d.endpoints.is_empty());
    let mut freed: Vec<&EndpointSlice> = empty.into_iter().filter_map(|d| d.seen).collect();
    if placeholder && !freed.is_empty() {
        let seen = freed.remove(0);
        let changed = !endpoints_of(seen).is_empty();
        kept.push(SliceBuilder { seen: Some(seen), ports: vec![], endpoints: vec![], changed });
    }
    (kept, freed)
}

fn endpoints_of(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

/// Identity of an endpoint: its address and pod.
fn identity(endpoint: &Endpoint) -> (String, String) {
    let uid = endpoint.target_ref.as_ref().and_then(|t| t.uid.clone()).unwrap_or_default();
    (endpoint.addresses.first().cloned().unwrap_or_default(), uid)
}

/// Whether a stored endpoint is as the new one, which has no hints yet.
fn is_same(new: &Endpoint, stored: &Endpoint) -> bool {
    new == stored || stored.hints.is_some() && Endpoint { hints: None, ..stored.clone() } == *new
}

fn write(
    service: &Service,
    labels: &BTreeMap<String, String>,
    family: &Family,
    draft: SliceBuilder<'_>,
) -> Action {
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let ports = Some(draft.ports.iter().map(Port::to_slice).collect::<Vec<_>>()).filter(|p| !p.is_empty());
    let Some(seen) = draft.seen else {
        let slice = EndpointSlice {
            address_type: family.clone(),
            endpoints: Some(draft.endpoints),
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-")),
                namespace: service.metadata.namespace.clone(),
                labels: Some(labels.clone()),
                owner_references: Some(vec![controller_ref("v1", "Service", &service.metadata)]),
                ..ObjectMeta::default()
            },
            ports,
        };
        return Action::Create(Object::of(&slice));
    };
    let mut slice = seen.clone();
    slice.endpoints = Some(draft.endpoints);
    slice.ports = ports;
    slice.metadata.labels = Some(labels.clone());
    Action::Update(Object::of(&slice))
}

/// The labels of the Service, plus those of the slice's Service and manager.
fn labels(service: &Service, spec: &ServiceSpec) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_LABEL.to_owned(), service.metadata.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if spec.cluster_ip.as_deref() == Some("None") {
        labels.insert("service.kubernetes.io/headless".to_owned(), String::new());
    } else {
        labels.remove("service.kubernetes.io/headless");
    }
    labels
}

fn delete(slice: &EndpointSlice) -> Action {
    Action::Delete {
        target: Target {
            resource: ENDPOINTSLICES,
            namespace: slice.metadata.namespace.clone().unwrap_or_default(),
            name: slice.metadata.name.clone().unwrap_or_default(),
            uid: slice.metadata.uid.clone().unwrap_or_default(),
            resource_version: None,
        },
        propagation: Propagation::Background,
        force: false,
    }
}
