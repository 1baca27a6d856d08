//! The simulated runtime: events come after configured or scripted delays and follow the script. Pure except
//! for its random generator, which is seeded by pod, container and run, so that the order of draws does not
//! matter, and for the look whether the program of this machine is there that an image is mapped to.

use crate::behavior::{self, Delay, Script, StopScript, When};
use crate::config::{Delays, Network};
use crate::fault::starts::StartFaults;
use crate::image::{self, Decision};
use crate::node::address::Pool;
use crate::pod_object::{Kind, PodObject, PullPolicy, kind_of};
use crate::probe::Health;
use crate::program::{self, Program};
use crate::runtime::{Command, DueEvent, Event, Runtime};
use jiff::Timestamp;
use kstore_container_sim::time::later;
use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A runtime whose containers exist only as scheduled events.
pub struct SimRuntime {
    delays: Delays,
    /// Patterns of images that do not exist.
    missing_images: Vec<String>,
    seed: u64,
    nodes: BTreeMap<String, Host>,
    agenda: BTreeMap<(Timestamp, u64), (Arc<str>, Event)>,
    pods: BTreeMap<Arc<str>, SandboxState>,
    /// The uids of pods by their address.
    addresses: BTreeMap<IpAddr, Arc<str>>,
    sequence: u64,
}

/// Where a kubelet looks for the files of seccomp profiles.
const SECCOMP_PROFILES: &str = "/var/lib/kubelet/seccomp";
/// What a runtime says before the reason why it cannot start the program of a container.
const NOT_CREATED: &str = "failed to create containerd task: failed to create shim task: OCI runtime create failed: \
                           runc create failed: unable to start container process";
/// The error of a runtime that does not answer, as a kubelet gets it.
const NO_RUNTIME: &str = "rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: \
                          dial unix /run/containerd/containerd.sock: connect: connection refused\"";

/// The images and addresses of a node, and what its faults do to them.
struct Host {
    images: image::Cache,
    pool: Pool,
    faults: StartFaults,
}

/// The simulated resources and scheduled events of a pod.
struct SandboxState {
    node: String,
    ip: Option<IpAddr>,
    /// Number of pulls so far, by container.
    pulls: BTreeMap<usize, u32>,
    /// Keys of scheduled events, with the sandbox or container they belong to.
    pending: Vec<(Slot, (Timestamp, u64))>,
}

/// The owner of a scheduled event, for canceling it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Sandbox,
    Container(usize),
}

