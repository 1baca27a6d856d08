//! The containers that run now, for commands that enter them.

use crate::launch::ProcessRequest;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The uid of a pod and the name of its container.
type ContainerName = (String, String);

/// A running container: the number of its first process on this machine, and what it runs.
type RunningProcess = (i32, ProcessRequest);

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
    pub(crate) fn add(
        &self,
        (uid, container): (&str, &str),
        pid: i32,
        process: ProcessRequest,
    ) -> Registration {
        let name = (uid.to_owned(), container.to_owned());
        self.all().insert(name.clone(), (pid, process));
        Registration { all: self.clone(), name, pid }
    }

    /// The container of a pod.
    pub(crate) fn find(&self, uid: &str, container: &str) -> Option<RunningProcess> {
        self.all().get(&(uid.to_owned(), container.to_owned())).cloned()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ContainerName, RunningProcess>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut all = self.all.all();
        if all.get(&self.name).is_some_and(|(pid, _)| *pid == self.pid) {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_ends_with_its_container_and_not_with_an_earlier_one() {
        let process = ProcessRequest {
            program: "op".to_owned(),
            argv: Vec::new(),
            env: Vec::new(),
            workdir: "/".to_owned(),
            user: (0, 0),
            has_terminal: false,
        };
        let all = RunningContainers::default();
        let pid = |container: &str| all.find("uid", container).map(|(pid, _)| pid);
        let first = all.add(("uid", "c"), 7, process.clone());
        let second = all.add(("uid", "c"), 8, process);
        drop(first);
        assert_eq!((pid("c"), pid("d")), (Some(8), None));
        drop(second);
        assert_eq!(pid("c"), None);
    }
}
