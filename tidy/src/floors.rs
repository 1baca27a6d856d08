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
pub(crate) const CRATES: &[CrateFloors] = &[
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
        folder: "apiserver",
        floors: &[
            // Tools, storage and encryption.
            &[
                "access_file",
                "answer_kind",
                "expiring",
                "limits",
                "listed_certificate",
                "load_progress",
                "memory_shares",
                "observed_body",
                "percent_encoding",
                "persistent_map",
                "plain_http",
                "pod_references",
                "rate_limited",
                "series",
                "single_flight",
                "storage_key",
                "user",
                "version",
            ],
            &[
                "agent",
                "persistent_index",
                "reloaded",
                "resource_location",
                "restart",
                "selectors",
                "unread_body",
            ],
            &["storage"],
            &["encryption", "metrics"],
            // Objects.
            &["entry", "fence", "service_ranges", "undecided"],
            &["kinds"],
            &["cache"],
            &["lookup"],
            &["derived", "outbound", "stage", "testing"],
            &["conversion", "request"],
            &["error", "provenance"],
            &["decode", "registry"],
            // Who asks, and what is allowed.
            &["authz", "peer", "token"],
            &["access", "audit"],
            &["authn"],
            // Admission.
            &["admission"],
            // The verbs.
            &["fairness"],
            &["pipeline"],
            &["bootstrap"],
            &["racing"],
            // The server.
            &[
                "aggregator",
                "anonymous_slots",
                "body_budget",
                "definitions",
                "identity",
                "tunnel",
            ],
            &["config"],
            &["grpc", "rest"],
            &["server"],
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
        folder: "api",
        floors: &[
            &[
                "cidr",
                "group_version",
                "json",
                "lenient",
                "limits",
                "quantity",
                "schedule",
                "time",
                "version",
            ],
            &["diff", "field", "meta", "name", "schema", "yaml"],
            &["dice", "format", "go_json", "object", "resource", "wire"],
            &["convert", "distinct", "expression", "flowcontrol", "selector", "status"],
            &["check", "scale", "strategy", "table"],
            &["defaults", "initializers"],
            &["structural"],
            &["admission_expression"],
            &["validate"],
            &["crd", "quota"],
            &["rules"],
            &["kind"],
            &["patch", "stored"],
            &["admission", "openapi"],
            &["fuzzing"],
        ],
    },
    CrateFloors {
        folder: "cel",
        floors: &[
            &["error", "limits", "types"],
            &["source", "value"],
            &["ast", "cost"],
            &["parse"],
            &["declarations"],
            &["library"],
            &["check"],
            &["estimate"],
            &["program"],
            &["env"],
        ],
    },
    CrateFloors {
        folder: "client",
        floors: &[
            &["error", "gvr", "limits", "object_parts", "params", "trimmed"],
            &["client", "custom", "kubeconfig"],
            &["calls", "connect", "discovery", "feed", "path", "rest", "tunnel"],
            &["grpc"],
            &["dynamic", "typed"],
            &["apis"],
            &["crd", "finalizers", "lease", "manifest", "multi", "retry", "service_accounts", "transaction"],
            &["event_batches"],
            &["events"],
        ],
    },
    CrateFloors {
        folder: "informer",
        floors: &[
            &["environment", "key", "metrics", "priority", "slow_start", "task_group", "warnings"],
            &["limits", "object"],
            &["causes", "leader", "lister_watcher", "supervisor"],
            &["kube", "map", "queue", "recorder", "status"],
            &["reflector"],
            &["cache"],
            &["hub"],
            &["shared"],
            &["driver", "informer"],
            &["builder", "cut", "subscription", "wait"],
            &["client_go", "controller", "testing"],
            &["conflict", "finalizer"],
        ],
    },
    CrateFloors {
        folder: "etcd",
        floors: &[
            &["codec", "limits", "listener"],
            &["budget", "connection_slots", "error", "node"],
            &["auth", "calls", "check", "cluster", "convert", "lease", "snapshot", "watch"],
            &["metrics", "range_stream", "service"],
            &["kv", "pages"],
            &["http2", "maintenance"],
            &["connection"],
            &["serve"],
        ],
    },
    CrateFloors {
        folder: "testing",
        floors: &[
            &["limits", "listen", "namespaces", "schedule", "subset"],
            &["faults", "trace"],
            &["causes", "client", "components"],
            &["cluster"],
            &["server_config"],
            &["builder", "settle", "wait"],
            &["fork"],
            &["initial"],
            &["start"],
        ],
    },
    CrateFloors {
        folder: "metrics-server",
        floors: &[
            &["limits", "resource", "summary"],
            &["discovery", "install", "metrics"],
            &["openapi"],
            &["request"],
            &["table"],
            &["server"],
        ],
    },
    CrateFloors {
        folder: "server",
        floors: &[
            &["flags", "telemetry", "version", "watched_object"],
            &["args"],
            &["data_dir", "files", "hostname", "memory_file", "open_files", "runtime", "socket_file"],
            &["load_report", "phase", "pki", "ready", "salvage", "shutdown", "signing", "token_signer"],
            &["basic_auth", "clients", "kubeconfig", "listen", "pages", "stop", "store_cmd", "tls"],
            &["access", "election", "encryption", "external", "metrics_server", "retention"],
            &["audit", "authorities", "certs", "etcd_listener", "explain"],
            &["server_config"],
            &["assembly"],
            &["wiring"],
            &["dropin", "run"],
        ],
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
];

impl CrateFloors {
    /// The number of a module's floor, from 0; none if the module has no floor.
    pub(crate) fn of(&self, module: &str) -> Option<usize> {
        self.floors.iter().position(|floor| floor.contains(&module))
    }
}
