//! The spec of a NodeGroup: as the API has it ([`GroupDoc`]), and checked ([`GroupSpec`]).

use super::cost::micros;
use super::names::NamePattern;
use crate::behavior::{Delay, delay, duration};
use crate::device::spec::{DeviceDoc, DeviceSpec};
use crate::limits::{DRAIN, GROUP_INSTANCES};
use crate::shape::LeaseTerms;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// `spec` of a NodeGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupDoc {
    pub(crate) replicas: u32,
    pub(crate) min_replicas: u32,
    pub(crate) max_replicas: Option<u32>,
    pub(crate) name_pattern: Option<String>,
    pub(crate) zones: Vec<String>,
    pub(crate) region: String,
    pub(crate) instance_type: String,
    pub(crate) capacity_type: String,
    pub(crate) template: TemplateDoc,
    pub(crate) startup: StartupDoc,
    pub(crate) shutdown: ShutdownDoc,
    pub(crate) scale_down: String,
    pub(crate) on_node_delete: String,
    pub(crate) cost: Option<CostDoc>,
    pub(crate) schedule: Vec<ScheduleDoc>,
}

/// What a node of the group looks like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TemplateDoc {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) startup_taints: Vec<Taint>,
    pub(crate) images: Vec<ImageDoc>,
    pub(crate) kubelet: KubeletDoc,
    pub(crate) unschedulable: bool,
    pub(crate) capacity: BTreeMap<String, Quantity>,
    pub(crate) reserved: BTreeMap<String, Quantity>,
    pub(crate) allocatable: BTreeMap<String, Quantity>,
    pub(crate) node_info: NodeInfoDoc,
    #[serde(rename = "providerID")]
    pub(crate) provider_id: String,
    pub(crate) devices: Vec<DeviceDoc>,
}

/// How the kubelets of a group are configured.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KubeletDoc {
    pub(crate) lease_interval: String,
    pub(crate) lease_duration: String,
}

impl KubeletDoc {
    /// How the kubelet renews its Lease: four times while it holds, if only one of both is given.
    ///
    /// # Errors
    /// The field that is wrong, with its path.
    pub(crate) fn lease(&self) -> Result<LeaseTerms, String> {
        let at = |name: &str| format!("spec.template.kubelet.{name}");
        let (interval, duration) = (
            fixed(&at("leaseInterval"), &self.lease_interval)?,
            fixed(&at("leaseDuration"), &self.lease_duration)?,
        );
        let (interval, duration) = match (self.lease_interval.as_str(), self.lease_duration.as_str()) {
            ("", "") => return Ok(LeaseTerms::default()),
            ("", _) => (duration / 4, duration),
            (_, "") => (interval, interval.saturating_mul(4)),
            (_, _) => (interval, duration),
        };
        if interval < Duration::from_secs(1) || interval >= duration {
            let what = "must be at least 1s and below leaseDuration";
            return Err(format!("{} {:?}: {what}", at("leaseInterval"), self.lease_interval));
        }
        let seconds = i32::try_from(duration.as_secs()).ok().filter(|_| duration.subsec_nanos() == 0);
        let seconds = seconds.ok_or_else(|| {
            format!("{} {:?}: must be whole seconds", at("leaseDuration"), self.lease_duration)
        })?;
        Ok(LeaseTerms { interval, seconds })
    }
}

/// An image that nodes have from the start.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ImageDoc {
    pub(crate) names: Vec<String>,
    pub(crate) size_bytes: Option<u64>,
}

/// The software of a node; what is empty is as on other simulated nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeInfoDoc {
    pub(crate) architecture: String,
    pub(crate) os_image: String,
    pub(crate) kernel_version: String,
    pub(crate) kubelet_version: String,
    pub(crate) container_runtime_version: String,
}

/// How long an instance takes to become a node, and whether it does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StartupDoc {
    pub(crate) provision: String,
    pub(crate) register: String,
    pub(crate) ready: String,
    pub(crate) taints: String,
    pub(crate) fail: Option<FailDoc>,
}

/// Instances that never come.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FailDoc {
    pub(crate) probability: f64,
    pub(crate) times: Option<u32>,
    pub(crate) code: String,
    pub(crate) message: String,
}

/// How an instance ends.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ShutdownDoc {
    pub(crate) mode: String,
    pub(crate) delay: String,
    pub(crate) grace: String,
}

/// Prices an hour, as decimal texts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CostDoc {
    pub(crate) per_hour: String,
    pub(crate) spot: Option<String>,
}

/// A size at a time after the group's creation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ScheduleDoc {
    pub(crate) after: String,
    pub(crate) replicas: u32,
    pub(crate) every: Option<String>,
}

/// Which ready instance a group gives up first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScaleDown {
    /// Not ready, then with the fewest pods, then with the highest number.
    #[default]
    Cheapest,
    Newest,
    Oldest,
    /// With the highest number.
    Index,
}

/// What follows if another client deletes the Node object of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnNodeDelete {
    /// The instance is gone, and a new one is made.
    #[default]
    Replace,
    /// The group also becomes smaller.
    Shrink,
    /// The instance runs on without its object, as a kubelet does.
    Stay,
}

/// A size that the group gets at a time after its creation, and perhaps again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScheduledSize {
    pub(crate) after: Duration,
    pub(crate) every: Option<Duration>,
    pub(crate) replicas: u32,
}

