//! The demand for seats of one priority level over time: integrated between two adjustments of the limits, and
//! smoothed over several. Pure; the time is an argument.

use std::time::Duration;

/// How much of the smoothed demand remains after one adjustment: half of it after five minutes, as in
/// Kubernetes.
const SMOOTHING: f64 = 0.977;

/// Demand in seats that counts as none. Without this bound a demand that has ended would become smaller for
/// days, and each adjustment would divide the seats again.
const NO_DEMAND: f64 = 1e-6;

/// Integrates a number of seats over time.
#[derive(Clone, Debug, Default)]
pub(super) struct SeatIntegrator {
    seats: f64,
    began: Duration,
    updated: Duration,
    area: f64,
    area_of_squares: f64,
    highest: f64,
}

/// Statistics of the seats since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ObservedSeats {
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) highest: f64,
}

impl SeatIntegrator {
    /// Sets the number of seats from `now` on.
    pub(super) fn set(&mut self, now: Duration, seats: u64) {
        self.integrate(now);
        self.seats = seats as f64;
        self.highest = self.highest.max(self.seats);
    }

    /// The statistics since the last reset; the next period begins `now`.
    pub(super) fn reset(&mut self, now: Duration) -> ObservedSeats {
        self.integrate(now);
        let length = now.saturating_sub(self.began).as_secs_f64();
        let (average, square) = match length > 0.0 {
            true => (self.area / length, self.area_of_squares / length),
            false => (self.seats, self.seats * self.seats),
        };
        let deviation = (square - average * average).max(0.0).sqrt();
        let observed = ObservedSeats { average, deviation, highest: self.highest };
        (self.began, self.area, self.area_of_squares, self.highest) = (now, 0.0, 0.0, self.seats);
        observed
    }

    fn integrate(&mut self, now: Duration) {
        let length = now.saturating_sub(self.updated).as_secs_f64();
        self.area += self.seats * length;
        self.area_of_squares += self.seats * self.seats * length;
        self.updated = self.updated.max(now);
    }
}

/// The demand of a level as the last adjustment saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SeatDemand {
    pub(super) observed: ObservedSeats,
    /// A demand that rises at once with the average plus one standard deviation, and falls slowly.
    pub(super) smoothed: f64,
}

impl SeatDemand {
    /// Adds the statistics of one more period. Returns whether the demand changed.
    pub(super) fn update(&mut self, observed: ObservedSeats) -> bool {
        let envelope = observed.average + observed.deviation;
        let decayed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope;
        let smoothed = envelope.max(decayed);
        let new = Self { observed, smoothed: if smoothed < NO_DEMAND { 0.0 } else { smoothed } };
        let has_changed = *self != new;
        *self = new;
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_and_deviation_weigh_each_number_by_its_time() {
        let mut seats = SeatIntegrator::default();
        seats.set(Duration::from_secs(0), 4);
        seats.set(Duration::from_secs(5), 8);
        seats.set(Duration::from_secs(5), 9);
        seats.set(Duration::from_secs(5), 8);
        let first = seats.reset(Duration::from_secs(10));
        assert_eq!(first, ObservedSeats { average: 6.0, deviation: 2.0, highest: 9.0 });
        let second = seats.reset(Duration::from_secs(20));
        assert_eq!(second, ObservedSeats { average: 8.0, deviation: 0.0, highest: 8.0 });
    }

    #[test]
    fn smoothed_demand_rises_at_once_and_halves_in_five_minutes() {
        let mut demand = SeatDemand::default();
        assert!(demand.update(ObservedSeats { average: 90.0, deviation: 10.0, highest: 120.0 }));
        assert!((demand.smoothed - 100.0).abs() < 1e-9);
        for _ in 0..30 {
            demand.update(ObservedSeats::default());
        }
        assert!((49.0..51.0).contains(&demand.smoothed), "{}", demand.smoothed);
    }

    #[test]
    fn demand_that_has_ended_becomes_none_within_three_hours_and_changes_no_more() {
        let mut demand = SeatDemand::default();
        demand.update(ObservedSeats { average: 600.0, deviation: 0.0, highest: 600.0 });
        let periods = (0..1_000).take_while(|_| demand.update(ObservedSeats::default())).count();
        assert!((500..1_000).contains(&periods), "{periods}");
        assert_eq!(demand, SeatDemand::default());
    }
}
