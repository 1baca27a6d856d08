//! The fields of the lease as client-go's `leaderelection` writes and reads them: explicit records and the
//! resulting actions.

use super::*;

const US: i64 = 1_767_225_600_123_456;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_microsecond(US + seconds * 1_000_000).unwrap()
}

fn theirs(holder: &str, seconds: u64, transitions: u32) -> LeaseRecord {
    let duration = Duration::from_secs(seconds);
    LeaseRecord { holder: holder.into(), duration, acquired: at(-100), renewed: at(-2), transitions }
}

fn candidate() -> Candidate {
    Candidate::new(&ElectorOptions::new("ours"))
}

fn record(acquired: i64, renewed: i64, transitions: u32) -> LeaseRecord {
    LeaseRecord {
        holder: "ours".into(),
        duration: Duration::from_secs(15),
        acquired: at(acquired),
        renewed: at(renewed),
        transitions,
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_lease_record_has_no_transitions() {
    let mut candidate = candidate();
    candidate.saw(None, Instant::now());
    assert_eq!(candidate.next(at(0), Instant::now()), LeaseAction::Create(record(0, 0, 0)));
}

/// L4: renewals change neither acquireTime nor transitions.
#[tokio::test(start_paused = true)]
async fn a_renewal_changes_only_the_renew_time() {
    let (mut candidate, now) = (candidate(), Instant::now());
    candidate.wrote(record(0, 0, 3), Revision(7), now);
    let later = now + Duration::from_secs(2);
    assert_eq!(candidate.next(at(2), later), LeaseAction::Replace(record(0, 2, 3), Revision(7)));
    // A wall clock that was set back or stands still: waiting candidates must still see the record change.
    assert_eq!(candidate.next(at(-50), later), LeaseAction::Replace(record(0, 2, 3), Revision(7)));
}

#[tokio::test(start_paused = true)]
async fn candidates_respect_the_holders_lease_duration() {
    let (mut candidate, now) = (candidate(), Instant::now());
    candidate.saw(Some((theirs("go", 4, 5), Revision(7))), now);
    let expired = now + Duration::from_secs(4);
    assert_eq!(candidate.next(at(0), expired - Duration::from_millis(1)), LeaseAction::Wait);
    // A changed label: a new revision, but no renewal.
    candidate.saw(Some((theirs("go", 4, 5), Revision(8))), now + Duration::from_secs(3));
    assert_eq!(candidate.next(at(0), expired), LeaseAction::Replace(record(0, 0, 6), Revision(8)));
    // A renewal: the lease duration counts from the observation, not from its renewTime.
    let renewed = LeaseRecord { renewed: at(-1), ..theirs("go", 4, 5) };
    candidate.saw(Some((renewed, Revision(9))), expired);
    assert_eq!(candidate.next(at(0), expired), LeaseAction::Wait);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_acquired_at_once_with_the_next_transition() {
    let (mut candidate, now) = (candidate(), Instant::now());
    candidate.saw(Some((theirs("", 1, 5), Revision(7))), now);
    assert_eq!(candidate.next(at(0), now), LeaseAction::Replace(record(0, 0, 6), Revision(7)));
}

#[tokio::test(start_paused = true)]
async fn a_release_writes_no_holder_and_keeps_the_transitions() {
    let mut candidate = candidate();
    candidate.wrote(record(0, 8, 3), Revision(7), Instant::now());
    let release_record =
        LeaseRecord { holder: String::new(), duration: Duration::from_secs(1), ..record(9, 9, 3) };
    assert_eq!(candidate.release_record(at(9)), Some((release_record, Revision(7))));
    candidate.saw(Some((theirs("go", 15, 4), Revision(8))), Instant::now());
    assert_eq!(candidate.release_record(at(9)), None, "a candidate releases only its own lease");
}

#[tokio::test(start_paused = true)]
async fn each_term_has_a_unique_number() {
    let (mut candidate, now) = (candidate(), Instant::now());
    // Left from a process with the same identity, or from a lost term: a new term.
    candidate.saw(Some((record(-50, -2, 5), Revision(7))), now);
    let LeaseAction::Replace(attempted, _) = candidate.next(at(0), now) else { panic!("the lease is free") };
    assert_eq!(attempted, record(0, 0, 6));
    // The own attempt was stored and its response lost: still the same term.
    candidate.attempts(&attempted);
    candidate.saw(Some((attempted, Revision(8))), now);
    assert_eq!(candidate.next(at(0), now), LeaseAction::Replace(record(0, 0, 6), Revision(8)));
    // Deleted during the term: written again unchanged. Deleted afterwards: the transitions continue.
    candidate.wrote(record(0, 0, 6), Revision(9), now);
    candidate.saw(None, now);
    assert_eq!(candidate.next(at(1), now), LeaseAction::Create(record(0, 1, 6)));
    candidate.resign();
    assert_eq!(candidate.next(at(2), now), LeaseAction::Create(record(2, 2, 7)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_reads_another_term_has_lost_the_lease() {
    let (mut candidate, now) = (candidate(), Instant::now());
    candidate.wrote(record(0, 0, 3), Revision(7), now);
    for other in [theirs("go", 15, 4), theirs("", 1, 3), record(0, 0, 5)] {
        candidate.saw(Some((other, Revision(8))), now);
        assert_eq!(candidate.next(at(1), now), LeaseAction::Lost);
    }
}
