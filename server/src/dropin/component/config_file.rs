//! The file of `--config`: a KubeSchedulerConfiguration. The scheduler reads it; this module has what the program needs of it besides.

use super::election::ElectionSettings;
use anyhow::anyhow;
use kstore_scheduler::configuration::LeaderElection;
use kstore_scheduler::{Configuration, Gates, Registry, check_extenders};
use std::path::Path;
use std::time::Duration;

/// Parses the text of a file, and logs a warning about each setting without an effect. `path` occurs in messages only.
pub(super) fn read(text: &str, path: &Path, gates: Gates) -> anyhow::Result<Configuration> {
    let shown = path.display();
    let read = Configuration::parse(text, &Registry::in_tree_with(gates));
    let read = read.map_err(|error| anyhow!("--config {shown}: {}", error.reasons.join("; ")))?;
    check_extenders(&read.extenders).map_err(|error| anyhow!("--config {shown}: {error}"))?;
    read.warnings.iter().for_each(|warning| tracing::warn!("--config {shown}: {warning}"));
    Ok(read)
}

/// `leaderElection` as settings of the program; flags take precedence.
pub(super) fn election(read: &LeaderElection) -> ElectionSettings {
    let LeaderElection { leader_elect, resource_lock, resource_namespace, resource_name, .. } = read;
    // The scheduler refuses negative durations of a leader; of another program they mean nothing.
    let duration = |nanos: Option<i64>| Some(Duration::from_nanos(u64::try_from(nanos?).ok()?));
    ElectionSettings {
        leader_elect: *leader_elect,
        resource_lock: resource_lock.clone(),
        resource_namespace: resource_namespace.clone(),
        resource_name: resource_name.clone(),
        lease_duration: duration(read.lease_duration),
        renew_deadline: duration(read.renew_deadline),
        retry_period: duration(read.retry_period),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> anyhow::Result<Configuration> {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration";
        read(&format!("{head}\n{rest}"), Path::new("f"), Gates::default())
    }

    #[test]
    fn leadership_and_the_kubeconfig_are_the_programs() {
        let election_of = |rest: &str| election(&parse(rest).unwrap().leader_election);
        assert_eq!(election_of(""), ElectionSettings::default());
        assert_eq!(election_of("leaderElection: {leaderElect: false}").leader_elect, Some(false));
        let all =
            "leaderElection: {leaseDuration: 30s, resourceName: mine}\nclientConnection: {kubeconfig: k}";
        let read = election_of(all);
        assert_eq!(
            (read.lease_duration, read.resource_name.as_deref()),
            (Some(Duration::from_secs(30)), Some("mine"))
        );
        assert_eq!(parse(all).unwrap().client_connection.kubeconfig.as_deref(), Some("k"));
    }

    #[test]
    fn an_error_names_the_file_and_every_reason() {
        let error = parse("parallelism: 0\npercentageOfNodesToScore: 101").unwrap_err().to_string();
        assert!(error.starts_with("--config f: parallelism: Invalid value: 0: "), "{error}");
        assert!(error.contains("; percentageOfNodesToScore: "), "{error}");
    }
}
