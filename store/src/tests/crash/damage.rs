//! Bytes that rot, sectors that are stale or strayed, writes that a disk confirms and forgets: what was durable is there,
//! or the store says that it is not; it never serves anything else. The one thing no log can tell from a torn end is damage
//! in its very last group, unless it was closed in order.

use super::machine::{Life, Machine, Setup};
use super::workload::{Step, churn, everything};
use crate::OpenError;
use crate::disk::sim::{Fault, Policy, SECTOR, Verb};
use crate::tests::conformance::block_on;
use crate::tests::model::Model;

/// What came of damage.
#[derive(Default)]
struct Tally {
    right: usize,
    refused: usize,
}

impl Tally {
    /// What the life answered must be there (but for the last `slack` steps), or the store must refuse.
    async fn judge(
        &mut self,
        machine: &Machine,
        steps: &[Step],
        life: &Life,
        slack: usize,
    ) -> Result<(), String> {
        match machine.open(7) {
            Err(OpenError::Damaged { .. } | OpenError::EngineLost { .. } | OpenError::Io { .. }) => {
                self.refused += 1;
                return Ok(());
            }
            // A manifest that does not check may also look as if it were not ours.
            Err(OpenError::Foreign { .. }) => {
                self.refused += 1;
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
            Ok(store) => drop(store),
        }
        self.right += 1;
        let mut outcome = Err(String::new());
        for answered in (life.answered.saturating_sub(slack)..=life.answered).rev() {
            outcome =
                machine.judge(steps, &Model::new(), &Life { answered, ..Life::default() }).await.map(drop);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn saw_both(&self) {
        assert!(self.right > 5 && self.refused > 5, "{} right, {} refused", self.right, self.refused);
    }
}

/// A machine after the workload, closed in order or killed.
fn after(setup: Setup, steps: &[Step], closed: bool) -> (Machine, Life) {
    let mut steps = steps.to_vec();
    if closed {
        steps.push(Step::Reopen);
    }
    let machine = setup.machine();
    let life = machine.run(&steps, Model::new());
    assert!(life.whole);
    (machine.crash(Policy::Everything, 1), Life { answered: life.answered - usize::from(closed), ..life })
}

/// All files with their lengths.
fn files(machine: &Machine) -> Vec<(std::path::PathBuf, usize)> {
    let dirs = ["/data", "/data/wal", "/data/engine"].map(std::path::Path::new);
    let files = dirs.into_iter().flat_map(|dir| {
        let files = machine.disk.files(dir);
        files.into_iter().map(move |(name, len)| (dir.join(name), len))
    });
    files.collect()
}

/// Does every damage to a copy of the machine, and judges.
async fn each(
    (machine, life): &(Machine, Life),
    steps: &[Step],
    slack: usize,
    damages: impl Iterator<Item = (std::path::PathBuf, usize, Vec<u8>)>,
) -> Tally {
    let mut tally = Tally::default();
    for (path, at, bytes) in damages {
        let copy = machine.crash(Policy::Everything, 1);
        copy.disk.overwrite(&path, at, &bytes);
        if let Err(error) = tally.judge(&copy, steps, life, slack).await {
            panic!("{} bytes at {at} of {}: {error}", bytes.len(), path.display());
        }
    }
    tally
}

#[test]
fn a_flipped_bit_anywhere_is_made_up_for_or_refused() {
    block_on(async {
        for (steps, closed) in [(everything(), true), (everything(), false), (churn(), true)] {
            let machine = after(Setup::OFTEN, &steps, closed);
            // Every byte would take too long: this meets each kind of field in each file.
            let places = files(&machine.0).into_iter().flat_map(|(path, len)| {
                let content = machine.0.disk.content(&path);
                let wanted = (0..len).filter(move |at| content[*at] != 0 || at % 64 == 0).step_by(5);
                wanted.map(move |at| (path.clone(), at))
            });
            let flips = places.map(|(path, at)| {
                let byte = machine.0.disk.content(&path)[at] ^ (1 << (at % 8));
                (path, at, vec![byte])
            });
            let slack = usize::from(!closed);
            each(&machine, &steps, slack, flips).await.saw_both();
        }
    });
}

#[test]
fn a_sector_that_strayed_or_was_never_written_is_made_up_for_or_refused() {
    block_on(async {
        let steps = everything();
        let machine = after(Setup::OFTEN, &steps, true);
        let sectors: Vec<_> = files(&machine.0)
            .into_iter()
            .flat_map(|(path, len)| (0..len).step_by(SECTOR).map(move |at| (path.clone(), at)))
            .collect();
        let content = |(path, at): &(std::path::PathBuf, usize)| {
            let content = machine.0.disk.content(path);
            content[*at..content.len().min(at + SECTOR)].to_vec()
        };
        let others = sectors.iter().cycle().skip(sectors.len() / 3);
        let strayed =
            sectors.iter().zip(others).map(|((path, at), other)| (path.clone(), *at, content(other)));
        let empty = sectors.iter().map(|(path, at)| (path.clone(), *at, vec![0; SECTOR]));
        each(&machine, &steps, 0, strayed.chain(empty)).await.saw_both();
    });
}

#[test]
fn a_read_that_fails_flips_or_is_stale_spoils_nothing() {
    block_on(async {
        for steps in [everything(), churn()] {
            let (machine, life) = after(Setup::OFTEN, &steps, true);
            let reads = {
                let copy = machine.crash(Policy::Everything, 1);
                drop(copy.open(7).unwrap());
                copy.disk.reads()
            };
            assert!(reads > 3, "{reads}");
            for at in 0..reads {
                for fault in [Fault::ReadErrorAt(at), Fault::FlippedAt(at), Fault::StaleAt(at)] {
                    let copy = machine.crash(Policy::Everything, 1);
                    copy.disk.set_fault(Some(fault));
                    drop(copy.open(7));
                    copy.disk.set_fault(None);
                    let judged = copy.judge(&steps, &Model::new(), &life).await;
                    judged.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
                }
            }
        }
    });
}

#[test]
fn a_write_that_the_disk_forgets_or_misplaces_is_made_up_for_or_refused() {
    block_on(async {
        let (steps, mut tally) = (everything(), Tally::default());
        let log = {
            let machine = Setup::OFTEN.machine();
            machine.run(&steps, Model::new());
            machine.disk.log()
        };
        for (at, operation) in (0..).zip(&log) {
            if operation.verb != Verb::Write {
                continue;
            }
            for fault in [Fault::LostAt(at), Fault::MisdirectedAt(at)] {
                let machine = Setup::OFTEN.failing(fault);
                let life = machine.run(&steps, Model::new());
                let after = machine.crash(Policy::Nothing, at);
                // The one that got lost may be the last; so may the one whose loss ended the life.
                if let Err(error) = tally.judge(&after, &steps, &life, 1).await {
                    panic!("{fault:?}, {operation}: {error}");
                }
            }
        }
        tally.saw_both();
    });
}

/// An older state of the engine had to do, and the log no longer reached what the newest had: acknowledged writes were
/// missing, and nobody was told.
#[test]
fn a_log_that_ends_before_what_was_checkpointed_is_refused_also_with_an_older_state_of_the_engine() {
    let setup = Setup::Stub(crate::engine::stub::Malice { lies: true, ..Default::default() });
    block_on(async {
        let (steps, mut refused) = (everything(), 0);
        for upto in 1..=steps.len() {
            let machine = setup.machine();
            let life = machine.run(&steps[..upto], Model::new());
            let machine = machine.crash(Policy::Nothing, 1);
            let Some((name, len)) =
                machine.disk.files(std::path::Path::new("/data/wal")).into_iter().next_back()
            else {
                continue;
            };
            let path = std::path::Path::new("/data/wal").join(name);
            machine.disk.overwrite(&path, crate::codec::frame::SEGMENT_HEADER, &vec![0; len]);
            match machine.open(7) {
                Err(_) => refused += 1,
                Ok(store) => {
                    assert!(store.revision().0 >= life.observed, "{} of {}", store.revision(), life.observed);
                }
            }
        }
        assert!(refused > 2, "{refused}");
    });
}
