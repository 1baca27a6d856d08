//! Tests of snapshots: with etcd's tools, and on the level of buckets.

use super::layout;
use crate::codec::etcd::revision_bytes;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::snapshot::bbolt::read::Image;
use crate::tests::conformance::block_on;
use crate::tests::etcd::{Etcd, PEER, output, program};
use crate::tests::samples::{fill, image, memory};
use crate::types::record::RecordKey;
use crate::{Alarm, KeyRange, LeaseId, Op, Range, Revision, SnapshotError, Txn, maintenance};
use futures::FutureExt;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

#[test]
fn etcd_serves_a_restored_snapshot_of_kstore() {
    let programs = (program("etcd"), program("etcdctl"), program("etcdutl"));
    let (Some(etcd), Some(ctl), Some(utl)) = programs else { return };
    block_on(async {
        let store = memory().await;
        fill(&store).await;
        let dir = tempfile::tempdir().unwrap();
        store.alarm_raise(Alarm::NoSpace).await.unwrap();
        let (file, data) = (dir.path().join("snapshot.db"), dir.path().join("data"));
        fs::File::create(&file).unwrap().write_all(&image(&store)).unwrap();
        let theirs = output(Command::new(&utl).args(["snapshot", "status", "-w", "json"]).arg(&file));
        let ours = maintenance::snapshot_status(&file).unwrap();
        let ours = format!(
            r#"{{"hash":{},"revision":{},"totalKey":{},"totalSize":{}}}"#,
            ours.hash, ours.revision, ours.entries, ours.bytes
        );
        assert_eq!(theirs.trim(), ours);
        let mut restore = Command::new(&utl);
        restore.args(["snapshot", "restore", "--skip-hash-check", "--initial-cluster"]);
        restore.arg(format!("default={PEER}")).args(["--initial-advertise-peer-urls", PEER]);
        output(restore.arg("--data-dir").arg(&data).arg(&file));
        let etcd = Etcd::start(&etcd, &ctl, &data);
        assert_eq!(etcd.hash(), store.hash_kv(Revision::CURRENT).unwrap().hash);
        let all = store.range(&Range::new(KeyRange::all())).unwrap();
        let keys = etcd.ctl(&["get", "", "--prefix", "--keys-only", "--limit", "100000"]);
        assert_eq!(keys.lines().filter(|line| !line.is_empty()).count(), all.kvs.len());
        let leases = etcd.ctl(&["lease", "list"]);
        assert!(leases.contains("found 2 leases") && leases.contains("-000000000000005"), "{leases}");
        let ttl = etcd.ctl(&["lease", "timetolive", "4d", "--keys"]);
        assert!(ttl.contains("granted with TTL(1000s)") && ttl.contains("key/0098"), "{ttl}");
        assert!(etcd.ctl(&["alarm", "list"]).contains("alarm:NOSPACE"));
        etcd.ctl(&["alarm", "disarm"]);
        let put = etcd.ctl(&["put", "key/0001", "new", "-w", "json"]);
        assert!(put.contains(&format!(r#""revision":{}"#, store.revision().next())), "{put}");
    });
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// All entries of an image by bucket.
fn contents(image: Vec<u8>) -> BTreeMap<String, Entries> {
    let disk = SimDisk::default();
    let path = Path::new("/snapshots/one");
    disk.create_dir(path.parent().unwrap()).unwrap();
    let file = disk.create(path).unwrap();
    file.write_at(0, &image).unwrap();
    let image = Image::open(&*file, image.len() as u64).unwrap();
    let mut all = BTreeMap::new();
    for bucket in image.buckets() {
        let mut entries = Entries::new();
        let read = image.visit(bucket, &mut |key, value| {
            entries.push((key.to_owned(), value.to_owned()));
            Ok(())
        });
        read.unwrap();
        all.insert(String::from_utf8(bucket.to_owned()).unwrap(), entries);
    }
    all
}

#[test]
fn a_snapshot_has_etcds_buckets_and_one_of_kstore() {
    block_on(async {
        let store = memory().await;
        let names =
            "alarm auth authRoles authUsers cluster key kstore_notes lease members members_removed meta";
        let empty = contents(image(&store));
        assert_eq!(empty.keys().cloned().collect::<Vec<_>>().join(" "), names);
        assert!(empty[layout::KEY].is_empty() && empty[layout::LEASE].is_empty());
        fill(&store).await;
        let full = contents(image(&store));
        let lease = (1..9).map(|at| u8::from(at == 8) * 77).collect::<Vec<_>>();
        assert_eq!(full[layout::LEASE][0], (lease, vec![8, 77, 16, 0xe8, 7]));
        assert_eq!(layout::decode_lease(&full[layout::LEASE][1].1), Some((LeaseId(-5), 2_000)));
        let meta: BTreeMap<_, _> = full[layout::META].iter().cloned().collect();
        let compacted = revision_bytes(RecordKey::new(store.compacted(), 0));
        assert_eq!(meta[layout::SCHEDULED_COMPACTION], compacted);
        let notes = &full[layout::NOTES];
        assert!(notes.iter().all(|(_, note)| note == b"because") && notes.len() > 20, "{}", notes.len());
    });
}

/// A writer that runs a closure before its first write.
struct InterruptingWriter<F> {
    inner: Cursor<Vec<u8>>,
    then: Option<F>,
}

impl<F: FnOnce()> Write for InterruptingWriter<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(then) = self.then.take() {
            then();
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

impl<F> Seek for InterruptingWriter<F> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.inner.seek(to)
    }
}

#[test]
fn concurrent_writes_and_compaction_do_not_change_a_snapshot() {
    block_on(async {
        let store = memory().await;
        for round in 0..4 {
            for at in 0..40 {
                let value = vec![b'a' + round; 20_000];
                store.txn(Txn::of(vec![Op::put(format!("key/{at:04}"), value)])).await.unwrap();
            }
        }
        // This key is deleted last, so its tombstone is far from its versions in the file, which must not outlive it.
        store.txn(Txn::of(vec![Op::delete("key/0000")])).await.unwrap();
        let expected = image(&store);
        let other = store.clone();
        let then = || {
            let writing = async {
                other.txn(Txn::of(vec![Op::put("late", ""), Op::delete("key/0001")])).await.unwrap();
                other.compact(other.revision()).await.unwrap();
            };
            let mut writing = std::pin::pin!(writing);
            // In memory, compaction only yields; it never waits.
            assert!((0..10_000).any(|_| writing.as_mut().now_or_never().is_some()));
        };
        let mut to = InterruptingWriter { inner: Cursor::default(), then: Some(then) };
        let info = store.snapshot(&mut to).unwrap();
        assert_eq!(info.revision, store.revision().previous());
        assert!(to.inner.into_inner() == expected);
        // The delayed removals are done now.
        assert!(contents(image(&store))[layout::KEY].len() < 60);
    });
}

#[test]
fn a_closed_store_refuses_snapshots() {
    block_on(async {
        let store = memory().await;
        store.close().await;
        assert!(matches!(store.snapshot(&mut Cursor::new(Vec::new())), Err(SnapshotError::Stopped(_))));
    });
}
