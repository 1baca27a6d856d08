//! [`Fabric`], the network, and the handles through which programs use it.

use crate::error::NetError;
use crate::limits::BACKLOG;
use crate::stream::Stream;
use crate::table::Table;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// A network in memory. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    table: Arc<Mutex<Table<mpsc::Sender<Stream>>>>,
}

/// A host that is to be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its address.
    pub address: IpAddr,
    /// Who has the address, such as the uid of a pod: attachments of one owner are one host, which shares loopback and ports.
    pub owner: Arc<str>,
    /// Whose streams are bounded together, such as a namespace.
    pub tenant: Arc<str>,
}

impl Fabric {
    /// Attaches a host. It is detached when its last handle is dropped, or when another owner attaches at its address.
    pub fn attach(&self, attachment: Attachment) -> Host {
        self.table().attach(attachment.address, &attachment.owner, &attachment.tenant);
        Host { fabric: self.clone(), attachment }
    }

    /// How many hosts, listeners and streams there are.
    pub fn sizes(&self) -> (usize, usize, usize) {
        self.table().sizes()
    }

    fn table(&self) -> MutexGuard<'_, Table<mpsc::Sender<Stream>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle of an attached host.
#[derive(Debug)]
pub struct Host {
    fabric: Fabric,
    attachment: Attachment,
}

impl Clone for Host {
    fn clone(&self) -> Self {
        self.fabric.attach(self.attachment.clone())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.fabric.table().detach(self.attachment.address, &self.attachment.owner);
    }
}

impl Host {
    /// The address.
    pub fn address(&self) -> IpAddr {
        self.attachment.address
    }

    /// Listens at `0.0.0.0`, `::`, a loopback address or the host's own; at port 0 at the next free port.
    ///
    /// # Errors
    /// The port is taken, the address is not the host's, or the host has too many listeners.
    pub fn listen(&self, at: SocketAddr) -> Result<Listener, NetError> {
        let (sender, queue) = mpsc::channel(BACKLOG);
        let place = (self.attachment.address, &self.attachment.owner);
        let port = self.fabric.table().listen(place, (at.ip(), at.port()), sender)?;
        Ok(Listener { host: self.clone(), at: SocketAddr::new(at.ip(), port), queue })
    }

    /// Connects to a listener. Loopback addresses are those of this host.
    ///
    /// # Errors
    /// No host has the address, it does not listen at the port, or a bound is reached.
    pub fn connect(&self, to: SocketAddr) -> Result<Stream, NetError> {
        let listener = self.fabric.table().listener(self.attachment.address, (to.ip(), to.port()))?;
        let (near, far) = self.open(to)?;
        // The table is not locked here: an end that is dropped gives its port back.
        listener.try_send(far).map_err(|_| NetError::Refused)?;
        Ok(near)
    }

    /// Both ends of a stream to a server that has no listener, because the caller serves it: the client's end and the server's.
    ///
    /// # Errors
    /// A bound is reached, or the host is detached.
    pub fn open(&self, to: SocketAddr) -> Result<(Stream, Stream), NetError> {
        let Attachment { address, owner, tenant } = &self.attachment;
        let port = self.fabric.table().open(*address, owner)?;
        let ip = if to.ip().is_loopback() || to.ip().is_unspecified() { to.ip() } else { *address };
        let (address, owner, tenant) = (*address, Arc::clone(owner), Arc::clone(tenant));
        let permit = StreamPermit { fabric: self.fabric.clone(), address, owner, tenant, port };
        Ok(Stream::pair(SocketAddr::new(ip, port), to, permit))
    }
}

/// A port that accepts connections until it is dropped.
#[derive(Debug)]
pub struct Listener {
    host: Host,
    at: SocketAddr,
    queue: mpsc::Receiver<Stream>,
}

impl Listener {
    /// The address at which it listens.
    pub fn local(&self) -> SocketAddr {
        self.at
    }

    /// The next connection. Cancel-safe. `None` once another owner has the host's address.
    pub async fn accept(&mut self) -> Option<Stream> {
        self.queue.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Attachment { address, owner, .. } = &self.host.attachment;
        self.host.fabric.table().unlisten(*address, owner, (self.at.ip(), self.at.port()));
        // The clients of connections that were not accepted read a reset.
        self.queue.close();
        while let Ok(stream) = self.queue.try_recv() {
            stream.reset();
        }
    }
}

/// What a stream has taken of its host's bounds.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    fabric: Fabric,
    address: IpAddr,
    owner: Arc<str>,
    tenant: Arc<str>,
    port: u16,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.fabric.table().close(self.address, &self.owner, &self.tenant, self.port);
    }
}
