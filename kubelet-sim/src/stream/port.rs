//! Connections to ports of a simulated pod, of `kubectl port-forward` and of proxied requests. They reach what listens in the pod:
//! commands, and servers of known images. Ports that containers without such a program declare answer HTTP with the scripted response, or
//! with a line that names the pod; other ports refuse. No socket is opened on the host.

use super::http::{answer, serve};
use super::network::Connection;
use super::pipe::pipe;
use super::real::is_real;
use super::{Feed, Snapshot, Streams};
use crate::behavior;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kstore_api::status::Status;
use kstore_client::{NodeStream, StreamWriter};
use std::net::{Ipv4Addr, SocketAddr};

impl Streams {
    pub(super) async fn port(&self, feed: &Feed, port: u16, stream: NodeStream) {
        let (_, snapshot) = feed.get();
        if is_real(&snapshot.record.pod) {
            return Box::pin(self.forward_in_runtime(&snapshot, port, stream)).await;
        }
        let pod = self.object_of(&snapshot).await.unwrap_or_default();
        let (reader, writer) = stream.begin();
        let scripted = scripted(&snapshot, &pod, port);
        let connection = match &scripted {
            // An annotation says what the port answers.
            Some(Scripted { is_annotated: true, .. }) => None,
            Some(_) | None => self.connection_to(&snapshot, port).await,
        };
        match (connection, scripted) {
            (Some(Connection { stream, serving }), _) => {
                Box::pin(pipe(reader, &writer, stream, serving)).await;
            }
            (None, Some(Scripted { body, .. })) => {
                let media = if body.starts_with('<') { "text/html; charset=utf-8" } else { "text/plain" };
                let page = |_| std::future::ready(answer(StatusCode::OK, media, body.clone()));
                serve(reader, &writer, page).await;
            }
            (None, None) => refuse(&writer, port).await,
        }
        writer.close(&Status::success(200));
    }

    /// A connection to what listens at a port of a pod, over the pod's loopback.
    async fn connection_to(&self, snapshot: &Snapshot, port: u16) -> Option<Connection> {
        let (_, network) = self.kubelet_network(snapshot)?;
        let host = network.attach().ok()?;
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        Box::pin(network.connect(&host, to)).await.ok()
    }
}

/// What a port answers without a program.
struct Scripted {
    body: String,
    /// Whether an annotation says it.
    is_annotated: bool,
}

/// The HTTP response of the running container that declares the port.
fn scripted(snapshot: &Snapshot, pod: &Pod, port: u16) -> Option<Scripted> {
    let spec = pod.spec.as_ref()?;
    let declares = |container: &&k8s_openapi::api::core::v1::Container| {
        container.ports.iter().flatten().any(|declared| declared.container_port == i32::from(port))
    };
    let container = spec.containers.iter().find(declares)?;
    let object = &snapshot.record.pod;
    let index = object.containers().position(|spec| spec.name == container.name)?;
    snapshot.machine.containers.get(index)?.run()?;
    let script = behavior::script(&object.metadata.annotations, &container.name);
    let meta = &object.metadata;
    let is_annotated = script.http.is_some();
    let body = script.http.unwrap_or_else(|| {
        format!("simulated pod {}/{}, container {}, port {port}\n", meta.namespace, meta.name, container.name)
    });
    Some(Scripted { body, is_annotated })
}

/// The container runtime's error for a port without a listener.
async fn refuse(writer: &StreamWriter, port: u16) {
    let text = format!(
        "failed to execute portforward in network namespace: failed to connect to localhost:{port} inside namespace: \
         dial tcp4 127.0.0.1:{port}: connect: connection refused"
    );
    writer.send(2, text).await;
}
