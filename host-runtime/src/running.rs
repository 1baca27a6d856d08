//! The containers that run now, for commands that enter them, and for what they use.

use crate::cgroup::ControlGroup;
use crate::launch::ProcessRequest;
use crate::processes::PidNamespace;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The uid of a pod and the name of its container.
pub(crate) type ContainerName = (String, String);

/// The first process of a running container.
#[derive(Clone, Debug)]
pub(crate) struct RunningProcess {
    /// Its number on this machine.
    pub(crate) pid: i32,
    /// What it runs.
    pub(crate) process: ProcessRequest,
    /// Whether it has a network namespace of its own.
    pub(crate) has_network: bool,
    /// The namespace of the container's processes; `None` if it ended at once.
    pub(crate) namespace: Option<PidNamespace>,
    /// The control group of the container, if it has one.
    pub(crate) group: Option<Arc<ControlGroup>>,
}

/// The running containers of a process. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningContainers(Arc<Mutex<BTreeMap<ContainerName, RunningProcess>>>);

/// The entry of a container, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    all: RunningContainers,
    name: ContainerName,
    pid: i32,
}

impl RunningContainers {
    /// Adds a container in place of an earlier one of the same name.
    pub(crate) fn add(&self, (uid, container): (&str, &str), process: RunningProcess) -> Registration {
        let name = (uid.to_owned(), container.to_owned());
        let pid = process.pid;
        self.all().insert(name.clone(), process);
        Registration { all: self.clone(), name, pid }
    }

    /// The container of a pod.
    pub(crate) fn find(&self, uid: &str, container: &str) -> Option<RunningProcess> {
        self.all().get(&(uid.to_owned(), container.to_owned())).cloned()
    }

    /// All containers, by name.
    pub(crate) fn list(&self) -> Vec<(ContainerName, RunningProcess)> {
        self.all().iter().map(|(name, process)| (name.clone(), process.clone())).collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ContainerName, RunningProcess>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut all = self.all.all();
        if all.get(&self.name).is_some_and(|process| process.pid == self.pid) {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::ProcessLimits;

    #[test]
    fn an_entry_ends_with_its_container_and_not_with_an_earlier_one() {
        let process = ProcessRequest {
            program: "op".to_owned(),
            argv: Vec::new(),
            env: Vec::new(),
            workdir: "/".to_owned(),
            user: (0, 0),
            has_terminal: false,
            limits: ProcessLimits::default(),
            is_foreign: false,
            input: None,
        };
        let running = |pid: i32| RunningProcess {
            pid,
            process: process.clone(),
            has_network: false,
            namespace: None,
            group: None,
        };
        let all = RunningContainers::default();
        let pid = |container: &str| all.find("uid", container).map(|process| process.pid);
        let first = all.add(("uid", "c"), running(7));
        let second = all.add(("uid", "c"), running(8));
        drop(first);
        assert_eq!((pid("c"), pid("d")), (Some(8), None));
        drop(second);
        assert_eq!(pid("c"), None);
    }
}
