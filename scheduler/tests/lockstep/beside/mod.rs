//! [`Beside`]: an API server, a kube-scheduler that decides there, and a shadow that reads what it reads.

use crate::log::{BOUND, EVICTED, FAILED, KubeScheduler, Line, NO_FIT, NO_NODES, PATIENCE, TARGET, UPDATING};
use crate::script::{Op, Script};
use crate::server::{Rest, Server};
use kstore_scheduler::reconstruct::DecisionKind as Kind;
use kstore_scheduler::shadow::recording::{ObjectName, Recorder, compared};
use kstore_scheduler::shadow::{Attempted, Decision, Outcome, Turn, devices_of};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// Until kube-scheduler has seen a change of a kind that its log does not name. Too short a time shows as a difference.
const UNLOGGED: Duration = Duration::from_millis(150);
/// Until kube-scheduler begins to try a pod again, if it does.
const RETRY: Duration = Duration::from_millis(100);
/// Between two looks at the API.
const INTERVAL: Duration = Duration::from_millis(5);
/// The namespaces of the scripts.
pub(crate) const NAMESPACES: [&str; 2] = ["a", "b"];

/// What a script has compared.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Operations.
    pub(crate) steps: usize,
    /// Decisions.
    pub(crate) decisions: usize,
    /// Pods that kstore would try where kube-scheduler does not, and refusals of kube-scheduler the other way round.
    pub(crate) retries: (usize, usize),
    /// The first difference.
    pub(crate) difference: Option<String>,
}

/// Both schedulers.
pub(crate) struct Beside {
    rest: Rest,
    dir: tempfile::TempDir,
    scheduler: KubeScheduler,
    recorder: Recorder,
    begin: Instant,
    /// Pods whose volumes are being bound: the next decision about each has no attempt of its own.
    waiting: BTreeSet<String>,
    /// The expected events: pod and reason, with the texts in their order.
    events: BTreeMap<(String, String), Vec<String>>,
    /// The number of started pods, which differ in their start.
    started: u32,
    decisions: usize,
    /// As in [`Compared`].
    retries: (usize, usize),
}

/// The path of objects of a kind.
pub(crate) fn path(kind: Kind, namespace: &str, name: &str) -> String {
    let all = kind.path();
    let all = match (namespace, all.rsplit_once('/')) {
        ("", _) | (_, None) => all.to_owned(),
        (namespace, Some((group, plural))) => format!("{group}/namespaces/{namespace}/{plural}"),
    };
    if name.is_empty() { all } else { format!("{all}/{name}") }
}

