//! [`ServerOptions`]: the values that the flags of the server set, and the [`Config`] that they mean together.

use super::access::{FlagError, access, audit_webhook};
use super::audit::AuditOptions;
use super::etcd::EtcdOptions;
use super::external::ExternalOptions;
use super::flag::{ServerValue, add, parsed};
use super::lab::{LabOptions, is_loopback};
use super::scope::{GivenFlags, Part, Process};
use super::values::NamedValues;
use super::{
    AccessConfig, Api, ApiHere, Component, Config, DEFAULT_DATA_DIR, Durability, Engine, Flag, Forward,
    History, HistoryBounds, LoopsConfig, MetricsServer, OptionalApis, Quota, Storage, StoreAlone, UsageError,
    encryption_file, table,
};
use crate::telemetry::LogFormat;
use clap::ArgMatches;
use kstore_controllers::{Blocks, PodNetworks, Selection};
use kstore_kubelet_sim::egress::{EgressRule, HOST_SERVICES};
use kstore_registry::outbound::{ServiceBackend, ServiceBackends};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Default --history of a cluster. Watch caches hold the current objects, so only watchers that lag need older revisions.
const CLUSTER_HISTORY: History = History::For(Duration::from_secs(300));

/// The values that the flags of the server, of `run` and of the kube-apiserver replacement set. Where the value of a flag is a value of
/// the configuration, the flag sets it there: in `api`, in `loops`, or in the API server's own configuration.
#[derive(Debug, Default)]
pub struct ServerOptions {
    given: GivenFlags,
    /// Flags that are read together, by name.
    named: NamedValues,
    /// Values for the API server's configuration.
    server: Vec<ServerValue>,
    pub(super) api: ApiHere,
    pub(super) loops: LoopsConfig,
    pub(super) log_format: LogFormat,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) is_in_memory: bool,
    pub(super) durability: Durability,
    pub(super) engine: Engine,
    pub(super) salvages: bool,
    pub(super) quota_bytes: Option<i64>,
    pub(super) encryption_config: Option<PathBuf>,
    pub(super) encryption_reloads: Option<bool>,
    pub(super) history: Option<HistoryBounds>,
    pub(super) service_backends: Vec<ServiceBackend>,
    pub(super) forwards: Vec<Forward>,
    pub(super) anonymous_auth: Option<bool>,
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) components: Vec<Component>,
    pub(super) cluster_cidr: Blocks,
    pub(super) has_images_anywhere: bool,
    pub(super) metrics_server: Option<bool>,
    pub(super) audit: AuditOptions,
    pub(super) etcd: EtcdOptions,
    pub(super) external: ExternalOptions,
    pub(super) lab: LabOptions,
}

/// Components of this process, by the part that serves the API.
pub(super) enum ProcessRole {
    /// The store alone.
    Store,
    /// The apiserver, and these components as its clients.
    Apiserver(BTreeSet<Component>),
    /// Only these components, as clients of an apiserver in another process.
    Loops(BTreeSet<Component>),
}

impl ServerOptions {
    /// Reads the values of a parsed command line that has these flags of the table.
    pub(super) fn read(
        &mut self,
        flags: impl Iterator<Item = &'static Flag> + Clone,
        matches: &ArgMatches,
    ) -> Result<(), clap::Error> {
        self.given = GivenFlags::read(flags.clone(), matches);
        super::parser::read_into(self, flags, matches)
    }

    /// Keeps the value of a flag that is read by name.
    pub(crate) fn keep(&mut self, name: &'static str, value: &str) {
        self.named.push(name, value);
    }

    /// Keeps a value for the API server's configuration.
    pub(super) fn keep_for_server(&mut self, value: ServerValue) {
        self.server.push(value);
    }

    /// Checks what clap cannot: whether the flags are valid together.
    ///
    /// # Errors
    /// The first flag that does not go with the others.
    pub fn into_config(mut self) -> Result<Config, UsageError> {
        let role = self.role()?;
        let mut loops = self.loops()?;
        let api = match role {
            ProcessRole::Store => self.into_store()?,
            ProcessRole::Apiserver(components) => {
                // Components write.
                loops.components = if self.api.is_read_only { BTreeSet::new() } else { components };
                self.into_apiserver(&loops)?
            }
            ProcessRole::Loops(components) => {
                loops.components = components;
                if let Some(file) = &loops.scheduler {
                    file.check(OptionalApis::default().scheduler)?;
                }
                self.into_elsewhere()?
            }
        };
        Ok(Config { api, loops })
    }

