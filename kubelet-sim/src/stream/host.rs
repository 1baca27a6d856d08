//! Main processes of containers whose images are mapped to programs of this machine: started with what the pod gives them, their output is
//! the container's log, and they end with the container's run.

use super::environment::{TooLarge, container_of, expand_all};
use super::host_attach::{type_into_pipe, type_into_terminal};
use super::host_resize::{limits_of, resized};
use super::program::{TERM, stopping};
use super::runner::ContainerBudget;
use super::{Console, ContainerWarning, Feed, Launch, ManagerMessage, Outputs, Snapshot, Streams};
use crate::limits::{HOST_OUTPUT, HOST_OUTPUT_WORK, MEMORY_LOOK, RENEWAL_RETRY, TERMINATION_MESSAGE};
use crate::plan::raised;
use crate::pod_object::options::TERMINATION_LOG;
use crate::service::API_SERVER;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kstore_container_sim::time::between;
use kstore_container_sim::{DiskEntry, Environment};
use kstore_host_runtime::child::{ContainerEnd, ContainerStreams, RunningContainer};
use kstore_host_runtime::files::ProgramFolder;
use kstore_host_runtime::plan::{BindMount, ContainerPlan, StandardInput};
use kstore_host_runtime::resources::ResourceLimits;
use kstore_host_runtime::{HostPrograms, ImageConfig, MappedProgram, PodLink, UnpackedImage};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The exit code of a container whose program cannot be executed.
const NOT_STARTED: u8 = 128;
/// The channels of output.
const STDOUT: u32 = 1;
const STDERR: u32 = 2;
/// SIGKILL, and the exit code of a container that it has ended.
const KILL: u8 = 9;
const KILLED: u8 = 137;
/// Reason of the Event for limits that have no effect.
const NOT_ENFORCED: &str = "LimitNotEnforced";
/// Reason of the Event for rights that a container asks for and does not get.
const RIGHTS_IGNORED: &str = "SecurityContextIgnored";
/// The user of a container that must not run as root and names no user.
const NONROOT: u32 = 65_532;
/// The file of a machine's name servers.
const RESOLVER: &str = "/etc/resolv.conf";

impl Streams {
    /// Runs the program of a container to its end, and returns its exit code; `None` if it was not begun. Dropping the future kills it.
    pub(super) async fn run_host_program(&self, feed: &Feed, launch: &Launch) -> Option<(u8, bool)> {
        let (_, snapshot) = feed.get();
        let started = {
            // The semaphore is closed only at the end of the simulation.
            let _permit = self.program_starts.acquire().await.ok()?;
            Box::pin(self.start_on_host(&snapshot, launch)).await
        };
        // The network of the pod is there as long as one of its programs runs.
        let (RunningContainer { streams, mut end }, limits, _link) = match started {
            Ok(started) => started,
            Err(why) => {
                let text = format!("{why}\n");
                launch.print(true, text.as_bytes(), self);
                self.keep_message(&snapshot, launch, why.into_bytes());
                return Some((NOT_STARTED, false));
            }
        };
        let namespace = self.runner.namespace(&snapshot.record.pod.metadata.namespace);
        let budget = snapshot.disks.budget(&launch.container, &namespace);
        let (ended, ()) = tokio::join!(
            self.follow_host_program(feed, launch, (&mut end, limits)),
            self.serve_streams(launch, streams, &budget)
        );
        let folder = self.programs.as_ref().and_then(|programs| programs.folder().ok());
        if let Some(message) = folder.and_then(|folder| last_message(folder, launch)) {
            self.keep_message(&snapshot, launch, message);
        }
        Some(ended)
    }

