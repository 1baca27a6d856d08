//! [`HostPrograms`]: the mapped images of this process, and how their containers are started.

use crate::cgroup::ControlGroups;
use crate::child::{ContainerParts, StartedContainer};
use crate::confinement::IdMap;
use crate::files::ProgramFolder;
use crate::gateway::OuterNetwork;
use crate::image::{ImageStore, UnpackedImage};
use crate::launch::{ENVIRONMENT, JOIN, JoinRequest, LaunchRequest, ProcessRequest};
use crate::limits::SAMPLE_AGE;
use crate::link::{PodLink, namespace_of_pod};
use crate::mapping::{self, ImageMap};
use crate::plan::{self, ContainerPlan, MACHINE_PATHS, MachinePath, StandardInput};
use crate::processes;
#[cfg(target_os = "linux")]
use crate::resources::counts_by_namespace;
use crate::resources::{Enforcement, ResourceLimits, ResourceUsage};
use crate::running::{ContainerName, RunningContainers};
use crate::terminal::Terminal;
use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A program that every Linux has, for the container that shows whether containers can be made.
const PROBE: &str = "/bin/sh";

/// A program of this machine that the containers of an image run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedProgram {
    /// The program.
    pub path: Arc<Path>,
    /// Why no container can run it; `None`: containers can.
    pub refusal: Option<Arc<str>>,
}

impl MappedProgram {
    /// Whether it is an image, whose files its containers see.
    pub fn is_image(&self) -> bool {
        mapping::is_image(&self.path)
    }

    /// Checks that the program can still be executed, or the image be read.
    ///
    /// # Errors
    /// The text for a pull of its image that fails.
    pub fn check(&self) -> std::result::Result<(), String> {
        mapping::check(&self.path).map_err(|error| format!("mapped to {error}"))
    }

    /// The size of the program in bytes; zero if there is no file.
    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }
}

/// The mapped images, and the folder for the files of their containers.
#[derive(Debug)]
pub struct HostPrograms {
    images: ImageMap,
    /// This program, which starts containers.
    launcher: PathBuf,
    state: std::result::Result<HostState, Arc<str>>,
    /// Whether programs may have the network of this machine where they can have none of their own.
    shares_network: bool,
    running: RunningContainers,
    unpacked: ImageStore,
    /// The last sample of what containers use, and its time.
    sample: Mutex<Option<(Instant, Arc<ContainerUsages>)>>,
}

/// What the running containers use, by the uid of their pod and their name.
pub type ContainerUsages = BTreeMap<(String, String), ResourceUsage>;

/// What containers need.
#[derive(Debug)]
struct HostState {
    folder: Arc<ProgramFolder>,
    ids: IdMap,
    machine: Vec<MachinePath>,
    enforcement: Enforcement,
    /// `None` where they limit nothing.
    groups: Option<ControlGroups>,
    /// Why pods have no network of their own; `None`: they have.
    no_network: Option<String>,
}

impl HostPrograms {
    /// The mapped images of a process. Makes a folder for their files in `parent`, and one container, to see whether containers can be
    /// confined here: if not, [`MappedProgram::refusal`] says why. `launcher` is this program. Blocks for some milliseconds.
    pub fn new(images: ImageMap, launcher: PathBuf, parent: &Path) -> Self {
        let state = HostState::new(&launcher, parent).map_err(|error| {
            Arc::from(format!(
                "host programs cannot be confined here ({error}): run this program as root, or allow user namespaces \
                 (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu)"
            ))
        });
        Self {
            images,
            launcher,
            state,
            shares_network: false,
            running: RunningContainers::default(),
            unpacked: ImageStore::default(),
            sample: Mutex::default(),
        }
    }

    /// The mapped images of a process that cannot run any of them, for this reason.
    pub fn refused(images: ImageMap, why: &str) -> Self {
        Self {
            images,
            launcher: PathBuf::new(),
            state: Err(why.into()),
            shares_network: false,
            running: RunningContainers::default(),
            unpacked: ImageStore::default(),
            sample: Mutex::default(),
        }
    }

    /// The same with programs that may have the network of this machine where they can have none of their own. Else none runs there.
    #[must_use]
    pub fn sharing_network(self) -> Self {
        Self { shares_network: true, ..self }
    }