/// The recorded name of a pod that a log or decision names.
fn pod_name(text: &str) -> ObjectName {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    ObjectName("Pod".to_owned(), namespace.to_owned(), name.to_owned())
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The fields of a pod that schedulers write.
fn written(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array();
    let scheduled = conditions.into_iter().flatten().find(|condition| condition["type"] == "PodScheduled");
    let part = |name: &str| scheduled.map_or(Value::Null, |condition| condition[name].clone());
    json!([
        pod["spec"]["nodeName"],
        pod["status"]["nominatedNodeName"],
        part("status"),
        part("reason"),
        part("message"),
        pod["metadata"]["deletionTimestamp"].is_null(),
    ])
}

/// Sets the condition PodScheduled.
fn set_scheduled(pod: &mut Value, status: &str, (reason, message): (&str, &str)) {
    let mut condition = json!({ "type": "PodScheduled", "status": status });
    if !reason.is_empty() {
        condition["reason"] = reason.into();
        condition["message"] = message.into();
    }
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    conditions.push(condition);
    pod["status"]["conditions"] = conditions.into();
}

fn set_nominated(pod: &mut Value, node: Option<&str>) {
    let status = pod["status"].as_object_mut().expect("a pod has a status");
    match node {
        Some(node) => drop(status.insert("nominatedNodeName".to_owned(), node.into())),
        None => drop(status.remove("nominatedNodeName")),
    }
}

impl Beside {
    /// Starts kube-scheduler and creates what all scripts share.
    pub(crate) async fn start(server: &Server, program: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut beside = Self {
            rest: Rest::connect(server.kubeconfig()).await,
            scheduler: KubeScheduler::start(program, server.kubeconfig(), dir.path()),
            dir,
            recorder: Recorder::default(),
            begin: Instant::now(),
            waiting: BTreeSet::new(),
            events: BTreeMap::new(),
            started: 0,
            decisions: 0,
            retries: (0, 0),
        };
        beside.create_shared().await;
        beside
    }

    async fn create_shared(&mut self) {
        for namespace in NAMESPACES {
            let body = json!({ "metadata": { "name": namespace, "labels": { "team": namespace } } });
            let reply = self.rest.call("POST", Kind::Namespace.path(), &body.to_string()).await;
            let found = match reply.code {
                201 => reply.body,
                _ => self.get(Kind::Namespace, "", namespace).await.unwrap(),
            };
            self.recorder.set(0, Kind::Namespace, stripped(found)).unwrap();
            let account = json!({ "metadata": { "name": "default" } });
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            self.rest.call("POST", &path, &account.to_string()).await;
        }
        for (name, value, policy) in crate::pods::CLASSES {
            let class = json!({ "metadata": { "name": name }, "value": value, "preemptionPolicy": policy });
            let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
            self.rest.call("POST", path, &class.to_string()).await;
        }
        self.scheduler.take_within(3 * PATIENCE, |line| line.message.contains("Handlers synced")).await;
        // The first pod may not come before the scheduler's loop begins.
        tokio::time::sleep(2 * UNLOGGED).await;
    }

    /// The recording.
    pub(crate) fn lines(&self) -> &str {
        self.recorder.lines()
    }

    /// Copies the log of kube-scheduler.
    pub(crate) fn keep_log(&self, path: &Path) {
        std::fs::copy(self.dir.path().join("kube-scheduler.log"), path).unwrap();
    }

    /// Milliseconds since the start.
    fn t(&self) -> i64 {
        i64::try_from(self.begin.elapsed().as_millis()).unwrap()
    }

    async fn get(&mut self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        let reply = self.rest.call("GET", &path(kind, namespace, name), "").await;
        (reply.code == 200).then_some(reply.body)
    }

    /// Runs operations of a script until one differs, and removes what it has made.
    pub(crate) async fn run(&mut self, script: &mut Script, count: usize) -> Compared {
        let (before, retries) = (self.decisions, self.retries);
        let mut compared = Compared::default();
        while compared.steps < count && compared.difference.is_none() {
            let (name, ops) = script.next(self.recorder.objects());
            self.recorder.step(self.t(), &name);
            let mut result = Ok(());
            for op in ops {
                if result.is_ok() {
                    result = self.operate(op).await;
                }
            }
            compared.steps += 1;
            compared.difference = result.err().map(|why| format!("step {} ({name}): {why}", compared.steps));
        }
        if compared.difference.is_none() {
            compared.difference = self.compare_events().await.err();
        }
        if compared.difference.is_none() {
            self.recorder.step(self.t(), "end");
            compared.difference = self.clear().await.err().map(|why| format!("end: {why}"));
        }
        compared.decisions = self.decisions - before;
        compared.retries = (self.retries.0 - retries.0, self.retries.1 - retries.1);
        compared
    }

    /// Removes everything, without a comparison.
    pub(crate) async fn end(mut self) {
        drop(self.scheduler);
        let names: Vec<_> = self.recorder.objects().keys().cloned().collect();
        for ObjectName(kind, namespace, name) in names.iter().filter(|name| name.0 != "Namespace") {
            let kind = ObjectName(kind.clone(), String::new(), String::new()).kind().unwrap();
            let body = json!({ "gracePeriodSeconds": 0 }).to_string();
            let finalizers = json!({ "metadata": { "finalizers": null } }).to_string();
            let path = path(kind, namespace, name);
            self.rest.call_as("PATCH", &path, "application/merge-patch+json", &finalizers).await;
            self.rest.call("DELETE", &path, &body).await;
        }
        for namespace in NAMESPACES {
            self.rest
                .call("DELETE", &format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"), "")
                .await;
        }
        self.events.clear();
    }

    /// Removes the objects of a script, pods last, so that none of them gets a node meanwhile.
    async fn clear(&mut self) -> Result<(), String> {
        let is_first = |name: &&ObjectName| name.0 == "Pod";
        let names: Vec<_> = self.recorder.objects().keys().cloned().collect();
        let (pods, others): (Vec<_>, Vec<_>) = names.iter().partition(is_first);
        let pending = |name: &&&ObjectName| self.recorder.objects()[*name]["spec"]["nodeName"].is_null();
        let (pending, bound): (Vec<_>, Vec<_>) = pods.iter().partition(pending);
        let ordered: Vec<ObjectName> =
            pending.into_iter().chain(bound).copied().chain(others).cloned().collect();
        for name in ordered.into_iter().filter(|name| name.0 != "Namespace") {
            self.operate(Op::Delete(name, 0)).await?;
        }
        Ok(())
    }

    /// Carries out an operation, and compares the decisions that follow from it.
    async fn operate(&mut self, op: Op) -> Result<(), String> {
        self.write(op).await?;
        loop {
            self.follow().await?;
            if !self.read_pods().await? && !self.start_pods().await? {
                return Ok(());
            }
        }
    }

    /// Compares the attempts of kube-scheduler, until neither tries a pod.
    pub(super) async fn follow(&mut self) -> Result<(), String> {
        loop {
            if let Some(attempt) = self.scheduler.take_within(Duration::ZERO, Line::is_attempt).await {
                self.compare_attempt(&attempt).await?;
                continue;
            }
            match self.recorder.next(self.t()) {
                None => return Ok(()),
                Some(Turn::Continues(decision)) => {
                    let ours = Attempted { decision, is_expected: true };
                    self.compare(self.t(), ours).await?;
                }
                Some(Turn::Tries(pod)) => self.await_attempt(&pod).await?,
            }
        }
    }

    /// Waits for an attempt of kube-scheduler where the shadow would try this pod.
    async fn await_attempt(&mut self, pod: &str) -> Result<(), String> {
        let known = self.recorder.objects().get(&pod_name(pod));
        let was_refused = known.is_some_and(|pod| written(pod)[2].is_string());
        let time = if was_refused { RETRY } else { PATIENCE };
        match self.scheduler.take_within(time, Line::is_attempt).await {
            Some(attempt) => self.compare_attempt(&attempt).await,
            None if was_refused => {
                self.retries.0 += 1;
                self.recorder.pass(self.t());
                Ok(())
            }
            None => Err(format!("kube-scheduler has not tried the pod {pod}")),
        }
    }

    /// Writes an operation, and waits until kube-scheduler has seen it.
    async fn write(&mut self, op: Op) -> Result<(), String> {
        const MERGE: &str = "application/merge-patch+json";
        self.scheduler.forget_changes();
        match op {
            Op::Create(kind, object) => {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                let reply = self.rest.call("POST", &path(kind, namespace, ""), &object.to_string()).await;
                if reply.code != 201 {
                    return Err(format!("the script is wrong: {} {object}", reply.message()));
                }
                self.seen(kind, reply.body).await
            }
            Op::Patch(name, subresource, patch) => {
                let ObjectName(_, namespace, own) = &name;
                let kind = name.kind().unwrap();
                let path = format!("{}{subresource}", path(kind, namespace, own));
                let reply = self.rest.call_as("PATCH", &path, MERGE, &patch.to_string()).await;
                if reply.code != 200 {
                    return Err(format!("the script is wrong: {} {path} {patch}", reply.message()));
                }
                self.seen(kind, reply.body).await
            }
            Op::Delete(name, grace) => {
                // A victim, for example, may be gone already.
                let Some(known) = self.recorder.objects().get(&name) else { return Ok(()) };
                let has_finalizers = known["metadata"]["finalizers"].is_array();
                let ObjectName(_, namespace, own) = &name;
                let (kind, body) = (name.kind().unwrap(), json!({ "gracePeriodSeconds": grace }));
                let path = path(kind, namespace, own);
                let finalizers = json!({ "metadata": { "finalizers": null } }).to_string();
                if has_finalizers {
                    self.rest.call_as("PATCH", &path, MERGE, &finalizers).await;
                }
                self.rest.call("DELETE", &path, &body.to_string()).await;
                match self.get(kind, namespace, own).await {
                    Some(left) => self.seen(kind, left).await,
                    None => self.gone(&name).await,
                }
            }
            Op::Bind(claim, volume) => self.bind_volume(&claim, &volume).await,
        }
    }

    /// Takes the new state of an object after kube-scheduler has seen it.
    async fn seen(&mut self, kind: Kind, object: Value) -> Result<(), String> {
        let name = ObjectName::of(kind, &object);
        let object = stripped(object);
        if self.recorder.objects().get(&name).is_some_and(|known| revision(known) == revision(&object)) {
            return Ok(());
        }
        let verb = if self.recorder.objects().contains_key(&name) { "Update" } else { "Add" };
        self.wait_seen(&name, &format!("{verb} event for")).await?;
        self.recorder.set(self.t(), kind, object)
    }

    async fn gone(&mut self, name: &ObjectName) -> Result<(), String> {
        self.wait_seen(name, "Delete event for").await?;
        self.recorder.delete(self.t(), name)
    }

    /// Waits until kube-scheduler has seen a change.
    async fn wait_seen(
        &mut self,
        ObjectName(kind, namespace, name): &ObjectName,
        text: &str,
    ) -> Result<(), String> {
        let (key, value) = match kind.as_str() {
            "Node" => ("node", name.clone()),
            "Pod" => ("pod", format!("{namespace}/{name}")),
            _ => {
                tokio::time::sleep(UNLOGGED).await;
                return Ok(());
            }
        };
        let is_it = |line: &Line| line.message.contains(text) && line.value(key) == value;
        loop {
            // An attempt before kube-scheduler has seen the change is one without it.
            match self.scheduler.take(|line| is_it(line) || line.is_attempt()).await {
                Some(line) if line.is_attempt() => Box::pin(self.compare_attempt(&line)).await?,
                Some(_) => return Ok(()),
                None => return Err(format!("kube-scheduler has not seen {kind} {value}")),
            }
        }
    }

    /// Compares an attempt of kube-scheduler with the shadow's for the same pod, and takes what kube-scheduler writes for it.
    pub(super) async fn compare_attempt(&mut self, attempt: &Line) -> Result<(), String> {
        let pod = attempt.value("pod").to_owned();
        if !self.recorder.objects().contains_key(&pod_name(&pod)) {
            // The pod was deleted meanwhile.
            self.end_of_attempt(&pod).await;
            return Ok(());
        }
        // A replay asks for the shadow's decision at this moment.
        let at = self.t();
        match self.recorder.attempt(at, &pod) {
            Some(ours) => self.compare(at, ours).await,
            None => Err(format!("kube-scheduler tries {pod}, which does not wait here")),
        }
    }

    async fn compare(&mut self, at: i64, ours: Attempted) -> Result<(), String> {
        let theirs = self.observe(&ours.decision).await?;
        self.recorder.decided(at, theirs.clone());
        self.retries.1 += usize::from(compared(&theirs, Some(ours))?);
        self.decisions += 1;
        // What follows from a decision may have other attempts in it.
        Box::pin(self.take_outcome(&theirs)).await
    }

    /// kube-scheduler's decision in the attempt for which the shadow decides `ours`.
    async fn observe(&mut self, ours: &Decision) -> Result<Decision, String> {
        let pod = ours.pod.clone();
        self.waiting.remove(&pod);
        if let Outcome::BindsVolumes { volumes, provision, .. } = &ours.outcome
            && let Some(outcome) = self.observe_volumes(&pod, volumes, provision).await
        {
            return Ok(Decision { pod, outcome });
        }
        let Some(end) = self.end_of_attempt(&pod).await else {
            return Err(format!("kube-scheduler has not ended the attempt, kstore decides {ours:?}"));
        };
        let outcome = match end.message == BOUND {
            true => Outcome::Bound { node: end.value("node").to_owned(), claims: self.allocated(&pod).await },
            false => self.observe_refusal(&pod, &end, &ours.outcome).await,
        };
        Ok(Decision { pod, outcome })
    }

    /// The line with which the attempt for a pod ends.
    async fn end_of_attempt(&mut self, pod: &str) -> Option<Line> {
        let ends = [BOUND, NO_FIT, NO_NODES, FAILED];
        self.scheduler.take(|line| ends.contains(&&*line.message) && line.value("pod") == pod).await
    }

    async fn observe_refusal(&mut self, pod: &str, end: &Line, ours: &Outcome) -> Outcome {
        let update = self.scheduler.take(|line| line.message == UPDATING && line.value("pod") == pod).await;
        let update = update.unwrap_or_else(|| end.clone());
        let message = match &*end.message {
            NO_NODES => "no nodes available to schedule pods".to_owned(),
            _ => end.value("err").to_owned(),
        };
        let is_target = |line: &Line| line.message == TARGET && line.value("pod") == pod;
        let Some(target) = self.scheduler.take_within(Duration::ZERO, is_target).await else {
            let known = &self.recorder.objects()[&pod_name(pod)]["status"]["nominatedNodeName"];
            let nominated = match update.value("nominatingMode") {
                "1" => Some(update.value("nominatedNodeName").to_owned()).filter(|node| !node.is_empty()),
                _ => known.as_str().map(str::to_owned),
            };
            return Outcome::Refused {
                reason: update.value("conditionReason").to_owned(),
                message,
                nominated,
            };
        };
        let expected = match ours {
            Outcome::Preempts { victims, .. } => victims.len(),
            _ => 0,
        };
        let mut victims = Vec::new();
        loop {
            let time = if victims.len() < expected { PATIENCE } else { Duration::from_millis(2) };
            // The next attempt may evict a pod once more.
            let is_eviction = |line: &Line| {
                line.message == EVICTED
                    && line.value("preemptor") == pod
                    && !victims.iter().any(|victim| victim == line.value("victim"))
            };
            let Some(eviction) = self.scheduler.take_within(time, is_eviction).await else { break };
            victims.push(eviction.value("victim").to_owned());
        }
        victims.sort();
        Outcome::Preempts { message, node: target.value("node").to_owned(), victims }
    }

    /// The claims of a pod in the API, as far as the shadow does not know their allocation.
    async fn allocated(&mut self, pod: &str) -> BTreeMap<String, Vec<String>> {
        let ObjectName(_, namespace, _) = pod_name(pod);
        let mut found = BTreeMap::new();
        let pod = self.recorder.objects()[&pod_name(pod)].clone();
        for entry in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
            let name = entry["resourceClaimName"].as_str().unwrap_or_default();
            let known = ObjectName("ResourceClaim".to_owned(), namespace.clone(), name.to_owned());
            let was_allocated = |claim: &Value| claim["status"]["allocation"].is_object();
            if self.recorder.objects().get(&known).is_none_or(was_allocated) {
                continue;
            }
            if let Some(claim) = self.get(Kind::ResourceClaim, &namespace, name).await {
                found.insert(name.to_owned(), devices_of(&claim["status"]["allocation"]));
            }
        }
        found
    }

    /// The volumes that kube-scheduler gives the claims of a pod; `None` if it gives none.
    async fn observe_volumes(
        &mut self,
        pod: &str,
        volumes: &BTreeMap<String, String>,
        provision: &[String],
    ) -> Option<Outcome> {
        let ObjectName(_, namespace, name) = pod_name(pod);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.get(Kind::Pod, &namespace, &name).await?;
            let node = now["status"]["nominatedNodeName"].as_str().unwrap_or_default().to_owned();
            let (mut found, mut made) = (BTreeMap::new(), Vec::new());
            let all = self.rest.call("GET", Kind::PersistentVolume.path(), "").await.body;
            for claim in volumes.keys().chain(provision) {
                let is_its = |volume: &&Value| {
                    volume["spec"]["claimRef"]["name"] == **claim
                        && volume["spec"]["claimRef"]["namespace"] == *namespace
                };
                let volume = all["items"].as_array().into_iter().flatten().find(is_its);
                if let Some(volume) = volume {
                    found.insert(claim.clone(), volume["metadata"]["name"].as_str()?.to_owned());
                }
                let claimed = self.get(Kind::PersistentVolumeClaim, &namespace, claim).await?;
                if claimed["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string() {
                    made.push(claim.clone());
                }
            }
            made.sort();
            let is_complete = found.len() + made.len() == volumes.len() + provision.len() && !node.is_empty();
            if is_complete || Instant::now() > deadline {
                return is_complete.then_some(Outcome::BindsVolumes {
                    node,
                    volumes: found,
                    provision: made,
                });
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

/// An object without what no decision reads.
pub(crate) fn stripped(mut object: Value) -> Value {
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    object
}

mod outcome;
