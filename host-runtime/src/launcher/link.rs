//! The process that makes the network namespace of a pod: a loopback interface, and a TUN device with the pod's address whose other end it
//! sends to the process that started it. Then it ends; the descriptors keep the namespace.

use super::netlink::{Netlink, address, default_route, route_loopback, up};
use super::supervisor::{FIRST_OTHER, cannot, stdin_socket};
use crate::launch::{LauncherOrder, LauncherReport, LinkRequest, receive, receive_exactly, send};
use crate::limits::LINK_MTU;
use close_fds::set_fds_cloexec;
use rustix_namespaces::cmsg_space;
use rustix_namespaces::net::netdevice::name_to_index;
use rustix_namespaces::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socket_with,
};
use rustix_namespaces::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix_namespaces::thread::{UnshareFlags, unshare};
use smoltcp::phy::{Medium, TunTapInterface};
use std::fs::File;
use std::io::{BufReader, Error, IoSlice, Result};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// The index of the loopback interface, the first of each namespace.
const LOOPBACK: u32 = 1;
/// The name of the device, as container runtimes have it.
const DEVICE: &str = "eth0";
/// From which port on programs without rights may listen.
const FIRST_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// Makes the namespace of a pod.
pub(super) fn run() -> ExitCode {
    set_fds_cloexec(FIRST_OTHER, &[]);
    let Ok(control) = stdin_socket() else { return ExitCode::FAILURE };
    match link(&control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The other end may be gone.
            let _ = send(&control, &LauncherReport::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn link(control: &UnixStream) -> Result<()> {
    let request: LinkRequest = receive(BufReader::new(control))?.ok_or_else(|| Error::other("no request"))?;
    if request.has_user_namespace {
        unshare(UnshareFlags::NEWUSER).map_err(cannot("user namespaces"))?;
        send(control, &LauncherReport::Unshared)?;
        if receive_exactly(control)? != Some(LauncherOrder::Mapped) {
            return Err(Error::other("the ids of the user namespace are not mapped"));
        }
    }
    unshare(UnshareFlags::NEWNET).map_err(cannot("a network namespace"))?;
    let device = device()?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let index = name_to_index(socket, DEVICE).map_err(cannot(DEVICE))?;
    let netlink = Netlink::open()?;
    netlink.request(&up(LOOPBACK, None)).map_err(cannot("set up the loopback interface"))?;
    netlink.request(&address(index, request.address)).map_err(cannot("the address of the pod"))?;
    netlink.request(&up(index, Some(LINK_MTU))).map_err(cannot("set up the device"))?;
    netlink.request(&default_route(index, request.address)).map_err(cannot("the default route"))?;
    if request.address.is_ipv4() {
        netlink.request(&route_loopback(index)).map_err(cannot("the way to the loopback interface"))?;
    }
    // Where it cannot be set, ports below 1,024 are refused to programs.
    let _ = std::fs::write(FIRST_PORT, "0");
    let network = File::open("/proc/self/ns/net").map_err(cannot("the network namespace"))?;
    let user = request.has_user_namespace.then(|| File::open("/proc/self/ns/user")).transpose()?;
    let mut line = Vec::new();
    send(&mut line, &LauncherReport::Linked)?;
    let all: Vec<_> =
        [device.as_fd(), network.as_fd()].into_iter().chain(user.as_ref().map(|file| file.as_fd())).collect();
    let mut space = [0; cmsg_space!(ScmRights(3))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !rights.push(SendAncillaryMessage::ScmRights(&all)) {
        return Err(Error::other("too many descriptors"));
    }
    sendmsg(control, &[IoSlice::new(&line)], &mut rights, SendFlags::empty())?;
    Ok(())
}

/// The other end of a new TUN device. Its packets have no header before that of IP.
fn device() -> Result<OwnedFd> {
    let device = TunTapInterface::new(DEVICE, Medium::Ip).map_err(cannot("/dev/net/tun"))?;
    // A descriptor that is known by its number alone becomes one of this process's own by way of the process.
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, device.as_raw_fd(), PidfdGetfdFlags::empty())?)
}
