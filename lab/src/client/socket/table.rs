//! The table of TCP sockets in `/proc/net`, for machines whose kernel answers no single questions.

use super::{ANY, SocketAddresses, SocketQueues, SocketState};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddrV4;

/// The prefix `::ffff:0:0/96` of an IPv4 address in the table `tcp6`, by words in the processor's order.
const MAPPED: &str =
    if cfg!(target_endian = "little") { "0000000000000000FFFF0000" } else { "00000000000000000000FFFF" };

/// As [`states`](super::states).
pub(super) fn states(wanted: &[SocketAddresses]) -> BTreeMap<SocketAddresses, SocketState> {
    let table = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let mut found = BTreeMap::new();
    for name in ["tcp6", "tcp"] {
        found.extend(rows(&table(name), wanted));
    }
    found
}

/// The wanted sockets of a table. A listener is found by its port, whichever addresses it listens at.
fn rows(table: &str, wanted: &[SocketAddresses]) -> Vec<(SocketAddresses, SocketState)> {
    let row = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        let (sent, received) = fields.nth(1)?.split_once(':')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let queues = SocketQueues { undelivered: number(sent)?, unread: number(received)? };
        let inode = fields.nth(4)?.parse().ok()?;
        let is_it = |(of_local, of_remote): &&SocketAddresses| match *of_remote == ANY {
            true => remote == ANY && of_local.port() == local.port(),
            false => (*of_local, *of_remote) == (local, remote),
        };
        Some((*wanted.iter().find(is_it)?, SocketState { queues, inode, counts: None }))
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// An address as `/proc/net/tcp` writes it: four bytes in the processor's order, and the port. Sockets for both families, in the table
/// `tcp6`, have such an address after a prefix, and their listeners only zeros.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (host, port) = text.split_once(':')?;
    let host = host.strip_prefix(MAPPED).unwrap_or(host);
    let host =
        if host.bytes().all(|digit| digit == b'0') { 0 } else { u32::from_str_radix(host, 16).ok()? };
    Some(SocketAddrV4::new(host.to_ne_bytes().into(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_read_from_the_table() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:C350 01 0000000A:00000000 01:00000014 00000000  1000        0 1 1 0 20 4 30 10 -1
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000010 00:00000000 00000000  1000        0 2 1 0 20 4 30 10 -1
   2: 00000000:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
   bad
";
        let (server, client): (SocketAddrV4, SocketAddrV4) =
            ("127.0.0.1:8080".parse().unwrap(), "127.0.0.1:50000".parse().unwrap());
        let wanted = [(server, client), (client, server), (server, ANY), (client, ANY)];
        let state = |undelivered, unread, inode| {
            let queues = SocketQueues { undelivered, unread };
            SocketState { queues, inode, counts: None }
        };
        let expected = [
            ((server, client), state(10, 0, 1)),
            ((client, server), state(0, 16, 2)),
            ((server, ANY), state(0, 3, 3)),
        ];
        assert_eq!(rows(table, &wanted), expected);
        assert_eq!(address(&format!("{MAPPED}0100007F:1F90")), Some(server), "a socket of both families");
    }
}
