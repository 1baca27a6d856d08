//! The node of a container runtime (`--cri`): its folder, and the machine that it reports. And the socket of the simulated runtime
//! (`--cri-listen`).

use crate::args::{CriFlags, CriListen};
use anyhow::Context as _;
use kstore_host_runtime::files::ProgramFolder;
use kstore_kubelet_sim::cri_socket::{CriEndpoint, CriSocket};
use kstore_kubelet_sim::{CriNode, Machine};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::Arc;

/// Pods that the node takes: as many as a kubelet does.
const PODS: u32 = 110;
/// An address to which nothing is sent: the way there is the way out of this machine. It is reserved for documentation.
const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// The node of the container runtime that the flags name, if they name one.
///
/// # Errors
/// Its folder cannot be used.
pub(crate) fn cri_node(flags: &CriFlags) -> anyhow::Result<Option<CriNode>> {
    let Some(socket) = &flags.socket else { return Ok(None) };
    let folder = match &flags.folder {
        Some(folder) => {
            let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            ProgramFolder::keep(absolute)
                .with_context(|| format!("cannot use the folder {} of --cri-dir", folder.display()))?
        }
        None => {
            let parent = std::env::temp_dir();
            ProgramFolder::for_runtime(&parent).with_context(|| {
                format!("cannot make a folder for the pods of --cri in {}", parent.display())
            })?
        }
    };
    let machine = machine(folder.path());
    Ok(Some(CriNode {
        node: flags.node().to_owned(),
        socket: socket.0.clone(),
        folder: Arc::new(folder),
        keeps_pods: flags.folder.is_some(),
        machine,
        pods: PODS,
    }))
}

/// The endpoint of the simulated runtime that the flag names, which listens from now on.
///
/// # Errors
/// It cannot listen there.
pub(crate) fn cri_endpoint(listen: Option<&CriListen>) -> anyhow::Result<Option<CriEndpoint>> {
    let Some(CriListen { socket, node }) = listen else { return Ok(None) };
    let bound = CriSocket::bind(socket)
        .with_context(|| format!("cannot listen at {} of --cri-listen", socket.display()))?;
    Ok(Some(CriEndpoint { socket: Arc::new(bound), node: node.clone() }))
}

/// This machine, as a node reports it.
fn machine(folder: &Path) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    Machine {
        ip: own_address().unwrap_or(Ipv4Addr::LOCALHOST.to_string()),
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        memory: memory(&read("/proc/meminfo")).unwrap_or(0),
        disk: disk(folder).unwrap_or(0),
        architecture: architecture.to_owned(),
        os_image: os_image(&read("/etc/os-release")).unwrap_or_else(|| "Linux".to_owned()),
        kernel_version: read("/proc/sys/kernel/osrelease").trim().to_owned(),
    }
}

/// The address with which this machine leaves its network.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent.
    socket.connect(ELSEWHERE).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// The bytes of memory in a file such as `/proc/meminfo`.
fn memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    // The unit that follows is always 1024 bytes.
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The name in a file such as `/etc/os-release`.
fn os_image(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

/// The size of the file system that a folder is on.
fn disk(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_blocks.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_machine_are_read() {
        assert_eq!(memory("MemTotal:       24564344 kB\nMemFree: 1 kB\n"), Some(24_564_344 << 10));
        assert_eq!(memory("MemFree: 1 kB\n"), None);
        assert_eq!(
            os_image("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").as_deref(),
            Some("Debian GNU/Linux 12")
        );
        let own = machine(&std::env::temp_dir());
        assert!(own.cpus > 0 && own.memory > 0 && own.disk > 0, "{own:?}");
    }
}