    /// Waits until the program ends, and returns its exit code and whether it was killed for want of memory. Meanwhile asks it to stop when
    /// its container is, kills it when it exceeds its memory, gives it other limits when it is resized, and renews the tokens in its
    /// volumes.
    async fn follow_host_program(
        &self,
        feed: &Feed,
        launch: &Launch,
        (end, mut limits): (&mut ContainerEnd, ResourceLimits),
    ) -> (u8, bool) {
        let mut is_told = false;
        loop {
            let mut exceeds = std::pin::pin!(self.exceeds_memory(launch, limits));
            let resized = loop {
                tokio::select! {
                    biased;
                    code = end.exited() => return (code, code == KILLED && end.is_out_of_memory()),
                    () = &mut exceeds => {
                        end.signal(KILL.into()).await;
                        return (end.exited().await, true);
                    }
                    () = stopping(feed, launch), if !is_told => {
                        is_told = true;
                        end.signal(TERM.into()).await;
                    }
                    () = self.renewal(feed) => Box::pin(self.clone().refresh(Arc::clone(feed))).await,
                    resized = resized(feed, launch, limits) => break resized,
                }
            };
            limits = resized;
            self.resize_on_host(launch, limits).await;
        }
    }

    /// Waits until the container uses more memory than its limit, if no control group sees to that.
    async fn exceeds_memory(&self, launch: &Launch, limits: ResourceLimits) {
        let enforcement = self.programs.as_ref().and_then(|programs| programs.enforcement().ok());
        let limit = enforcement.and_then(|enforcement| enforcement.sampled_memory(&limits));
        let (Some(limit), Some(programs)) = (limit, &self.programs) else {
            return std::future::pending().await;
        };
        let name = (launch.uid.clone(), launch.container.clone());
        loop {
            // A sample is younger than this, so it is not of an earlier run.
            tokio::time::sleep(MEMORY_LOOK).await;
            if programs.usage().await.get(&name).is_some_and(|used| used.memory > limit) {
                return;
            }
        }
    }

    /// Tells of limits that have no effect on this machine.
    pub(super) async fn warn_of_limits(
        &self,
        programs: &HostPrograms,
        launch: &Launch,
        limits: &ResourceLimits,
    ) {
        let enforcement = programs.enforcement().ok();
        let Some(message) = enforcement.and_then(|enforcement| enforcement.unenforced(limits)) else {
            return;
        };
        self.warn_of_container(launch, message).await;
    }

    /// Tells of rights that a container asks for and does not get.
    async fn warn_of_rights(&self, launch: &Launch, asked: &[&str]) {
        if asked.is_empty() {
            return;
        }
        let message =
            format!("a program of this machine gets no further rights: ignored {}", asked.join(", "));
        self.warn(launch, RIGHTS_IGNORED, message).await;
    }

    /// Tells of a limit that has no effect.
    pub(super) async fn warn_of_container(&self, launch: &Launch, message: String) {
        self.warn(launch, NOT_ENFORCED, message).await;
    }

    async fn warn(&self, launch: &Launch, reason: &'static str, message: String) {
        let (pod, uid, index) = (launch.pod.clone(), launch.uid.clone(), launch.index);
        let warning = ContainerWarning { pod, uid, index: Some(index), reason, message };
        // The manager may have ended.
        let _ = self.messages.send(ManagerMessage::Warned(Box::new(warning))).await;
    }

    /// Waits until a token in the pod's volumes is to be renewed.
    pub(super) async fn renewal(&self, feed: &Feed) {
        let (_, snapshot) = feed.get();
        match snapshot.disks.renewal() {
            // A server that does not issue one is asked again later.
            Some(at) => tokio::time::sleep(between(self.clock.now(), at).max(RENEWAL_RETRY)).await,
            None => std::future::pending().await,
        }
    }

    /// Passes on what a program prints until all of its processes have ended, and meanwhile what clients send to it.
    async fn serve_streams(&self, launch: &Launch, streams: ContainerStreams, budget: &ContainerBudget) {
        let console = launch.outputs.console(&launch.container, &launch.run);
        let console = console.as_deref();
        let output = Output { streams: self, launch, console, budget };
        match streams {
            ContainerStreams::Pipes { stdin, stdout, stderr } => {
                let printed =
                    async { tokio::join!(output.copy(stdout, STDOUT), output.copy(stderr, STDERR)) };
                tokio::select! {
                    biased;
                    ((), ()) = printed => {}
                    () = type_into_pipe(console, stdin) => unreachable!("it does not return"),
                }
            }
            ContainerStreams::Terminal(terminal) => {
                let shown = async {
                    let mut buffer = vec![0; HOST_OUTPUT];
                    while let Ok(length @ 1..) = terminal.read(&mut buffer).await {
                        output.print(STDOUT, &buffer[..length]).await;
                    }
                };
                tokio::select! {
                    biased;
                    () = shown => {}
                    () = type_into_terminal(console, &terminal) => unreachable!("it does not return"),
                }
            }
        }
        if let Some(console) = console {
            console.end();
        }
    }

