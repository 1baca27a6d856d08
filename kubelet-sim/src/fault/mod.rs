//! Faults that tests or users inject into simulated nodes, and the handle for it. `table` lists them, `request` reads them with their
//! times, `list` changes the annotation that has them, `effect` says what several together do to a node, `starts`
//! what they do to the starts of its pods.

pub(crate) mod effect;
pub(crate) mod list;
pub(crate) mod object;
pub(crate) mod request;
pub(crate) mod starts;
pub(crate) mod table;

use crate::limits::FAULT_QUEUE;
use kstore_informer::Revision;
pub use list::{FaultChange, FaultPhase, FaultReport, NodeFault};
use tokio::sync::{mpsc, oneshot};

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The node stops: no heartbeats, no writes; its pods freeze.
    Stop,
    /// The node returns and finds its pods as it left them.
    Resume,
}

/// A request about the faults of a node.
pub(crate) struct Order {
    pub(crate) node: String,
    pub(crate) request: OrderRequest,
}

/// What is asked for, and where the answer goes.
pub(crate) enum OrderRequest {
    /// A fault; answered once it is in force.
    Fault(Fault, oneshot::Sender<Result<(), FaultError>>),
    /// The annotation of faults as a write has left it; answered once its faults are in force.
    Annotation(WrittenFaults, oneshot::Sender<Result<(), FaultError>>),
    /// The faults of the node as they are now.
    Report(oneshot::Sender<Result<Vec<FaultReport>, FaultError>>),
}

/// The annotation of faults of a Node at a revision.
pub(crate) struct WrittenFaults {
    pub(crate) list: String,
    pub(crate) revision: Revision,
}

/// Why a fault could not be injected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No simulated node has this name.
    #[error("no simulated node is called {0:?}")]
    NoSuchNode(String),
    /// The simulation is not running.
    #[error("the simulation has ended")]
    Ended,
}

/// Injects faults into the nodes of a running simulation. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle(mpsc::Sender<Order>);

impl Handle {
    /// The handle of a simulation that has ended, or was never begun: it refuses every request.
    pub fn ended() -> Self {
        Self::new().0
    }

    /// A handle, and the receiver of its requests.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, receiver) = mpsc::channel(FAULT_QUEUE);
        (Self(sender), receiver)
    }

    /// Stops a node as if it had lost power. When this returns, the node begins no write, its lease runs out,
    /// and its pods stay as they are until it resumes, even if they are deleted. No effect on a stopped node.
    ///
    /// # Errors
    /// If there is no such node, or the simulation is not running.
    pub async fn stop_node(&self, node: &str) -> Result<(), FaultError> {
        self.order(node, |done| OrderRequest::Fault(Fault::Stop, done)).await
    }

    /// Resumes a stopped node: it renews its lease and status and catches up with its pods. No effect on a
    /// running node.
    ///
    /// # Errors
    /// If there is no such node, or the simulation is not running.
    pub async fn resume_node(&self, node: &str) -> Result<(), FaultError> {
        self.order(node, |done| OrderRequest::Fault(Fault::Resume, done)).await
    }

    /// The faults of a node: those of its annotation, of NodeFaults, and whether it is stopped.
    ///
    /// # Errors
    /// If there is no such node, or the simulation is not running.
    pub async fn faults(&self, node: &str) -> Result<Vec<FaultReport>, FaultError> {
        self.order(node, OrderRequest::Report).await
    }

    /// Lets the faults that a write of a Node has left in its annotation be in force when this returns, and not only when the simulation
    /// has observed the write. `list` is the annotation, empty if it is not there, and `revision` that of the write.
    ///
    /// # Errors
    /// If there is no such node, or the simulation is not running.
    pub async fn read_annotation(&self, node: &str, list: &str, revision: u64) -> Result<(), FaultError> {
        let written = WrittenFaults { list: list.to_owned(), revision: Revision(revision) };
        self.order(node, |done| OrderRequest::Annotation(written, done)).await
    }

    async fn order<T>(
        &self,
        node: &str,
        request: impl FnOnce(oneshot::Sender<Result<T, FaultError>>) -> OrderRequest,
    ) -> Result<T, FaultError> {
        let (done, answer) = oneshot::channel();
        let order = Order { node: node.to_owned(), request: request(done) };
        self.0.send(order).await.map_err(|_| FaultError::Ended)?;
        answer.await.map_err(|_| FaultError::Ended)?
    }
}
