//! The pods of a simulated node as clients of CRI see them. They are made of the API's objects, and only the API changes them.

use super::Endpoint;
use super::images::id_of;
use super::table::nanos;
use crate::image;
use crate::pod::Stage;
use crate::pod::container::{Container, Ended};
use crate::pod_object::{ContainerSpec, PodObject};
use crate::stream::{Feed, Snapshot};
use kstore_cri::plan::{CONTAINER_NAME, POD_UID};
use kstore_proto::cri::v1::{
    ContainerMetadata, ContainerState, ContainerStatus, ImageSpec, LinuxPodSandboxStatus, Namespace,
    NamespaceMode, NamespaceOption, PodSandboxMetadata, PodSandboxNetworkStatus, PodSandboxState,
    PodSandboxStatus,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::Status;

/// The labels of the name and namespace of a pod, as kubelets set them.
const POD_NAME: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";

/// A sandbox of the endpoint, of a client or of the simulation.
pub(super) struct ShownSandbox {
    pub(super) status: PodSandboxStatus,
    pub(super) feed: Feed,
    pub(super) is_of_simulation: bool,
}

/// A container of the endpoint, of a client or of the simulation.
pub(super) struct ShownContainer {
    pub(super) status: ContainerStatus,
    /// The id of its sandbox.
    pub(super) sandbox: String,
    pub(super) feed: Feed,
    pub(super) is_of_simulation: bool,
}

/// The id of the sandbox of a pod of the simulation.
fn sandbox_id(uid: &str) -> String {
    image::hex64(&["sandbox", uid])
}

impl Endpoint {
    /// All sandboxes: those of clients, then those of the simulation.
    pub(super) async fn shown_sandboxes(&self) -> Vec<ShownSandbox> {
        let mut all: Vec<ShownSandbox> = {
            let table = self.table();
            let own = table.sandboxes.values();
            own.map(|own| ShownSandbox {
                status: own.status.clone(),
                feed: own.feed(),
                is_of_simulation: false,
            })
            .collect()
        };
        for feed in self.node_contents().await.pods {
            if let Some(status) = sandbox(&feed.get().1) {
                all.push(ShownSandbox { status, feed, is_of_simulation: true });
            }
        }
        all
    }

    /// All containers: those of clients, then those of the simulation.
    pub(super) async fn shown_containers(&self) -> Vec<ShownContainer> {
        let mut all: Vec<ShownContainer> = {
            let table = self.table();
            let own = table.containers.values().filter_map(|entry| {
                let feed = table.sandboxes.get(&entry.sandbox)?.feed();
                let (status, sandbox) = (entry.status.clone(), entry.sandbox.clone());
                Some(ShownContainer { status, sandbox, feed, is_of_simulation: false })
            });
            own.collect()
        };
        for feed in self.node_contents().await.pods {
            let (_, snapshot) = feed.get();
            let sandbox = sandbox_id(&snapshot.record.pod.metadata.uid);
            for status in containers(&snapshot) {
                let (sandbox, feed) = (sandbox.clone(), Arc::clone(&feed));
                all.push(ShownContainer { status, sandbox, feed, is_of_simulation: true });
            }
        }
        all
    }

    /// The container with this id, or the only one whose id begins so.
    pub(super) async fn shown_container(&self, id: &str) -> Result<ShownContainer, Status> {
        let all = self.shown_containers().await;
        one_of(all, id, |container| &container.status.id).ok_or_else(|| {
            Status::not_found(format!("an error occurred when try to find container {id:?}: not found"))
        })
    }

    /// The sandbox with this id, or the only one whose id begins so.
    pub(super) async fn shown_sandbox(&self, id: &str) -> Result<ShownSandbox, Status> {
        let all = self.shown_sandboxes().await;
        one_of(all, id, |sandbox| &sandbox.status.id).ok_or_else(|| {
            Status::not_found(format!("an error occurred when try to find sandbox {id:?}: not found"))
        })
    }

    /// The key of a client's container.
    ///
    /// # Errors
    /// There is none, or it is one of the simulation, which only the API changes.
    pub(super) async fn own_container(&self, id: &str) -> Result<String, Status> {
        match self.container_key(id) {
            Ok(key) => Ok(key),
            Err(unknown) => match self.shown_container(id).await {
                Ok(other) => Err(belongs_to_api(&other.feed)),
                Err(_) => Err(unknown),
            },
        }
    }

    /// The key of a client's sandbox.
    ///
    /// # Errors
    /// As for [`Self::own_container`].
    pub(super) async fn own_sandbox(&self, id: &str) -> Result<String, Status> {
        match self.sandbox_key(id) {
            Ok(key) => Ok(key),
            Err(unknown) => match self.shown_sandbox(id).await {
                Ok(other) => Err(belongs_to_api(&other.feed)),
                Err(_) => Err(unknown),
            },
        }
    }
}

fn belongs_to_api(feed: &Feed) -> Status {
    let (_, snapshot) = feed.get();
    let meta = &snapshot.record.pod.metadata;
    let (namespace, name) = (&meta.namespace, &meta.name);
    Status::failed_precondition(format!(
        "it belongs to the pod {namespace}/{name} of a simulated node: change or delete that in the API, `kubectl -n {namespace} delete pod {name}`"
    ))
}

/// The item with this id, or the only one whose id begins so.
fn one_of<T>(all: Vec<T>, id: &str, id_of: impl Fn(&T) -> &str) -> Option<T> {
    if id.is_empty() {
        return None;
    }
    let mut found: Vec<T> = all.into_iter().filter(|one| id_of(one).starts_with(id)).collect();
    match found.iter().position(|one| id_of(one) == id) {
        Some(exact) => Some(found.swap_remove(exact)),
        None if found.len() == 1 => found.pop(),
        None => None,
    }
}

/// The labels by which tools find the pod of a sandbox or container.
fn labels(object: &PodObject) -> BTreeMap<String, String> {
    let meta = &object.metadata;
    let all = [(POD_NAME, &meta.name), (POD_NAMESPACE, &meta.namespace), (POD_UID, &meta.uid)];
    all.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

/// The sandbox of a pod of the simulation, once it has one.
fn sandbox(snapshot: &Snapshot) -> Option<PodSandboxStatus> {
    let (object, machine) = (&snapshot.record.pod, &snapshot.machine);
    if matches!(machine.stage, Stage::Admitted | Stage::Mounting(_) | Stage::Sandbox | Stage::SandboxRetry(_))
    {
        return None;
    }
    let state = match machine.stage {
        Stage::Ended(_) => PodSandboxState::SandboxNotready,
        _ => PodSandboxState::SandboxReady,
    };
    let meta = &object.metadata;
    let network = if object.spec.host_network { NamespaceMode::Node } else { NamespaceMode::Pod };
    let options = NamespaceOption { network: network.into(), ..NamespaceOption::default() };
    Some(PodSandboxStatus {
        id: sandbox_id(&meta.uid),
        metadata: Some(PodSandboxMetadata {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            attempt: 0,
        }),
        state: state.into(),
        created_at: nanos(machine.started_at),
        network: Some(PodSandboxNetworkStatus {
            ip: machine.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            additional_ips: Vec::new(),
        }),
        linux: Some(LinuxPodSandboxStatus { namespaces: Some(Namespace { options: Some(options) }) }),
        labels: labels(object),
        annotations: meta.annotations.clone(),
        runtime_handler: String::new(),
    })
}

/// The containers of a pod of the simulation that have run: the current run of each, and the ones before that it remembers.
fn containers(snapshot: &Snapshot) -> Vec<ContainerStatus> {
    let object = &snapshot.record.pod;
    let mut all = Vec::new();
    for (spec, container) in object.containers().zip(&snapshot.machine.containers) {
        if let Some(run) = container.run() {
            let state = ContainerState::ContainerRunning.into();
            let (created_at, started_at) = (nanos(run.started_at), nanos(run.started_at));
            let begun = ContainerStatus { state, created_at, started_at, ..status(object, spec, &run.id) };
            all.push(with_attempt(begun, container.restarts));
        }
        all.extend(ended(object, spec, container));
    }
    all
}

fn ended<'o>(
    object: &'o PodObject,
    spec: &'o ContainerSpec,
    container: &'o Container,
) -> impl Iterator<Item = ContainerStatus> + 'o {
    let current = container.restarts + u32::from(container.run().is_none());
    let both = [container.ended.as_ref(), container.last.as_ref()];
    both.into_iter().flatten().zip(1..).map(move |(run, age)| {
        let Ended { id, code, reason, message, started_at, finished_at } = run;
        let status = ContainerStatus {
            state: ContainerState::ContainerExited.into(),
            created_at: nanos(*started_at),
            started_at: nanos(*started_at),
            finished_at: nanos(*finished_at),
            exit_code: *code,
            reason: reason.clone(),
            message: message.clone(),
            ..status(object, spec, id)
        };
        with_attempt(status, current.saturating_sub(age))
    })
}

