//! Volumes of a pod before its network is set up: objects that they need, claims that cannot be attached, and mounts that take time. Pure.

use super::step::Step;
use super::{Output, Stage};
use crate::limits::MOUNT_TIMEOUT;
use crate::plan::etc::{DnsSettings, Resolver};
use crate::pod_object::needs::{self, Readiness};
use crate::pod_object::source::SourceKind;
use crate::runtime::Command;
use jiff::Timestamp;
use kstore_container_sim::time::later;

/// How far the mount of a pod's volumes is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountWait {
    /// It has not begun.
    #[default]
    Idle,
    /// It is under way.
    Waiting {
        /// Its end.
        until: Timestamp,
        /// When the kubelet reports that it takes too long, if it has not.
        report_at: Option<Timestamp>,
    },
    /// The volumes are mounted.
    Done,
}

impl MountWait {
    /// The time of the next deadline.
    pub fn deadline(&self) -> Option<Timestamp> {
        match *self {
            Self::Waiting { until, report_at } => Some(report_at.map_or(until, |at| at.min(until))),
            Self::Idle | Self::Done => None,
        }
    }
}

impl Step<'_> {
    /// Sets up the pod's network once its volumes can be mounted and its resource claims used.
    pub(super) fn mount(&mut self) {
        let (reason, readiness) = match needs::volumes(self.object, self.sources) {
            Readiness::Ready => match self.attach_problems() {
                Some(problems) => ("FailedAttachVolume", Readiness::Blocked(problems)),
                None => ("FailedPrepareDynamicResources", needs::devices(self.object, self.sources)),
            },
            other => ("FailedMount", other),
        };
        match readiness {
            Readiness::Ready if self.is_mounting() => {}
            Readiness::Ready => {
                self.pod.stage = Stage::Sandbox;
                self.warn_of_resolver();
                self.out.push(Output::Runtime(Command::Sandbox));
            }
            Readiness::Unknown => {}
            Readiness::Blocked(problems) => {
                let reported = match &self.pod.stage {
                    Stage::Mounting(reported) => reported.clone(),
                    _ => Vec::new(),
                };
                for problem in problems.iter().filter(|problem| !reported.contains(problem)) {
                    self.warn(None, reason, problem.clone());
                }
                self.pod.stage = Stage::Mounting(problems);
                self.pod.mount = MountWait::Idle;
            }
        }
    }

    /// Tells what a resolver does not take of the pod's `dnsConfig`.
    fn warn_of_resolver(&mut self) {
        let spec = &self.object.spec;
        let Some(config) = spec.dns_config.as_deref() else { return };
        let resolver = Resolver::of(DnsSettings {
            policy: spec.dns_policy.text(),
            config: Some(config),
            host_network: spec.host_network,
            namespace: &self.object.metadata.namespace,
        });
        for message in resolver.omitted {
            self.warn(None, "DNSConfigForming", message);
        }
    }

    /// The claims of the pod that a fault of its node keeps from being attached.
    fn attach_problems(&self) -> Option<Vec<String>> {
        if !self.pod.faults.attach_fails {
            return None;
        }
        let claims = self.object.spec.volumes.needs.iter().filter(|need| need.kind == SourceKind::Claim);
        let problems: Vec<String> = claims
            .map(|need| {
                let volume = &need.volume;
                format!(
                    "AttachVolume.Attach failed for volume \"{volume}\" : rpc error: code = DeadlineExceeded desc = \
                     context deadline exceeded"
                )
            })
            .collect();
        (!problems.is_empty()).then_some(problems)
    }

    /// Whether the mount of the volumes takes longer than until now. The time counts from when all that they need was there.
    fn is_mounting(&mut self) -> bool {
        let length = self.pod.faults.mount;
        let volumes = &self.object.spec.volumes.needs;
        if length.is_zero() || volumes.is_empty() {
            self.pod.mount = MountWait::Done;
            return false;
        }
        match self.pod.mount {
            MountWait::Idle => {
                let report_at = (length > MOUNT_TIMEOUT).then(|| later(self.now, MOUNT_TIMEOUT));
                self.pod.mount = MountWait::Waiting { until: later(self.now, length), report_at };
                self.pod.stage = Stage::Mounting(Vec::new());
                true
            }
            MountWait::Waiting { until, .. } if until <= self.now => {
                self.pod.mount = MountWait::Done;
                false
            }
            MountWait::Waiting { until, report_at } => {
                if report_at.is_some_and(|at| at <= self.now) {
                    self.pod.mount = MountWait::Waiting { until, report_at: None };
                    let message = format!(
                        "MountVolume.SetUp failed for volume \"{}\" : rpc error: code = DeadlineExceeded desc = \
                         context deadline exceeded",
                        volumes[0].volume
                    );
                    self.warn(None, "FailedMount", message);
                }
                true
            }
            MountWait::Done => false,
        }
    }
}
