//! The floors of the crates: their top modules in the order in which they are built on each other.

/// The floors of a crate.
pub(crate) struct CrateFloors {
    /// The crate's folder.
    pub(crate) folder: &'static str,
    /// The top modules by floor, the lowest first. A module may import modules of lower floors and of its own. So a
    /// floor with several modules is a circle, or has modules without an order.
    pub(crate) floors: &'static [&'static [&'static str]],
}

/// The crates whose modules have floors. A new module of such a crate gets a place here, as low as its purpose allows;
/// an import that leads up is a reason to move code down, and not to move the module up.
pub(crate) const CRATES: [CrateFloors; 7] = [
    CrateFloors {
        folder: "store",
        floors: &[
            &["types"],
            &["codec"],
            &["disk"],
            &["mvcc"],
            &["wal"],
            &["manifest"],
            &["txn"],
            &["engine"],
            &["published"],
            &["read"],
            &["snapshot"],
            &["background"],
            &["runtime"],
            &["recovery"],
            &["store"],
            &["maintenance"],
            &["fuzzing"],
        ],
    },
    CrateFloors {
        folder: "checker",
        floors: &[
            &["fingerprint", "history", "limits", "verdict"],
            &["describe", "grpc", "model"],
            &["monotonic"],
            &["evidence"],
            &["linearize"],
            &["timeline"],
            &["lease", "serializable", "watch"],
            &["judge"],
        ],
    },
    CrateFloors {
        folder: "container-sim",
        floors: &[&["limits", "script", "terminal", "time"], &["log", "shell"]],
    },
    CrateFloors {
        folder: "tidy",
        floors: &[
            &["floors", "offence", "text"],
            &["tree"],
            &["cargo", "crate_table", "imports", "manifest", "promises", "release"],
            &["circles", "rules"],
        ],
    },
    CrateFloors {
        folder: "scheduler",
        floors: &[
            &["affinity", "change", "disk", "limits", "ports", "quantity", "resources", "taint"],
            &["node", "pod_constraints", "sampling"],
            &["images", "namespace", "node_order", "pod", "zones"],
            &["node_state", "nominations", "pod_writes", "storage"],
            &["budgets", "devices", "tally", "workloads"],
            &["event", "inventory", "spread_constraints", "testing"],
            &["cache"],
            &["snapshot"],
            &["score"],
            &["plugin"],
            &["plugins"],
            &["filter", "queue"],
            &["decide"],
            &["action", "explain", "reference"],
            &["bind", "metrics", "preemption", "volume_waits"],
            &["scheduler"],
            &["run"],
        ],
    },
    CrateFloors {
        folder: "kubelet-sim",
        floors: &[
            &["amounts", "identities", "limits", "time"],
            &["backoff", "behavior", "expansion", "fault"],
            &["config", "pod_object", "usage"],
            &["image", "probe", "process_end"],
            &["execution", "node", "program"],
            &["record", "runtime"],
            &["pod"],
            &["status"],
            &["chosen_run"],
            &["stream"],
            &["manager"],
        ],
    },
    CrateFloors {
        folder: "controllers",
        floors: &[
            &[
                "accounts",
                "certificate_request",
                "limits",
                "networks",
                "portion",
                "resource",
                "selector",
                "service_ips",
                "signing_authority",
                "template",
                "token_signer",
            ],
            &["aggregated", "config", "definition", "object", "resource_api", "scale_target"],
            &["action"],
            &["view"],
            &["claim", "device_claims", "disruption_target"],
            &["set_kind"],
            &["caches"],
            &["apply", "revision"],
            &["adoption", "cluster"],
            &[
                "account_token",
                "bootstrap_token_cleaner",
                "certificate_cleaner",
                "certificate_signer",
                "cluster_role_aggregation",
                "deployment",
                "disruption",
                "endpoint_slice",
                "ephemeral_volume",
                "eviction",
                "garbage_collector",
                "horizontal_pod_autoscaler",
                "load_balancer",
                "node_ipam",
                "node_lifecycle",
                "node_ttl",
                "optional_api",
                "pod_gc",
                "policy_type_checking",
                "replicaset",
                "resource_claim",
                "service_cidr",
                "stateful_set",
                "volume_binder",
                "volume_protection",
            ],
            &[
                "account_token_cleaner",
                "bootstrap_signer",
                "certificate_approver",
                "device_taint_eviction",
                "endpoint_slice_mirroring",
                "namespace",
                "resource_quota",
                "service_address",
                "storage_version_migrator",
                "taint_eviction",
                "trust_bundle_publisher",
                "volume_provisioner",
            ],
            &["daemon_set", "job", "root_ca", "service_account"],
            &["cron_job", "ttl_after_finished"],
            &["runner"],
            &["selection"],
        ],
    },
];

impl CrateFloors {
    /// The number of a module's floor, from 0; none if the module has no floor.
    pub(crate) fn of(&self, module: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.contains(&module))
    }
}
