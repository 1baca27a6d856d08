//! Connections to ports of a simulated pod. Ports that its containers declare answer HTTP with the scripted response, or with a line that
//! names the pod; other ports refuse. No socket is opened on the host.

use super::http::{answer, serve};
use super::{Feed, Snapshot, Streams};
use crate::behavior;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kstore_api::status::Status;
use kstore_client::{NodeStream, StreamWriter};

impl Streams {
    pub(super) async fn port(&self, feed: &Feed, port: u16, stream: NodeStream) {
        let (_, snapshot) = feed.get();
        let meta = &snapshot.record.pod.metadata;
        let pod =
            self.client_of(&snapshot).api::<Pod>().get(&meta.namespace, &meta.name).await.unwrap_or_default();
        let (reader, writer) = stream.begin();
        match listener(&snapshot, &pod, port) {
            Some(body) => {
                let media = if body.starts_with('<') { "text/html; charset=utf-8" } else { "text/plain" };
                let page = |_| std::future::ready(answer(StatusCode::OK, media, body.clone()));
                serve(reader, &writer, page).await;
            }
            None => refuse(&writer, port).await,
        }
        writer.close(&Status::success(200));
    }
}

/// The HTTP response of the running container that declares the port.
fn listener(snapshot: &Snapshot, pod: &Pod, port: u16) -> Option<String> {
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
    Some(script.http.unwrap_or_else(|| {
        format!("simulated pod {}/{}, container {}, port {port}\n", meta.namespace, meta.name, container.name)
    }))
}

/// The container runtime's error for a port without a listener.
async fn refuse(writer: &StreamWriter, port: u16) {
    let text = format!(
        "failed to execute portforward in network namespace: failed to connect to localhost:{port} inside namespace: \
         dial tcp4 127.0.0.1:{port}: connect: connection refused"
    );
    writer.send(2, text).await;
}
