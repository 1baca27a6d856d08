//! [`LocalAttempts`]: the records of this control plane's scheduler as its API server reads them.

use kstore_apiserver::attempt_source::{AttemptDocument, AttemptNames, AttemptSource};
use kstore_informer::Key;
use kstore_scheduler::attempt::{AttemptLog, VisibleNames};

/// The log of a scheduler in the same process.
pub(crate) struct LocalAttempts(pub(crate) AttemptLog);

impl AttemptSource for LocalAttempts {
    fn attempts(&self, namespace: &str, name: &str, names: AttemptNames) -> Vec<AttemptDocument> {
        let AttemptNames { nodes, pods } = names;
        let found = self.0.of(&Key::new(namespace, name));
        let documents = found.iter().flat_map(|pod| pod.documents(VisibleNames { nodes, pods }));
        documents.map(|(revision, document)| AttemptDocument { revision, document }).collect()
    }
}