    fn into_store(self) -> Result<Api, UsageError> {
        self.given.check(Process::StoreAlone)?;
        let storage = self.storage();
        let history_bytes = self.history.and_then(|history| history.bytes);
        let history = self.history.map_or(History::All, |history| history.kept);
        let etcd = self.etcd.into_listen(self.given.of(Part::EtcdListener))?;
        let (etcd, quota) = (etcd.ok_or(UsageError::NoEtcdListen)?, Quota::of(self.quota_bytes));
        Ok(Api::Store(Box::new(StoreAlone { storage, etcd, quota, history, history_bytes })))
    }

    fn into_apiserver(mut self, loops: &LoopsConfig) -> Result<Api, UsageError> {
        if self.kubeconfig.is_some() {
            return Err(UsageError::TwoApis);
        }
        let storage = self.storage();
        let has_lab = self.lab.is_on();
        let external = std::mem::take(&mut self.external);
        let storage = match external.into_external(self.given.of(Part::ExternalEtcd))? {
            None => storage,
            Some(etcd) => {
                self.given.check(Process::OnExternalEtcd)?;
                Storage::External { etcd, dir: storage.dir() }
            }
        };
        let here = ApiHere { storage, ..self.into_here(loops)? };
        match has_lab && here.storage != Storage::Memory {
            true => Err(UsageError::LabInMemory),
            false => Ok(Api::Here(Box::new(here))),
        }
    }

    /// The API of this process, in memory. `loops` run beside it.
    pub(super) fn into_here(self, loops: &LoopsConfig) -> Result<ApiHere, UsageError> {
        let access = Box::new(self.access()?);
        if let Some(file) = &loops.scheduler {
            file.check(access.apis.scheduler)?;
        }
        if !loops.images.is_empty() && !self.has_images_anywhere && !is_loopback(&self.api.listen) {
            return Err(UsageError::ImagesOnLoopback(self.api.listen.host));
        }
        if loops.cri.socket.is_some() && !self.has_images_anywhere && !is_loopback(&self.api.listen) {
            return Err(UsageError::CriOnLoopback(self.api.listen.host));
        }
        let audit_log = self.given.among(table::AUDIT_LOG);
        let lab = self.lab.into_flags(&self.given, &self.api.listen)?;
        // A lab's forks and plans read old states, and no clock of it says when these are old.
        // What cannot change needs all that it has.
        let keeps_all = lab.is_some() || self.api.is_read_only;
        let history = if keeps_all { History::All } else { CLUSTER_HISTORY };
        Ok(ApiHere {
            etcd: self.etcd.into_listen(self.given.of(Part::EtcdListener))?,
            quota: Quota::of(self.quota_bytes),
            history: self.history.map_or(history, |history| history.kept),
            history_bytes: self.history.and_then(|history| history.bytes),
            service_backends: ServiceBackends::new(self.service_backends),
            forwards: self.forwards,
            anonymous: self.anonymous_auth.unwrap_or(true),
            audit: self.audit.into_config(audit_log, audit_webhook(&self.named)?)?,
            encryption: encryption_file(self.encryption_config, self.encryption_reloads)?.map(Box::new),
            access,
            metrics: MetricsServer::of(self.metrics_server, loops),
            lab,
            ..self.api
        })
    }

    fn into_elsewhere(self) -> Result<Api, UsageError> {
        self.etcd.into_listen(self.given.of(Part::EtcdListener))?;
        let kubeconfig = self.kubeconfig.ok_or(UsageError::NoApi)?;
        self.given.check(Process::LoopsAlone)?;
        Ok(Api::Elsewhere(kubeconfig))
    }

    fn storage(&self) -> Storage {
        if self.is_in_memory {
            return Storage::Memory;
        }
        let dir = self.data_dir.clone().unwrap_or_else(|| DEFAULT_DATA_DIR.into());
        Storage::Disk { dir, durability: self.durability, engine: self.engine, salvage: self.salvages }
    }

