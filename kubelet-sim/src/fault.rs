//! Faults that a test or a person inflicts on simulated nodes, and the handle to do so.

use crate::limits::FAULT_QUEUE;
use tokio::sync::{mpsc, oneshot};

/// What to do to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It falls silent: no heartbeats, no writes; its pods freeze.
    Stop,
    /// It comes back and finds its pods as it left them.
    Resume,
}

/// A fault on its way; answered once it is in force.
pub(crate) struct Order {
    pub(crate) node: String,
    pub(crate) fault: Fault,
    pub(crate) done: oneshot::Sender<Result<(), FaultError>>,
}

/// Why a fault was not inflicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No simulated node has this name.
    #[error("no simulated node is called {0:?}")]
    NoSuchNode(String),
    /// The simulation does not run, or no longer.
    #[error("the simulation has ended")]
    Ended,
}

/// Inflicts faults on the nodes of a running simulation. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle(mpsc::Sender<Order>);

impl Handle {
    /// A handle, and where its orders arrive.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, receiver) = mpsc::channel(FAULT_QUEUE);
        (Self(sender), receiver)
    }

    /// Stops a node as if it had lost power: from the return on it begins no write, its lease runs out, and its pods
    /// stay as they are until it resumes, even if they are deleted. Stopping a stopped node changes nothing.
    ///
    /// # Errors
    /// When there is no such node, or the simulation does not run.
    pub async fn stop_node(&self, node: &str) -> Result<(), FaultError> {
        self.order(node, Fault::Stop).await
    }

    /// Brings a stopped node back: it renews lease and status and catches up with its pods. Resuming a node that runs
    /// changes nothing.
    ///
    /// # Errors
    /// When there is no such node, or the simulation does not run.
    pub async fn resume_node(&self, node: &str) -> Result<(), FaultError> {
        self.order(node, Fault::Resume).await
    }

    async fn order(&self, node: &str, fault: Fault) -> Result<(), FaultError> {
        let (done, answer) = oneshot::channel();
        let order = Order { node: node.to_owned(), fault, done };
        self.0.send(order).await.map_err(|_| FaultError::Ended)?;
        answer.await.map_err(|_| FaultError::Ended)?
    }
}
