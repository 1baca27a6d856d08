//! The calls of CRI about sandboxes and containers.

use super::shown::{ShownContainer, ShownSandbox};
use super::table::is_wanted;
use super::tokens::Ticket;
use super::{Endpoint, stats};
use crate::config::Network;
use crate::image;
use crate::limits::{ENDPOINT_PORTS, EXEC_ARGUMENTS};
use crate::stream::Snapshot;
use kstore_client::{StreamKind, StreamRequest, Terminal};
use kstore_proto::cri::v1::runtime_service_server::RuntimeService;
use kstore_proto::cri::v1::*;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tonic::{Request, Response, Status};

/// The version of the interface that clients ask.
const INTERFACE: &str = "v1";
/// The name of the runtime.
const NAME: &str = "kstore";

/// What happens to containers, for one client.
type Events = Pin<Box<dyn futures::Stream<Item = Result<ContainerEventResponse, Status>> + Send>>;

/// An answer to a call.
type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(message: T) -> Answer<T> {
    Ok(Response::new(message))
}

/// The request of a stream to a container or, without a name of one, to a pod.
fn stream_request(snapshot: &Snapshot, container: String, kind: StreamKind) -> StreamRequest {
    let object = &snapshot.record.pod;
    let meta = &object.metadata;
    StreamRequest {
        node: object.spec.node_name.clone(),
        namespace: meta.namespace.clone(),
        pod: meta.name.clone(),
        uid: meta.uid.clone(),
        container,
        kind,
    }
}

impl Endpoint {
    /// A running container.
    async fn running(&self, id: &str) -> Result<ShownContainer, Status> {
        let found = self.shown_container(id).await?;
        if found.status.state != i32::from(ContainerState::ContainerRunning) {
            let state =
                ContainerState::try_from(found.status.state).unwrap_or(ContainerState::ContainerUnknown);
            let text = format!(
                "container {} is in the state {}, and only a running one has a process",
                found.status.id,
                state.as_str_name()
            );
            return Err(Status::failed_precondition(text));
        }
        Ok(found)
    }

    /// The request of a stream to a running container.
    fn request_of(found: &ShownContainer, kind: StreamKind) -> StreamRequest {
        let name = found.status.metadata.clone().unwrap_or_default().name;
        stream_request(&found.feed.get().1, name, kind)
    }

    /// The URL at which a client opens a stream.
    fn url(
        &self,
        path: &'static str,
        request: StreamRequest,
        is_of_simulation: bool,
    ) -> Result<String, Status> {
        let token = self.tokens.issue(Ticket { path, request, is_of_simulation }, &self.streams.rng);
        let token = token.ok_or_else(|| {
            Status::resource_exhausted(
                "too many streams wait for their clients: open them, or try again in a minute",
            )
        })?;
        Ok(format!("http://{}/{path}/{token}", self.streaming))
    }
}

/// The words of a command, of which there must be some and not too many.
fn words(words: Vec<String>) -> Result<Vec<String>, Status> {
    match words.len() {
        0 => Err(Status::invalid_argument("a command has at least one word")),
        1..=EXEC_ARGUMENTS => Ok(words),
        _ => Err(Status::invalid_argument(format!("a command has at most {EXEC_ARGUMENTS} words"))),
    }
}

fn sandbox_item(shown: ShownSandbox) -> PodSandbox {
    let PodSandboxStatus { id, metadata, state, created_at, labels, annotations, .. } = shown.status;
    PodSandbox { id, metadata, state, created_at, labels, annotations }
}

fn container_item(shown: ShownContainer) -> Container {
    let ContainerStatus {
        id,
        metadata,
        state,
        created_at,
        image,
        image_ref,
        labels,
        annotations,
        image_id,
        ..
    } = shown.status;
    Container {
        id,
        pod_sandbox_id: shown.sandbox,
        metadata,
        image,
        image_ref,
        state,
        created_at,
        labels,
        annotations,
        image_id,
    }
}

