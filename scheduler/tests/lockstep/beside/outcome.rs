//! What follows from a decision: the writes of kube-scheduler, of a kubelet and of the controller of volumes.

use super::{
    Beside, INTERVAL, Kind, NAMESPACES, pod_name, revision, set_nominated, set_scheduled, stripped, written,
};
use crate::log::{DELETED, Line, PATIENCE};
use kstore_scheduler::shadow::recording::ObjectName;
use kstore_scheduler::shadow::{Decision, Outcome, event_text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

impl Beside {
    /// Takes what kube-scheduler writes for a decision: of the pod as it must become, of other objects as they are.
    pub(super) async fn take_outcome(&mut self, decision: &Decision) -> Result<(), String> {
        let name = pod_name(&decision.pod);
        let mut pod = self.recorder.objects()[&name].clone();
        let mut newest = revision(&pod);
        let key = |reason: &str| (decision.pod.clone(), reason.to_owned());
        match &decision.outcome {
            Outcome::Bound { node, .. } => {
                pod["spec"]["nodeName"] = node.as_str().into();
                set_scheduled(&mut pod, "True", ("", ""));
                set_nominated(&mut pod, None);
                self.events.insert(
                    key("Scheduled"),
                    vec![format!("Successfully assigned {} to {node}", decision.pod)],
                );
                newest = newest.max(self.read_claims(&pod).await?);
            }
            Outcome::Refused { .. } => {
                self.take_refusal(decision)?;
                self.recorder.settle(self.t(), newest);
                return Ok(());
            }
            Outcome::Preempts { message, node, victims } => {
                set_scheduled(&mut pod, "False", ("Unschedulable", message));
                set_nominated(&mut pod, Some(node));
                self.events.entry(key("FailedScheduling")).or_default().push(event_text(message));
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                let text = format!("Preempted by pod {uid} on node {node}");
                for victim in victims {
                    self.events.insert((victim.clone(), "Preempted".to_owned()), vec![text.clone()]);
                }
                self.recorder.set(self.t(), Kind::Pod, pod)?;
                self.read_victims(victims).await?;
                self.recorder.settle(self.t(), newest);
                return Ok(());
            }
            Outcome::BindsVolumes { node, volumes, provision } => {
                set_nominated(&mut pod, Some(node));
                self.recorder.set(self.t(), Kind::Pod, pod)?;
                return self.bind_volumes(&decision.pod, volumes, provision).await;
            }
            Outcome::Other(what) => return Err(format!("nothing compares this: {what}")),
        }
        self.recorder.set(self.t(), Kind::Pod, pod)?;
        self.recorder.settle(self.t(), newest);
        Ok(())
    }

    /// Takes the status that a refusal writes.
    pub(super) fn take_refusal(&mut self, decision: &Decision) -> Result<(), String> {
        let Outcome::Refused { reason, message, nominated } = &decision.outcome else { return Ok(()) };
        let mut pod = self.recorder.objects()[&pod_name(&decision.pod)].clone();
        set_scheduled(&mut pod, "False", (reason, message));
        set_nominated(&mut pod, nominated.as_deref());
        let key = (decision.pod.clone(), "FailedScheduling".to_owned());
        self.events.entry(key).or_default().push(event_text(message));
        self.recorder.set(self.t(), Kind::Pod, pod)
    }

    /// Reads the claims of devices of a bound pod, and returns the newest revision among them.
    async fn read_claims(&mut self, pod: &Value) -> Result<u64, String> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let mut newest = 0;
        for entry in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
            let name = entry["resourceClaimName"].as_str().unwrap_or_default();
            let Some(claim) = self.get(Kind::ResourceClaim, &namespace, name).await else { continue };
            newest = newest.max(revision(&claim));
            self.recorder.set(self.t(), Kind::ResourceClaim, stripped(claim))?;
        }
        Ok(newest)
    }

    /// Waits until victims are gone or are being deleted. kube-scheduler sees one after the other, and may try pods between them.
    async fn read_victims(&mut self, victims: &[String]) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut gone = BTreeSet::new();
        for victim in victims {
            let name = pod_name(victim);
            loop {
                match self.get(Kind::Pod, &name.1, &name.2).await {
                    None => {
                        gone.insert(victim.clone());
                        break;
                    }
                    Some(pod) if !pod["metadata"]["deletionTimestamp"].is_null() => {
                        break self.recorder.set(self.t(), Kind::Pod, stripped(pod))?;
                    }
                    Some(_) if Instant::now() > deadline => return Err(format!("{victim} was not deleted")),
                    Some(_) => tokio::time::sleep(INTERVAL).await,
                }
            }
        }
        while !gone.is_empty() {
            let is_its = |line: &Line| line.message.contains(DELETED) && gone.contains(line.value("pod"));
            match self.scheduler.take(|line| is_its(line) || line.is_attempt()).await {
                Some(line) if line.is_attempt() => self.compare_attempt(&line).await?,
                Some(line) => {
                    gone.remove(line.value("pod"));
                    self.recorder.delete(self.t(), &pod_name(line.value("pod")))?;
                }
                None => return Err(format!("kube-scheduler has not seen that {gone:?} are gone")),
            }
        }
        Ok(())
    }

    /// Binds the claims of a pod as the controller of volumes does.
    async fn bind_volumes(
        &mut self,
        pod: &str,
        volumes: &BTreeMap<String, String>,
        provision: &[String],
    ) -> Result<(), String> {
        self.waiting.insert(pod.to_owned());
        let namespace = pod_name(pod).1;
        let mut pairs: Vec<_> =
            volumes.iter().map(|(claim, volume)| (claim.clone(), volume.clone())).collect();
        let mut newest = 0;
        for (_, volume) in &pairs {
            let written = self.get(Kind::PersistentVolume, "", volume).await.ok_or("the volume is gone")?;
            newest = newest.max(revision(&written));
            self.recorder.set(self.t(), Kind::PersistentVolume, stripped(written))?;
        }
        for claim in provision {
            let asked =
                self.get(Kind::PersistentVolumeClaim, &namespace, claim).await.ok_or("the claim is gone")?;
            newest = newest.max(revision(&asked));
            let volume = crate::script::provisioned(&asked);
            pairs.push((claim.clone(), volume["metadata"]["name"].as_str().unwrap_or_default().to_owned()));
            self.recorder.set(self.t(), Kind::PersistentVolumeClaim, stripped(asked))?;
            let reply = self.rest.call("POST", Kind::PersistentVolume.path(), &volume.to_string()).await;
            if reply.code != 201 {
                return Err(format!("a volume is refused: {}", reply.message()));
            }
            self.recorder.set(self.t(), Kind::PersistentVolume, stripped(reply.body))?;
        }
        self.recorder.settle(self.t(), newest);
        for (claim, volume) in pairs {
            let claim = ObjectName("PersistentVolumeClaim".to_owned(), namespace.clone(), claim);
            let volume = ObjectName("PersistentVolume".to_owned(), String::new(), volume);
            self.bind_volume(&claim, &volume).await?;
        }
        Ok(())
    }

    /// Binds a claim and a volume to each other.
    pub(super) async fn bind_volume(
        &mut self,
        claim: &ObjectName,
        volume: &ObjectName,
    ) -> Result<(), String> {
        const MERGE: &str = "application/merge-patch+json";
        let uid = self.recorder.objects()[claim]["metadata"]["uid"].clone();
        let reference = json!({ "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": claim.1, "name": claim.2, "uid": uid });
        let done = json!({ "annotations": { "pv.kubernetes.io/bind-completed": "yes" } });
        let writes = [
            (volume, "", json!({ "spec": { "claimRef": reference } })),
            (volume, "/status", json!({ "status": { "phase": "Bound" } })),
            (claim, "", json!({ "metadata": done, "spec": { "volumeName": volume.2 } })),
            (claim, "/status", json!({ "status": { "phase": "Bound" } })),
        ];
        for (name, subresource, patch) in writes {
            let kind = name.kind().unwrap();
            let path = format!("{}{subresource}", super::path(kind, &name.1, &name.2));
            let reply = self.rest.call_as("PATCH", &path, MERGE, &patch.to_string()).await;
            if reply.code != 200 {
                return Err(format!("the script is wrong: {} {path} {patch}", reply.message()));
            }
            self.seen(kind, reply.body).await?;
        }
        Ok(())
    }

    /// Waits until the pods in the API are as the decisions make them, and takes their newest state. True if the shadow has heard of
    /// something new.
    pub(super) async fn read_pods(&mut self) -> Result<bool, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = self.rest.call("GET", Kind::Pod.path(), "").await.body;
            let pods: BTreeMap<_, _> = all["items"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|pod| (ObjectName::of(Kind::Pod, pod), stripped(pod.clone())))
                .collect();
            let known: Vec<_> = self.recorder.objects().iter().filter(|(name, _)| name.0 == "Pod").collect();
            let is_waiting = |name: &ObjectName| self.waiting.contains(&format!("{}/{}", name.1, name.2));
            let is_different = |(name, known): &&(&ObjectName, &Value)| {
                pods.get(*name).is_none_or(|pod| !is_waiting(name) && written(pod) != written(known))
            };
            let differs =
                known.iter().find(is_different).map(|(name, known)| ((*name).clone(), written(known)));
            match differs {
                None => {
                    let news: Vec<_> = known
                        .iter()
                        .filter(|(name, known)| revision(&pods[*name]) != revision(known))
                        .map(|(name, _)| (*name).clone())
                        .collect();
                    for name in &news {
                        self.recorder.set(self.t(), Kind::Pod, pods[name].clone())?;
                    }
                    return Ok(!news.is_empty());
                }
                Some((name, known)) if Instant::now() > deadline => {
                    let found = pods.get(&name).map(written);
                    return Err(format!("{name:?} is {found:?}, not {known}"));
                }
                Some(_) => {
                    tokio::time::sleep(INTERVAL).await;
                    self.follow().await?;
                }
            }
        }
    }

    /// Starts bound pods, each a second after the one before, as kubelets do. True if any was started.
    pub(super) async fn start_pods(&mut self) -> Result<bool, String> {
        let is_new =
            |pod: &Value| pod["spec"]["nodeName"].is_string() && pod["status"]["startTime"].is_null();
        let objects = self.recorder.objects().iter();
        let new: Vec<_> = objects
            .filter(|(name, pod)| name.0 == "Pod" && is_new(pod))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &new {
            self.started += 1;
            let (minute, second) = (self.started / 60, self.started % 60);
            let time = format!("2026-01-01T{:02}:{:02}:{second:02}Z", minute / 60 % 24, minute % 60);
            let patch = json!({ "status": { "phase": "Running", "startTime": time } });
            self.write(crate::script::Op::Patch(name.clone(), "/status", patch)).await?;
        }
        Ok(!new.is_empty())
    }

    /// Compares the events about pods with those that the decisions make, and deletes them.
    pub(super) async fn compare_events(&mut self) -> Result<(), String> {
        let expected = std::mem::take(&mut self.events);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
            for namespace in NAMESPACES {
                let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
                let events = self.rest.call("GET", &path, "").await.body;
                for event in events["items"].as_array().into_iter().flatten() {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let pod = format!("{namespace}/{}", text(&event["regarding"]["name"]));
                    found.entry((pod, text(&event["reason"]))).or_default().push(text(&event["note"]));
                }
            }
            // kube-scheduler counts repeated events about one version of a pod, whatever they say: not each text is there.
            let is_missing = |key: &(String, String), texts: &[String]| {
                found.get(key).is_none_or(|found| !found.contains(&texts[0]))
            };
            let missing: Vec<_> = expected.iter().filter(|(key, texts)| is_missing(key, texts)).collect();
            let is_unknown = |key: &(String, String), texts: &[String]| {
                let known = expected.get(key).map_or(&[][..], Vec::as_slice);
                texts.iter().any(|text| !known.contains(text))
            };
            let unknown: Vec<_> = found.iter().filter(|(key, texts)| is_unknown(key, texts)).collect();
            if missing.is_empty() && unknown.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "different events\n  kube-scheduler: {unknown:?}\n  kstore:         {missing:?}"
                ));
            }
            tokio::time::sleep(INTERVAL).await;
        }
        for namespace in NAMESPACES {
            let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
            self.rest.call("DELETE", &path, "").await;
        }
        Ok(())
    }
}