    /// How the containers are confined, or why there can be none.
    pub fn confinement(&self) -> std::result::Result<&'static str, &str> {
        match &self.state {
            Ok(state) if state.ids.has_ids() => {
                Ok("namespaces (user, mount, pid, ipc, uts), with users and groups of their own")
            }
            Ok(_) => Ok("namespaces (user, mount, pid, ipc, uts), with the user of this process"),
            Err(why) => Err(why),
        }
    }

    /// Whether programs may have the network of this machine where they can have none of their own.
    pub fn shares_network(&self) -> bool {
        self.shares_network
    }

    /// Whether pods can have a network of their own, or why not.
    ///
    /// # Errors
    /// The reason.
    pub fn network(&self) -> std::result::Result<(), &str> {
        match &self.state {
            Ok(state) => state.no_network.as_deref().map_or(Ok(()), Err),
            Err(why) => Err(why),
        }
    }

    /// Makes the network of a pod with this address, and carries its connections into `network`. Blocks for some milliseconds; must be
    /// called within a runtime, where its task then runs. The network ends when this and all containers in it have ended.
    ///
    /// # Errors
    /// What could not be done.
    pub fn link(&self, address: IpAddr, network: Arc<dyn OuterNetwork>, seed: u64) -> Result<PodLink> {
        PodLink::start(&self.launcher, self.state()?.ids, address, (network, seed))
    }

    /// Which limits of containers hold here.
    ///
    /// # Errors
    /// There are no containers here.
    pub fn enforcement(&self) -> Result<&Enforcement> {
        Ok(&self.state()?.enforcement)
    }

    /// Gives a running container of a pod other limits, as far as control groups enforce any here. Blocks while the kernel frees memory for
    /// a lower limit; what the container cannot free ends it.
    ///
    /// # Errors
    /// The kernel refuses a limit.
    pub fn resize(&self, uid: &str, container: &str, limits: &ResourceLimits) -> Result<()> {
        let controllers = self.state()?.enforcement.controllers;
        let group = self.running.find(uid, container).and_then(|process| process.group);
        group.map_or(Ok(()), |group| group.resize(limits, controllers))
    }

    /// What the running containers use, at most half a second ago. Must be called within a runtime with a clock.
    pub async fn usage(&self) -> Arc<ContainerUsages> {
        // Others that ask meanwhile wait, and get this answer.
        let mut sample = self.sample.lock().await;
        if let Some((at, usages)) = sample.as_ref()
            && at.elapsed() < SAMPLE_AGE
        {
            return Arc::clone(usages);
        }
        let running = self.running.clone();
        // A thread that panicked has taken no sample.
        let taken = tokio::task::spawn_blocking(move || usages(&running)).await.unwrap_or_default();
        let usages = Arc::new(taken);
        *sample = Some((Instant::now(), Arc::clone(&usages)));
        usages
    }

    /// The program that an image is mapped to. `names` are the image's name as the pod has it, and its complete name. `has_cluster` says
    /// whether this process has the network of the cluster, which that of a pod needs.
    pub fn program(&self, names: [&str; 2], has_cluster: bool) -> Option<MappedProgram> {
        let path = Arc::from(self.images.find(names)?);
        Some(MappedProgram { path, refusal: self.refusal(has_cluster) })
    }

    /// Why no container runs a program: it would not be confined, and no flag says that this is meant.
    pub fn refusal(&self, has_cluster: bool) -> Option<Arc<str>> {
        let no_network = match &self.state {
            Err(why) => return Some(Arc::clone(why)),
            Ok(_) if self.shares_network => return None,
            Ok(_) if !has_cluster => {
                "the API server, which has the cluster's network, is not in this process"
            }
            Ok(state) => state.no_network.as_deref()?,
        };
        Some(Arc::from(format!(
            "host programs cannot be confined here: they would have the network of this machine, and none of their own ({no_network}); \
             run this program as root or make /dev/net/tun accessible, or let them share this machine's network with \
             --image-host-network"
        )))
    }

    /// The folder of the containers' files.
    ///
    /// # Errors
    /// There are no containers here.
    pub fn folder(&self) -> Result<&Arc<ProgramFolder>> {
        Ok(&self.state()?.folder)
    }

    /// The files of an image that a mapping names; `None` if it names a program. Blocks while the image is unpacked, for the first time.
    ///
    /// # Errors
    /// It is no image, or cannot be unpacked.
    pub fn unpacked(&self, program: &MappedProgram) -> Result<Option<Arc<UnpackedImage>>> {
        if !program.is_image() {
            return Ok(None);
        }
        let folder = &self.state()?.folder;
        let owner = |path: &Path, user: u32, group: u32| folder.own(path, user, group);
        self.unpacked.unpacked(&program.path, &folder.images()?, &owner).map(Some)
    }

    /// Starts a container of a pod; blocks until its program is executed. Must be called within a runtime.
    ///
    /// # Errors
    /// What could not be done.
    pub fn start(&self, uid: &str, container: &str, plan: &ContainerPlan) -> Result<StartedContainer> {
        let state = self.state()?;
        let root = state.folder.container(uid, container)?.join("root");
        let (line, env) = plan::process(plan).map_err(Error::other)?;
        let process = ProcessRequest {
            program: line.program,
            argv: line.argv,
            env,
            workdir: plan.workdir.clone(),
            user: plan.user,
            has_terminal: plan.input == StandardInput::Terminal,
            is_foreign: plan.image.is_some(),
            input: None,
            limits: state.enforcement.process_limits(&plan.limits),
        };
        let started = state.start(&self.launcher, root, plan, Some(process.clone()))?;
        Ok(started.registered(&self.running, (uid, container), (process, plan.network.is_some())))
    }

    /// A command that runs in a container of a pod, with the container's variables, user and working directory, to be spawned. Its standard
    /// streams are the command's; with `has_terminal` all three must be a terminal.
    ///
    /// # Errors
    /// The container does not run.
    pub fn command(
        &self,
        (uid, container): (&str, &str),
        argv: &[String],
        has_terminal: bool,
    ) -> Result<Command> {
        let state = self.state()?;
        let running = self.running.find(uid, container);
        let running = running.ok_or_else(|| Error::other("the container does not run"))?;
        let program = argv.first().cloned().unwrap_or_default();
        let group = running.group.as_ref().map(|group| group.folder().to_owned());
        let process = ProcessRequest { program, argv: argv.to_vec(), has_terminal, ..running.process };
        let (pid, has_network) = (running.pid, running.has_network);
        let request = JoinRequest { pid, group, has_ids: state.ids.has_ids(), has_network, process };
        let file = state.folder.write_request(uid, container, &serde_json::to_vec(&request)?)?;
        let mut command = Command::new(&self.launcher);
        command.arg(JOIN).arg(file).env_clear().envs(ENVIRONMENT).kill_on_drop(true);
        Ok(command)
    }

    /// Removes the files of a deleted pod, in a thread of its own.
    pub fn forget(self: &Arc<Self>, uid: &str) {
        if !self.folder().is_ok_and(|folder| folder.has_pod(uid)) {
            return;
        }
        let (programs, uid) = (Arc::clone(self), uid.to_owned());
        std::thread::spawn(move || programs.folder().map(|folder| folder.remove_pod(&uid)));
    }

    fn state(&self) -> Result<&HostState> {
        self.state.as_ref().map_err(|why| Error::other(why.to_string()))
    }
}