impl SimRuntime {
    /// A runtime without nodes.
    pub fn new(delays: Delays, rng: &Rng) -> Self {
        let (nodes, agenda, pods, addresses) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            delays,
            missing_images: Vec::new(),
            seed: rng.next_u64(),
            nodes,
            agenda,
            pods,
            addresses,
            sequence: 0,
        }
    }

    /// Sets the patterns of images that do not exist.
    #[must_use]
    pub fn missing_images(mut self, patterns: Vec<String>) -> Self {
        self.missing_images = patterns;
        self
    }

    /// Adds a node that can run pods with addresses from `network`. A known node keeps its state.
    pub fn add_node(&mut self, node: &str, network: Network) {
        let host = || Host {
            images: image::Cache::default(),
            pool: Pool::new(network),
            faults: StartFaults::default(),
        };
        self.nodes.entry(node.to_owned()).or_insert_with(host);
    }

    /// Adds images that a node has from the start, by their full names and sizes.
    pub(crate) fn add_images(&mut self, node: &str, images: &[(String, u64)]) {
        let Some(host) = self.nodes.get_mut(node) else { return };
        for (name, size) in images {
            host.images.add_sized(name.clone(), *size);
        }
    }

    /// Removes a node whose pods are forgotten.
    pub(crate) fn remove_node(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Sets what the faults of a node do to what begins from now on.
    pub(crate) fn set_faults(&mut self, node: &str, faults: StartFaults) {
        if let Some(host) = self.nodes.get_mut(node) {
            host.faults = faults;
        }
    }

    /// What the faults of a pod's node do.
    fn faults(&self, pod: &PodObject) -> StartFaults {
        self.nodes.get(&pod.spec.node_name).map(|host| host.faults).unwrap_or_default()
    }

    /// Cancels everything under way for a pod whose node lost power. Its address stays until the machine is on again, if it has one.
    pub(crate) fn power_off(&mut self, uid: &str) {
        let Some(sandbox) = self.pods.get(uid) else { return };
        let is_setting_up = sandbox.pending.iter().any(|(slot, _)| *slot == Slot::Sandbox);
        self.cancel(uid, None);
        if is_setting_up {
            self.release(uid);
        }
    }

    /// Frees the address of a pod whose network is gone.
    pub(crate) fn lose_sandbox(&mut self, uid: &str) {
        self.release(uid);
    }

    /// Full names and sizes of the images on `node`, largest first.
    pub fn images(&self, node: &str) -> Vec<(&str, u64)> {
        self.nodes.get(node).map(|host| host.images.by_size()).unwrap_or_default()
    }

    /// The uid of the pod with an address.
    pub(crate) fn pod_at(&self, address: IpAddr) -> Option<&str> {
        self.addresses.get(&address).map(|uid| &**uid)
    }

    fn schedule(&mut self, pod: &PodObject, slot: Slot, at: Timestamp, event: Event) {
        let uid: Arc<str> = pod.metadata.uid.as_str().into();
        self.sequence += 1;
        let key = (at, self.sequence);
        let sandbox = self.pods.entry(Arc::clone(&uid)).or_insert_with(|| SandboxState {
            node: pod.spec.node_name.clone(),
            ip: None,
            pulls: BTreeMap::new(),
            pending: Vec::new(),
        });
        sandbox.pending.push((slot, key));
        self.agenda.insert(key, (uid, event));
    }

    fn cancel(&mut self, uid: &str, slot: Option<Slot>) {
        let Some(sandbox) = self.pods.get_mut(uid) else { return };
        let agenda = &mut self.agenda;
        sandbox.pending.retain(|(of, key)| {
            let keep = slot.is_some_and(|slot| slot != *of);
            if !keep {
                agenda.remove(key);
            }
            keep
        });
    }

    /// A random generator for one purpose of one run.
    fn rng(&self, pod: &PodObject, purpose: &str, index: usize, run: u32) -> Rng {
        let purpose_run = format!("{purpose}/{index}/{run}");
        Rng::seeded(image::hash(self.seed, &[&pod.metadata.uid, &purpose_run]))
    }

    fn sandbox(&mut self, pod: &PodObject, now: Timestamp) {
        let script = behavior::script(&pod.metadata.annotations, "");
        let delay = script.sandbox.unwrap_or(self.delays.sandbox).draw(&self.rng(pod, "sandbox", 0, 0));
        let faults = self.faults(pod);
        let delay = faults.time(delay);
        let event = if faults.is_runtime_down {
            Event::SandboxFailed(NO_RUNTIME.to_owned())
        } else if pod.spec.host_network {
            Event::Sandbox(None)
        } else {
            match self.nodes.get_mut(&pod.spec.node_name).and_then(|host| host.pool.take()) {
                Some(ip) => Event::Sandbox(Some(ip)),
                None => Event::SandboxFailed("the node has no free address".to_owned()),
            }
        };
        let ip = match &event {
            Event::Sandbox(ip) => *ip,
            _ => None,
        };
        self.schedule(pod, Slot::Sandbox, later(now, delay), event);
        self.hold(pod, ip);
    }

    fn hold(&mut self, pod: &PodObject, ip: Option<IpAddr>) {
        if let Some(sandbox) = self.pods.get_mut(pod.metadata.uid.as_str()) {
            sandbox.ip = ip;
            if let Some(ip) = ip {
                self.addresses.insert(ip, pod.metadata.uid.as_str().into());
            }
        }
    }

    fn image(&mut self, pod: &PodObject, index: usize, now: Timestamp) {
        let Some(spec) = pod.container(index) else { return };
        let faults = self.faults(pod);
        if faults.is_runtime_down {
            return self.ask_in_vain(pod, index, now);
        }
        let script = behavior::script(&pod.metadata.annotations, &spec.name);
        // If a script makes pulls fail, the image counts as absent, even if another pod pulled it.
        let tried = self.pods.get(pod.metadata.uid.as_str()).and_then(|sandbox| sandbox.pulls.get(&index));
        let unmapped = spec.program.as_deref().and_then(|program| program.check().err());
        let is_missing = self.missing_images.iter().any(|pattern| image::matches(pattern, &spec.image));
        let no_registry = image::missing_registry(&spec.image).filter(|_| spec.program.is_none());
        let exists = !is_missing && unmapped.is_none() && no_registry.is_none();
        let missing = !exists || script.pull.failures > tried.copied().unwrap_or(0);
        let host = self.nodes.get(&pod.spec.node_name).filter(|_| !missing);
        let present = host.is_some_and(|host| host.images.has(&spec.image));
        let slot = Slot::Container(index);
        match image::decide(image::policy(spec), present) {
            Decision::UsePresent => self.schedule(pod, slot, now, Event::ImagePresent(index)),
            Decision::Refuse => self.schedule(pod, slot, now, Event::NeverPull(index)),
            Decision::Pull => {
                self.schedule(pod, slot, now, Event::Pulling(index));
                if let Some(error) = faults.pull {
                    let usual = script.pull.delay.unwrap_or(self.delays.pull);
                    let took = faults.pull_time(usual.draw(&self.rng(pod, "pull", index, 0)));
                    let event = Event::PullFailed(index, image::error_text(&spec.image, error));
                    return self.schedule(pod, slot, later(now, took), event);
                }
                let sandbox =
                    self.pods.get_mut(pod.metadata.uid.as_str()).expect("scheduling made the entry");
                let tries = sandbox.pulls.entry(index).or_default();
                *tries = tries.saturating_add(1);
                let tries = *tries;
                let took =
                    script.pull.delay.unwrap_or(self.delays.pull).draw(&self.rng(pod, "pull", index, tries));
                let took = faults.pull_time(took);
                let fails = script.pull.failures == u32::MAX || tries <= script.pull.failures;
                let event = if fails || !exists {
                    let text = match (unmapped, no_registry) {
                        (Some(why), _) if !is_missing => image::unmapped_text(&spec.image, &why),
                        (None, Some(host)) if !is_missing => image::no_registry_text(&spec.image, &host),
                        _ => image::error_text(&spec.image, script.pull.error),
                    };
                    Event::PullFailed(index, text)
                } else {
                    if let Some(host) = self.nodes.get_mut(&pod.spec.node_name) {
                        host.images.add(&spec.image);
                    }
                    Event::Pulled { container: index, took, size: image::size(&spec.image) }
                };
                self.schedule(pod, slot, later(now, took), event);
            }
        }
    }

    /// Asks a runtime that does not answer for a container's image: to pull it if that is always done, else whether it is there.
    fn ask_in_vain(&mut self, pod: &PodObject, index: usize, now: Timestamp) {
        let slot = Slot::Container(index);
        if pod.container(index).map(image::policy) == Some(PullPolicy::Always) {
            self.schedule(pod, slot, now, Event::Pulling(index));
            self.schedule(pod, slot, now, Event::PullFailed(index, NO_RUNTIME.to_owned()));
        } else {
            self.schedule(pod, slot, now, inspect_failed(index));
        }
    }

    fn start(&mut self, pod: &PodObject, index: usize, run: u32, now: Timestamp) {
        let Some(spec) = pod.container(index) else { return };
        let faults = self.faults(pod);
        if faults.is_runtime_down {
            return self.schedule(pod, Slot::Container(index), now, inspect_failed(index));
        }
        let script = behavior::script(&pod.metadata.annotations, &spec.name);
        let create = script.create.unwrap_or(self.delays.create).draw(&self.rng(pod, "create", index, run));
        let start = script.start.unwrap_or(self.delays.start).draw(&self.rng(pod, "start", index, run));
        let at = later(now, faults.time(create.saturating_add(start)));
        let id = format!("sim://{}", image::hex64(&[&pod.metadata.uid, &spec.name, &run.to_string()]));
        // Simulated nodes have no files of profiles; those of programs of this machine have no effect.
        let profile = spec.localhost_profile(&pod.spec.security_context).filter(|_| spec.program.is_none());
        if let Some(profile) = profile {
            let path = format!("{SECCOMP_PROFILES}/{profile}");
            let message = format!(
                "failed to create containerd container: cannot load seccomp profile \"{path}\": open {path}: no such file or directory"
            );
            let event = Event::StartFailed { container: index, reason: "CreateContainerError", message };
            return self.schedule(pod, Slot::Container(index), at, event);
        }
        if let Program::Missing(why) = program::of(pod, index) {
            let message = format!("{NOT_CREATED}: {why}: unknown");
            let event = Event::NotStarted { container: index, id, message };
            return self.schedule(pod, Slot::Container(index), at, event);
        }
        let health = self.health(pod, &script, index, run);
        self.schedule(pod, Slot::Container(index), at, Event::Started { container: index, id, health });
        self.schedule_end(pod, &script, index, run, at);
    }

    /// Schedules the scripted end of a run that began at `start`.
    fn schedule_end(&mut self, pod: &PodObject, script: &Script, index: usize, run: u32, start: Timestamp) {
        if script.crash_times.is_some_and(|times| run >= times) {
            return;
        }
        let rng = self.rng(pod, "run", index, run);
        let runs = self.run_time(pod, script, index).map(|delay| delay.draw(&rng));
        let killed = script.oom_after.map(|delay| delay.draw(&rng));
        let event = match (runs, killed) {
            (runs, Some(killed)) if runs.is_none_or(|runs| killed <= runs) => (killed, 137, true),
            (Some(runs), _) => (runs, script.exit_code.unwrap_or(0), false),
            (None, _) => return,
        };
        let (after, code, oom) = event;
        let event = exited(index, code, oom);
        self.schedule(pod, Slot::Container(index), later(start, after), event);
    }

    /// Duration of a run; `None`: for ever. Init containers end at once, those of Jobs after the configured time, and
    /// the image `pause` never ends.
    fn run_time(&self, pod: &PodObject, script: &Script, index: usize) -> Option<Delay> {
        let at_once = Delay::Fixed(Duration::ZERO);
        let kind = kind_of(pod, index, pod.container(index)?);
        if program::has_process(pod, index) {
            // The container's command decides.
            return None;
        }
        if script.run.is_none() && script.exit_code.is_none() && image::is_pause(&pod.container(index)?.image)
        {
            return None;
        }
        match (script.run, script.exit_code, kind) {
            // Ephemeral containers are for debugging: the script of the pod does not end their runs.
            (_, _, Kind::Ephemeral) => None,
            (Some(run), _, _) => Some(run),
            (None, Some(_), _) | (None, None, Kind::Init) => Some(at_once),
            (None, None, Kind::Regular) if pod.of_job() => Some(self.delays.job),
            (None, None, Kind::Regular | Kind::Sidecar) => None,
        }
    }

    fn health(&self, pod: &PodObject, script: &Script, index: usize, run: u32) -> Health {
        let rng = self.rng(pod, "health", index, run);
        let drawn = |when: When| match when {
            When::After(delay) => Some(delay.draw(&rng)),
            When::Never => None,
        };
        Health {
            started: script.started.map_or(Some(Duration::ZERO), drawn),
            ready: drawn(script.ready.unwrap_or(When::After(self.delays.ready))),
            unready: script.unready.map(|(at, length)| (at.draw(&rng), length.draw(&rng))),
            unhealthy: script.unhealthy_after.map(|delay| delay.draw(&rng)),
        }
    }

    fn stop(&mut self, pod: &PodObject, index: usize, grace: Duration, now: Timestamp) {
        let Some(spec) = pod.container(index) else { return };
        let script = behavior::script(&pod.metadata.annotations, &spec.name);
        let after = script.stop.after.unwrap_or(self.delays.stop).draw(&self.rng(pod, "stop", index, 0));
        let after = self.faults(pod).time(after);
        // A command gets the signal and ends by itself, or else at the end of the grace period.
        let is_program = script.stop == StopScript::default() && program::has_process(pod, index);
        let (after, code) = match script.stop.ignore || is_program || after > grace {
            true => (grace, 137),
            false => (after, script.stop.code),
        };
        self.cancel(&pod.metadata.uid, Some(Slot::Container(index)));
        let event = exited(index, code, false);
        self.schedule(pod, Slot::Container(index), later(now, after), event);
    }

    /// Kills a stopping container at the end of a shorter grace period, if it has not ended by then.
    fn shorten(&mut self, pod: &PodObject, index: usize, grace: Duration, now: Timestamp) {
        let (slot, kill_at) = (Slot::Container(index), later(now, grace));
        let sandbox = self.pods.get(pod.metadata.uid.as_str());
        let mut ends = sandbox.into_iter().flat_map(|sandbox| &sandbox.pending).filter(|(of, _)| *of == slot);
        if ends.any(|(_, (at, _))| *at > kill_at) {
            self.cancel(&pod.metadata.uid, Some(slot));
            self.schedule(pod, slot, kill_at, exited(index, 137, false));
        }
    }

    fn release(&mut self, uid: &str) {
        let Some(sandbox) = self.pods.get_mut(uid) else { return };
        if let (Some(ip), Some(host)) = (sandbox.ip.take(), self.nodes.get_mut(&sandbox.node)) {
            host.pool.give_back(ip);
            if self.addresses.get(&ip).is_some_and(|owner| **owner == *uid) {
                self.addresses.remove(&ip);
            }
        }
    }
}

