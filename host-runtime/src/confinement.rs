//! Which users and groups of this machine stand for those of containers.

use crate::limits::{FIRST_ID, IDS};
use serde::{Deserialize, Serialize};

/// The users and groups of a container on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdMap {
    /// The container's root is the user and group of this process. The container has no other.
    Own {
        /// The user of this process.
        user: u32,
        /// The group of this process.
        group: u32,
    },
    /// Ids of the container are ids of this machine that nothing else has: root's is this one, and so on.
    Range {
        /// The first id.
        first: u32,
        /// The number of ids.
        count: u32,
    },
}

impl IdMap {
    /// The map for a process with this user and group, whose own user namespace has the map `uid_map` (as in `/proc/self/uid_map`). Root
    /// uses a range where its namespace has one, so that a program has no right of the machine's root.
    pub fn of(user: u32, group: u32, uid_map: &str) -> Self {
        let has_range = |line: &str| {
            let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
            let (first, _, count) =
                (numbers.next().unwrap_or(0), numbers.next(), numbers.next().unwrap_or(0));
            first <= FIRST_ID.into() && first + count >= u64::from(FIRST_ID) + u64::from(IDS)
        };
        match user == 0 && uid_map.lines().any(has_range) {
            true => Self::Range { first: FIRST_ID, count: IDS },
            false => Self::Own { user, group },
        }
    }

    /// The map for containers whose users are those of this machine.
    pub(crate) fn identity() -> Self {
        Self::Range { first: 0, count: u32::MAX }
    }

    /// The texts of `uid_map` and `gid_map` of a container's namespace.
    pub(crate) fn texts(self) -> [String; 2] {
        match self {
            Self::Own { user, group } => [format!("0 {user} 1"), format!("0 {group} 1")],
            Self::Range { first, count } => [format!("0 {first} {count}"), format!("0 {first} {count}")],
        }
    }

    /// The id on this machine of an id of a container; `None` if no owner is set because all are one.
    pub(crate) fn owner(self, id: u32) -> Option<u32> {
        match self {
            Self::Own { .. } => None,
            Self::Range { first, count } => Some(first + id.min(count - 1)),
        }
    }

    /// Whether containers have the ids that they ask for.
    pub(crate) fn has_ids(self) -> bool {
        matches!(self, Self::Range { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_gives_containers_ids_of_their_own_where_it_has_them() {
        let all = "         0          0 4294967295\n";
        let range = IdMap::Range { first: FIRST_ID, count: IDS };
        assert_eq!(IdMap::of(0, 0, all), range);
        assert_eq!(IdMap::of(0, 0, "0 100000 65536\n"), IdMap::Own { user: 0, group: 0 });
        assert_eq!(IdMap::of(1000, 100, all), IdMap::Own { user: 1000, group: 100 });
        assert_eq!(IdMap::of(1000, 100, all).texts(), ["0 1000 1", "0 100 1"]);
        assert_eq!((range.owner(0), range.owner(u32::MAX)), (Some(1_000_000), Some(1_065_535)));
        assert_eq!(IdMap::of(1000, 100, all).owner(5), None);
    }
}