    /// Starts the program of a container; returns it and its limits when it is executed, or why it is not.
    async fn start_on_host(
        &self,
        snapshot: &Snapshot,
        launch: &Launch,
    ) -> Result<(RunningContainer, ResourceLimits, Option<Arc<PodLink>>), String> {
        let programs = self.programs.clone().ok_or("there are no host programs")?;
        let link = self.host_link(&programs, snapshot).await?;
        let plan = self.host_plan(&programs, snapshot, launch, link.as_deref()).await?;
        let limits = plan.limits;
        self.warn_of_limits(&programs, launch, &limits).await;
        let (uid, container) = (snapshot.record.pod.metadata.uid.clone(), launch.container.clone());
        let start = move || programs.start(&uid, &container, &plan);
        let started = tokio::task::spawn_blocking(start).await.map_err(|error| error.to_string())?;
        let running =
            started.and_then(|started| started.into_running()).map_err(|error| error.to_string())?;
        Ok((running, limits, link))
    }

    /// What the container runs and sees.
    async fn host_plan(
        &self,
        programs: &Arc<HostPrograms>,
        snapshot: &Snapshot,
        launch: &Launch,
        link: Option<&PodLink>,
    ) -> Result<ContainerPlan, String> {
        let too_large = |TooLarge(why)| why.to_owned();
        let program = launch.program.as_ref().ok_or("its image is not mapped")?;
        // Such a program may read every file.
        let environment = self.environment(snapshot, &launch.container, &launch.run, &[]).await;
        let (environment, _) = environment.map_err(too_large)?;
        let meta = &snapshot.record.pod.metadata;
        let pod = self.client_of(snapshot).api::<Pod>().get(&meta.namespace, &meta.name).await;
        let spec = pod.map_err(|error| format!("cannot read the pod: {error}"))?.spec.unwrap_or_default();
        let found = container_of(&spec, &launch.container);
        self.warn_of_rights(launch, &raised::fields(&spec, &found)).await;
        let image = unpacked(programs, program).await?;
        let env = match link {
            Some(_) => environment.variables.clone(),
            None => self.with_api_server(environment.variables.clone(), &found).await,
        };
        let env = match &image {
            Some(image) => with_image(&env, image.config(), &found),
            None => env,
        };
        let user = user(&environment, &spec, &found, image.as_deref())?;
        let expanded =
            |words: Option<&[String]>| expand_all(words.unwrap_or_default(), &env).map_err(too_large);
        let folder = programs.folder().map_err(|error| error.to_string())?;
        let mut mounts = self
            .host_mounts(folder, snapshot, (&spec, &found), &env)
            .await
            .map_err(|error| error.to_string())?;
        let uid = &snapshot.record.pod.metadata.uid;
        mounts.extend(message_mount(folder, (uid.as_str(), launch.container.as_str()), &found)?);
        Ok(ContainerPlan {
            program: program.path.to_path_buf(),
            command: expanded(found.command.as_deref())?,
            args: expanded(found.args.as_deref())?,
            env,
            workdir: workdir(&environment, &found, image.as_deref()),
            hostname: environment.hostname.clone(),
            user,
            image,
            has_read_only_root: environment.read_only.contains("/"),
            files: managed_files(&environment, link.is_some()),
            mounts,
            limits: limits_of(found.resources.as_ref()),
            input: match (found.tty, found.stdin) {
                (Some(true), _) => StandardInput::Terminal,
                (_, Some(true)) => StandardInput::Pipe,
                (_, _) => StandardInput::Empty,
            },
            network: link.map(|link| Arc::clone(link.namespace())),
        })
    }