/// A checked spec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupSpec {
    pub(crate) doc: GroupDoc,
    pub(crate) names: NamePattern,
    pub(crate) provision: Delay,
    pub(crate) register: Delay,
    pub(crate) ready: Delay,
    /// From then until the startup taints go away.
    pub(crate) startup_taints: Delay,
    pub(crate) shutdown: Duration,
    /// The time that an instance has to end its pods before its machine ends; `None`: it ends at once.
    pub(crate) drain: Option<Duration>,
    pub(crate) scale_down: ScaleDown,
    pub(crate) on_node_delete: OnNodeDelete,
    /// Price of an instance an hour, in millionths.
    pub(crate) micros_per_hour: u64,
    pub(crate) schedule: Vec<ScheduledSize>,
    /// The devices of each node.
    pub(crate) devices: Arc<[DeviceSpec]>,
}

impl GroupSpec {
    /// Checks a spec.
    ///
    /// # Errors
    /// The first field that is wrong, with its path.
    pub(crate) fn check(doc: &GroupDoc) -> Result<Self, String> {
        let (least, most) = (doc.min_replicas, doc.max_replicas.unwrap_or(1000));
        if most > GROUP_INSTANCES {
            return Err(format!("spec.maxReplicas {most}: at most {GROUP_INSTANCES}"));
        }
        if doc.replicas > most {
            return Err(format!("spec.replicas: replicas {} is above maxReplicas {most}", doc.replicas));
        }
        if doc.replicas < least {
            return Err(format!("spec.replicas: replicas {} is below minReplicas {least}", doc.replicas));
        }
        if !doc.template.reserved.is_empty() && !doc.template.allocatable.is_empty() {
            return Err("spec.template: give reserved or allocatable, not both".to_owned());
        }
        doc.template.kubelet.lease()?;
        let names = NamePattern::parse(doc.name_pattern.as_deref().unwrap_or("{group}-{index}"))?;
        let scale_down = match doc.scale_down.as_str() {
            "" | "Cheapest" => ScaleDown::Cheapest,
            "Newest" => ScaleDown::Newest,
            "Oldest" => ScaleDown::Oldest,
            "Index" => ScaleDown::Index,
            other => {
                return Err(format!("spec.scaleDown {other:?}: must be Cheapest, Newest, Oldest or Index"));
            }
        };
        let on_node_delete = match doc.on_node_delete.as_str() {
            "" | "Replace" => OnNodeDelete::Replace,
            "Shrink" => OnNodeDelete::Shrink,
            "Stay" => OnNodeDelete::Stay,
            other => return Err(format!("spec.onNodeDelete {other:?}: must be Replace, Shrink or Stay")),
        };
        Ok(Self {
            names,
            provision: span("spec.startup.provision", &doc.startup.provision)?,
            register: span("spec.startup.register", &doc.startup.register)?,
            ready: span("spec.startup.ready", &doc.startup.ready)?,
            startup_taints: span("spec.startup.taints", &doc.startup.taints)?,
            shutdown: fixed("spec.shutdown.delay", &doc.shutdown.delay)?,
            drain: drain(&doc.shutdown)?,
            scale_down,
            on_node_delete,
            micros_per_hour: price(doc)?,
            schedule: doc.schedule.iter().map(size).collect::<Result<_, _>>()?,
            devices: DeviceSpec::check_all(&doc.template.devices)?.into(),
            doc: doc.clone(),
        })
    }
}

fn span(path: &str, text: &str) -> Result<Delay, String> {
    match text {
        "" => Ok(Delay::Fixed(Duration::ZERO)),
        text => delay(text).map_err(|expected| format!("{path} {text:?} is not {expected}")),
    }
}

fn fixed(path: &str, text: &str) -> Result<Duration, String> {
    match text {
        "" => Ok(Duration::ZERO),
        text => duration(text).map_err(|expected| format!("{path} {text:?} is not {expected}")),
    }
}

/// How long an instance drains, if it does.
fn drain(doc: &ShutdownDoc) -> Result<Option<Duration>, String> {
    match (doc.mode.as_str(), doc.grace.as_str()) {
        ("drain", "") => Ok(Some(DRAIN)),
        ("drain", grace) => fixed("spec.shutdown.grace", grace).map(Some),
        ("" | "terminate", "") => Ok(None),
        ("" | "terminate", _) => Err("spec.shutdown.grace: is for mode drain".to_owned()),
        (other, _) => Err(format!("spec.shutdown.mode {other:?}: must be terminate or drain")),
    }
}

/// Price of an instance an hour, in millionths.
fn price(doc: &GroupDoc) -> Result<u64, String> {
    let Some(cost) = &doc.cost else { return Ok(0) };
    let of = |path: &str, text: &str| {
        micros(text).ok_or_else(|| format!("spec.cost.{path} {text:?} is not an amount such as \"0.192\""))
    };
    let usual = of("perHour", &cost.per_hour)?;
    let spot = cost.spot.as_deref().map(|text| of("spot", text)).transpose()?;
    Ok(spot.filter(|_| doc.capacity_type == "spot").unwrap_or(usual))
}

fn size(doc: &ScheduleDoc) -> Result<ScheduledSize, String> {
    let every = doc.every.as_deref().map(|text| fixed("spec.schedule.every", text)).transpose()?;
    if every.is_some_and(|every| every < Duration::from_secs(1)) {
        return Err("spec.schedule.every: must be at least a second".to_owned());
    }
    Ok(ScheduledSize { after: fixed("spec.schedule.after", &doc.after)?, every, replicas: doc.replicas })
}
