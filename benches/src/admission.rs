//! Creates of pods with Kubernetes' default admission plugins, relative to creates without them: two servers,
//! in turns, so that both see the same machine. No scheduler, controllers or nodes.

use crate::binary::Binary;
use crate::limits::{ADMITTED_PODS, TURNS};
use crate::measurement::Measurement;
use crate::pods;
use crate::process::{Server, Storage};
use std::time::Duration;
use tokio::time::Instant;

const ALONE: [&str; 2] = ["--components", "apiserver"];

/// The plugins of the default set that read or change pods, all switched off.
const NONE: &str = "--disable-admission-plugins=NamespaceLifecycle,LimitRanger,ServiceAccount,NodeRestriction,\
                    TaintNodesByCondition,PodSecurity,Priority,DefaultTolerationSeconds,PodTopologyLabels,\
                    RuntimeClass,MutatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionPolicy,\
                    ValidatingAdmissionWebhook,ResourceQuota";

/// The rate of both.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let with = Server::start_with(&binary, Storage::Memory, &ALONE).await?;
    let without = Server::start_with(&binary, Storage::Memory, &[ALONE[0], ALONE[1], NONE]).await?;
    let mut times = [Duration::ZERO; 2];
    for round in 0..TURNS {
        let numbers = round * ADMITTED_PODS..(round + 1) * ADMITTED_PODS;
        for (server, time) in [&with, &without].into_iter().zip(&mut times) {
            let started = Instant::now();
            pods::create_range(server, numbers.clone()).await?;
            *time += started.elapsed();
        }
    }
    with.kill().await?;
    without.kill().await?;
    let [with, without] = times.map(|time| (TURNS * ADMITTED_PODS) as f64 / time.as_secs_f64());
    let measured = format!("{:.2} of {without:.0}/s: {with:.0}/s", with / without);
    Ok(vec![Measurement::new("creates of pods with the default admission plugins", "≥ 0.75", measured)])
}