    /// The variables with the address at which the API server listens on this machine, for a program in the machine's network, which has
    /// no cluster address. Variables of the container's own stay.
    pub(super) async fn with_api_server(
        &self,
        mut env: Vec<(String, String)>,
        container: &Container,
    ) -> Vec<(String, String)> {
        let Some((host, port)) = self.api_server_address().await else { return env };
        let (host, port) = (host.to_string(), port.to_string());
        for (name, value) in &mut env {
            let is_own = container.env.iter().flatten().any(|own| own.name == *name);
            match name.as_str() {
                _ if is_own => {}
                "KUBERNETES_SERVICE_HOST" => value.clone_from(&host),
                "KUBERNETES_SERVICE_PORT" | "KUBERNETES_SERVICE_PORT_HTTPS" => value.clone_from(&port),
                _ => {}
            }
        }
        env
    }

    /// The address and port of the API server on this machine, as it publishes them.
    pub(super) async fn api_server_address(&self) -> Option<(IpAddr, u16)> {
        let slice = self.client.api::<EndpointSlice>().get(API_SERVER.0, API_SERVER.1).await.ok()?;
        let host = slice.endpoints?.first()?.addresses.first()?.parse().ok()?;
        let port = slice.ports.into_iter().flatten().next()?.port?;
        Some((host, port.try_into().ok()?))
    }

    /// Keeps the termination message of a run that is about to end.
    pub(super) fn keep_message(&self, snapshot: &Snapshot, launch: &Launch, message: Vec<u8>) {
        let namespace = self.runner.namespace(&snapshot.record.pod.metadata.namespace);
        let now = self.clock.now().as_second();
        let file = snapshot.disks.termination(&launch.container, &launch.run, &namespace.disks, now);
        // Without space there is no message.
        let _ = file.map(|file| file.put("", DiskEntry::file(&message, now)));
    }
}

/// Where the output of a program goes: to the container's log, and to the clients that are attached.
struct Output<'a> {
    streams: &'a Streams,
    launch: &'a Launch,
    console: Option<&'a Console>,
    budget: &'a ContainerBudget,
}

impl Output<'_> {
    /// Passes on what a program prints to a pipe.
    async fn copy(&self, mut from: impl AsyncRead + Unpin, channel: u32) {
        let mut buffer = vec![0; HOST_OUTPUT];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.print(channel, &buffer[..length]).await;
        }
    }

    /// Passes output on, and waits until clients have taken it and its work is paid.
    async fn print(&self, channel: u32, bytes: &[u8]) {
        self.launch.print(channel == STDERR, bytes, self.streams);
        if let Some(console) = self.console {
            console.show(channel, bytes).await;
        }
        self.budget.pay(bytes.len() as u64 * HOST_OUTPUT_WORK).await;
    }
}

impl Launch {
    /// Adds output of the program to the container's log.
    fn print(&self, is_stderr: bool, bytes: &[u8], streams: &Streams) {
        let outputs: &Outputs = &self.outputs;
        outputs.print(&self.container, &self.run, is_stderr, bytes, streams.clock.now());
    }
}

/// The file of the termination message of a container of the pod with this uid.
fn message_file(folder: &ProgramFolder, (uid, container): (&str, &str)) -> std::io::Result<PathBuf> {
    Ok(folder.container(uid, container)?.join("termination-log"))
}

/// Makes the file of the termination message of a run, empty, and says where the container sees it.
///
/// # Errors
/// It cannot be made.
pub(super) fn message_mount(
    folder: &ProgramFolder,
    name: (&str, &str),
    container: &Container,
) -> Result<Option<BindMount>, String> {
    let target = container.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG).to_owned();
    if target.is_empty() {
        return Ok(None);
    }
    let made = message_file(folder, name).and_then(|file| folder.make_writable_file(&file).map(|()| file));
    let source = made.map_err(|error| format!("the file of the termination message: {error}"))?;
    Ok(Some(BindMount { source, target, is_read_only: false }))
}

/// The end of the file of the termination message of a run that has ended.
pub(super) fn last_message(folder: &ProgramFolder, launch: &Launch) -> Option<Vec<u8>> {
    end_of(&message_file(folder, (launch.uid.as_str(), launch.container.as_str())).ok()?).ok()
}

/// The end of the file of a termination message.
fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(TERMINATION_MESSAGE as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut message = Vec::new();
    // A process that has just ended may have written more.
    file.take(TERMINATION_MESSAGE as u64).read_to_end(&mut message)?;
    Ok(message)
}

