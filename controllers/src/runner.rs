//! List of all controllers, and their common start and shutdown.

use crate::caches::Caches;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::{
    account_token, account_token_cleaner, bootstrap_signer, bootstrap_token_cleaner, certificate_approver,
    certificate_cleaner, certificate_signer, cluster_role_aggregation, cron_job, daemon_set, deployment,
    device_taint_eviction, disruption, endpoint_slice, endpoint_slice_mirroring, ephemeral_volume,
    garbage_collector, horizontal_pod_autoscaler, job, load_balancer, namespace, node_ipam, node_lifecycle,
    node_ttl, pod_certificate_cleaner, pod_gc, pod_group_protection, policy_type_checking, replicaset,
    resource_claim, resource_quota, root_ca, service_account, service_address, service_cidr, stateful_set,
    storage_version_migrator, taint_eviction, trust_bundle_publisher, ttl_after_finished, volume_binder,
    volume_protection, volume_provisioner,
};
use kstore_client::Client;
use kstore_informer::{Supervisor, TaskGroup};
use kstore_nondet::Nondet;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Future of a running controller, until its cluster stops.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Entry of a controller in the list.
pub(crate) struct ControllerEntry {
    /// Name in kube-controller-manager.
    pub(crate) name: &'static str,
    /// Names in earlier releases.
    pub(crate) aliases: &'static [&'static str],
    /// Sets the controller up, which requests its caches, and returns the future that runs it.
    run: fn(Arc<Cluster>) -> Task,
    /// The controller's service account in `kube-system`. The role `system:controller:<account>` has its
    /// permissions. Empty: the controller writes with the client that fills the caches.
    account: &'static str,
}

macro_rules! controllers {
    ($($name:literal $aliases:tt $run:path, $account:literal;)*) => {
        /// Every controller. Not a constant: generic functions of this crate read the table, and each program that
        /// calls them would get the code of all controllers once more.
        pub(crate) static CONTROLLERS: &[ControllerEntry] =
            &[$(ControllerEntry {
                name: $name,
                aliases: &$aliases,
                run: |cluster| Box::pin($run(cluster)),
                account: $account,
            }),*];
    };
}

controllers! {
    "deployment-controller" ["deployment"] deployment::run, "deployment-controller";
    "replicaset-controller" ["replicaset"] replicaset::run, "replicaset-controller";
    "replicationcontroller-controller" ["replicationcontroller"] replicaset::run_replication_controllers, "replication-controller";
    "statefulset-controller" ["statefulset"] stateful_set::run, "statefulset-controller";
    "daemonset-controller" ["daemonset"] daemon_set::run, "daemon-set-controller";
    "garbage-collector-controller" ["garbagecollector"] garbage_collector::run, "generic-garbage-collector";
    "job-controller" ["job"] job::run, "job-controller";
    "cronjob-controller" ["cronjob"] cron_job::run, "cronjob-controller";
    "ttl-after-finished-controller" ["ttl-after-finished"] ttl_after_finished::run, "ttl-after-finished-controller";
    "horizontal-pod-autoscaler-controller" ["horizontalpodautoscaling"] horizontal_pod_autoscaler::run, "horizontal-pod-autoscaler";
    "namespace-controller" ["namespace"] namespace::run, "namespace-controller";
    "serviceaccount-controller" ["serviceaccount"] service_account::run, "service-account-controller";
    "root-ca-certificate-publisher-controller" ["root-ca-cert-publisher"] root_ca::run, "root-ca-cert-publisher";
    "node-lifecycle-controller" ["nodelifecycle"] node_lifecycle::run, "node-controller";
    "taint-eviction-controller" [] taint_eviction::run, "node-controller";
    "pod-garbage-collector-controller" ["podgc"] pod_gc::run, "pod-garbage-collector";
    "disruption-controller" ["disruption"] disruption::run, "disruption-controller";
    "endpointslice-controller" ["endpointslice"] endpoint_slice::run, "endpointslice-controller";
    "endpointslice-mirroring-controller" ["endpointslicemirroring"] endpoint_slice_mirroring::run, "endpointslicemirroring-controller";
    "ttl-controller" ["ttl"] node_ttl::run, "ttl-controller";
    "node-ipam-controller" ["nodeipam"] node_ipam::run, "node-controller";
    "service-lb-controller" ["service"] load_balancer::run, "service-controller";
    "ephemeral-volume-controller" ["ephemeral-volume"] ephemeral_volume::run, "ephemeral-volume-controller";
    "service-cidr-controller" [] service_cidr::run, "service-cidrs-controller";
    // In Kubernetes it is part of kube-apiserver and has no account.
    "ipallocator-repair-controller" [] service_address::run, "ipallocator-repair-controller";
    "persistentvolume-binder-controller" ["persistentvolume-binder"] volume_binder::run, "persistent-volume-binder";
    "persistentvolumeclaim-protection-controller" ["pvc-protection"] volume_protection::run_claims, "pvc-protection-controller";
    "persistentvolume-protection-controller" ["pv-protection"] volume_protection::run_volumes, "pv-protection-controller";
    "volumeattributesclass-protection-controller" [] volume_protection::run_classes, "volumeattributesclass-protection-controller";
    // In Kubernetes these are separate programs beside each storage driver.
    "volume-provisioner" [] volume_provisioner::run, "volume-provisioner";
    "validatingadmissionpolicy-status-controller" ["validatingadmissionpolicy-status"] policy_type_checking::run, "validatingadmissionpolicy-status-controller";
    "resourcequota-controller" ["resourcequota"] resource_quota::run, "resourcequota-controller";
    "certificatesigningrequest-signing-controller" ["csrsigning"] certificate_signer::run, "certificate-controller";
    "certificatesigningrequest-approving-controller" ["csrapproving"] certificate_approver::run, "certificate-controller";
    "certificatesigningrequest-cleaner-controller" ["csrcleaner"] certificate_cleaner::run, "certificate-controller";
    "token-cleaner-controller" ["tokencleaner"] bootstrap_token_cleaner::run, "token-cleaner";
    "bootstrap-signer-controller" ["bootstrapsigner"] bootstrap_signer::run, "bootstrap-signer";
    // In Kubernetes it writes with the credentials of kube-controller-manager.
    "serviceaccount-token-controller" ["serviceaccount-token"] account_token::run, "";
    "legacy-serviceaccount-token-cleaner-controller" ["legacy-service-account-token-cleaner"] account_token_cleaner::run, "legacy-service-account-token-cleaner";
    "resourceclaim-controller" ["resource-claim-controller"] resource_claim::run, "resource-claim-controller";
    "device-taint-eviction-controller" [] device_taint_eviction::run, "device-taint-eviction-controller";
    "clusterrole-aggregation-controller" ["clusterrole-aggregation"] cluster_role_aggregation::run, "clusterrole-aggregation-controller";
    "kube-apiserver-serving-clustertrustbundle-publisher-controller" [] trust_bundle_publisher::run, "kube-apiserver-serving-clustertrustbundle-publisher";
    "podcertificaterequest-cleaner-controller" [] pod_certificate_cleaner::run, "podcertificaterequestcleaner";
    "podgroup-protection-controller" [] pod_group_protection::run, "podgroup-protection-controller";
    "storage-version-migrator-controller" [] storage_version_migrator::run, "storage-version-migrator-controller";
}

