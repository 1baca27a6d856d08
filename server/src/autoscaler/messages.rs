//! The messages of the service `clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider`, with the numbers of its wire format.
//! Members that no answer depends on are left out, which protobuf allows.

use prost::Message;
use std::collections::BTreeMap;

/// A message without members: some requests, and the answers of calls that only change something.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Empty {}

/// A node group.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct NodeGroup {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(int32, tag = "2")]
    pub(super) min_size: i32,
    #[prost(int32, tag = "3")]
    pub(super) max_size: i32,
    #[prost(string, tag = "4")]
    pub(super) debug: String,
}

/// A Node, as far as a cloud needs it.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct NodeRef {
    #[prost(string, tag = "1")]
    pub(super) provider_id: String,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct NodeGroupsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) node_groups: Vec<NodeGroup>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct NodeGroupForNodeRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) node: Option<NodeRef>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct NodeGroupForNodeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) node_group: Option<NodeGroup>,
}

/// A moment, as `google.protobuf.Timestamp`, or a time span, as `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Seconds {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PricingNodePriceRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) node: Option<NodeRef>,
    #[prost(message, optional, tag = "4")]
    pub(super) start: Option<Seconds>,
    #[prost(message, optional, tag = "5")]
    pub(super) end: Option<Seconds>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PricingNodePriceResponse {
    #[prost(double, tag = "1")]
    pub(super) price: f64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct GpuLabelResponse {
    #[prost(string, tag = "1")]
    pub(super) label: String,
}

/// A request about a group without further members.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct GroupRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TargetSizeResponse {
    #[prost(int32, tag = "1")]
    pub(super) target_size: i32,
}

/// A request to make a group larger or smaller.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct SizeRequest {
    #[prost(int32, tag = "1")]
    pub(super) delta: i32,
    #[prost(string, tag = "2")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct DeleteNodesRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) nodes: Vec<NodeRef>,
    #[prost(string, tag = "2")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct NodesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) instances: Vec<Instance>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Instance {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) status: Option<InstanceStatus>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct InstanceStatus {
    #[prost(enumeration = "InstanceState", tag = "1")]
    pub(super) instance_state: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) error: Option<InstanceError>,
}

/// Why an instance does not come.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct InstanceError {
    #[prost(string, tag = "1")]
    pub(super) code: String,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    /// 1: the cloud has no more of them.
    #[prost(int32, tag = "3")]
    pub(super) class: i32,
}

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum InstanceState {
    Unspecified = 0,
    Running = 1,
    Creating = 2,
    Deleting = 3,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TemplateResponse {
    /// The bytes of a Node.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) node: Vec<u8>,
    /// The bytes of its ResourceSlices.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(super) slices: Vec<Vec<u8>>,
}

/// How the autoscaler treats a group.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Options {
    #[prost(double, tag = "1")]
    pub(super) utilization: f64,
    #[prost(double, tag = "2")]
    pub(super) gpu_utilization: f64,
    #[prost(bool, tag = "6")]
    pub(super) zero_or_max: bool,
    #[prost(bool, tag = "7")]
    pub(super) ignores_daemon_sets: bool,
    #[prost(message, optional, tag = "8")]
    pub(super) unneeded: Option<Seconds>,
    #[prost(message, optional, tag = "9")]
    pub(super) unready: Option<Seconds>,
    #[prost(message, optional, tag = "10")]
    pub(super) provision: Option<Seconds>,
    #[prost(message, optional, tag = "11")]
    pub(super) startup: Option<Seconds>,
    #[prost(bool, tag = "12")]
    pub(super) allows_partial: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OptionsRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) defaults: Option<Options>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OptionsResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) options: Option<Options>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_numbers_of_the_protocol() {
        let size = SizeRequest { delta: 2, id: "web".to_owned() };
        assert_eq!(size.encode_to_vec(), b"\x08\x02\x12\x03web");
        let node = NodeRef { provider_id: "p".to_owned(), name: "n".to_owned(), ..NodeRef::default() };
        let delete = DeleteNodesRequest { nodes: vec![node], id: "web".to_owned() };
        assert_eq!(delete.encode_to_vec(), b"\x0a\x06\x0a\x01p\x12\x01n\x12\x03web");
        let status = Some(InstanceStatus { instance_state: InstanceState::Creating.into(), error: None });
        let nodes = NodesResponse { instances: vec![Instance { id: "i".to_owned(), status }] };
        assert_eq!(nodes.encode_to_vec(), b"\x0a\x07\x0a\x01i\x12\x02\x08\x02");
        let template = TemplateResponse { node: b"N".to_vec(), slices: vec![b"S".to_vec()] };
        assert_eq!(template.encode_to_vec(), b"\x12\x01N\x1a\x01S");
        let options = Options { provision: Some(Seconds { seconds: 900, nanos: 0 }), ..Options::default() };
        assert_eq!(options.encode_to_vec(), b"\x52\x03\x08\x84\x07");
    }
}
