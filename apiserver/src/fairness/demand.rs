//! The demand for seats of one priority level over time: integrated between two adjustments of the limits, and
//! smoothed over several. Pure; the time is an argument.

use std::time::Duration;

/// How much of the smoothed demand remains after one adjustment: half of it after five minutes, as in
/// Kubernetes.
const SMOOTHING: f64 = 0.977;

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
    /// Adds the statistics of one more period.
    pub(super) fn update(&mut self, observed: ObservedSeats) {
        let envelope = observed.average + observed.deviation;
        let decayed = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope;
        *self = Self { observed, smoothed: envelope.max(decayed) };
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
        demand.update(ObservedSeats { average: 90.0, deviation: 10.0, highest: 120.0 });
        assert!((demand.smoothed - 100.0).abs() < 1e-9);
        (0..30).for_each(|_| demand.update(ObservedSeats::default()));
        assert!((49.0..51.0).contains(&demand.smoothed), "{}", demand.smoothed);
    }
}