impl HostState {
    fn new(launcher: &Path, parent: &Path) -> Result<Self> {
        let ids = own_ids()?;
        let folder = Arc::new(ProgramFolder::create(parent, ids)?);
        let (groups, no_groups) = match ControlGroups::of_this_process() {
            Ok(groups) => (Some(groups), String::new()),
            Err(why) => (None, why),
        };
        let controllers = groups.as_ref().map(ControlGroups::controllers).unwrap_or_default();
        let enforcement = Enforcement { controllers, no_groups, counts_processes: counts_processes() };
        // Shows whether a pod can have a network.
        let no_network = namespace_of_pod(launcher, ids, Ipv4Addr::new(169, 254, 0, 1).into()).err();
        let no_network = no_network.map(|error| error.to_string());
        let state = Self { folder, ids, machine: machine(), enforcement, groups, no_network };
        let plan = ContainerPlan { program: PROBE.into(), ..ContainerPlan::default() };
        let root = state.folder.container("probe", "probe")?.join("root");
        let code = state.start(launcher, root, &plan, None)?.wait()?;
        state.folder.remove_pod("probe");
        match code {
            0 => Ok(state),
            code => Err(Error::other(format!("the first container ended with code {code}"))),
        }
    }

    fn start(
        &self,
        launcher: &Path,
        root: PathBuf,
        plan: &ContainerPlan,
        process: Option<ProcessRequest>,
    ) -> Result<StartedContainer> {
        let layout = match &plan.image {
            Some(image) => plan::image_layout(plan, &|path| image.place(path)),
            None => plan::layout(plan, &self.machine),
        };
        let layout = layout.map_err(Error::other)?;
        self.folder.make_root(&root, &layout, plan.image.as_ref().map(|image| image.root()))?;
        let group = self.groups.as_ref().map(|groups| groups.create(&plan.limits)).transpose()?;
        let mut parts = ContainerParts { group: group.map(Arc::new), ..ContainerParts::default() };
        let mut input = None;
        match plan.input {
            StandardInput::Empty => {}
            StandardInput::Terminal => parts.terminal = Some(Terminal::open()?),
            StandardInput::Pipe => {
                let (reader, writer) = std::io::pipe()?;
                self.folder.own_pipe(&reader, plan.user.0)?;
                input = Some(format!("/proc/{}/fd/{}", std::process::id(), reader.as_raw_fd()).into());
                parts.input = Some((reader, pipe::Sender::from_owned_fd(writer.into())?));
            }
        }
        let hostname = if plan.hostname.is_empty() { "localhost".to_owned() } else { plan.hostname.clone() };
        let request = LaunchRequest {
            root,
            binds: layout.binds,
            has_read_only_root: plan.has_read_only_root,
            hostname,
            ids: self.ids,
            group: parts.group.as_ref().map(|group| group.folder().to_owned()),
            network: plan.network.as_ref().map(|network| network.entry()),
            input,
            process,
        };
        StartedContainer::start(launcher, &request, parts)
    }
}

