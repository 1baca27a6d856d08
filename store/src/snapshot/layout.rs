//! Layout of a snapshot: etcd's buckets with the encodings of their small values, as etcd 3.5 writes them, and kstore's
//! own bucket.

use crate::{Alarm, LeaseId, Revision};
use prost::encoding::{decode_varint, encode_varint};

/// Bucket of the history: revision to version.
pub(crate) const KEY: &str = "key";
/// Bucket of leases: id to id and time to live.
pub(crate) const LEASE: &str = "lease";
/// Bucket of the database's metadata.
pub(crate) const META: &str = "meta";
/// Bucket of the revisions' notes, which only kstore has; etcd ignores it.
pub(crate) const NOTES: &str = "kstore_notes";
/// Bucket of alarms: the key is member and alarm, the value empty.
pub(crate) const ALARM: &str = "alarm";
/// Bucket of the authentication settings.
pub(crate) const AUTH: &str = "auth";
/// Bucket of the users of an etcd with authentication.
pub(crate) const AUTH_USERS: &str = "authUsers";
/// Bucket of the cluster's version.
pub(crate) const CLUSTER: &str = "cluster";
/// Buckets that are written empty. A snapshot contains no members.
pub(crate) const EMPTY: [&str; 4] = ["authRoles", AUTH_USERS, "members", "members_removed"];

/// Key in [`META`]: the revision of the last requested compaction.
pub(crate) const SCHEDULED_COMPACTION: &[u8] = b"scheduledCompactRev";
/// Key in [`META`]: the revision of the last finished compaction.
pub(crate) const FINISHED_COMPACTION: &[u8] = b"finishedCompactRev";
/// Key in [`META`]: the position in etcd's raft log. A restore starts a new log.
pub(crate) const CONSISTENT_INDEX: &[u8] = b"consistent_index";
/// Key in [`META`]: etcd's raft term.
pub(crate) const TERM: &[u8] = b"term";
/// Key in [`META`]: the voting members, as JSON.
pub(crate) const CONF_STATE: &[u8] = b"confState";
/// Key in [`AUTH`]: counts changes of the authentication settings; etcd starts with one.
pub(crate) const AUTH_REVISION: &[u8] = b"authRevision";
/// Key in [`CLUSTER`]: the cluster's version.
pub(crate) const CLUSTER_VERSION: &[u8] = b"clusterVersion";

/// The etcd version whose layout this is.
pub(crate) const VERSION: &[u8] = b"3.5.0";

/// The raft term of a new etcd cluster with one member.
pub(crate) const FIRST_TERM: u64 = 2;

/// The key of a lease.
pub(crate) fn lease_key(id: LeaseId) -> [u8; 8] {
    id.0.to_be_bytes()
}

/// Field numbers of etcd's `leasepb.Lease`, all varints.
const LEASE_ID: u8 = 0x08;
const LEASE_TTL: u8 = 0x10;
const LEASE_REMAINING: u8 = 0x18;

/// Encodes a lease's value.
pub(crate) fn encode_lease(id: LeaseId, ttl: i64) -> Vec<u8> {
    let mut out = vec![LEASE_ID];
    encode_varint(id.0 as u64, &mut out);
    if ttl != 0 {
        out.push(LEASE_TTL);
        encode_varint(ttl as u64, &mut out);
    }
    out
}

/// Decodes a lease's value: its id and granted time to live.
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

/// Encodes an alarm's key.
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

/// Decodes an alarm's key; ignores the member.
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

/// The key of a note.
pub(crate) fn note_key(revision: Revision) -> [u8; 8] {
    revision.0.to_be_bytes()
}
