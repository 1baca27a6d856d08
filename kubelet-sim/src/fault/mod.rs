//! Faults that tests or users inject into simulated nodes, and the handle for it. `table` lists them, `request` reads them with their
//! times, `effect` says what several together do to a node, `starts`
//! what they do to the starts of its pods.

pub(crate) mod effect;
pub(crate) mod object;
pub(crate) mod request;
pub(crate) mod starts;
pub(crate) mod table;

use crate::limits::FAULT_QUEUE;
use tokio::sync::{mpsc, oneshot};

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The node stops: no heartbeats, no writes; its pods freeze.
    Stop,
    /// The node returns and finds its pods as it left them.
    Resume,
}

/// A requested fault; answered once it is in force.
pub(crate) struct Order {
    pub(crate) node: String,
    pub(crate) fault: Fault,
    pub(crate) done: oneshot::Sender<Result<(), FaultError>>,
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
        self.order(node, Fault::Stop).await
    }

    /// Resumes a stopped node: it renews its lease and status and catches up with its pods. No effect on a
    /// running node.
    ///
    /// # Errors
    /// If there is no such node, or the simulation is not running.
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
