//! What stands where in a snapshot: etcd's buckets and the forms of their small values, and the one bucket of ours. As
//! etcd 3.5 writes them.

use prost::encoding::{decode_varint, encode_varint};

use crate::{Alarm, LeaseId, Revision};

/// History: revision to version.
pub(crate) const KEY: &str = "key";
/// Leases: id to id and time to live.
pub(crate) const LEASE: &str = "lease";
/// Numbers of the whole.
pub(crate) const META: &str = "meta";
/// The notes of revisions; ours, and ignored by etcd.
pub(crate) const NOTES: &str = "kstore_notes";
/// Alarms: the member and the alarm to nothing.
pub(crate) const ALARM: &str = "alarm";
/// Who may do what; nobody is asked here.
pub(crate) const AUTH: &str = "auth";
/// The users of an etcd with authentication.
pub(crate) const AUTH_USERS: &str = "authUsers";
/// Which version's features the members agreed on.
pub(crate) const CLUSTER: &str = "cluster";
/// Buckets that are there and empty. Members are not part of what is restored.
pub(crate) const EMPTY: [&str; 4] = ["authRoles", AUTH_USERS, "members", "members_removed"];

/// In [`META`]: the revision that compaction was last asked for.
pub(crate) const SCHEDULED_COMPACTION: &[u8] = b"scheduledCompactRev";
/// In [`META`]: the last one that was carried out.
pub(crate) const FINISHED_COMPACTION: &[u8] = b"finishedCompactRev";
/// In [`META`]: the place in etcd's log. Whoever restores begins a new one.
pub(crate) const CONSISTENT_INDEX: &[u8] = b"consistent_index";
/// In [`META`]: etcd's term.
pub(crate) const TERM: &[u8] = b"term";
/// In [`META`]: who votes, as JSON.
pub(crate) const CONF_STATE: &[u8] = b"confState";
/// In [`AUTH`]: counts changes of the rules; etcd begins with one.
pub(crate) const AUTH_REVISION: &[u8] = b"authRevision";
/// In [`CLUSTER`].
pub(crate) const CLUSTER_VERSION: &[u8] = b"clusterVersion";

/// The version whose buckets these are.
pub(crate) const VERSION: &[u8] = b"3.5.0";

/// The term of a fresh etcd of one member.
pub(crate) const FIRST_TERM: u64 = 2;

/// A lease's key.
pub(crate) fn lease_key(id: LeaseId) -> [u8; 8] {
    id.0.to_be_bytes()
}

/// Field numbers of etcd's `leasepb.Lease`, all varints.
const LEASE_ID: u8 = 0x08;
const LEASE_TTL: u8 = 0x10;
const LEASE_REMAINING: u8 = 0x18;

/// A lease's value.
pub(crate) fn encode_lease(id: LeaseId, ttl: i64) -> Vec<u8> {
    let mut out = vec![LEASE_ID];
    encode_varint(id.0 as u64, &mut out);
    if ttl != 0 {
        out.push(LEASE_TTL);
        encode_varint(ttl as u64, &mut out);
    }
    out
}

/// Reads a lease's value: its id and the time to live it was granted with.
pub(crate) fn decode_lease(bytes: &[u8]) -> Option<(LeaseId, i64)> {
    let (mut id, mut ttl, mut rest) = (LeaseId::NONE, 0, bytes);
    while let Some((tag, tail)) = rest.split_first() {
        rest = tail;
        let number = decode_varint(&mut rest).ok()? as i64;
        match *tag {
            LEASE_ID => id = LeaseId(number),
            LEASE_TTL => ttl = number,
            LEASE_REMAINING => {}
            _ => return None,
        }
    }
    (!id.is_none()).then_some((id, ttl))
}

/// Field numbers of etcd's `AlarmMember`, and its alarms' numbers.
const ALARM_MEMBER: u8 = 0x08;
const ALARM_KIND: u8 = 0x10;
const NO_SPACE: u64 = 1;
const CORRUPT: u64 = 2;

/// An alarm's key.
pub(crate) fn encode_alarm(member: u64, alarm: Alarm) -> Vec<u8> {
    let mut out = vec![ALARM_MEMBER];
    encode_varint(member, &mut out);
    out.push(ALARM_KIND);
    let kind = match alarm {
        Alarm::NoSpace => NO_SPACE,
        Alarm::Corrupt => CORRUPT,
    };
    encode_varint(kind, &mut out);
    out
}

/// Reads an alarm's key; whose it is does not matter.
pub(crate) fn decode_alarm(bytes: &[u8]) -> Option<Alarm> {
    let (mut alarm, mut rest) = (None, bytes);
    while let Some((tag, tail)) = rest.split_first() {
        rest = tail;
        let number = decode_varint(&mut rest).ok()?;
        alarm = match (*tag, number) {
            (ALARM_KIND, NO_SPACE) => Some(Alarm::NoSpace),
            (ALARM_KIND, CORRUPT) => Some(Alarm::Corrupt),
            (ALARM_MEMBER, _) => alarm,
            _ => return None,
        };
    }
    alarm
}

/// A note's key.
pub(crate) fn note_key(revision: Revision) -> [u8; 8] {
    revision.0.to_be_bytes()
}
