//! [`RuntimeClient`]: the calls of a runtime over its Unix socket, each with a time limit.

use crate::error::RuntimeError;
use crate::limits::{ANSWER_BYTES, CALL_TIME, PULL_TIME, SANDBOX_TIME, STATE_TIME};
use crate::plan::{CONTAINER_NAME, ContainerPlan, POD_UID, SandboxPlan};
use hyper_util::rt::TokioIo;
use kstore_proto::cri::v1::image_service_client::ImageServiceClient;
use kstore_proto::cri::v1::runtime_service_client::RuntimeServiceClient;
use kstore_proto::cri::v1::{
    AttachRequest, AuthConfig, Container, ContainerEventResponse, ContainerFilter, ContainerState,
    ContainerStatsFilter, ContainerStatusRequest, CreateContainerRequest, ExecRequest, ExecSyncRequest,
    GetEventsRequest, Image, ImageSpec, ImageStatusRequest, ListContainerStatsRequest, ListContainersRequest,
    ListPodSandboxRequest, PodSandbox, PodSandboxFilter, PodSandboxState, PodSandboxStatusRequest,
    PortForwardRequest, PullImageRequest, RemoveContainerRequest, RemovePodSandboxRequest,
    ReopenContainerLogRequest, RunPodSandboxRequest, StartContainerRequest, StatusRequest,
    StopContainerRequest, StopPodSandboxRequest, VersionRequest,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

/// Calls of one runtime. Connects with the first call, and again after a failure. Clones share the connection.
#[derive(Clone, Debug)]
pub struct RuntimeClient {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
}

/// Name and version of a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// Its name, such as `containerd`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A sandbox that the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundSandbox {
    /// Its id.
    pub id: String,
    /// The uid of its pod.
    pub uid: String,
    /// Its number among the sandboxes of the pod.
    pub attempt: u32,
    /// Whether its network is up.
    pub is_ready: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// The phase of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It has not been started.
    Created,
    /// It runs.
    Running,
    /// It has ended.
    Exited,
    /// The runtime does not know.
    #[default]
    Unknown,
}

/// A container that the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundContainer {
    /// Its id.
    pub id: String,
    /// The id of its sandbox.
    pub sandbox: String,
    /// Its name.
    pub name: String,
    /// The number of its run.
    pub attempt: u32,
    /// Its phase.
    pub phase: Phase,
}

/// The state of a container. Times are nanoseconds since 1970; 0: not yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerReport {
    /// Its phase.
    pub phase: Phase,
    /// When it was started.
    pub started_at: i64,
    /// When it ended.
    pub finished_at: i64,
    /// The exit code of its process.
    pub exit_code: i32,
    /// Why it ended, in the runtime's word: `OOMKilled`, `Error`, `Completed`, `StartError`, …
    pub reason: String,
    /// What the runtime says about the end.
    pub message: String,
    /// Its image by its digest.
    pub image: String,
}

/// An image that the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundImage {
    /// Its id, by which containers name it.
    pub id: String,
    /// Its size in bytes.
    pub size: u64,
    /// The user as which it runs, if that is a number.
    pub user: Option<i64>,
    /// The user as which it runs, if that is a name; empty: it names none.
    pub user_name: String,
}

/// What a registry asks before it serves an image.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RegistryLogin {
    /// The name of the user.
    pub user: String,
    /// The password.
    pub password: String,
    /// A token that takes the place of a password.
    pub identity_token: String,
}

impl std::fmt::Debug for RegistryLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest is secret.
        f.debug_struct("RegistryLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

/// What a command in a container printed, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Its exit code.
    pub exit_code: i32,
}

/// The streams of a client that runs a command or attaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStreams {
    /// Whether it sends input.
    pub stdin: bool,
    /// Whether it wants standard output.
    pub stdout: bool,
    /// Whether it wants standard error.
    pub stderr: bool,
    /// Whether it is a terminal.
    pub tty: bool,
}

/// What a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// The uid of its pod.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Processor time since its start.
    pub cpu: Duration,
    /// Bytes of memory that cannot be reclaimed easily.
    pub memory: u64,
}

/// What happens to containers, while the runtime says it.
#[derive(Debug)]
pub struct ContainerEvents(Streaming<ContainerEventResponse>);

impl ContainerEvents {
    /// Waits until something happens to a container; false once the runtime says no more. Cancel-safe.
    pub async fn next(&mut self) -> bool {
        matches!(self.0.message().await, Ok(Some(_)))
    }
}

