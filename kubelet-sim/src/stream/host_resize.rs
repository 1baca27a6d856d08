//! Resizes in place of containers that run programs of this machine: their new limits hold as soon as they are in effect.

use super::{Feed, Launch, Snapshot, Streams};
use crate::amounts::Amounts;
use k8s_openapi::api::core::v1::ResourceRequirements;
use kstore_host_runtime::resources::ResourceLimits;
use std::sync::Arc;

/// The limits of a container. What is zero limits nothing, as in container runtimes.
pub(super) fn limits_of(resources: Option<&ResourceRequirements>) -> ResourceLimits {
    let amounts = Amounts::of(resources.and_then(|resources| resources.limits.as_ref()));
    let limit = |amount: i64| u64::try_from(amount).ok().filter(|amount| *amount > 0);
    ResourceLimits {
        memory: limit(amounts.memory),
        milli_cpu: limit(amounts.milli_cpu),
        ephemeral_storage: limit(amounts.ephemeral_storage),
    }
}

/// The limits that are in effect for a container; `None` for one that cannot be resized.
fn in_effect(snapshot: &Snapshot, index: usize) -> Option<ResourceLimits> {
    let actual = snapshot.machine.actual(&snapshot.record.pod, index)?;
    Some(limits_of(Some(actual)))
}

/// Waits until other limits than `current` are in effect for a container, and returns them.
pub(super) async fn resized(feed: &Feed, launch: &Launch, current: ResourceLimits) -> ResourceLimits {
    let (mut seen, mut snapshot) = feed.get();
    loop {
        if let Some(limits) = in_effect(&snapshot, launch.index).filter(|limits| *limits != current) {
            return limits;
        }
        (seen, snapshot) = feed.after(seen).await;
    }
}

impl Streams {
    /// Gives a running container other limits, as far as this machine enforces any.
    pub(super) async fn resize_on_host(&self, launch: &Launch, limits: ResourceLimits) {
        let Some(programs) = self.programs.clone() else { return };
        self.warn_of_limits(&programs, launch, &limits).await;
        let (own, uid, container) = (Arc::clone(&programs), launch.uid.clone(), launch.container.clone());
        // The kernel may have to free memory first.
        let done = tokio::task::spawn_blocking(move || own.resize(&uid, &container, &limits)).await;
        if let Ok(Err(error)) = done {
            self.warn_of_container(
                launch,
                format!("the resized limits of the container do not hold: {error}"),
            )
            .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_container_are_read_and_zero_is_none() {
        let of = |limits: &str| {
            let text = format!("{{requests: {{memory: 1Gi}}, limits: {{{limits}}}}}");
            limits_of(Some(&serde_yaml_ng::from_str(&text).unwrap()))
        };
        let all = ResourceLimits {
            memory: Some(64 << 20),
            milli_cpu: Some(250),
            ephemeral_storage: Some(1_000_000),
        };
        assert_eq!(of("memory: 64Mi, cpu: 250m, ephemeral-storage: 1M, example.com/x: 1"), all);
        assert_eq!(of("memory: 0, cpu: 0"), ResourceLimits::default());
        assert_eq!(limits_of(None), ResourceLimits::default());
    }
}
