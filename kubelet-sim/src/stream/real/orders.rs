//! Executes orders for a container runtime: sandboxes, images, containers. Each order is a task; what it has done is reported to the
//! manager. Orders are not repeated here: the state machine of the pod decides that.

use super::{RealNode, RealPod, RuntimeReport, runtime_id, time_of};
use crate::image::{self, Decision};
use crate::limits::{RUNTIME_DEAD_CONTAINERS, RUNTIME_STOP_RETRY};
use crate::plan::cri::{self, ContainerFacts, SandboxFacts};
use crate::probe::Health;
use crate::registry_login::logins;
use crate::runtime::Event;
use crate::runtime::cri::{Order, PodOrder};
use crate::stream::environment::{TooLarge, container_of, expand_all};
use crate::stream::{Feed, ManagerMessage, Snapshot, Streams};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Secret};
use kstore_cri::RuntimeError;
use kstore_cri::client::{FoundImage, Phase};
use kstore_cri::plan::{CONTAINER_NAME, ContainerPlan, SandboxPlan};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The variables of the usual environment that an image sets itself, and those that a runtime sets.
const OF_IMAGE: [&str; 3] = ["PATH", "HOME", "HOSTNAME"];
/// The file of this machine's name servers.
const RESOLVER: &str = "/etc/resolv.conf";