/// The files of a mapped image; `None` for a program.
async fn unpacked(
    programs: &Arc<HostPrograms>,
    program: &Arc<MappedProgram>,
) -> Result<Option<Arc<UnpackedImage>>, String> {
    let (programs, program) = (Arc::clone(programs), Arc::clone(program));
    let unpack = move || programs.unpacked(&program);
    let unpacked = tokio::task::spawn_blocking(unpack).await.map_err(|error| error.to_string())?;
    unpacked.map_err(|error| format!("cannot unpack its image: {error}"))
}

/// The variables of a container with those of its image, which are below its own and above those that every container has.
fn with_image(env: &[(String, String)], image: &ImageConfig, container: &Container) -> Vec<(String, String)> {
    let is_named = |name: &str| container.env.iter().flatten().any(|own| own.name == name);
    image.variables(env, |name| is_named(name) || !matches!(name, "PATH" | "HOME"))
}

/// The working directory of a container: its own, or that of its image.
fn workdir(environment: &Environment, container: &Container, image: Option<&UnpackedImage>) -> String {
    let own = container.working_dir.as_deref().filter(|folder| !folder.is_empty());
    match image.map(|image| image.config().workdir.as_str()).filter(|folder| !folder.is_empty()) {
        Some(folder) if own.is_none() => folder.to_owned(),
        _ => environment.workdir.clone(),
    }
}

/// The user and the group of a container: those of the pod, or of the image. A program that must not be root and names no user gets one.
///
/// # Errors
/// The image must not run as root, and would.
fn user(
    environment: &Environment,
    spec: &PodSpec,
    container: &Container,
    image: Option<&UnpackedImage>,
) -> Result<(u32, u32), String> {
    let (own, general) = (container.security_context.as_ref(), spec.security_context.as_ref());
    let non_root = own.and_then(|own| own.run_as_non_root).or(general.and_then(|all| all.run_as_non_root));
    let named = own.and_then(|own| own.run_as_user).or(general.and_then(|all| all.run_as_user));
    let group = own.and_then(|own| own.run_as_group).or(general.and_then(|all| all.run_as_group));
    let given = (environment.user.user, environment.user.group);
    match image {
        None if given.0 == 0 && non_root == Some(true) => Ok((NONROOT, NONROOT)),
        None => Ok(given),
        Some(image) => {
            let of_image = image.user().map_err(|error| error.to_string())?;
            let user = if named.is_some() { given.0 } else { of_image.0 };
            match (non_root, user, group.or(named)) {
                (Some(true), 0, _) => Err("container has runAsNonRoot and image will run as root".to_owned()),
                (_, _, Some(_)) => Ok((user, given.1)),
                (_, _, None) => Ok((user, of_image.1)),
            }
        }
    }
}

/// The files that a kubelet manages. In the network of this machine names are resolved as it does.
fn managed_files(environment: &Environment, has_network: bool) -> BTreeMap<String, Vec<u8>> {
    // Those of the kernel are this machine's.
    let files = environment.files.iter().filter(|(path, _)| path.starts_with("/etc/"));
    let files = files.map(|(path, bytes)| (path.clone(), bytes.to_vec()));
    let mut files: BTreeMap<String, Vec<u8>> = files.collect();
    if !has_network && let Ok(own) = std::fs::read(RESOLVER) {
        files.insert(RESOLVER.to_owned(), own);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_an_image_are_below_those_of_its_container() {
        let env = [("PATH", "/default"), ("HOME", "/"), ("A", "pod"), ("KUBERNETES_PORT", "1")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let of_image =
            [("PATH", "/own"), ("HOME", "/own"), ("A", "image"), ("KUBERNETES_PORT", "2"), ("B", "image")];
        let image = ImageConfig {
            env: of_image.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            workdir: "/w".to_owned(),
            ..ImageConfig::default()
        };
        let container =
            serde_yaml_ng::from_str("{name: a, env: [{name: A, value: pod}, {name: HOME, value: /}]}");
        let merged = with_image(&env, &image, &container.unwrap());
        let shown: Vec<_> = merged.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["PATH=/own", "HOME=/", "A=pod", "KUBERNETES_PORT=1", "B=image"]);
    }
}
