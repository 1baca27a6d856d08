//! One-line descriptions of calls, watches and events, for explanations.

use crate::history::{
    Call, Event, EventKind, KeyValue, Keys, Op, OpReply, Operation, Outcome, Range, RangeReply, Relation,
    Reply, Txn, Watch,
};
use std::fmt::Write as _;

/// Formats a time in seconds.
pub(crate) fn time(nanos: u64) -> String {
    format!("{:.6}s", nanos as f64 / 1e9)
}

/// Describes a call with its times.
pub(crate) fn call(call: &Call) -> String {
    let ret = if call.outcome == Outcome::Unknown { "…".into() } else { time(call.ret) };
    let (operation, outcome) = (operation(&call.operation), outcome(&call.outcome));
    format!("client {} [{}, {ret}] {operation} → {outcome}", call.client, time(call.call))
}

/// Describes a watch by its request.
pub(crate) fn watch(watch: &Watch) -> String {
    let request = &watch.request;
    let mut text = format!(
        "watch of client {} [{}] on {} from {}",
        watch.client,
        time(watch.at),
        keys(&request.keys),
        request.start
    );
    for (set, name) in
        [(request.prev_kv, "prev_kv"), (request.no_put, "no puts"), (request.no_delete, "no deletions")]
    {
        if set {
            let _ = write!(text, ", {name}");
        }
    }
    text
}

/// Describes an event.
pub(crate) fn event(event: &Event) -> String {
    let kind = match event.kind {
        EventKind::Put => "put",
        EventKind::Delete => "delete",
    };
    let before = event.prev_kv.as_ref().map(|before| format!(" after {}", kv(before))).unwrap_or_default();
    format!("{kind} {}{before}", kv(&event.kv))
}

/// Describes a version.
pub(crate) fn kv(kv: &KeyValue) -> String {
    let lease = if kv.lease == 0 { String::new() } else { format!(" l{}", kv.lease) };
    format!("{}={}@{}(c{} v{}{lease})", kv.key, kv.value, kv.mod_revision, kv.create_revision, kv.version)
}

fn keys(keys: &Keys) -> String {
    match keys.end.as_bytes() {
        [] => keys.key.to_string(),
        [0] if keys.is_all() => "everything".into(),
        [0] => format!("[{}, ∞)", keys.key),
        _ => format!("[{}, {})", keys.key, keys.end),
    }
}

/// Describes an operation.
pub(crate) fn operation(operation: &Operation) -> String {
    match operation {
        Operation::Range(of) => range(of),
        Operation::Txn(of) => txn(of),
        Operation::LeaseGrant { id, ttl } => format!("grant lease {id} for {ttl} s"),
        Operation::LeaseRevoke { id } => format!("revoke lease {id}"),
        Operation::LeaseKeepAlive { id } => format!("renew lease {id}"),
        Operation::Compact { revision } => format!("compact {revision}"),
        Operation::Defragment => "defragment".into(),
    }
}

fn range(range: &Range) -> String {
    let mut text = format!("range {}", keys(&range.keys));
    if range.revision > 0 {
        let _ = write!(text, " at {}", range.revision);
    }
    if range.limit > 0 {
        let _ = write!(text, " limit {}", range.limit);
    }
    for (set, name) in
        [(range.keys_only, " keys only"), (range.count_only, " count"), (range.serializable, " serializable")]
    {
        text.push_str(if set { name } else { "" });
    }
    text
}

fn txn(txn: &Txn) -> String {
    let list = |ops: &[Op]| ops.iter().map(op).collect::<Vec<_>>().join("; ");
    if txn.compares.is_empty() {
        return list(&txn.then);
    }
    let guards = txn.compares.iter().map(|compare| {
        let relation = match compare.relation {
            Relation::Equal => "=",
            Relation::NotEqual => "≠",
            Relation::Greater => ">",
            Relation::Less => "<",
        };
        format!("{} {relation} {:?}", compare.key, compare.field)
    });
    let otherwise =
        if txn.or_else.is_empty() { String::new() } else { format!(" else {{{}}}", list(&txn.or_else)) };
    format!("if {} {{{}}}{otherwise}", guards.collect::<Vec<_>>().join(" and "), list(&txn.then))
}

fn op(op: &Op) -> String {
    match op {
        Op::Range(of) => range(of),
        Op::Put { key, value, lease: 0, .. } => format!("put {key}={value}"),
        Op::Put { key, value, lease, .. } => format!("put {key}={value} l{lease}"),
        Op::Delete { keys: of, .. } => format!("delete {}", keys(of)),
    }
}

/// Describes an outcome.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok(answer) => reply(answer),
        Outcome::Failed(refusal) => format!("refused: {refusal:?}"),
        Outcome::Unknown => "unknown".into(),
    }
}

/// Describes a reply.
pub(crate) fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Range(range) => format!("revision {}: {}", range.revision, found(range)),
        Reply::Txn { revision, succeeded, results } => {
            let results: Vec<_> = results.iter().map(op_reply).collect();
            let otherwise = if *succeeded { "" } else { " (else)" };
            format!("revision {revision}{otherwise}: {}", results.join("; "))
        }
        Reply::LeaseGrant { revision, ttl } => format!("revision {revision}: {ttl} s"),
        Reply::LeaseRevoke { revision } | Reply::Compact { revision } => format!("revision {revision}"),
        Reply::LeaseKeepAlive { ttl } => format!("{ttl} s"),
        Reply::Defragment => "done".into(),
    }
}

fn found(range: &RangeReply) -> String {
    let kvs: Vec<_> = range.kvs.iter().map(kv).collect();
    format!(
        "{} of {}[{}]{}",
        kvs.len(),
        range.count,
        kvs.join(", "),
        if range.more { " and more" } else { "" }
    )
}

fn op_reply(reply: &OpReply) -> String {
    match reply {
        OpReply::Range(range) => found(range),
        OpReply::Put(None) => "put".into(),
        OpReply::Put(Some(before)) => format!("put after {}", kv(before)),
        OpReply::Delete { deleted, prev_kvs } => {
            let kvs: Vec<_> = prev_kvs.iter().map(kv).collect();
            format!("{deleted} deleted[{}]", kvs.join(", "))
        }
    }
}