#[tonic::async_trait]
impl RuntimeService for Endpoint {
    type GetContainerEventsStream = Events;

    async fn version(&self, _: Request<VersionRequest>) -> Answer<VersionResponse> {
        answer(VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: NAME.to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: INTERFACE.to_owned(),
        })
    }

    async fn status(&self, _: Request<StatusRequest>) -> Answer<StatusResponse> {
        let ready = |kind: &str| RuntimeCondition {
            r#type: kind.to_owned(),
            status: true,
            reason: String::new(),
            message: String::new(),
        };
        let conditions = vec![ready("RuntimeReady"), ready("NetworkReady")];
        answer(StatusResponse { status: Some(RuntimeStatus { conditions }), info: BTreeMap::new() })
    }

    async fn update_runtime_config(
        &self,
        request: Request<UpdateRuntimeConfigRequest>,
    ) -> Answer<UpdateRuntimeConfigResponse> {
        let network = request.into_inner().runtime_config.and_then(|config| config.network_config);
        let ranges = network.map(|network| network.pod_cidr).unwrap_or_default();
        // Of two families, pods have addresses of IPv4. A kubelet without a range says so by an empty one.
        let first = ranges.split(',').map(str::trim).find(|range| !range.is_empty() && !range.contains(':'));
        if let Some(range) = first {
            let network = Network::parse(range).filter(|network| network.len() >= 4);
            let network = network.ok_or_else(|| {
                Status::invalid_argument(format!(
                    "pod CIDR {range:?}: expected a range such as 10.244.1.0/24"
                ))
            })?;
            self.table().set_network(network);
        }
        answer(UpdateRuntimeConfigResponse {})
    }

    async fn run_pod_sandbox(&self, request: Request<RunPodSandboxRequest>) -> Answer<RunPodSandboxResponse> {
        let RunPodSandboxRequest { config, runtime_handler } = request.into_inner();
        let config = config.unwrap_or_default();
        let id = image::hex64(&[
            "client",
            &self.streams.rng.next_u64().to_string(),
            &self.streams.rng.next_u64().to_string(),
        ]);
        let now = self.streams.clock.now();
        let own = {
            let mut table = self.table();
            let sandbox = table.run(id.clone(), config, runtime_handler, now)?;
            sandbox.address.map(|address| (address, sandbox.feed()))
        };
        if let Some((address, feed)) = own {
            self.set_address(address, Some(feed));
        }
        self.tell(&id, ContainerEventType::ContainerCreatedEvent);
        self.tell(&id, ContainerEventType::ContainerStartedEvent);
        answer(RunPodSandboxResponse { pod_sandbox_id: id })
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<StopPodSandboxRequest>,
    ) -> Answer<StopPodSandboxResponse> {
        // One that is gone has stopped.
        match self.own_sandbox(&request.into_inner().pod_sandbox_id).await {
            Ok(id) => self.stop_sandbox(&id).await,
            Err(status) if status.code() == tonic::Code::NotFound => {}
            Err(status) => return Err(status),
        }
        answer(StopPodSandboxResponse {})
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<RemovePodSandboxRequest>,
    ) -> Answer<RemovePodSandboxResponse> {
        match self.own_sandbox(&request.into_inner().pod_sandbox_id).await {
            Ok(id) => {
                self.stop_sandbox(&id).await;
                let containers: Vec<String> =
                    self.table().containers_of(&id).map(|(id, _)| id.clone()).collect();
                for container in containers {
                    self.remove_container(&container).await;
                }
                self.tell(&id, ContainerEventType::ContainerDeletedEvent);
                self.table().remove_sandbox(&id);
            }
            Err(status) if status.code() == tonic::Code::NotFound => {}
            Err(status) => return Err(status),
        }
        answer(RemovePodSandboxResponse {})
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<PodSandboxStatusRequest>,
    ) -> Answer<PodSandboxStatusResponse> {
        let shown = self.shown_sandbox(&request.into_inner().pod_sandbox_id).await?;
        answer(PodSandboxStatusResponse { status: Some(shown.status), info: BTreeMap::new() })
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<ListPodSandboxRequest>,
    ) -> Answer<ListPodSandboxResponse> {
        let PodSandboxFilter { id, state, label_selector } = request.into_inner().filter.unwrap_or_default();
        let wanted = (id.as_str(), state.map(|state| state.state), &label_selector);
        let all = self.shown_sandboxes().await.into_iter();
        let items =
            all.filter(|one| is_wanted((&one.status.id, one.status.state, &one.status.labels), wanted));
        answer(ListPodSandboxResponse { items: items.map(sandbox_item).collect() })
    }

    async fn create_container(
        &self,
        request: Request<CreateContainerRequest>,
    ) -> Answer<CreateContainerResponse> {
        let CreateContainerRequest { pod_sandbox_id, config, .. } = request.into_inner();
        let sandbox = self.own_sandbox(&pod_sandbox_id).await?;
        let config = config.unwrap_or_default();
        let asked = config.image.clone().unwrap_or_default().image;
        let name = self.image_named(&asked).await;
        let name =
            name.ok_or_else(|| Status::not_found(format!("image {asked:?} is not there: pull it first")))?;
        // What cannot be mounted is said now, as runtimes do.
        let (mounts, namespace) = {
            let table = self.table();
            let own = table.sandboxes.get(&sandbox);
            let own = own.map(|own| (Arc::clone(&own.mounts), own.namespace().to_owned()));
            own.ok_or_else(|| Status::not_found("the sandbox was removed"))?
        };
        let budget = self.streams.runner.namespace(&namespace);
        for mount in &config.mounts {
            mounts.disk(mount, &budget.disks).await.map_err(|error| {
                Status::unknown(format!(
                    "failed to generate container spec: mount {:?}: {error}",
                    mount.container_path
                ))
            })?;
        }
        let id = image::hex64(&[
            "container",
            &self.streams.rng.next_u64().to_string(),
            &self.streams.rng.next_u64().to_string(),
        ]);
        let now = self.streams.clock.now();
        {
            let mut table = self.table();
            match table.sandboxes.get(&sandbox) {
                Some(own) if own.is_ready() => {}
                Some(_) => {
                    return Err(Status::failed_precondition(format!("sandbox {sandbox} is not ready")));
                }
                None => return Err(Status::not_found("the sandbox was removed")),
            }
            table.create((id.clone(), &sandbox), config, name, now)?;
        }
        self.tell(&id, ContainerEventType::ContainerCreatedEvent);
        answer(CreateContainerResponse { container_id: id })
    }

    async fn start_container(
        &self,
        request: Request<StartContainerRequest>,
    ) -> Answer<StartContainerResponse> {
        let id = self.own_container(&request.into_inner().container_id).await?;
        self.start(&id)?;
        answer(StartContainerResponse {})
    }

    async fn stop_container(&self, request: Request<StopContainerRequest>) -> Answer<StopContainerResponse> {
        let StopContainerRequest { container_id, timeout } = request.into_inner();
        match self.own_container(&container_id).await {
            Ok(id) => {
                let grace = Duration::from_secs(u64::try_from(timeout).unwrap_or(0));
                Endpoint::stop_container(self, &id, grace).await;
            }
            Err(status) if status.code() == tonic::Code::NotFound => {}
            Err(status) => return Err(status),
        }
        answer(StopContainerResponse {})
    }

    async fn remove_container(
        &self,
        request: Request<RemoveContainerRequest>,
    ) -> Answer<RemoveContainerResponse> {
        match self.own_container(&request.into_inner().container_id).await {
            Ok(id) => Endpoint::remove_container(self, &id).await,
            Err(status) if status.code() == tonic::Code::NotFound => {}
            Err(status) => return Err(status),
        }
        answer(RemoveContainerResponse {})
    }

    async fn list_containers(
        &self,
        request: Request<ListContainersRequest>,
    ) -> Answer<ListContainersResponse> {
        let ContainerFilter { id, state, pod_sandbox_id, label_selector } =
            request.into_inner().filter.unwrap_or_default();
        let wanted = (id.as_str(), state.map(|state| state.state), &label_selector);
        let all = self.shown_containers().await.into_iter();
        let items = all.filter(|one| {
            one.sandbox.starts_with(&pod_sandbox_id)
                && is_wanted((&one.status.id, one.status.state, &one.status.labels), wanted)
        });
        answer(ListContainersResponse { containers: items.map(container_item).collect() })
    }

    async fn container_status(
        &self,
        request: Request<ContainerStatusRequest>,
    ) -> Answer<ContainerStatusResponse> {
        let shown = self.shown_container(&request.into_inner().container_id).await?;
        answer(ContainerStatusResponse { status: Some(shown.status), info: BTreeMap::new() })
    }

    async fn update_container_resources(
        &self,
        request: Request<UpdateContainerResourcesRequest>,
    ) -> Answer<UpdateContainerResourcesResponse> {
        let UpdateContainerResourcesRequest { container_id, linux } = request.into_inner();
        let id = self.own_container(&container_id).await?;
        if let Some(linux) = linux {
            self.table().set_resources(&id, linux);
        }
        answer(UpdateContainerResourcesResponse {})
    }

    async fn reopen_container_log(
        &self,
        request: Request<ReopenContainerLogRequest>,
    ) -> Answer<ReopenContainerLogResponse> {
        let id = self.own_container(&request.into_inner().container_id).await?;
        let table = self.table();
        match table.containers.get(&id) {
            Some(entry) if entry.is_running() => entry.reopen.notify_one(),
            Some(_) | None => {
                return Err(Status::failed_precondition("only a running container has an open log"));
            }
        }
        drop(table);
        answer(ReopenContainerLogResponse {})
    }

    async fn exec_sync(&self, request: Request<ExecSyncRequest>) -> Answer<ExecSyncResponse> {
        let ExecSyncRequest { container_id, cmd, timeout } = request.into_inner();
        let found = self.running(&container_id).await?;
        let terminal = Terminal { stdin: false, stdout: true, stderr: true, tty: false };
        let request = Self::request_of(&found, StreamKind::Exec(words(cmd)?, terminal));
        let limit = u64::try_from(timeout).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
        answer(self.run_to_end(request, found.is_of_simulation, limit).await?)
    }

    async fn exec(&self, request: Request<ExecRequest>) -> Answer<ExecResponse> {
        let ExecRequest { container_id, cmd, tty, stdin, stdout, stderr } = request.into_inner();
        let terminal = terminal(Terminal { stdin, stdout, stderr, tty })?;
        let found = self.running(&container_id).await?;
        let request = Self::request_of(&found, StreamKind::Exec(words(cmd)?, terminal));
        answer(ExecResponse { url: self.url("exec", request, found.is_of_simulation)? })
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Answer<AttachResponse> {
        let AttachRequest { container_id, stdin, tty, stdout, stderr } = request.into_inner();
        let terminal = terminal(Terminal { stdin, stdout, stderr, tty })?;
        let found = self.running(&container_id).await?;
        let request = Self::request_of(&found, StreamKind::Attach(terminal));
        answer(AttachResponse { url: self.url("attach", request, found.is_of_simulation)? })
    }

    async fn port_forward(&self, request: Request<PortForwardRequest>) -> Answer<PortForwardResponse> {
        let PortForwardRequest { pod_sandbox_id, port } = request.into_inner();
        if port.len() > ENDPOINT_PORTS {
            return Err(Status::invalid_argument(format!(
                "at most {ENDPOINT_PORTS} ports are forwarded at once"
            )));
        }
        let found = self.shown_sandbox(&pod_sandbox_id).await?;
        if found.status.state != i32::from(PodSandboxState::SandboxReady) {
            return Err(Status::failed_precondition(format!("sandbox {} is not ready", found.status.id)));
        }
        // The client names the port of each connection.
        let request = stream_request(&found.feed.get().1, String::new(), StreamKind::Port(0));
        answer(PortForwardResponse { url: self.url("portforward", request, found.is_of_simulation)? })
    }

    async fn container_stats(
        &self,
        request: Request<ContainerStatsRequest>,
    ) -> Answer<ContainerStatsResponse> {
        let found = self.running(&request.into_inner().container_id).await?;
        answer(ContainerStatsResponse { stats: stats::container(&self.streams, &found) })
    }

    async fn list_container_stats(
        &self,
        request: Request<ListContainerStatsRequest>,
    ) -> Answer<ListContainerStatsResponse> {
        let ContainerStatsFilter { id, pod_sandbox_id, label_selector } =
            request.into_inner().filter.unwrap_or_default();
        let all = self.shown_containers().await.into_iter();
        let wanted = all.filter(|one| {
            one.sandbox.starts_with(&pod_sandbox_id)
                && is_wanted((&one.status.id, 0, &one.status.labels), (&id, None, &label_selector))
        });
        let stats = wanted.filter_map(|one| stats::container(&self.streams, &one));
        answer(ListContainerStatsResponse { stats: stats.collect() })
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<PodSandboxStatsRequest>,
    ) -> Answer<PodSandboxStatsResponse> {
        let found = self.shown_sandbox(&request.into_inner().pod_sandbox_id).await?;
        let containers = self.shown_containers().await;
        answer(PodSandboxStatsResponse { stats: Some(stats::sandbox(&self.streams, &found, &containers)) })
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<ListPodSandboxStatsRequest>,
    ) -> Answer<ListPodSandboxStatsResponse> {
        let PodSandboxStatsFilter { id, label_selector } = request.into_inner().filter.unwrap_or_default();
        let containers = self.shown_containers().await;
        let all = self.shown_sandboxes().await.into_iter();
        let wanted = all
            .filter(|one| is_wanted((&one.status.id, 0, &one.status.labels), (&id, None, &label_selector)));
        let stats = wanted.map(|one| stats::sandbox(&self.streams, &one, &containers));
        answer(ListPodSandboxStatsResponse { stats: stats.collect() })
    }

    async fn runtime_config(&self, _: Request<RuntimeConfigRequest>) -> Answer<RuntimeConfigResponse> {
        // There are no cgroups, so any driver of a kubelet is right.
        answer(RuntimeConfigResponse { linux: None })
    }

    async fn get_container_events(&self, _: Request<GetEventsRequest>) -> Answer<Events> {
        let (receiver, stop) = (self.events.subscribe(), self.tasks.stop().clone());
        let events = futures::stream::unfold((receiver, stop), async |(mut receiver, stop)| {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                event = receiver.recv() => event,
            };
            let item = match event {
                Ok(event) => Ok(event),
                // A client that is too slow begins anew, and lists what there is.
                Err(RecvError::Lagged(missed)) => {
                    Err(Status::data_loss(format!("{missed} events were missed")))
                }
                Err(RecvError::Closed) => return None,
            };
            Some((item, (receiver, stop)))
        });
        answer(Box::pin(events))
    }
}

/// The streams of a client, of which there must be one.
fn terminal(terminal: Terminal) -> Result<Terminal, Status> {
    let Terminal { stdin, stdout, stderr, tty } = terminal;
    if !(stdin || stdout || stderr) {
        return Err(Status::invalid_argument("one of stdin, stdout and stderr must be asked for"));
    }
    if tty && stderr {
        return Err(Status::invalid_argument(
            "a terminal has one output: ask for stdout, and not for stderr",
        ));
    }
    Ok(terminal)
}
