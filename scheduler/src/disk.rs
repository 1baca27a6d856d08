//! Disks that a pod names in its own spec (in-tree volumes). Most of them can be in use by one pod of a node
//! only.

/// A disk that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The kind and identity of the disk.
    pub kind: DiskKind,
    /// Whether the pod only reads it.
    pub is_read_only: bool,
}

/// The kind and identity of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// A GCE persistent disk, by name.
    Gce(String),
    /// An AWS EBS volume, by id.
    Aws(String),
    /// An iSCSI target, by its qualified name.
    Iscsi(String),
    /// A Ceph RBD image.
    Rbd {
        /// The monitor addresses of the Ceph cluster. Clusters with a common monitor are the same cluster.
        monitors: Vec<String>,
        /// The pool of the image.
        pool: String,
        /// The name of the image.
        image: String,
    },
}

impl Disk {
    /// Whether two pods on one node cannot use these disks: the disks are the same, and at least one pod
    /// writes. Two pods cannot even read one EBS volume.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let both_read = self.is_read_only && other.is_read_only;
        match (&self.kind, &other.kind) {
            (DiskKind::Aws(a), DiskKind::Aws(b)) => a == b,
            (DiskKind::Gce(a), DiskKind::Gce(b)) | (DiskKind::Iscsi(a), DiskKind::Iscsi(b)) => {
                a == b && !both_read
            }
            (
                DiskKind::Rbd { monitors, pool, image },
                DiskKind::Rbd { monitors: monitors_b, pool: pool_b, image: image_b },
            ) => {
                let share = monitors.iter().any(|monitor| monitors_b.contains(monitor));
                share && pool == pool_b && image == image_b && !both_read
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_conflict_when_they_are_the_same_and_one_pod_writes() {
        let gce = |name: &str| DiskKind::Gce(name.into());
        let rbd = |monitor: &str, image: &str| DiskKind::Rbd {
            monitors: vec!["m0".into(), monitor.into()],
            pool: "rbd".into(),
            image: image.into(),
        };
        let other_cluster =
            DiskKind::Rbd { monitors: vec!["x".into()], pool: "rbd".into(), image: "i".into() };
        let cases = [
            (gce("a"), gce("a"), true, false),
            (gce("a"), gce("b"), false, false),
            (DiskKind::Iscsi("a".into()), DiskKind::Iscsi("a".into()), true, false),
            (DiskKind::Iscsi("a".into()), gce("a"), false, false),
            (DiskKind::Aws("a".into()), DiskKind::Aws("a".into()), true, true),
            (DiskKind::Aws("a".into()), DiskKind::Aws("b".into()), false, false),
            (rbd("m1", "i"), rbd("m2", "i"), true, false),
            (rbd("m1", "i"), rbd("m1", "j"), false, false),
            (rbd("m1", "i"), other_cluster, false, false),
        ];
        for (a, b, written, read) in cases {
            let disk = |kind: &DiskKind, is_read_only| Disk { kind: kind.clone(), is_read_only };
            assert_eq!(disk(&a, false).conflicts_with(&disk(&b, true)), written, "{a:?} {b:?}");
            assert_eq!(disk(&b, true).conflicts_with(&disk(&a, true)), read, "{a:?} {b:?}");
        }
    }
}