/// Why a container does not start: the reason that a kubelet shows, and the text.
struct StartFailure(&'static str, String);

impl StartFailure {
    fn create(error: impl ToString) -> Self {
        Self("CreateContainerError", error.to_string())
    }

    fn config(error: impl ToString) -> Self {
        Self("CreateContainerConfigError", error.to_string())
    }
}

impl Streams {
    /// Executes an order. `feed` is `None` for a pod that is gone.
    pub(crate) async fn obey_runtime_order(self, feed: Option<Feed>, order: PodOrder) {
        let Some(real) = self.real.clone() else { return };
        let (uid, snapshot) = (order.uid, feed.map(|feed| feed.get().1));
        match (order.order, snapshot) {
            (Order::Adopt, _) => drop(real.pod(&uid)),
            (Order::RemoveSandbox, _) => real.remove_pod(&uid, false).await,
            (Order::Forget, _) => real.remove_pod(&uid, true).await,
            (Order::Sandbox, Some(snapshot)) => self.order_sandbox(&real, &uid, &snapshot).await,
            (Order::Image(index), Some(snapshot)) => self.order_image(&real, &uid, &snapshot, index).await,
            (Order::Start(index, run), Some(snapshot)) => {
                Box::pin(self.order_start(&real, &uid, &snapshot, (index, run))).await;
            }
            (Order::Stop(index, grace), Some(snapshot)) => stop(&real, &snapshot, index, grace).await,
            // The pod is gone: its sandbox is removed by another order.
            (_, None) => {}
        }
    }

    async fn report(&self, uid: &Arc<str>, event: Event, at: Option<Timestamp>) {
        let report = RuntimeReport { uid: Arc::clone(uid), event, at: at.unwrap_or(self.clock.now()) };
        // The manager may have ended.
        let _ = self.messages.send(ManagerMessage::Runtime(Box::new(report))).await;
    }

    async fn order_sandbox(&self, real: &RealNode, uid: &Arc<str>, snapshot: &Snapshot) {
        let pod = real.pod(uid);
        let mut sandbox = pod.sandbox.lock().await;
        let event = match self.make_sandbox(real, snapshot, &mut sandbox).await {
            Ok(address) => Event::Sandbox(address),
            Err(why) => Event::SandboxFailed(why),
        };
        self.report(uid, event, None).await;
    }

    /// Makes the sandbox of a pod in place of earlier ones; returns its address.
    async fn make_sandbox(
        &self,
        real: &RealNode,
        snapshot: &Snapshot,
        sandbox: &mut Option<(String, u32)>,
    ) -> Result<Option<IpAddr>, String> {
        let text = |error: RuntimeError| error.to_string();
        let meta = &snapshot.record.pod.metadata;
        let earlier = real.client.sandboxes_of(&meta.uid, &real.labels).await.map_err(text)?;
        let attempt = earlier.iter().map(|one| one.attempt + 1).max().unwrap_or(0);
        for one in earlier {
            real.client.remove_sandbox(&one.id).await.map_err(text)?;
        }
        let pod = self.pod_of(snapshot).await?;
        let plan = real.sandbox_plan(&pod, attempt).map_err(|error| error.to_string())?;
        std::fs::create_dir_all(&plan.log_directory).map_err(|error| error.to_string())?;
        let id = real.client.run_sandbox(&plan).await.map_err(text)?;
        *sandbox = Some((id.clone(), attempt));
        if plan.namespaces.has_host_network {
            return Ok(None);
        }
        let addresses = real.client.addresses(&id).await.map_err(text)?;
        match addresses.first() {
            Some(address) => Ok(Some(*address)),
            None => Err("the container runtime gave the pod no address".to_owned()),
        }
    }

    /// The id of the sandbox of a pod, and its plan. One of an earlier process is used again; one that is gone is made anew.
    async fn sandbox_for(
        &self,
        real: &RealNode,
        (uid, pod): (&Arc<str>, &RealPod),
        (snapshot, object): (&Snapshot, &Pod),
    ) -> Result<(String, SandboxPlan), StartFailure> {
        let mut sandbox = pod.sandbox.lock().await;
        let found = real.client.sandboxes_of(uid, &real.labels).await.map_err(StartFailure::create)?;
        let ready = found.into_iter().filter(|one| one.is_ready).max_by_key(|one| one.attempt);
        match ready {
            Some(one) => *sandbox = Some((one.id, one.attempt)),
            None => {
                let made = self.make_sandbox(real, snapshot, &mut sandbox).await;
                self.report(uid, Event::Sandbox(made.map_err(StartFailure::create)?), None).await;
            }
        }
        let (id, attempt) = sandbox.clone().ok_or_else(|| StartFailure::create("the pod has no sandbox"))?;
        Ok((id, real.sandbox_plan(object, attempt).map_err(StartFailure::create)?))
    }

    /// The newest object of a pod.
    async fn pod_of(&self, snapshot: &Snapshot) -> Result<Pod, String> {
        let meta = &snapshot.record.pod.metadata;
        let read = self.client_of(snapshot).api::<Pod>().get(&meta.namespace, &meta.name).await;
        let pod = read.map_err(|error| format!("cannot read the pod: {error}"))?;
        match pod.metadata.uid.as_deref() == Some(&meta.uid) {
            true => Ok(pod),
            false => Err("the pod is gone".to_owned()),
        }
    }

    async fn order_image(&self, real: &RealNode, uid: &Arc<str>, snapshot: &Snapshot, index: usize) {
        let Some(spec) = snapshot.record.pod.container(index) else { return };
        let found = match real.client.image(&spec.image).await {
            Ok(found) => found,
            Err(error) => {
                let text = format!("Failed to inspect image \"{}\": {error}", spec.image);
                return self.report(uid, Event::InspectFailed(index, text), None).await;
            }
        };
        match image::decide(image::policy(spec), found.is_some()) {
            Decision::UsePresent => self.report(uid, Event::ImagePresent(index), None).await,
            Decision::Refuse => self.report(uid, Event::NeverPull(index), None).await,
            Decision::Pull => {
                self.report(uid, Event::Pulling(index), None).await;
                let begun = tokio::time::Instant::now();
                let event = match self.pull(real, snapshot, &spec.image).await {
                    Ok(image) => Event::Pulled { container: index, took: begun.elapsed(), size: image.size },
                    Err(error) => Event::PullFailed(index, error.to_string()),
                };
                self.report(uid, event, None).await;
            }
        }
    }

    /// Pulls an image with each of the logins that the pod has for its registry, and without one if it has none.
    async fn pull(
        &self,
        real: &RealNode,
        snapshot: &Snapshot,
        image: &str,
    ) -> Result<FoundImage, RuntimeError> {
        let mut all = Vec::new();
        if let Ok(pod) = self.pod_of(snapshot).await {
            let namespace = &snapshot.record.pod.metadata.namespace;
            for secret in pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten()) {
                let found = self.client_of(snapshot).api::<Secret>().get(namespace, &secret.name).await;
                // A secret that is missing is left out, as kubelets do.
                let data = found.ok().and_then(|secret| secret.data).unwrap_or_default();
                let data = data.into_iter().map(|(key, value)| (key, value.0)).collect();
                all.extend(logins(image, &data).into_iter().map(Some));
            }
        }
        if all.is_empty() {
            all.push(None);
        }
        let mut last = None;
        for login in all {
            match real.client.pull(image, login).await {
                Ok(()) => return Ok(real.client.image(image).await?.unwrap_or_default()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("at least one pull was tried"))
    }

    async fn order_start(
        &self,
        real: &RealNode,
        uid: &Arc<str>,
        snapshot: &Snapshot,
        (index, run): (usize, u32),
    ) {
        match Box::pin(self.start_real(real, uid, snapshot, (index, run))).await {
            Ok((id, at)) => {
                let id = real.status_id(&id);
                real.wake.notify_one();
                self.report(uid, Event::Started { container: index, id, health: Health::of_process() }, at)
                    .await;
            }
            Err(StartFailure(reason, message)) => {
                self.report(uid, Event::StartFailed { container: index, reason, message }, None).await;
            }
        }
    }

    /// Creates and starts a run of a container; returns its id, and when it was started. One that an earlier process began is used again.
    async fn start_real(
        &self,
        real: &RealNode,
        uid: &Arc<str>,
        snapshot: &Snapshot,
        (index, run): (usize, u32),
    ) -> Result<(String, Option<Timestamp>), StartFailure> {
        // The semaphore is closed only at the end of the simulation.
        let _permit = self.program_starts.acquire().await.map_err(StartFailure::create)?;
        let name = snapshot.record.pod.container(index).map(|spec| spec.name.clone()).unwrap_or_default();
        let object = self.pod_of(snapshot).await.map_err(StartFailure::create)?;
        let state = real.pod(uid);
        let (sandbox, sandbox_plan) = self.sandbox_for(real, (uid, &*state), (snapshot, &object)).await?;
        if let Some(id) = real.earlier_run(&sandbox, &name, run).await.map_err(StartFailure::create)? {
            let report = real.client.report(&id).await.map_err(StartFailure::create)?;
            return Ok((id, time_of(report.started_at)));
        }
        let plan = self.container_plan(real, snapshot, &object, (&name, run)).await?;
        let folder = std::path::Path::new(&sandbox_plan.log_directory).join(&name);
        std::fs::create_dir_all(folder).map_err(StartFailure::create)?;
        let id = real.client.create((&sandbox, &sandbox_plan), &plan).await.map_err(StartFailure::create)?;
        if let Err(error) = real.client.start(&id).await {
            // The next try makes another one.
            let _ = real.client.remove(&id).await;
            return Err(StartFailure("RunContainerError", error.to_string()));
        }
        let report = real.client.report(&id).await.map_err(StartFailure::create)?;
        Ok((id, time_of(report.started_at)))
    }

    /// What the container is, and what it sees.
    async fn container_plan(
        &self,
        real: &RealNode,
        snapshot: &Snapshot,
        pod: &Pod,
        (name, run): (&str, u32),
    ) -> Result<ContainerPlan, StartFailure> {
        let too_large = |TooLarge(why)| StartFailure::create(why);
        let spec = pod.spec.clone().unwrap_or_default();
        let container = container_of(&spec, name);
        let named = container.image.clone().unwrap_or_default();
        let image = real.client.image(&named).await.map_err(StartFailure::create)?;
        let image = image.ok_or_else(|| StartFailure::create(format!("the image {named:?} is gone")))?;
        // Such a program may read every file.
        let environment = self.environment(snapshot, name, &run.to_string(), &[]).await;
        let (environment, _) = environment.map_err(too_large)?;
        let is_own = |variable: &str| container.env.iter().flatten().any(|own| own.name == variable);
        let env = self.with_api_server(environment.variables.clone(), &container).await;
        let env: Vec<_> =
            env.into_iter().filter(|(name, _)| is_own(name) || !OF_IMAGE.contains(&name.as_str())).collect();
        let expanded =
            |words: Option<&[String]>| expand_all(words.unwrap_or_default(), &env).map_err(too_large);
        let command = (expanded(container.command.as_deref())?, expanded(container.args.as_deref())?);
        let mounts = self.real_mounts(real, snapshot, (&spec, &container), &environment).await;
        let facts = ContainerFacts {
            run,
            image,
            mounts: mounts.map_err(StartFailure::config)?,
            command,
            env,
            labels: real.labels.clone(),
            target: target(snapshot, &spec, name),
            memory: i64::try_from(real.config.machine.memory).unwrap_or(i64::MAX),
        };
        cri::container(pod, &container, facts).map_err(StartFailure::config)
    }
}

/// The id of the container whose processes an ephemeral container sees.
fn target(snapshot: &Snapshot, spec: &PodSpec, name: &str) -> Option<String> {
    let ephemeral = spec.ephemeral_containers.iter().flatten().find(|one| one.name == name)?;
    let target = ephemeral.target_container_name.as_deref().filter(|target| !target.is_empty())?;
    let index = snapshot.record.pod.containers().position(|spec| spec.name == target)?;
    Some(runtime_id(&snapshot.machine.containers.get(index)?.run()?.id).to_owned())
}

/// Stops a container. An answer that does not come is asked for again: the state machine of the pod waits for the end.
async fn stop(real: &RealNode, snapshot: &Snapshot, index: usize, grace: Duration) {
    let Some(run) = snapshot.machine.containers.get(index).and_then(|one| one.run()) else { return };
    let id = runtime_id(&run.id);
    while let Err(error) = real.client.stop(id, grace).await {
        tracing::warn!(%error, id, "a container is not stopped yet");
        tokio::time::sleep(RUNTIME_STOP_RETRY).await;
        let report = real.client.report(id).await;
        if report.is_ok_and(|report| report.phase == Phase::Exited) {
            break;
        }
    }
    real.wake.notify_one();
}

impl RealNode {
    fn sandbox_plan(&self, pod: &Pod, attempt: u32) -> std::io::Result<SandboxPlan> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let logs = self.config.folder.logs(uid)?;
        let facts = SandboxFacts {
            attempt,
            log_directory: logs.to_string_lossy().into_owned(),
            labels: self.labels.clone(),
            dns: cri::resolver(&std::fs::read_to_string(RESOLVER).unwrap_or_default()),
        };
        Ok(cri::sandbox(pod, facts))
    }

    /// The id of this run of a container, if it runs already. Earlier runs are removed but the last one, whose log a client may ask for.
    async fn earlier_run(&self, sandbox: &str, name: &str, run: u32) -> Result<Option<String>, RuntimeError> {
        let mut labels = self.labels.clone();
        labels.insert(CONTAINER_NAME.to_owned(), name.to_owned());
        let mut found = self.client.containers(&labels, Some(sandbox)).await?;
        found.sort_by_key(|one| std::cmp::Reverse(one.attempt));
        let mut kept = 0;
        for one in found {
            if one.attempt == run && one.phase == Phase::Running {
                return Ok(Some(one.id));
            }
            if one.attempt < run && one.phase == Phase::Exited && kept < RUNTIME_DEAD_CONTAINERS {
                kept += 1;
                continue;
            }
            self.client.remove(&one.id).await?;
        }
        Ok(None)
    }

    /// Removes the sandbox of a pod. What cannot be removed now is later, when no pod is known to have it.
    async fn remove_pod(&self, uid: &Arc<str>, with_files: bool) {
        let pod = self.pod(uid);
        let mut sandbox = pod.sandbox.lock().await;
        let removed = async {
            for one in self.client.sandboxes_of(uid, &self.labels).await? {
                self.client.remove_sandbox(&one.id).await?;
            }
            Ok::<_, RuntimeError>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(%error, uid = &**uid, "the containers of a pod are not removed yet");
        }
        *sandbox = None;
        self.pods().remove(uid);
        if with_files {
            let (folder, uid) = (Arc::clone(&self.config.folder), Arc::clone(uid));
            // Large volumes take a while.
            let _ = tokio::task::spawn_blocking(move || folder.remove_pod(&uid)).await;
        }
    }
}