fn with_attempt(mut status: ContainerStatus, attempt: u32) -> ContainerStatus {
    if let Some(metadata) = &mut status.metadata {
        metadata.attempt = attempt;
    }
    status
}

/// What the runs of a container have in common.
fn status(object: &PodObject, spec: &ContainerSpec, run: &str) -> ContainerStatus {
    let mut labels = labels(object);
    labels.insert(CONTAINER_NAME.to_owned(), spec.name.clone());
    ContainerStatus {
        id: run.trim_start_matches("sim://").to_owned(),
        metadata: Some(ContainerMetadata { name: spec.name.clone(), attempt: 0 }),
        image: Some(ImageSpec { image: image::full_name(&spec.image), ..ImageSpec::default() }),
        image_ref: image::digest_reference(&spec.image),
        image_id: id_of(&spec.image),
        labels,
        ..ContainerStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_whole_or_the_beginning_of_only_one() {
        let of = |id: &str| one_of(vec!["ab".to_owned(), "abc".to_owned(), "b".to_owned()], id, |one| one);
        assert_eq!(of("ab").as_deref(), Some("ab"));
        assert_eq!(of("abc").as_deref(), Some("abc"));
        assert_eq!(of("b").as_deref(), Some("b"));
        assert_eq!((of("a"), of(""), of("c")), (None, None, None));
    }
}
