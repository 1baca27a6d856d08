//! Who has which address, port and stream: the decisions of the network. Pure.

use crate::error::NetError;
use crate::limits::{FIRST_EPHEMERAL, HOST_LISTENERS, HOST_STREAMS, LAST_EPHEMERAL, STREAMS, TENANT_STREAMS};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// A host that is attached; `L` is how its listeners are reached.
#[derive(Debug)]
struct Entry<L> {
    owner: Arc<str>,
    tenant: Arc<str>,
    /// Handles of the host.
    handles: usize,
    listeners: BTreeMap<(u16, IpAddr), L>,
    /// Ports of its own ends of streams.
    ephemeral: BTreeSet<u16>,
    next: u16,
}

/// All hosts of a network.
#[derive(Debug)]
pub(crate) struct Table<L> {
    hosts: BTreeMap<IpAddr, Entry<L>>,
    /// Streams that hosts of each tenant have opened.
    tenants: BTreeMap<Arc<str>, usize>,
    streams: usize,
}

impl<L> Default for Table<L> {
    fn default() -> Self {
        Self { hosts: BTreeMap::new(), tenants: BTreeMap::new(), streams: 0 }
    }
}

/// Whether two addresses of listeners at one port exclude each other.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one == other || one.is_unspecified() || other.is_unspecified()
}

impl<L: Clone> Table<L> {
    /// Attaches a host, or adds a handle to it. Another owner of the address loses it: addresses are used again.
    pub(crate) fn attach(&mut self, address: IpAddr, owner: &Arc<str>, tenant: &Arc<str>) {
        let entry = self.hosts.get_mut(&address).filter(|entry| entry.owner == *owner);
        if let Some(entry) = entry {
            entry.handles += 1;
            return;
        }
        let entry = Entry {
            owner: Arc::clone(owner),
            tenant: Arc::clone(tenant),
            handles: 1,
            listeners: BTreeMap::new(),
            ephemeral: BTreeSet::new(),
            next: FIRST_EPHEMERAL,
        };
        self.hosts.insert(address, entry);
    }

    /// Gives a handle of a host back; without any the host is gone.
    pub(crate) fn detach(&mut self, address: IpAddr, owner: &Arc<str>) {
        let Some(entry) = self.own(address, owner) else { return };
        entry.handles -= 1;
        if entry.handles == 0 {
            self.hosts.remove(&address);
        }
    }

    fn own(&mut self, address: IpAddr, owner: &Arc<str>) -> Option<&mut Entry<L>> {
        self.hosts.get_mut(&address).filter(|entry| entry.owner == *owner)
    }

    /// Adds a listener; with port 0 at the next free one. Returns its port.
    pub(crate) fn listen(
        &mut self,
        (address, owner): (IpAddr, &Arc<str>),
        at: (IpAddr, u16),
        listener: L,
    ) -> Result<u16, NetError> {
        let entry = self.own(address, owner).ok_or(NetError::AddressNotAvailable)?;
        let (ip, port) = at;
        if !(ip.is_unspecified() || ip.is_loopback() || ip == address) {
            return Err(NetError::AddressNotAvailable);
        }
        if entry.listeners.len() >= HOST_LISTENERS {
            return Err(NetError::Exhausted);
        }
        let is_taken = |entry: &Entry<L>, port: u16| {
            entry.listeners.keys().any(|(own, other)| *own == port && overlap(*other, ip))
        };
        let port = match port {
            0 => entry.free_port(|entry, port| is_taken(entry, port)).ok_or(NetError::Exhausted)?,
            port if is_taken(entry, port) => return Err(NetError::AddressInUse),
            port => port,
        };
        entry.listeners.insert((port, ip), listener);
        Ok(port)
    }

    /// Removes a listener.
    pub(crate) fn unlisten(&mut self, address: IpAddr, owner: &Arc<str>, (ip, port): (IpAddr, u16)) {
        if let Some(entry) = self.own(address, owner) {
            entry.listeners.remove(&(port, ip));
        }
    }

    /// The listener that a connection from the host with address `from` to `to` reaches.
    pub(crate) fn listener(&self, from: IpAddr, to: (IpAddr, u16)) -> Result<L, NetError> {
        let (ip, port) = to;
        let is_loopback = ip.is_loopback() || ip.is_unspecified();
        let target = if is_loopback { from } else { ip };
        let entry = self.hosts.get(&target).ok_or(NetError::NotAttached)?;
        let hears = |own: IpAddr| own.is_unspecified() || own == ip || (own.is_loopback() && is_loopback);
        let mut found = entry.listeners.iter().filter(|((own, at), _)| *own == port && hears(*at));
        found.next().map(|(_, listener)| listener.clone()).ok_or(NetError::Refused)
    }

    /// Counts a stream that a host opens; returns the port of its own end.
    pub(crate) fn open(&mut self, address: IpAddr, owner: &Arc<str>) -> Result<u16, NetError> {
        let streams = self.streams;
        let tenants = &mut self.tenants;
        let entry = self.hosts.get_mut(&address).filter(|entry| entry.owner == *owner);
        let entry = entry.ok_or(NetError::AddressNotAvailable)?;
        let of_tenant = tenants.get(&entry.tenant).copied().unwrap_or(0);
        if streams >= STREAMS || of_tenant >= TENANT_STREAMS || entry.ephemeral.len() >= HOST_STREAMS {
            return Err(NetError::Exhausted);
        }
        let port = entry.free_port(|entry, port| entry.ephemeral.contains(&port));
        let port = port.ok_or(NetError::Exhausted)?;
        entry.ephemeral.insert(port);
        *tenants.entry(Arc::clone(&entry.tenant)).or_default() += 1;
        self.streams += 1;
        Ok(port)
    }

    /// A stream is over.
    pub(crate) fn close(&mut self, address: IpAddr, owner: &Arc<str>, tenant: &Arc<str>, port: u16) {
        if let Some(entry) = self.own(address, owner) {
            entry.ephemeral.remove(&port);
        }
        self.streams -= 1;
        if let Some(count) = self.tenants.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                self.tenants.remove(tenant);
            }
        }
    }

    /// Hosts, listeners and streams that there are.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        let listeners = self.hosts.values().map(|entry| entry.listeners.len()).sum();
        (self.hosts.len(), listeners, self.streams)
    }
}

impl<L> Entry<L> {
    /// The next port that is not taken.
    fn free_port(&mut self, is_taken: impl Fn(&Self, u16) -> bool) -> Option<u16> {
        let count = usize::from(LAST_EPHEMERAL - FIRST_EPHEMERAL) + 1;
        for _ in 0..count {
            let port = self.next;
            self.next = if port == LAST_EPHEMERAL { FIRST_EPHEMERAL } else { port + 1 };
            if !is_taken(self, port) {
                return Some(port);
            }
        }
        None
    }
}