    /// Authenticators, authorizers, admission plugins, optional APIs, and values of the API server's configuration.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub(crate) fn access(&self) -> Result<AccessConfig, FlagError> {
        let mut config = access(&self.named)?;
        config.authentication.is_anonymous_flag_given = self.anonymous_auth.is_some();
        config.server.clone_from(&self.server);
        Ok(config)
    }

    /// The components of this process.
    pub(super) fn role(&self) -> Result<ProcessRole, UsageError> {
        let mut all: BTreeSet<Component> = self.components.iter().copied().collect();
        if all.remove(&Component::Store) {
            return if all.is_empty() { Ok(ProcessRole::Store) } else { Err(UsageError::StoreNotAlone) };
        }
        Ok(if all.remove(&Component::Apiserver) {
            ProcessRole::Apiserver(all)
        } else {
            ProcessRole::Loops(all)
        })
    }

    /// The loops by their flags, without components.
    pub(super) fn loops(&mut self) -> Result<LoopsConfig, UsageError> {
        let has_controllers = self.components.contains(&Component::Controllers);
        if let Some(flag) = self.given.of(Part::Controllers).filter(|_| !has_controllers) {
            return Err(UsageError::NeedsControllers(flag));
        }
        let of_scheduler = [
            ("scheduler-config", self.loops.scheduler.is_some()),
            ("pod-max-in-unschedulable-pods-duration", self.loops.longest_stay.is_some()),
        ];
        if let Some((flag, _)) = of_scheduler.into_iter().find(|(_, is_given)| *is_given)
            && !self.components.contains(&Component::Scheduler)
        {
            return Err(UsageError::NeedsScheduler(flag));
        }
        let mut loops = std::mem::take(&mut self.loops);
        let needs_nodes = loops.simulation.is_active() || !loops.simulation.kwok.is_empty();
        if needs_nodes && !self.components.contains(&Component::KubeletSim) {
            return Err(UsageError::NeedsNodes);
        }
        if self.given.has("node-prefix") && !self.components.contains(&Component::KubeletSim) {
            return Err(UsageError::NeedsFlag("node-prefix", "`kubelet-sim` in --components"));
        }
        let simulates_elsewhere = self.components.contains(&Component::KubeletSim)
            && !self.components.contains(&Component::Apiserver);
        if self.given.has("no-guard") && !simulates_elsewhere {
            return Err(UsageError::NeedsFlag("no-guard", "--kubeconfig, and `kubelet-sim` in --components"));
        }
        self.check_images(&loops)?;
        loops.cri.check(self.components.contains(&Component::KubeletSim))?;
        if loops.cri_listen.is_some() && !self.components.contains(&Component::KubeletSim) {
            return Err(UsageError::NeedsFlag("cri-listen", "`kubelet-sim` in --components"));
        }
        if !loops.simulation.files.is_empty() && !self.given.has("nodes") && !self.lab.is_on() {
            loops.nodes = 0;
        }
        if loops.simulation.is_active() && loops.nodes == 0 && self.lab.is_on() {
            return Err(UsageError::LabNodes);
        }
        loops.networks.pods = PodNetworks::new(std::mem::take(&mut self.cluster_cidr), None, None)?;
        Ok(loops)
    }

    /// Whether the flags of programs of this machine fit together.
    fn check_images(&self, loops: &LoopsConfig) -> Result<(), UsageError> {
        if !loops.images.is_empty() && !self.components.contains(&Component::KubeletSim) {
            return Err(UsageError::NeedsFlag("image", "`kubelet-sim` in --components"));
        }
        if self.has_images_anywhere && loops.images.is_empty() && loops.cri.socket.is_none() {
            return Err(UsageError::NeedsFlag("image-anywhere", "--image or --cri"));
        }
        let of_programs = [
            ("egress", !loops.egress.is_empty()),
            ("egress-host", !loops.host_services.is_empty()),
            ("image-host-network", loops.shares_network),
        ];
        if let Some((flag, _)) =
            of_programs.into_iter().find(|(_, is_given)| *is_given && loops.images.is_empty())
        {
            return Err(UsageError::NeedsFlag(flag, "--image"));
        }
        match loops.host_services.len() > HOST_SERVICES {
            true => Err(UsageError::TooManyHostServices),
            false => Ok(()),
        }
    }
}

/// Parses --controllers.
pub(super) fn controllers(list: &str) -> Result<Selection, String> {
    let (selected, missing) = Selection::parse(list.split(',')).map_err(|error| error.to_string())?;
    match &missing[..] {
        [] => Ok(selected),
        missing => Err(format!("kstore does not have {}", missing.join(", "))),
    }
}

/// Adds the rules of a list to others.
pub(super) fn egress_rules(rules: &mut Vec<EgressRule>, list: &str) -> Result<(), String> {
    list.split(',').try_for_each(|rule| add(rules, parsed(rule)))
}
