//! Feature gates of the control plane programs of Kubernetes, by version: stage, default, whether the default is locked, and the gates
//! that a gate needs. The gates of one server ([`GateSet`]) decide which members of objects it keeps.
//!
//! # Notation of `schema/gates.txt`
//!
//! ```text
//! DRAExtendedResource . A- A- B+ G+L DynamicResourceAllocation
//! ```
//!
//! A line is a gate with a cell for each version of [`Minor::ALL`], and the gates that it needs. A cell is `.` if the version does not
//! know the gate. Otherwise it is the stage (`A`lpha, `B`eta, `G`A, `D`eprecated), the default (`+`, `-`), and `L` for a locked default.

mod set;

use crate::version::Minor;
pub use set::GateSet;
use std::sync::LazyLock;

const FILE: &str = include_str!("../../schema/gates.txt");

/// Maturity of a feature in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default, and may change or go.
    Alpha,
    /// Complete; new ones may be off by default.
    Beta,
    /// Part of the API for good.
    Ga,
    /// To be removed.
    Deprecated,
}

/// A feature gate in one version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Maturity of the feature.
    pub stage: Stage,
    /// Whether the feature is on by default.
    pub is_on: bool,
    /// Whether the default cannot be changed.
    pub is_locked: bool,
    /// Gates that must be on when this one is, separated by spaces.
    pub needs: &'static str,
}

/// One line of the file.
struct Row {
    name: &'static str,
    cells: [&'static str; Minor::ALL.len()],
    needs: &'static str,
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| FILE.lines().filter(|line| !line.starts_with('#')).map(Row::read).collect());

impl Row {
    /// Reads a line. A malformed file is a bug of this crate and panics; a test reads all of it.
    fn read(line: &'static str) -> Self {
        let mut words = line.splitn(2 + Minor::ALL.len(), ' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("incomplete line: {line}"));
        let (name, cells) = (word(), std::array::from_fn(|_| word()));
        Self { name, cells, needs: words.next().unwrap_or_default() }
    }

    fn at(&self, minor: Minor) -> Option<Gate> {
        let mut letters = self.cells[minor as usize].chars();
        let stage = match letters.next()? {
            'A' => Stage::Alpha,
            'B' => Stage::Beta,
            'G' => Stage::Ga,
            'D' => Stage::Deprecated,
            _ => return None,
        };
        let (is_on, is_locked) = (letters.next() == Some('+'), letters.next() == Some('L'));
        Some(Gate { name: self.name, stage, is_on, is_locked, needs: self.needs })
    }
}

/// The gate with this name, if the version knows it.
#[must_use]
pub fn find(minor: Minor, name: &str) -> Option<Gate> {
    let at = ROWS.binary_search_by(|row| row.name.cmp(name)).ok()?;
    ROWS[at].at(minor)
}

/// All gates that the version knows, by name.
pub fn all(minor: Minor) -> impl Iterator<Item = Gate> {
    ROWS.iter().filter_map(move |row| row.at(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_in_order_and_every_cell_is_well_formed() {
        assert!(ROWS.is_sorted_by(|a, b| a.name < b.name));
        for row in ROWS.iter() {
            for (cell, minor) in row.cells.iter().zip(Minor::ALL) {
                let is_known = row.at(minor).is_some();
                let (stage, rest) = cell.split_at(1);
                let is_well_formed = "ABGD".contains(stage) && ["+", "-", "+L", "-L"].contains(&rest);
                assert!(is_known == is_well_formed && (is_known || *cell == "."), "{} {cell}", row.name);
            }
            for need in row.needs.split_whitespace() {
                assert!(ROWS.iter().any(|other| other.name == need), "{} needs {need}", row.name);
            }
        }
    }

    /// The number of gates of each version, and a digest (FNV-1a) of their lines `NAME CELL`, from what Kubernetes states about them.
    const DIGESTS: [(Minor, usize, u64); 5] = [
        (Minor::V33, 187, 0xd9d1_4de1_6302_2414),
        (Minor::V34, 204, 0xaec5_91f6_6645_1ee6),
        (Minor::V35, 216, 0x3a9a_727c_eaa3_672c),
        (Minor::V36, 240, 0x966c_21ed_439d_7d16),
        (Minor::V37, 252, 0x7864_071e_1fb1_f4cb),
    ];

    #[test]
    fn each_version_has_the_gates_of_kubernetes() {
        for (minor, count, expected) in DIGESTS {
            let (mut digest, mut found) = (0xcbf2_9ce4_8422_2325_u64, 0);
            for row in ROWS.iter().filter(|row| row.at(minor).is_some()) {
                found += 1;
                for byte in format!("{} {}\n", row.name, row.cells[minor as usize]).bytes() {
                    digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
            assert_eq!((found, digest), (count, expected), "{minor}: {digest:#x}");
        }
    }

    #[test]
    fn alpha_gates_are_off_and_neither_alpha_nor_beta_is_locked() {
        for gate in Minor::ALL.into_iter().flat_map(all) {
            assert!(gate.stage != Stage::Alpha || !gate.is_on, "{}", gate.name);
            assert!(!gate.is_locked || matches!(gate.stage, Stage::Ga | Stage::Deprecated), "{}", gate.name);
        }
    }

    #[test]
    fn a_gate_has_the_state_of_its_version() {
        let state = |minor, name| find(minor, name).map(|gate| (gate.stage, gate.is_on, gate.is_locked));
        assert_eq!(state(Minor::V33, "EnvFiles"), None);
        assert_eq!(state(Minor::V34, "EnvFiles"), Some((Stage::Alpha, false, false)));
        assert_eq!(state(Minor::V35, "EnvFiles"), Some((Stage::Beta, true, false)));
        assert_eq!(state(Minor::V36, "SidecarContainers"), Some((Stage::Ga, true, true)));
        assert_eq!(state(Minor::V37, "SidecarContainers"), None);
        assert_eq!(find(Minor::V36, "GangScheduling").unwrap().needs, "GenericWorkload");
        assert_eq!(all(Minor::V36).count(), 240, "the gates of the published release");
    }
}