impl RuntimeClient {
    /// Calls of the runtime that listens at `socket`. Must be called inside a runtime of tokio.
    pub fn new(socket: PathBuf) -> Self {
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move {
                let connected = UnixStream::connect(&socket).await.map(TokioIo::new);
                connected.map_err(|error| {
                    std::io::Error::new(error.kind(), format!("dial unix {}: {error}", socket.display()))
                })
            }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        let runtime = RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES);
        let images = ImageServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES);
        Self { runtime, images }
    }

    /// Name and version of the runtime.
    ///
    /// # Errors
    /// The runtime does not answer, or has no CRI v1.
    pub async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        let request = VersionRequest { version: "0.1.0".to_owned() };
        let answer = within(STATE_TIME, self.runtime.clone().version(request)).await?;
        Ok(RuntimeVersion { name: answer.runtime_name, version: answer.runtime_version })
    }

    /// What keeps the runtime from running pods; `None`: nothing does.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn problem(&self) -> Result<Option<String>, RuntimeError> {
        let answer =
            within(STATE_TIME, self.runtime.clone().status(StatusRequest { verbose: false })).await?;
        let conditions = answer.status.unwrap_or_default().conditions;
        let mut problems = Vec::new();
        for kind in ["RuntimeReady", "NetworkReady"] {
            match conditions.iter().find(|condition| condition.r#type == kind) {
                Some(condition) if condition.status => {}
                Some(condition) => {
                    let (reason, message) = (&condition.reason, &condition.message);
                    problems.push(format!(
                        "container runtime is not ready: {kind}=false reason:{reason} message:{message}"
                    ));
                }
                None => {
                    problems.push(format!("container runtime is not ready: it does not say whether {kind}"));
                }
            }
        }
        Ok(Some(problems.join("; ")).filter(|text| !text.is_empty()))
    }

    /// Makes a sandbox, and returns its id.
    ///
    /// # Errors
    /// It cannot be made.
    pub async fn run_sandbox(&self, plan: &SandboxPlan) -> Result<String, RuntimeError> {
        let request =
            RunPodSandboxRequest { config: Some(plan.message()), runtime_handler: plan.handler.clone() };
        Ok(within(SANDBOX_TIME, self.runtime.clone().run_pod_sandbox(request)).await?.pod_sandbox_id)
    }

    /// Ends a sandbox with its containers, and removes them. No effect on one that is gone.
    ///
    /// # Errors
    /// It cannot be ended or removed.
    pub async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let request = StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        known(within(CALL_TIME, self.runtime.clone().stop_pod_sandbox(request)).await)?;
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        known(within(CALL_TIME, self.runtime.clone().remove_pod_sandbox(request)).await)
    }

    /// The addresses of a sandbox. The first is the address of its pod. A sandbox in the machine's network has none.
    ///
    /// # Errors
    /// There is no such sandbox.
    pub async fn addresses(&self, id: &str) -> Result<Vec<IpAddr>, RuntimeError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer = within(CALL_TIME, self.runtime.clone().pod_sandbox_status(request)).await?;
        let network = answer.status.and_then(|status| status.network).unwrap_or_default();
        let all = std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|more| more.ip));
        Ok(all.filter_map(|address| address.parse().ok()).collect())
    }

    /// The sandboxes with these labels.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn sandboxes(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<FoundSandbox>, RuntimeError> {
        let filter = Some(PodSandboxFilter { label_selector: labels.clone(), ..PodSandboxFilter::default() });
        let answer =
            within(CALL_TIME, self.runtime.clone().list_pod_sandbox(ListPodSandboxRequest { filter }))
                .await?;
        Ok(answer.items.into_iter().map(found_sandbox).collect())
    }

    /// The sandboxes of the pod with this uid and these labels.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn sandboxes_of(
        &self,
        uid: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<FoundSandbox>, RuntimeError> {
        let mut labels = labels.clone();
        labels.insert(POD_UID.to_owned(), uid.to_owned());
        self.sandboxes(&labels).await
    }

    /// Makes a container in a sandbox, and returns its id.
    ///
    /// # Errors
    /// It cannot be made.
    pub async fn create(
        &self,
        (sandbox, sandbox_plan): (&str, &SandboxPlan),
        plan: &ContainerPlan,
    ) -> Result<String, RuntimeError> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(plan.message(&sandbox_plan.pod)),
            sandbox_config: Some(sandbox_plan.message()),
        };
        Ok(Box::pin(within(CALL_TIME, self.runtime.clone().create_container(request))).await?.container_id)
    }

    /// Starts a container.
    ///
    /// # Errors
    /// Its process cannot be started.
    pub async fn start(&self, id: &str) -> Result<(), RuntimeError> {
        let request = StartContainerRequest { container_id: id.to_owned() };
        within(CALL_TIME, self.runtime.clone().start_container(request)).await.map(drop)
    }

    /// Asks a container to stop, and kills it after `grace`; returns once it has ended. No effect on one that is gone.
    ///
    /// # Errors
    /// It may still run.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let timeout =
            i64::try_from(grace.as_secs() + u64::from(grace.subsec_nanos() > 0)).unwrap_or(i64::MAX);
        let request = StopContainerRequest { container_id: id.to_owned(), timeout };
        known(within(grace.saturating_add(CALL_TIME), self.runtime.clone().stop_container(request)).await)
    }

    /// Removes a container, also one that runs. No effect on one that is gone.
    ///
    /// # Errors
    /// It cannot be removed.
    pub async fn remove(&self, id: &str) -> Result<(), RuntimeError> {
        let request = RemoveContainerRequest { container_id: id.to_owned() };
        known(within(CALL_TIME, self.runtime.clone().remove_container(request)).await)
    }

    /// The containers with these labels, or of one sandbox.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn containers(
        &self,
        labels: &BTreeMap<String, String>,
        sandbox: Option<&str>,
    ) -> Result<Vec<FoundContainer>, RuntimeError> {
        let filter = ContainerFilter {
            pod_sandbox_id: sandbox.unwrap_or_default().to_owned(),
            label_selector: labels.clone(),
            ..ContainerFilter::default()
        };
        let request = ListContainersRequest { filter: Some(filter) };
        let answer = within(CALL_TIME, self.runtime.clone().list_containers(request)).await?;
        Ok(answer.containers.into_iter().map(found_container).collect())
    }

    /// The state of a container.
    ///
    /// # Errors
    /// There is no such container.
    pub async fn report(&self, id: &str) -> Result<ContainerReport, RuntimeError> {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer = within(CALL_TIME, self.runtime.clone().container_status(request)).await?;
        let status = answer.status.ok_or_else(|| RuntimeError::incomplete("status"))?;
        Ok(ContainerReport {
            phase: phase(status.state),
            started_at: status.started_at,
            finished_at: status.finished_at,
            exit_code: status.exit_code,
            reason: status.reason,
            message: status.message,
            image: status.image_ref,
        })
    }

    /// Lets the runtime open the log file of a container anew.
    ///
    /// # Errors
    /// It cannot.
    pub async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        let request = ReopenContainerLogRequest { container_id: id.to_owned() };
        within(CALL_TIME, self.runtime.clone().reopen_container_log(request)).await.map(drop)
    }

    /// Runs a command in a container, which the runtime ends after `limit`.
    ///
    /// # Errors
    /// It cannot be run, or its time is over.
    pub async fn exec_sync(
        &self,
        id: &str,
        argv: &[String],
        limit: Option<Duration>,
    ) -> Result<CommandResult, RuntimeError> {
        let seconds = limit.map_or(0, |limit| limit.as_secs() + u64::from(limit.subsec_nanos() > 0));
        let request = ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: argv.to_vec(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let mut call = self.runtime.clone();
        let answer = match limit {
            Some(limit) => within(limit.saturating_add(CALL_TIME), call.exec_sync(request)).await?,
            // A command without a limit ends with its caller.
            None => call.exec_sync(request).await?.into_inner(),
        };
        Ok(CommandResult {
            stdout: answer.stdout.into(),
            stderr: answer.stderr.into(),
            exit_code: answer.exit_code,
        })
    }

    /// The URL at which the runtime runs a command for a client.
    ///
    /// # Errors
    /// The container does not run.
    pub async fn exec(
        &self,
        id: &str,
        argv: &[String],
        streams: ClientStreams,
    ) -> Result<String, RuntimeError> {
        let ClientStreams { stdin, stdout, stderr, tty } = streams;
        let stderr = stderr && !tty;
        let request =
            ExecRequest { container_id: id.to_owned(), cmd: argv.to_vec(), tty, stdin, stdout, stderr };
        Ok(within(CALL_TIME, self.runtime.clone().exec(request)).await?.url)
    }

    /// The URL at which the runtime attaches a client to the process of a container.
    ///
    /// # Errors
    /// The container does not run.
    pub async fn attach(&self, id: &str, streams: ClientStreams) -> Result<String, RuntimeError> {
        let ClientStreams { stdin, stdout, stderr, tty } = streams;
        let stderr = stderr && !tty;
        let request = AttachRequest { container_id: id.to_owned(), stdin, tty, stdout, stderr };
        Ok(within(CALL_TIME, self.runtime.clone().attach(request)).await?.url)
    }

    /// The URL at which the runtime connects a client to a port of a sandbox.
    ///
    /// # Errors
    /// There is no such sandbox.
    pub async fn port_forward(&self, sandbox: &str, port: u16) -> Result<String, RuntimeError> {
        let request = PortForwardRequest { pod_sandbox_id: sandbox.to_owned(), port: vec![port.into()] };
        Ok(within(CALL_TIME, self.runtime.clone().port_forward(request)).await?.url)
    }

    /// What the containers with these labels use.
    ///
    /// # Errors
    /// The runtime does not answer.
    pub async fn usage(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<ContainerUsage>, RuntimeError> {
        let filter =
            ContainerStatsFilter { label_selector: labels.clone(), ..ContainerStatsFilter::default() };
        let request = ListContainerStatsRequest { filter: Some(filter) };
        let answer = within(CALL_TIME, self.runtime.clone().list_container_stats(request)).await?;
        let usage = answer.stats.into_iter().filter_map(|stats| {
            let mut labels = stats.attributes?.labels;
            let nanos = stats.cpu.and_then(|cpu| cpu.usage_core_nano_seconds).map_or(0, |nanos| nanos.value);
            let memory =
                stats.memory.and_then(|memory| memory.working_set_bytes).map_or(0, |bytes| bytes.value);
            let (uid, name) = (labels.remove(POD_UID)?, labels.remove(CONTAINER_NAME)?);
            Some(ContainerUsage { uid, name, cpu: Duration::from_nanos(nanos), memory })
        });
        Ok(usage.collect())
    }

    /// Begins to listen to what happens to containers. Older runtimes do not have the call.
    ///
    /// # Errors
    /// The runtime does not have the call, or does not answer.
    pub async fn events(&self) -> Result<ContainerEvents, RuntimeError> {
        let mut call = self.runtime.clone();
        Ok(ContainerEvents(within(CALL_TIME, call.get_container_events(GetEventsRequest {})).await?))
    }

    /// An image of the runtime; `None` if it is not there.
    ///
    /// # Errors
    /// The runtime does not answer, or the name is none of an image.
    pub async fn image(&self, image: &str) -> Result<Option<FoundImage>, RuntimeError> {
        let request = ImageStatusRequest { image: Some(image_spec(image)), verbose: false };
        let answer = within(CALL_TIME, self.images.clone().image_status(request)).await?;
        Ok(answer.image.map(found_image))
    }

    /// Pulls an image.
    ///
    /// # Errors
    /// It cannot be pulled.
    pub async fn pull(&self, image: &str, login: Option<RegistryLogin>) -> Result<(), RuntimeError> {
        let auth = login.map(|RegistryLogin { user, password, identity_token }| AuthConfig {
            username: user,
            password,
            identity_token,
            ..AuthConfig::default()
        });
        let request = PullImageRequest { image: Some(image_spec(image)), auth, sandbox_config: None };
        within(PULL_TIME, self.images.clone().pull_image(request)).await.map(drop)
    }
}

fn image_spec(image: &str) -> ImageSpec {
    ImageSpec { image: image.to_owned(), ..ImageSpec::default() }
}

fn found_sandbox(sandbox: PodSandbox) -> FoundSandbox {
    let metadata = sandbox.metadata.unwrap_or_default();
    FoundSandbox {
        id: sandbox.id,
        uid: metadata.uid,
        attempt: metadata.attempt,
        is_ready: sandbox.state == i32::from(PodSandboxState::SandboxReady),
        labels: sandbox.labels,
    }
}

fn found_container(container: Container) -> FoundContainer {
    let metadata = container.metadata.unwrap_or_default();
    FoundContainer {
        id: container.id,
        sandbox: container.pod_sandbox_id,
        name: metadata.name,
        attempt: metadata.attempt,
        phase: phase(container.state),
    }
}

fn found_image(image: Image) -> FoundImage {
    let user = image.uid.map(|user| user.value);
    FoundImage { id: image.id, size: image.size, user, user_name: image.username }
}

fn phase(state: i32) -> Phase {
    match ContainerState::try_from(state) {
        Ok(ContainerState::ContainerCreated) => Phase::Created,
        Ok(ContainerState::ContainerRunning) => Phase::Running,
        Ok(ContainerState::ContainerExited) => Phase::Exited,
        Ok(ContainerState::ContainerUnknown) | Err(_) => Phase::Unknown,
    }
}

/// The answer to a call, unless its time is over before.
async fn within<T>(
    time: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, RuntimeError> {
    match tokio::time::timeout(time, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(Status::deadline_exceeded("context deadline exceeded").into()),
    }
}

/// The result of a call about something that may be gone.
fn known<T>(result: Result<T, RuntimeError>) -> Result<(), RuntimeError> {
    match result {
        Err(error) if !error.is_not_found() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}
