//! [`PodLink`]: the network of a pod while its containers run, which is a namespace and the gateway that carries its packets.

use crate::confinement::IdMap;
use crate::gateway::{Gateway, OuterNetwork};
use crate::namespace::NetworkNamespace;
use std::fs::File;
use std::io::Result;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The network of a pod. Dropping it ends all connections of the pod; the namespace ends with its last process.
#[derive(Debug)]
pub struct PodLink {
    namespace: Arc<NetworkNamespace>,
    gateway: Gateway,
    task: JoinHandle<()>,
}

impl PodLink {
    /// Makes the network of a pod with this address, and the task that carries its connections to and from `network`. `seed` makes its
    /// numbers.
    pub(crate) fn start(
        launcher: &Path,
        ids: IdMap,
        address: IpAddr,
        (network, seed): (Arc<dyn OuterNetwork>, u64),
    ) -> Result<Self> {
        let (namespace, device) = namespace_of_pod(launcher, ids, address)?;
        let (gateway, carrying) = Gateway::new(device, address, (network, seed))?;
        let task = tokio::spawn(carrying);
        Ok(Self { namespace: Arc::new(namespace), gateway, task })
    }

    /// The namespace that the pod's containers enter.
    pub fn namespace(&self) -> &Arc<NetworkNamespace> {
        &self.namespace
    }

    /// The way to the pod's programs.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }
}

impl Drop for PodLink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes a network namespace with this address, by `launcher`, this program. Returns it and the other end of its device. Blocks for some
/// milliseconds.
#[cfg(target_os = "linux")]
pub(crate) fn namespace_of_pod(
    launcher: &Path,
    ids: IdMap,
    address: IpAddr,
) -> Result<(NetworkNamespace, File)> {
    linux::namespace_of_pod(launcher, ids, address)
}

/// There are no namespaces.
#[cfg(not(target_os = "linux"))]
pub(crate) fn namespace_of_pod(
    _launcher: &Path,
    _ids: IdMap,
    _address: IpAddr,
) -> Result<(NetworkNamespace, File)> {
    Err(std::io::Error::other("this is not Linux"))
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::child::map_ids;
    use crate::confinement::IdMap;
    use crate::launch::{
        ENVIRONMENT, LINK, LauncherOrder, LauncherReport, LinkRequest, receive, receive_exactly, send,
    };
    use crate::limits::START_TIME;
    use crate::namespace::NetworkNamespace;
    use rustix_namespaces::cmsg_space;
    use rustix_namespaces::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    use std::fs::File;
    use std::io::{Error, ErrorKind, IoSliceMut, Result};
    use std::net::IpAddr;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    /// Bytes of a launcher's last message: one word, or an error of this system.
    const MESSAGE: usize = 4096;

    /// A process whose end is waited for.
    struct Maker(Child);

    impl Drop for Maker {
        fn drop(&mut self) {
            // It ends at once when it is not listened to.
            let _ = self.0.wait();
        }
    }

    pub(super) fn namespace_of_pod(
        launcher: &Path,
        ids: IdMap,
        address: IpAddr,
    ) -> Result<(NetworkNamespace, File)> {
        let (control, other) = UnixStream::pair()?;
        let mut command = Command::new(launcher);
        command.arg(LINK).env_clear().envs(ENVIRONMENT).stdin(Stdio::from(OwnedFd::from(other)));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        drop(command);
        let (process, maker) = (child.id(), Maker(child));
        control.set_read_timeout(Some(START_TIME))?;
        // A process that may make network namespaces keeps them for itself, so that programs have no right to them.
        let has_user_namespace = !ids.has_ids();
        send(&control, &LinkRequest { address, has_user_namespace })?;
        if has_user_namespace {
            match receive_exactly(&control)? {
                Some(LauncherReport::Unshared) => map_ids(process, ids)?,
                Some(LauncherReport::Failed(why)) => return Err(Error::other(why)),
                _ => return Err(Error::new(ErrorKind::UnexpectedEof, "the launcher has ended")),
            }
            send(&control, &LauncherOrder::Mapped)?;
        }
        let made = descriptors(&control)?;
        drop(control);
        drop(maker);
        Ok(made)
    }

    /// Receives what the launcher has made.
    fn descriptors(control: &UnixStream) -> Result<(NetworkNamespace, File)> {
        let mut line = [0; MESSAGE];
        let mut space = [0; cmsg_space!(ScmRights(3))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(control, &mut [IoSliceMut::new(&mut line)], &mut rights, RecvFlags::CMSG_CLOEXEC)?;
        let mut all: Vec<OwnedFd> = Vec::new();
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                all.extend(descriptors);
            }
        }
        match receive(&line[..received.bytes])? {
            Some(LauncherReport::Linked) => {}
            Some(LauncherReport::Failed(why)) => return Err(Error::other(why)),
            _ => return Err(Error::new(ErrorKind::UnexpectedEof, "the launcher has ended")),
        }
        let mut all = all.into_iter();
        let (Some(device), Some(network)) = (all.next(), all.next()) else {
            return Err(Error::other("the launcher has sent no descriptors"));
        };
        Ok((NetworkNamespace::new(network, all.next()), File::from(device)))
    }
}
