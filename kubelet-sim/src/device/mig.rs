//! MIG devices: the parts into which NVIDIA's GPUs can be divided, and what each takes of its GPU.

use std::collections::BTreeMap;

/// Memory slices of a GPU.
const MEMORY_SLICES: u32 = 8;

/// How GPUs of one architecture are divided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MigFamily {
    /// The profiles; the last one is the whole GPU.
    profiles: [MigProfile; 6],
}

/// A form of MIG devices.
#[derive(Debug, PartialEq, Eq)]
struct MigProfile {
    /// The number by which NVIDIA's driver knows the profile.
    id: u32,
    /// Compute slices: the number before `g`.
    compute: u32,
    /// Memory slices.
    slices: u32,
    /// The memory slices at which a device may begin.
    starts: &'static [u32],
    /// Multiprocessors, copy engines, decoders, JPEG engines, optical flow accelerators.
    engines: [u64; 5],
}

/// The names of [`MigProfile::engines`] as counters.
const ENGINES: [&str; 5] = ["multiprocessors", "copy-engines", "decoders", "jpeg-engines", "ofa-engines"];
/// The same names as capacities.
const CAPACITIES: [&str; 5] = ["multiprocessors", "copyEngines", "decoders", "jpegEngines", "ofaEngines"];

const fn row(
    (id, compute, slices): (u32, u32, u32),
    starts: &'static [u32],
    engines: [u64; 5],
) -> MigProfile {
    MigProfile { id, compute, slices, starts, engines }
}

/// GPUs such as the A100.
pub(crate) const AMPERE: MigFamily = MigFamily {
    profiles: [
        row((19, 1, 1), &[0, 1, 2, 3, 4, 5, 6], [14, 1, 0, 0, 0]),
        row((15, 1, 2), &[0, 2, 4, 6], [14, 1, 1, 0, 0]),
        row((14, 2, 2), &[0, 2, 4], [28, 2, 1, 0, 0]),
        row((9, 3, 4), &[0, 4], [42, 3, 2, 0, 0]),
        row((5, 4, 4), &[0], [56, 4, 2, 0, 0]),
        row((0, 7, 8), &[0], [98, 7, 5, 1, 1]),
    ],
};

/// GPUs such as the H100.
pub(crate) const HOPPER: MigFamily = MigFamily {
    profiles: [
        row((19, 1, 1), &[0, 1, 2, 3, 4, 5, 6], [16, 1, 1, 1, 0]),
        row((15, 1, 2), &[0, 2, 4, 6], [26, 1, 1, 1, 0]),
        row((14, 2, 2), &[0, 2, 4], [32, 2, 2, 2, 0]),
        row((9, 3, 4), &[0, 4], [60, 3, 3, 3, 0]),
        row((5, 4, 4), &[0], [64, 4, 4, 4, 0]),
        row((0, 7, 8), &[0], [132, 8, 7, 7, 1]),
    ],
};

/// A device that a GPU can be divided into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MigDevice {
    /// The profile's name, such as `1g.5gb`.
    pub(crate) profile: String,
    /// The profile's number and the first memory slice, which make its name unique on the GPU.
    pub(crate) place: (u32, u32),
    /// What it has, by the names of capacities; memory is apart.
    pub(crate) capacity: BTreeMap<&'static str, u64>,
    /// Memory in MiB.
    pub(crate) memory: u64,
    /// What it takes of the counters of its GPU.
    pub(crate) counters: BTreeMap<String, u64>,
}

impl MigFamily {
    /// All devices of a GPU with this memory in MiB, smallest first. `gigabytes` are in the names of the profiles.
    pub(crate) fn devices(&self, gigabytes: &[u32; 6], memory: u64) -> Vec<MigDevice> {
        let mut all = Vec::new();
        for (profile, gigabytes) in self.profiles.iter().zip(gigabytes) {
            for start in profile.starts {
                let memory = memory * u64::from(profile.slices) / u64::from(MEMORY_SLICES);
                let engines = CAPACITIES.into_iter().zip(profile.engines);
                all.push(MigDevice {
                    profile: format!("{}g.{gigabytes}gb", profile.compute),
                    place: (profile.id, *start),
                    capacity: engines.filter(|(_, amount)| *amount > 0).collect(),
                    memory,
                    counters: profile.counters(*start),
                });
            }
        }
        all
    }

    /// The counters of a whole GPU.
    pub(crate) fn counters(&self) -> BTreeMap<String, u64> {
        self.profiles[self.profiles.len() - 1].counters(0)
    }
}

impl MigProfile {
    /// What a device takes whose memory begins at this slice.
    fn counters(&self, start: u32) -> BTreeMap<String, u64> {
        let engines = ENGINES.into_iter().zip(self.engines).filter(|(_, amount)| *amount > 0);
        let engines = engines.map(|(name, amount)| (name.to_owned(), amount));
        let memory = (start..start + self.slices).map(|slice| (format!("memory-slice-{slice}"), 1));
        engines.chain(memory).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the devices with these profiles and places fit into one GPU together.
    fn fit(family: &MigFamily, gigabytes: &[u32; 6], wanted: &[(&str, u32)]) -> bool {
        let all = family.devices(gigabytes, 81_920);
        let mut left = family.counters();
        wanted.iter().all(|(profile, start)| {
            let device = all.iter().find(|one| one.profile == *profile && one.place.1 == *start).unwrap();
            device.counters.iter().all(|(name, amount)| {
                let rest = left.get_mut(name).unwrap();
                let is_enough = *rest >= *amount;
                *rest = rest.saturating_sub(*amount);
                is_enough
            })
        })
    }

    #[test]
    fn the_combinations_that_nvidia_lists_fit_and_others_do_not() {
        for family in [&AMPERE, &HOPPER] {
            let names = &[5, 10, 10, 20, 20, 40];
            let fits = |wanted: &[(&str, u32)]| fit(family, names, wanted);
            let seven: Vec<_> = (0..7).map(|start| ("1g.5gb", start)).collect();
            assert!(fits(&seven));
            assert!(fits(&[("4g.20gb", 0), ("3g.20gb", 4)]) && fits(&[("3g.20gb", 0), ("3g.20gb", 4)]));
            assert!(fits(&[("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4), ("1g.5gb", 6)]));
            assert!(!fits(&[("7g.40gb", 0), ("1g.5gb", 0)]));
            assert!(!fits(&[("4g.20gb", 0), ("3g.20gb", 0)]));
            assert!(!fits(&[("1g.5gb", 3), ("1g.5gb", 3)]));
            assert_eq!(family.devices(names, 81_920).len(), 7 + 4 + 3 + 2 + 1 + 1);
        }
    }
}
