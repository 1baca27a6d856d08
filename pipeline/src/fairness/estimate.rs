//! The work of a request in seats and time, estimated before it runs, as in Kubernetes. Pure.

use std::time::Duration;

/// Objects of a list for one seat.
const OBJECTS_PER_SEAT: u64 = 100;
/// Requirements of selectors that an object is compared with at the cost of reading it.
const REQUIREMENTS_PER_OBJECT: u64 = 10;
/// Watchers of a written object for one seat.
const WATCHERS_PER_SEAT: u64 = 10;
/// How long the delivery of a write's event occupies each of its seats.
const EVENT_TIME: Duration = Duration::from_millis(5);
/// The most seats of one request.
const SEATS_MAX: u32 = 10;
/// The largest part of a level's nominal seats that one request may occupy.
const LEVEL_PART: f64 = 0.15;

/// The seats that a request occupies: some while it runs, and some while watchers receive its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Seats while the request runs.
    pub seats: u32,
    /// Seats after it has run.
    pub final_seats: u32,
    /// How long it occupies the final seats.
    pub extra: Duration,
}

impl Work {
    /// A request with this many seats and without further work.
    pub const fn of(seats: u32) -> Self {
        Self { seats, final_seats: 0, extra: Duration::ZERO }
    }

    /// The seats that the request occupies at any time.
    pub(super) fn widest(&self) -> u32 {
        self.seats.max(self.final_seats).max(1)
    }

    /// Seat-seconds after the request has run.
    pub(super) fn extra_work(&self) -> f64 {
        f64::from(self.final_seats) * self.extra.as_secs_f64()
    }
}

/// Facts about a list, or about the initial state of a watch, that determine its work.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListFacts {
    /// Objects of the kind.
    pub stored: u64,
    /// The most objects in the answer; 0: no limit.
    pub limit: u64,
    /// Whether the list reads one object by its name.
    pub is_single: bool,
    /// Whether selectors choose among the objects.
    pub has_selector: bool,
    /// Values that each object is compared with.
    pub requirements: u64,
    /// Whether the list reads history instead of the watch cache.
    pub reads_history: bool,
}

/// The most seats of one request in a level with this many nominal seats.
fn most(nominal: u32) -> u32 {
    super::borrowing::whole((f64::from(nominal) * LEVEL_PART).ceil()).clamp(1, SEATS_MAX)
}

/// The work of a list.
pub fn list(facts: ListFacts, nominal: u32) -> Work {
    let limited = if facts.limit == 0 { facts.stored } else { facts.limit.min(facts.stored) };
    let read = match facts {
        ListFacts { is_single: true, .. } => 1,
        ListFacts { reads_history: true, has_selector: true, .. } => facts.stored + limited,
        ListFacts { reads_history: true, .. } => 2 * limited,
        // Without selectors the cache stops at the limit; with selectors it may look at all objects.
        ListFacts { has_selector: true, .. } => facts.stored,
        ListFacts { .. } => limited,
    };
    let read = read.saturating_mul(1 + facts.requirements / REQUIREMENTS_PER_OBJECT);
    let seats = u32::try_from(read.div_ceil(OBJECTS_PER_SEAT)).unwrap_or(u32::MAX);
    Work::of(seats.clamp(1, most(nominal)))
}

/// The work of a write to an object with this many watchers. More watchers than the most seats make the work
/// longer instead of wider.
pub fn write(watchers: u64, nominal: u32) -> Work {
    if watchers < WATCHERS_PER_SEAT {
        return Work::of(1);
    }
    let wide = u32::try_from(watchers.div_ceil(WATCHERS_PER_SEAT)).unwrap_or(u32::MAX);
    let final_seats = wide.min(most(nominal));
    let extra = EVENT_TIME.mul_f64(f64::from(wide) / f64::from(final_seats));
    Work { seats: 1, final_seats, extra }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_takes_a_seat_for_each_hundred_objects_that_it_reads() {
        let all = ListFacts { stored: 750, ..ListFacts::default() };
        let table = [
            ("all objects", all, 8),
            ("no objects", ListFacts { stored: 0, ..all }, 1),
            ("a page", ListFacts { limit: 250, ..all }, 3),
            ("a page that is longer than the list", ListFacts { limit: 5000, ..all }, 8),
            ("a page of selected objects", ListFacts { limit: 1, has_selector: true, ..all }, 8),
            ("one object by its name", ListFacts { is_single: true, has_selector: true, ..all }, 1),
            ("a page of history", ListFacts { limit: 250, reads_history: true, ..all }, 5),
            (
                "few objects and many requirements",
                ListFacts { stored: 50, requirements: 95, has_selector: true, ..all },
                5,
            ),
            ("very many objects", ListFacts { stored: u64::MAX / 4, ..all }, 10),
        ];
        for (what, facts, seats) in table {
            assert_eq!(list(facts, 600), Work::of(seats), "{what}");
        }
        let small_levels = [0, 6, 7, 13, 49].map(|nominal| list(all, nominal).seats);
        assert_eq!(small_levels, [1, 1, 2, 2, 8]);
    }

    #[test]
    fn a_write_to_a_watched_object_occupies_seats_after_it_has_run() {
        assert_eq!(write(9, 600), Work::of(1));
        let ms = Duration::from_millis;
        assert_eq!(write(10, 600), Work { seats: 1, final_seats: 1, extra: ms(5) });
        assert_eq!(write(41, 600), Work { seats: 1, final_seats: 5, extra: ms(5) });
        assert_eq!(write(1000, 600), Work { seats: 1, final_seats: 10, extra: ms(50) });
        assert_eq!(write(1000, 0), Work { seats: 1, final_seats: 1, extra: ms(500) });
    }
}
