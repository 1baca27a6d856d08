//! The seats of priority levels: nominal ones by shares, and how levels with little demand lend seats to
//! others, as in Kubernetes' KEP 1040. Pure.

/// Shares and permissions of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelShares {
    pub(super) shares: u32,
    /// Percent of the nominal seats that other levels may use.
    pub(super) lendable_percent: u32,
    /// Percent of the nominal seats that the level may borrow; `None`: all seats of the server.
    pub(super) borrowing_percent: Option<u32>,
}

/// Bounds of a level's seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeatBounds {
    pub(super) nominal: u32,
    /// The nominal seats without those that the level may lend.
    pub(super) lower: u32,
    /// The nominal seats and those that the level may borrow.
    pub(super) upper: u32,
}

/// The bounds of all levels, whose nominal seats divide `total` seats by shares; fractions are rounded up.
pub(super) fn bounds(total: u32, levels: &[LevelShares]) -> Vec<SeatBounds> {
    let sum: u64 = levels.iter().map(|level| u64::from(level.shares)).sum();
    let percent = |seats: u32, percent: u32| (f64::from(seats) * f64::from(percent) / 100.0).round();
    let bound = |level: &LevelShares| {
        let nominal = (u64::from(total) * u64::from(level.shares)).div_ceil(sum.max(1));
        let nominal = u32::try_from(nominal).unwrap_or(total);
        let borrowed = match level.borrowing_percent {
            Some(limit) => whole(percent(nominal, limit)),
            None => total,
        };
        let lent = whole(percent(nominal, level.lendable_percent)).min(nominal);
        SeatBounds { nominal, lower: nominal - lent, upper: nominal.saturating_add(borrowed) }
    };
    levels.iter().map(bound).collect()
}

/// The seats that a level keeps whatever other levels need: its lower bound, or as many as it needed at most in
/// the last period, up to its nominal seats.
pub(super) fn kept(bounds: SeatBounds, highest_demand: f64) -> f64 {
    highest_demand.min(f64::from(bounds.nominal)).max(f64::from(bounds.lower))
}

/// One level in a division of seats; `least <= wanted`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SeatClaim {
    pub(super) least: f64,
    pub(super) wanted: f64,
    pub(super) most: f64,
}

impl SeatClaim {
    fn seats(&self, fraction: f64) -> f64 {
        (fraction * self.wanted).max(self.least).min(self.most.max(self.least))
    }
}

/// Divides `total` seats. Each level gets the same fraction of what it wants, but at least its least and at
/// most its most. Returns the seats in the order of the claims, and the fraction.
///
/// If the least seats exceed `total`, every level gets its least. If no level can use more, seats remain.
pub(super) fn divide(total: f64, claims: &[SeatClaim]) -> (Vec<f64>, f64) {
    let sum = |fraction: f64| claims.iter().map(|claim| claim.seats(fraction)).sum::<f64>();
    // The sum is constant from the largest of these on: every level that wants something has its most.
    let enough = claims.iter().filter(|claim| claim.wanted > 0.0).map(|claim| claim.most / claim.wanted);
    let (mut low, mut high) = (0.0, enough.fold(1.0, f64::max));
    if sum(high) > total {
        // The sum rises with the fraction, so halving finds the fraction; 64 steps exhaust its precision.
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            if sum(middle) > total { high = middle } else { low = middle }
        }
        high = low;
    }
    (claims.iter().map(|claim| claim.seats(high)).collect(), high)
}

/// A number of seats, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion of floats to integers saturates, and seats are far below the limit"
)]
pub(super) fn whole(seats: f64) -> u32 {
    seats.round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(shares: u32, lendable_percent: u32, borrowing_percent: Option<u32>) -> LevelShares {
        LevelShares { shares, lendable_percent, borrowing_percent }
    }

    #[test]
    fn default_levels_have_the_seats_of_kubernetes() {
        let levels = [(0, 0), (5, 0), (30, 33), (40, 25), (10, 0), (40, 50), (100, 90), (20, 50)];
        let levels = levels.map(|(of, lendable)| shares(of, lendable, None));
        let bounds = bounds(600, &levels);
        let nominal: Vec<u32> = bounds.iter().map(|level| level.nominal).collect();
        assert_eq!(nominal, [0, 13, 74, 98, 25, 98, 245, 49]);
        let lower: Vec<u32> = bounds.iter().map(|level| level.lower).collect();
        assert_eq!(lower, [0, 13, 50, 73, 25, 49, 24, 24]);
        assert!(bounds.iter().all(|level| level.upper == level.nominal + 600));
    }

    #[test]
    fn borrowing_is_limited_by_a_percentage_of_the_nominal_seats() {
        let bounds = bounds(100, &[shares(30, 0, Some(50)), shares(70, 0, Some(0))]);
        assert_eq!(bounds.iter().map(|level| level.upper).collect::<Vec<_>>(), [45, 70]);
    }

    #[test]
    fn a_level_keeps_the_seats_that_it_needed_up_to_its_nominal_ones() {
        let bounds = SeatBounds { nominal: 50, lower: 20, upper: 650 };
        assert_eq!([0.0, 33.0, 400.0].map(|demand| kept(bounds, demand)), [20.0, 33.0, 50.0]);
    }

    #[test]
    fn idle_levels_lend_to_a_level_that_wants_more() {
        let idle = SeatClaim { least: 20.0, wanted: 20.0, most: 700.0 };
        let busy = SeatClaim { least: 50.0, wanted: 500.0, most: 700.0 };
        let (seats, fraction) = divide(150.0, &[idle, busy]);
        assert!((seats[0] - 20.0).abs() < 1e-6 && (seats[1] - 130.0).abs() < 1e-6, "{seats:?}");
        assert!((fraction - 0.26).abs() < 1e-6, "{fraction}");
    }

    fn claim() -> impl Strategy<Value = SeatClaim> {
        (0u32..100, 0u32..100, 0u32..200).prop_map(|(least, more, above)| SeatClaim {
            least: f64::from(least),
            wanted: f64::from(least + more),
            most: f64::from(least + above),
        })
    }

    proptest! {
        #[test]
        fn seats_are_divided_within_bounds_and_by_one_fraction(
            total in 0u32..1000,
            claims in proptest::collection::vec(claim(), 1..8),
        ) {
            let total = f64::from(total);
            let (seats, fraction) = divide(total, &claims);
            let sum: f64 = seats.iter().sum();
            let least: f64 = claims.iter().map(|claim| claim.least).sum();
            prop_assert!(sum <= total.max(least) + 1e-6, "{sum} of {total}");
            for (seats, claim) in seats.iter().zip(&claims) {
                prop_assert!((claim.least - 1e-6..=claim.most + 1e-6).contains(seats));
                let is_free = *seats > claim.least + 1e-6 && *seats < claim.most - 1e-6;
                prop_assert!(!is_free || (seats - fraction * claim.wanted).abs() < 1e-3);
                // Seats remain only if every level that wants some has its most.
                let remains = sum < total - 1e-3;
                prop_assert!(!remains || claim.wanted == 0.0 || *seats >= claim.most - 1e-6);
            }
        }
    }
}
