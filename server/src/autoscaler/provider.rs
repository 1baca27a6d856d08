//! [`Provider`]: the calls of an autoscaler, carried out on the objects of the cluster. Nothing is kept between two calls.

use super::decide::{Group, Member, Refusal, Resize, creating_id, decrease, delete, increase};
use super::messages::{
    DeleteNodesRequest, Empty, GpuLabelResponse, GroupRequest, Instance, InstanceError, InstanceState,
    InstanceStatus, NodeGroup, NodeGroupForNodeRequest, NodeGroupForNodeResponse, NodeGroupsResponse,
    NodesResponse, Options, OptionsRequest, OptionsResponse, PricingNodePriceRequest,
    PricingNodePriceResponse, Seconds, SizeRequest, TargetSizeResponse, TemplateResponse,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kstore_api::version::Minor;
use kstore_api::wire::protobuf;
use kstore_client::{ApiError, Client, Gvr, ListParams, Patch};
use kstore_kubelet_sim::sim_api::{self, GROUP_LABEL, REMOVE_ANNOTATION};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tonic::{Code, Status};

/// Label of NodeGroups that an autoscaler does not see if its value is `false`.
const OFFERED: &str = "sim.kstore.io/autoscale";
/// Label by which autoscalers know the GPUs of a node.
const GPU_LABEL: &str = "nvidia.com/gpu.product";
/// The class of errors of instances that a cloud has no more of.
const OUT_OF_RESOURCES: i32 = 1;
/// How often a write is tried again after another client has changed the group meanwhile.
const TRIES: u32 = 8;
/// The times that an autoscaler uses if it sends none: unneeded, unready, provision, startup.
const TIMES: [i64; 4] = [600, 1200, 900, 900];

/// The node groups of a cluster.
#[derive(Clone)]
pub(super) struct Provider {
    client: Client,
    minor: Minor,
}

/// A NodeGroup.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroupObject {
    metadata: Metadata,
    spec: GroupSpec,
    status: GroupStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroupStatus {
    /// The last instance that never came, until another one comes.
    failure: Option<Failure>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure {
    code: String,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    resource_version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupSpec {
    replicas: u32,
    min_replicas: u32,
    max_replicas: Option<u32>,
    capacity_type: String,
    cost: Prices,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Prices {
    per_hour: String,
    spot: Option<String>,
}

type Answer<T> = Result<T, Status>;

impl GroupObject {
    fn is_offered(&self) -> bool {
        self.metadata.labels.get(OFFERED).is_none_or(|value| value != "false")
    }

    fn group(&self) -> Group {
        let removing =
            self.metadata.annotations.get(REMOVE_ANNOTATION).map(String::as_str).unwrap_or_default();
        Group {
            name: self.metadata.name.clone(),
            size: self.spec.replicas,
            least: self.spec.min_replicas,
            most: self.spec.max_replicas.unwrap_or(1000),
            removing: removing.split(',').filter(|uid| !uid.is_empty()).map(str::to_owned).collect(),
        }
    }

    fn message(&self) -> NodeGroup {
        let group = self.group();
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        NodeGroup {
            debug: format!("NodeGroup {}: {} of {} to {}", group.name, group.size, group.least, group.most),
            min_size: number(group.least),
            max_size: number(group.most),
            id: group.name,
        }
    }

    /// The price of an instance an hour.
    fn price(&self) -> f64 {
        let spot = self.spec.cost.spot.as_ref().filter(|_| self.spec.capacity_type == "spot");
        spot.unwrap_or(&self.spec.cost.per_hour).parse().unwrap_or(0.0)
    }
}

impl Provider {
    pub(super) fn new(client: Client, minor: Minor) -> Self {
        Self { client, minor }
    }

    pub(super) async fn node_groups(self, _: Empty) -> Answer<NodeGroupsResponse> {
        let groups = self.client.dynamic(resource());
        let (all, _) = groups.list_as::<GroupObject>("", &ListParams::default()).await.map_err(failure)?;
        let offered = all.iter().filter(|group| group.is_offered());
        Ok(NodeGroupsResponse { node_groups: offered.map(GroupObject::message).collect() })
    }

    /// The group of a node; one without a name if the autoscaler must leave the node alone.
    pub(super) async fn node_group_for_node(
        self,
        request: NodeGroupForNodeRequest,
    ) -> Answer<NodeGroupForNodeResponse> {
        let node = request.node.unwrap_or_default();
        // The label, or for an instance without a Node the provider id.
        let of_id = node.provider_id.strip_prefix("kstore://").and_then(|rest| rest.split_once('/'));
        let name = node.labels.get(GROUP_LABEL).map(String::as_str).or(of_id.map(|(group, _)| group));
        let found = match name {
            Some(name) => self.group(name).await,
            None => Err(not_found("")),
        };
        let node_group = match found {
            Ok(group) if group.is_offered() => group.message(),
            Ok(_) => NodeGroup::default(),
            Err(status) if status.code() == Code::NotFound => NodeGroup::default(),
            Err(status) => return Err(status),
        };
        Ok(NodeGroupForNodeResponse { node_group: Some(node_group) })
    }

    pub(super) async fn target_size(self, request: GroupRequest) -> Answer<TargetSizeResponse> {
        let size = self.group(&request.id).await?.spec.replicas;
        Ok(TargetSizeResponse { target_size: i32::try_from(size).unwrap_or(i32::MAX) })
    }

    pub(super) async fn increase_size(self, request: SizeRequest) -> Answer<Empty> {
        self.resize(&request.id, |group, _| increase(group, request.delta)).await
    }

    pub(super) async fn decrease_target_size(self, request: SizeRequest) -> Answer<Empty> {
        self.resize(&request.id, |group, members| decrease(group, members, request.delta)).await
    }

    pub(super) async fn delete_nodes(self, request: DeleteNodesRequest) -> Answer<Empty> {
        let named = || -> Vec<_> {
            request.nodes.iter().map(|node| (node.provider_id.as_str(), node.name.as_str())).collect()
        };
        self.resize(&request.id, |group, members| delete(group, members, &named())).await
    }

    pub(super) async fn nodes(self, request: GroupRequest) -> Answer<NodesResponse> {
        let object = self.group(&request.id).await?;
        let group = object.group();
        let members = self.members(&request.id).await?;
        let is_going = |member: &Member| group.removing.contains(&member.uid);
        let failure = object.status.failure.as_ref().map(|failure| InstanceError {
            code: failure.code.clone(),
            message: failure.message.clone(),
            class: OUT_OF_RESOURCES,
        });
        let instance = |id: String, state: InstanceState| {
            // The autoscaler backs off from a group whose instances fail while they are created.
            let error = failure.clone().filter(|_| state == InstanceState::Creating);
            Instance { id, status: Some(InstanceStatus { instance_state: state.into(), error }) }
        };
        let staying = members.iter().filter(|member| !is_going(member)).count();
        let creating = group.size.saturating_sub(u32::try_from(staying).unwrap_or(u32::MAX));
        let existing = members.iter().map(|member| {
            let state = if is_going(member) { InstanceState::Deleting } else { InstanceState::Running };
            instance(member.provider_id.clone(), state)
        });
        let made =
            (0..creating).map(|number| instance(creating_id(&group.name, number), InstanceState::Creating));
        Ok(NodesResponse { instances: existing.chain(made).collect() })
    }

    pub(super) async fn template(self, request: GroupRequest) -> Answer<TemplateResponse> {
        let object = self.client.dynamic(resource()).get("", &request.id).await;
        let object = object.map_err(|error| about(&request.id, error))?;
        let made = sim_api::template_node(&request.id, &object["spec"], self.minor, Timestamp::UNIX_EPOCH);
        let made = made.map_err(Status::failed_precondition)?;
        let bytes =
            |object: &Value| protobuf::bare(object).map_err(|error| Status::internal(error.to_string()));
        Ok(TemplateResponse {
            node: bytes(&made.node)?,
            slices: made.slices.iter().map(bytes).collect::<Result<_, _>>()?,
        })
    }

    /// The options that the autoscaler sent; times that are absent, which older autoscalers do not expect, are its defaults.
    pub(super) async fn options(self, request: OptionsRequest) -> Answer<OptionsResponse> {
        self.group(&request.id).await?;
        let sent = request.defaults.unwrap_or_default();
        let or = |time: Option<Seconds>, usual| time.or(Some(Seconds { seconds: usual, nanos: 0 }));
        let options = Options {
            unneeded: or(sent.unneeded, TIMES[0]),
            unready: or(sent.unready, TIMES[1]),
            provision: or(sent.provision, TIMES[2]),
            startup: or(sent.startup, TIMES[3]),
            ..sent
        };
        Ok(OptionsResponse { options: Some(options) })
    }

    pub(super) async fn node_price(
        self,
        request: PricingNodePriceRequest,
    ) -> Answer<PricingNodePriceResponse> {
        let node = request.node.unwrap_or_default();
        let group = node.labels.get(GROUP_LABEL).ok_or_else(|| not_found(""))?;
        let seconds = |at: Option<Seconds>| at.map_or(0, |at| at.seconds);
        let span = seconds(request.end).saturating_sub(seconds(request.start)).max(0);
        let price = self.group(group).await?.price() * span as f64 / 3600.0;
        Ok(PricingNodePriceResponse { price })
    }

    pub(super) async fn gpu_label(self, _: Empty) -> Answer<GpuLabelResponse> {
        Ok(GpuLabelResponse { label: GPU_LABEL.to_owned() })
    }

    /// Calls that need no work: the types of GPUs, which are not told apart, and the ends of loops.
    pub(super) async fn nothing(self, _: Empty) -> Answer<Empty> {
        Ok(Empty {})
    }

    async fn group(&self, name: &str) -> Answer<GroupObject> {
        let found = self.client.dynamic(resource()).get_as::<GroupObject>("", name).await;
        found.map_err(|error| about(name, error))
    }

    /// The Nodes of a group.
    async fn members(&self, group: &str) -> Answer<Vec<Member>> {
        let params = ListParams::default().labels(&format!("{GROUP_LABEL}={group}"));
        let (nodes, _) = self.client.api::<Node>().list("", &params).await.map_err(failure)?;
        let member = |node: Node| Member {
            name: node.metadata.name.unwrap_or_default(),
            uid: node.metadata.uid.unwrap_or_default(),
            provider_id: node.spec.and_then(|spec| spec.provider_id).unwrap_or_default(),
        };
        Ok(nodes.into_iter().map(member).collect())
    }

    /// Writes the size that `decide` finds, together with the nodes that go. Decides anew if another client has changed the group.
    async fn resize(
        &self,
        name: &str,
        decide: impl Fn(&Group, &[Member]) -> Result<Resize, Refusal>,
    ) -> Answer<Empty> {
        for _ in 0..TRIES {
            let object = self.group(name).await?;
            let members = self.members(name).await?;
            let resize = decide(&object.group(), &members).map_err(refused)?;
            let removing: Vec<&str> = resize.removing.iter().map(String::as_str).collect();
            let annotations = json!({ REMOVE_ANNOTATION: removing.join(",") });
            let metadata =
                json!({ "resourceVersion": object.metadata.resource_version, "annotations": annotations });
            let patch = Patch::Merge(json!({ "metadata": metadata, "spec": { "replicas": resize.size } }));
            match self.client.dynamic(resource()).patch("", name, "", &patch).await {
                Ok(_) => return Ok(Empty {}),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(about(name, error)),
            }
        }
        Err(Status::aborted(format!("node group {name:?} was changed by others again and again; try later")))
    }
}

fn resource() -> Gvr {
    Gvr::new("sim.kstore.io", "v1alpha1", "nodegroups")
}

fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Precondition(text) => Status::failed_precondition(text),
        Refusal::Foreign(text) => Status::invalid_argument(text),
    }
}

fn not_found(group: &str) -> Status {
    Status::not_found(format!("node group {group:?} not found"))
}

/// The failure of a call about a group.
fn about(group: &str, error: ApiError) -> Status {
    if error.is_not_found() { not_found(group) } else { failure(error) }
}

fn failure(error: ApiError) -> Status {
    Status::unavailable(error.to_string())
}
