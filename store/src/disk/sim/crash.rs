//! Simulated crashes: which unsynced changes survive.

use super::SECTOR;
use super::state::{Dir, DiskState, Inode, Names, Write, apply, is_root};
use kstore_nondet::Rng;
use std::collections::BTreeMap;

/// Which unsynced writes and unsynced changes of names survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashPolicy {
    /// No unsynced changes survive.
    Nothing,
    /// All unsynced changes survive.
    Everything,
    /// The unsynced changes before some moment survive, independently per file and directory.
    Prefix,
    /// A random subset survives, each write as a whole.
    Subset,
    /// A random subset survives, and overlapping writes may take effect in another order.
    Reordered,
    /// Some sectors of each write survive. Where a file grew around a lost sector, it has arbitrary content. Names
    /// survive as in [`CrashPolicy::Prefix`].
    Torn,
}

impl CrashPolicy {
    pub(crate) const ALL: [Self; 6] =
        [Self::Nothing, Self::Everything, Self::Prefix, Self::Subset, Self::Reordered, Self::Torn];

    /// The surviving changes, in the order in which they take effect.
    fn survivors<'a, T>(self, pending: &'a [T], rng: &Rng) -> Vec<&'a T> {
        let prefix = |rng: &Rng| pending[..rng.below(pending.len() as u64 + 1) as usize].iter().collect();
        let subset = |rng: &Rng| pending.iter().filter(|_| rng.below(2) == 0).collect::<Vec<_>>();
        match self {
            Self::Nothing => Vec::new(),
            Self::Everything => pending.iter().collect(),
            Self::Prefix | Self::Torn => prefix(rng),
            Self::Subset => subset(rng),
            Self::Reordered => {
                let mut some = subset(rng);
                for at in (1..some.len()).rev() {
                    some.swap(at, rng.below(at as u64 + 1) as usize);
                }
                some
            }
        }
    }
}

impl DiskState {
    pub(super) fn after_crash(&self, policy: CrashPolicy, rng: &Rng) -> Self {
        let inodes = self.inodes.iter().map(|inode| {
            let image = inode.after_crash(policy, rng);
            Inode {
                name: inode.name.clone(),
                before: inode.before().to_vec(),
                durable: image.clone(),
                cache: image,
                pending: Vec::new(),
            }
        });
        let inodes = inodes.collect();
        let mut dirs = BTreeMap::new();
        // A directory follows its parent in the map, and is lost with it.
        for (path, dir) in &self.dirs {
            let is_kept = dir.is_durable || !policy.survivors(&[()], rng).is_empty();
            let above = path.parent().is_none_or(|above| is_root(above) || dirs.contains_key(above));
            if is_kept && above {
                let names = dir.after_crash(policy, rng);
                let dir = Dir { is_durable: true, durable: names.clone(), pending: Vec::new(), cache: names };
                dirs.insert(path.clone(), dir);
            }
        }
        Self { inodes, dirs, capacity: self.capacity, ..Self::default() }
    }
}

impl Inode {
    fn after_crash(&self, policy: CrashPolicy, rng: &Rng) -> Vec<u8> {
        let mut image = self.durable.clone();
        if policy == CrashPolicy::Torn {
            self.pending.iter().for_each(|write| tear(&mut image, write, self.durable.len(), rng));
        } else {
            policy.survivors(&self.pending, rng).into_iter().for_each(|write| apply(&mut image, write));
        }
        image
    }
}

/// Applies some sectors of a write. Sector boundaries are positions on the disk, not in the write.
pub(super) fn tear(image: &mut Vec<u8>, write: &Write, durable: usize, rng: &Rng) {
    let end = write.offset + write.bytes.len();
    let mut at = write.offset;
    while at < end {
        let next = end.min((at / SECTOR + 1) * SECTOR);
        let bytes = match rng.below(8) {
            0..4 => write.bytes[at - write.offset..next - write.offset].to_vec(),
            // The file system allocated a block and recorded the length, but did not write the block.
            4 if at >= durable => (at..next).map(|_| rng.next_u64() as u8).collect(),
            _ => Vec::new(),
        };
        apply(image, &Write { offset: at, bytes });
        at = next;
    }
}

impl Dir {
    fn after_crash(&self, policy: CrashPolicy, rng: &Rng) -> Names {
        let mut names = self.durable.clone();
        policy.survivors(&self.pending, rng).into_iter().for_each(|change| change.apply(&mut names));
        names
    }
}