/// The failure to ask the runtime of a node for a container's image. A kubelet names the image by the runtime's answer, so not at all.
fn inspect_failed(container: usize) -> Event {
    Event::InspectFailed(container, format!("Failed to inspect image \"\": {NO_RUNTIME}"))
}

/// The end of a run. Its termination message is read when the event is due.
fn exited(container: usize, code: i32, oom: bool) -> Event {
    Event::Exited { container, code, oom, message: String::new() }
}

impl Runtime for SimRuntime {
    fn submit(&mut self, pod: &PodObject, command: Command, now: Timestamp) {
        match command {
            Command::Sandbox => self.sandbox(pod, now),
            Command::AdoptSandbox(ip) => {
                if let Some(host) = self.nodes.get_mut(&pod.spec.node_name) {
                    host.pool.reserve(ip);
                }
                let uid: Arc<str> = pod.metadata.uid.as_str().into();
                let node = pod.spec.node_name.clone();
                let sandbox =
                    SandboxState { node, ip: Some(ip), pulls: BTreeMap::new(), pending: Vec::new() };
                self.addresses.insert(ip, Arc::clone(&uid));
                self.pods.insert(uid, sandbox);
            }
            Command::Image(index) => self.image(pod, index, now),
            Command::Start(index, run) => self.start(pod, index, run, now),
            Command::Adopt(index, run, start) => {
                let Some(spec) = pod.container(index) else { return };
                let script = behavior::script(&pod.metadata.annotations, &spec.name);
                if let Some(host) = self.nodes.get_mut(&pod.spec.node_name) {
                    host.images.add(&spec.image);
                }
                let health = self.health(pod, &script, index, run);
                self.schedule(pod, Slot::Container(index), now, Event::Adopted(index, health));
                self.schedule_end(pod, &script, index, run, start.max(now));
            }
            Command::Stop(index, grace) => self.stop(pod, index, grace, now),
            Command::Shorten(index, grace) => self.shorten(pod, index, grace, now),
            Command::RemoveSandbox => {
                self.cancel(&pod.metadata.uid, None);
                self.release(&pod.metadata.uid);
            }
        }
    }

    fn exit(&mut self, pod: &PodObject, container: usize, code: i32, oom: bool, now: Timestamp) {
        let slot = Slot::Container(container);
        self.cancel(&pod.metadata.uid, Some(slot));
        self.schedule(pod, slot, now, exited(container, code, oom));
    }

    fn take_due(&mut self, now: Timestamp) -> Option<DueEvent> {
        let entry = self.agenda.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (key, (uid, event)) = entry.remove_entry();
        if let Some(sandbox) = self.pods.get_mut(&uid) {
            sandbox.pending.retain(|(_, pending)| *pending != key);
        }
        Some(DueEvent { at: key.0, uid, event })
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.agenda.keys().next().map(|(at, _)| *at)
    }

    fn forget(&mut self, uid: &str) {
        self.cancel(uid, None);
        self.release(uid);
        self.pods.remove(uid);
    }
}
