//! A connection to a port of a simulated pod. Ports that its containers declare answer HTTP, with what is scripted or with a line
//! that names the pod; all others refuse. Nothing is connected to anything.

use super::{Feed, Snapshot, Streams};
use crate::behavior;
use crate::limits::HTTP_HEAD;
use k8s_openapi::api::core::v1::Pod;
use kstore_api::status::Status;
use kstore_client::{NodeStream, StreamReader, StreamWriter};

impl Streams {
    pub(super) async fn port(&self, feed: &Feed, port: u16, stream: NodeStream) {
        let (_, snapshot) = feed.get();
        let meta = &snapshot.record.pod.metadata;
        let pod = self.client.api::<Pod>().get(&meta.namespace, &meta.name).await.unwrap_or_default();
        let (mut reader, writer) = stream.begin();
        match listener(&snapshot, &pod, port) {
            Some(body) => {
                while head(&mut reader).await {
                    if !writer.send(1, answer(&body)).await {
                        return;
                    }
                }
            }
            None => refuse(&writer, port).await,
        }
        writer.close(&Status::success(200));
    }
}

/// What the running container that declares the port answers.
fn listener(snapshot: &Snapshot, pod: &Pod, port: u16) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let declares = |container: &&k8s_openapi::api::core::v1::Container| {
        container.ports.iter().flatten().any(|declared| declared.container_port == i32::from(port))
    };
    let container = spec.containers.iter().find(declares)?;
    let object = &snapshot.record.pod;
    let index = object.containers().position(|spec| spec.name == container.name)?;
    snapshot.machine.containers.get(index)?.run()?;
    let (script, _) = behavior::script(&object.metadata.annotations, &container.name);
    let meta = &object.metadata;
    Some(script.http.unwrap_or_else(|| {
        format!("simulated pod {}/{}, container {}, port {port}\n", meta.namespace, meta.name, container.name)
    }))
}

/// Reads the head of a request. False if there is no more.
async fn head(reader: &mut StreamReader) -> bool {
    let mut read = Vec::new();
    while let Some(incoming) = reader.next().await {
        read.extend_from_slice(&incoming.data);
        if read.windows(4).any(|bytes| bytes == b"\r\n\r\n") || read.len() > HTTP_HEAD {
            return true;
        }
        if incoming.end {
            return false;
        }
    }
    false
}

fn answer(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// The runtime's words for a port that nobody listens on.
async fn refuse(writer: &StreamWriter, port: u16) {
    let text = format!(
        "failed to execute portforward in network namespace: failed to connect to localhost:{port} inside namespace: \
         dial tcp4 127.0.0.1:{port}: connect: connection refused"
    );
    writer.send(2, text).await;
}
