//! The calls of a Cluster Autoscaler with the provider `externalgrpc`: a client of the protocol, with messages written by hand.

use crate::SERVER;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use kstore_tests::{Launch, free_port, wait};
use prost::Message;
use tonic::transport::{Channel, Endpoint};
use tower::{Service as _, ServiceExt as _};

const GROUP: &str = "
apiVersion: sim.kstore.io/v1alpha1
kind: NodeGroup
metadata: {name: web}
spec:
  replicas: 2
  minReplicas: 2
  maxReplicas: 6
  template: {capacity: {cpu: 4, memory: 16Gi}, devices: [{profile: nvidia, count: 2}]}
";
const SERVICE: &str = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider";

/// An instance and its state: 1 is running, 2 is being created.
#[derive(Clone, PartialEq, Message)]
struct Instance {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    status: Option<InstanceStatus>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct InstanceStatus {
    #[prost(int32, tag = "1")]
    state: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Instances {
    #[prost(message, repeated, tag = "1")]
    instances: Vec<Instance>,
}

/// Makes a call with the bytes of a request. Returns the code and message of the status, and the bytes of the answer.
async fn call(channel: &mut Channel, method: &str, request: &[u8]) -> (String, String, Bytes) {
    let mut framed = vec![0];
    framed.extend(u32::try_from(request.len()).unwrap().to_be_bytes());
    framed.extend(request);
    let request = http::Request::post(format!("{SERVICE}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(Full::new(Bytes::from(framed))))
        .unwrap();
    let response = channel.ready().await.unwrap().call(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    // An answer without a message has its status in the head.
    let status = body.trailers().cloned().unwrap_or(head.headers);
    let of =
        |name: &str| status.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let (code, message) = (of("grpc-status"), of("grpc-message"));
    let bytes = body.to_bytes();
    (code, message.replace("%20", " ").replace("%22", "\""), bytes.slice(bytes.len().min(5)..))
}

/// The ids of running instances, once there are so many and no others.
async fn running(channel: &mut Channel, count: usize) -> Vec<String> {
    wait::until("the group has its size", async || {
        let (_, _, bytes) = call(channel, "NodeGroupNodes", b"\x0a\x03web").await;
        let all = Instances::decode(bytes).unwrap().instances;
        let is_running = all.iter().all(|one| one.status.is_some_and(|status| status.state == 1));
        let ids: Vec<String> = all.into_iter().map(|one| one.id).collect();
        (is_running && ids.len() == count).then_some(ids)
    })
    .await
}

#[tokio::test]
async fn a_group_grows_and_shrinks_by_the_calls_of_an_autoscaler() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dc.yaml");
    std::fs::write(&file, GROUP).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let args = ["--nodes-file", file.to_str().unwrap(), "--autoscaler-listen", &address];
    let server = Launch::in_memory(SERVER, dir.path()).args(&args).start().unwrap();
    let mut channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    assert_eq!(running(&mut channel, 2).await, ["kstore://web/web-0", "kstore://web/web-1"]);
    let (code, _, groups) = call(&mut channel, "NodeGroups", b"").await;
    assert_eq!((code.as_str(), &groups[2..11]), ("0", &b"\x0a\x03web\x10\x02\x18\x06"[..]), "{groups:?}");
    // Three more, and then too many.
    let grown = call(&mut channel, "NodeGroupIncreaseSize", b"\x08\x03\x12\x03web").await;
    assert_eq!(grown, ("0".to_owned(), String::new(), Bytes::new()));
    running(&mut channel, 5).await;
    let (code, message, _) = call(&mut channel, "NodeGroupIncreaseSize", b"\x08\x02\x12\x03web").await;
    assert_eq!((code.as_str(), message.as_str()), ("9", "size increase too large, desired: 7 max: 6"));
    let (_, _, size) = call(&mut channel, "NodeGroupTargetSize", b"\x0a\x03web").await;
    assert_eq!(&size[..], b"\x08\x05");
    // The autoscaler ends these two nodes and no others.
    let nodes = b"\x0a\x07\x12\x05web-1\x0a\x07\x12\x05web-3\x12\x03web";
    let (code, message, _) = call(&mut channel, "NodeGroupDeleteNodes", nodes).await;
    assert_eq!((code.as_str(), message.as_str()), ("0", ""));
    let left = running(&mut channel, 3).await;
    assert_eq!(left, ["kstore://web/web-0", "kstore://web/web-2", "kstore://web/web-4"]);
    let (code, message, _) =
        call(&mut channel, "NodeGroupDeleteNodes", b"\x0a\x06\x12\x04db-0\x12\x03web").await;
    assert_eq!((code.as_str(), message.as_str()), ("3", "node \"db-0\" is not of node group \"web\""));
    let (code, message, _) = call(&mut channel, "NodeGroupTargetSize", b"\x0a\x02db").await;
    assert_eq!((code.as_str(), message.as_str()), ("5", "node group \"db\" not found"));
    // What a new node would be: a Node, and a slice with its devices.
    let (code, _, template) = call(&mut channel, "NodeGroupTemplateNodeInfo", b"\x0a\x03web").await;
    let has = |text: &str| template.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(code == "0" && has("template-node-for-web") && has("gpu.nvidia.com"), "{template:?}");
    drop(server);
}