/// What the containers use, by their control groups, or by their processes where they have none.
fn usages(running: &RunningContainers) -> ContainerUsages {
    let all = running.list();
    let counted = |name: &ContainerName, usage: ResourceUsage| (name.clone(), usage);
    let mut usages: ContainerUsages = BTreeMap::new();
    let mut others = BTreeMap::new();
    for (name, process) in &all {
        match (process.group.as_ref().and_then(|group| group.usage()), &process.namespace) {
            (Some(usage), _) => usages.extend([counted(name, usage)]),
            (None, Some(namespace)) => drop(others.insert(namespace.clone(), name)),
            (None, None) => {}
        }
    }
    let namespaces: Vec<_> = others.keys().cloned().collect();
    if !namespaces.is_empty() {
        let found = processes::usage(Path::new("/proc"), &namespaces);
        usages.extend(found.into_iter().map(|(namespace, usage)| counted(others[&namespace], usage)));
    }
    usages
}

/// Whether the kernel can limit the processes of one container by the limit for users.
#[cfg(target_os = "linux")]
fn counts_processes() -> bool {
    let system = rustix_namespaces::system::uname();
    counts_by_namespace(&system.release().to_string_lossy())
}

/// There are no containers.
#[cfg(not(target_os = "linux"))]
fn counts_processes() -> bool {
    false
}

/// The ids of containers of this process.
#[cfg(target_os = "linux")]
fn own_ids() -> Result<IdMap> {
    use rustix_namespaces::process::{getegid, geteuid};
    let map = std::fs::read_to_string("/proc/self/uid_map")?;
    Ok(IdMap::of(geteuid().as_raw(), getegid().as_raw(), &map))
}

/// There are no namespaces.
#[cfg(not(target_os = "linux"))]
fn own_ids() -> Result<IdMap> {
    Err(Error::other("this is not Linux"))
}

/// The paths of this machine that containers see.
fn machine() -> Vec<MachinePath> {
    let known = |path: &'static str| {
        let is_link = std::fs::symlink_metadata(path).ok()?.is_symlink();
        let link = std::fs::read_link(path).ok().filter(|_| is_link).map(|to| to.display().to_string());
        // A link within `/etc` leads to a file that containers may not see: the file itself is mounted.
        let link = link.filter(|_| !path.starts_with("/etc/"));
        std::fs::metadata(path).ok().map(|_| MachinePath { path, link })
    };
    MACHINE_PATHS.into_iter().filter_map(known).collect()
}