/// Runs the selected controllers until `stop` is cancelled. All their tasks have ended when this returns.
///
/// If one of their tasks panics, all controllers stop and restart with new caches after a back-off; the
/// restarts are counted. A panic of a reconcile function is contained: its key is retried.
///
/// The controllers are ordinary clients: `client` may lead into this process or over the network. It lists
/// and watches for the caches of all controllers. Each controller writes with its account in
/// [`Config::accounts`] and its own name (`deployment-controller`, …), and sends the revisions that caused
/// its writes.
// Boxed, so that the future's code is generated in this crate and not in every program that runs it.
pub fn run(
    client: Client,
    nondet: Nondet,
    config: Config,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let supervisor = Supervisor::new("controllers", &config.metrics);
    Box::pin(
        supervisor.run(stop, move |tasks| run_all(client.clone(), nondet.clone(), config.clone(), tasks)),
    )
}

/// One generation of all controllers.
async fn run_all(client: Client, nondet: Nondet, config: Config, tasks: TaskGroup) {
    let stop = tasks.stop().clone();
    let caches = Caches::new(client.agent("controllers"), &nondet, &config, &tasks);
    let (caches, config) = (Arc::new(caches), Arc::new(config));
    let selected: Vec<&ControllerEntry> =
        CONTROLLERS.iter().filter(|controller| config.controllers.runs(controller.name)).collect();
    let cluster = |controller: &ControllerEntry| Cluster {
        client: client.clone(),
        account: controller.account,
        caches: Arc::clone(&caches),
        nondet: nondet.clone(),
        config: Arc::clone(&config),
        stop: stop.clone(),
        tasks: tasks.clone(),
    };
    // All controllers are set up before the first one runs, so that their caches share one stream from the
    // start.
    let works: Vec<Task> =
        selected.iter().map(|controller| (controller.run)(Arc::new(cluster(controller)))).collect();
    caches.launch();
    works.into_iter().for_each(|work| tasks.spawn(work));
    drop(caches);
    stop.cancelled().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controller_names_and_accounts_are_valid_user_name_parts() {
        for controller in CONTROLLERS {
            let account = controller.account;
            let has_account = !account.is_empty() || controller.name == "serviceaccount-token-controller";
            assert!(has_account && !account.contains(':') && !account.contains('/'), "{}", controller.name);
            let same = CONTROLLERS.iter().filter(|other| other.name == controller.name);
            assert_eq!(same.count(), 1, "{}", controller.name);
        }
    }
}
