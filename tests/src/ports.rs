//! Ports for programs that cannot choose one themselves, or that need the same one after a restart.
//!
//! They are outside of the range from which the kernel assigns ports to connections and to port 0, so that no
//! connection takes one between its choice and its use. A UDP socket with the same number reserves a port until
//! this process ends: every test that needs a port takes it from here, and only one process can bind that socket.
//! It does not affect TCP.
//!
//! Crates that cannot depend on this one include the file.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::{Range, RangeInclusive};
use std::sync::Mutex;

/// Candidates: above the ports of most services.
const CANDIDATES: Range<u16> = 10_000..65_535;

/// The kernel's default, for machines that do not state their range.
const ASSIGNED: RangeInclusive<u16> = 32_768..=65_535;

/// The reservations of this process.
static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Reserves a TCP port of this machine for the rest of this process.
///
/// # Panics
///
/// No port is free.
pub(crate) fn reserve() -> u16 {
    let assigned = assigned();
    let mut candidates: Vec<u16> = CANDIDATES.filter(|port| !assigned.contains(port)).collect();
    if candidates.is_empty() {
        candidates = CANDIDATES.collect();
    }
    // Processes begin at different candidates, so that they rarely try the same ones.
    let first = std::process::id() as usize * 127 % candidates.len();
    candidates.rotate_left(first);
    let found = candidates.into_iter().find_map(|port| Some((port, socket(port)?)));
    let (port, socket) = found.expect("a port is free");
    RESERVED.lock().expect("no holder panics").push(socket);
    port
}

/// The reservation of a port on which no program listens; `None` if it is reserved or in use.
fn socket(port: u16) -> Option<UdpSocket> {
    let reserved = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
    Some(reserved)
}

/// The ports that the kernel assigns.
fn assigned() -> RangeInclusive<u16> {
    let stated = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    let range = stated.and_then(|text| {
        let mut bounds = text.split_whitespace().map(|bound| bound.parse().ok());
        Some(bounds.next()??..=bounds.next()??)
    });
    range.unwrap_or(ASSIGNED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_free_and_no_one_else_can_reserve_it() {
        let ports = [reserve(), reserve()];
        assert_ne!(ports[0], ports[1]);
        for port in ports {
            assert!(socket(port).is_none());
            let (first, assigned) = (TcpListener::bind((Ipv4Addr::LOCALHOST, port)), assigned());
            assert!(first.is_ok() && !assigned.contains(&port), "{port} of {assigned:?}: {first:?}");
        }
    }
}
