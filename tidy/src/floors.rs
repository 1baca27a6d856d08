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
pub(crate) const CRATES: [CrateFloors; 5] = [
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
