//! Tests of schedules: tables of robfig/cron's documented behaviour, and a model that tests every minute.

use super::{Schedule, zone};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn parse(schedule: &str, name: &str) -> Schedule {
    Schedule::parse(schedule, zone(name).unwrap()).unwrap()
}

/// The next `count` times after `from`, in the zone.
fn times(schedule: &str, name: &str, from: &str, count: usize) -> Vec<String> {
    let (schedule, zone) = (parse(schedule, name), zone(name).unwrap());
    let mut now = at(from);
    let mut times = vec![];
    for _ in 0..count {
        let Some(next) = schedule.next(now) else { break };
        times.push(next.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M%:z").to_string());
        now = next;
    }
    times
}

#[test]
fn the_next_time_is_the_first_matching_minute() {
    let table = [
        ("* * * * *", "2012-07-09T14:45:00Z", "2012-07-09T14:46+00:00"),
        ("* * * * *", "2012-07-09T14:45:59.5Z", "2012-07-09T14:46+00:00"),
        ("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00+00:00"),
        ("20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20+00:00"),
        ("*/15 * * * *", "2012-07-09T23:46:00Z", "2012-07-10T00:00+00:00"),
        ("20 10 * * *", "2012-07-09T23:46:00Z", "2012-07-10T10:20+00:00"),
        ("0 0 1 jan-mar/2 ?", "2012-07-09T23:46:00Z", "2013-01-01T00:00+00:00"),
        ("0 0 9 APR ?", "2012-07-09T23:46:00Z", "2013-04-09T00:00+00:00"),
        // One match suffices if both day fields are restricted; both must match if one is unrestricted.
        ("0 0 9,18 * Mon", "2012-07-09T23:46:00Z", "2012-07-16T00:00+00:00"),
        ("0 0 13 * fri", "2012-07-09T00:00:00Z", "2012-07-13T00:00+00:00"),
        ("0 0 13 * 5", "2012-07-13T00:00:00Z", "2012-07-20T00:00+00:00"),
        ("0 0 */10 * sun", "2012-07-02T00:00:00Z", "2012-07-08T00:00+00:00"),
        ("0 0 */1 * sun", "2012-07-02T00:00:00Z", "2012-07-08T00:00+00:00"),
        ("0 0 ? * sun", "2012-07-02T00:00:00Z", "2012-07-08T00:00+00:00"),
        ("0 0 15 * *", "2012-07-15T00:00:00Z", "2012-08-15T00:00+00:00"),
        ("0 0 31 * *", "2012-08-31T00:00:00Z", "2012-10-31T00:00+00:00"),
        ("0 0 29 2 *", "2012-02-29T00:00:00Z", "2016-02-29T00:00+00:00"),
        ("59 23 31 12 *", "2012-12-31T23:59:00Z", "2013-12-31T23:59+00:00"),
        ("@yearly", "2012-07-09T00:00:00Z", "2013-01-01T00:00+00:00"),
        ("@annually", "2012-07-09T00:00:00Z", "2013-01-01T00:00+00:00"),
        ("@monthly", "2012-07-09T00:00:00Z", "2012-08-01T00:00+00:00"),
        ("@weekly", "2012-07-09T00:00:00Z", "2012-07-15T00:00+00:00"),
        ("@daily", "2012-07-09T00:00:00Z", "2012-07-10T00:00+00:00"),
        ("@midnight", "2012-07-09T00:00:00Z", "2012-07-10T00:00+00:00"),
        ("@hourly", "2012-07-09T00:00:00Z", "2012-07-09T01:00+00:00"),
        ("@every 1h30m", "2012-07-09T00:20:00.7Z", "2012-07-09T01:50+00:00"),
        ("@every 1.5m", "2012-07-09T00:00:30Z", "2012-07-09T00:02+00:00"),
    ];
    for (schedule, from, expected) in table {
        assert_eq!(times(schedule, "UTC", from, 1), [expected], "{schedule} after {from}");
    }
    assert_eq!(
        parse("@every 1ms", "UTC").next(at("2012-07-09T00:00:00Z")).unwrap(),
        at("2012-07-09T00:00:01Z")
    );
    for never in ["0 0 30 2 *", "0 0 31 feb,apr ?"] {
        assert_eq!(parse(never, "UTC").next(at("2012-07-09T00:00:00Z")), None, "{never}");
    }
    // The year 2100 has no 29 February.
    assert_eq!(parse("0 0 29 2 *", "UTC").next(at("2096-03-01T00:00:00Z")), None);
}

#[test]
fn skipped_local_times_never_match_and_repeated_ones_match_twice() {
    let zone = "America/New_York";
    assert_eq!(
        times("30 2 * * *", zone, "2012-03-10T12:00:00Z", 2),
        ["2012-03-12T02:30-04:00", "2012-03-13T02:30-04:00"]
    );
    assert_eq!(
        times("0 * * * *", zone, "2012-03-11T05:00:00Z", 3),
        ["2012-03-11T01:00-05:00", "2012-03-11T03:00-04:00", "2012-03-11T04:00-04:00"]
    );
    assert_eq!(
        times("0 1 * * *", zone, "2012-11-03T12:00:00Z", 3),
        ["2012-11-04T01:00-04:00", "2012-11-04T01:00-05:00", "2012-11-05T01:00-05:00"]
    );
    assert_eq!(
        times("0 * * * *", zone, "2012-11-04T04:00:00Z", 3),
        ["2012-11-04T01:00-04:00", "2012-11-04T01:00-05:00", "2012-11-04T02:00-05:00"]
    );
    // Midnight itself is skipped.
    assert_eq!(
        times("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", 1),
        ["2018-11-05T00:00-02:00"]
    );
    assert_eq!(times("0 5 28 3 *", "Asia/Beirut", "2021-03-20T12:00:00Z", 1), ["2021-03-28T05:00+03:00"]);
    // A shift by half an hour.
    assert_eq!(
        times("15 2,5 * * *", "Australia/Lord_Howe", "2024-10-05T12:00:00Z", 2),
        ["2024-10-06T05:15+11:00", "2024-10-07T02:15+11:00"]
    );
    assert_eq!(times("0 9 * * *", "Asia/Kolkata", "2024-10-05T12:00:00Z", 1), ["2024-10-06T09:00+05:30"]);
}

#[test]
fn schedules_may_name_their_zone_and_every_is_zone_independent() {
    for text in ["TZ=Europe/Paris 0 9 * * *", "CRON_TZ=Europe/Paris  0 9 * * *"] {
        let schedule = Schedule::parse(text, TimeZone::UTC).unwrap();
        assert_eq!(schedule.next(at("2024-01-01T00:00:00Z")).unwrap(), at("2024-01-01T08:00:00Z"), "{text}");
    }
    let every = parse("@every 24h", "America/New_York");
    assert_eq!(every.next(at("2012-03-10T12:00:00Z")).unwrap(), at("2012-03-11T12:00:00Z"));
    assert!(zone("europe/paris").is_none(), "names have one spelling");
    assert!(zone("Nowhere/Land").is_none());
}

#[test]
fn invalid_schedules_have_robfigs_error_messages() {
    let table = [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
        ("TZ=No/Where * * * * *", "provided bad location No/Where: unknown time zone No/Where"),
    ];
    for (schedule, why) in table {
        assert_eq!(Schedule::parse(schedule, TimeZone::UTC).unwrap_err(), why, "{schedule}");
    }
}

/// A field as text and as the set of its values; `None` for `*` or `?`.
type DrawnField = (String, Option<Vec<i8>>);

fn field(low: i8, high: i8) -> impl Strategy<Value = DrawnField> {
    let single = (low..=high).prop_map(|n| (n.to_string(), Some(vec![n])));
    let range = (low..=high, low..=high, 1i8..7).prop_map(|(a, b, step)| {
        let (a, b) = (a.min(b), a.max(b));
        (format!("{a}-{b}/{step}"), Some((a..=b).step_by(step as usize).collect()))
    });
    let open_end = (low..=high, 2i8..9).prop_map(move |(a, step)| {
        (format!("{a}/{step}"), Some((a..=high).step_by(step as usize).collect()))
    });
    let step = (2i8..9)
        .prop_map(move |step| (format!("*/{step}"), Some((low..=high).step_by(step as usize).collect())));
    let list = (low..=high, low..=high).prop_map(|(a, b)| (format!("{a},{b}"), Some(vec![a, b])));
    prop_oneof![
        3 => Just(("*".to_owned(), None)),
        1 => Just(("?".to_owned(), None)),
        2 => single, 1 => range, 1 => open_end, 1 => step, 1 => list
    ]
}

/// Model: tests every minute of the zone's clock.
fn by_minutes(
    fields: &[DrawnField; 5],
    zone: &TimeZone,
    after: Timestamp,
    limit: Timestamp,
) -> Option<Timestamp> {
    let has = |field: &DrawnField, value: i8| field.1.as_ref().is_none_or(|values| values.contains(&value));
    let minute = |second: i64| Timestamp::from_second(second).unwrap();
    let mut second = after.as_second().div_euclid(60) * 60 + 60;
    while minute(second) < limit {
        let local = zone.to_datetime(minute(second));
        let (month, week) =
            (has(&fields[2], local.day()), has(&fields[4], local.weekday().to_sunday_zero_offset()));
        let is_either = fields[2].1.is_some() && fields[4].1.is_some();
        let day = if is_either { month || week } else { month && week };
        if has(&fields[0], local.minute())
            && has(&fields[1], local.hour())
            && has(&fields[3], local.month())
            && day
        {
            return Some(minute(second));
        }
        second += 60;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn schedules_equal_a_model_that_tests_every_minute(
        fields in [field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)],
        zone_name in prop_oneof![
            Just("UTC"), Just("America/New_York"), Just("Australia/Lord_Howe"), Just("Asia/Kathmandu"),
            Just("Africa/Casablanca"), Just("America/Havana"), Just("Asia/Beirut"),
        ],
        // Days around the daylight saving transitions of these zones.
        start in prop_oneof![
            Just("2021-03-12T00:00:00Z"), Just("2021-03-26T12:00:00Z"), Just("2021-04-02T00:00:00Z"),
            Just("2021-10-01T00:00:00Z"), Just("2021-10-30T00:00:00Z"), Just("2021-11-05T00:00:00Z"),
        ],
        seconds in 0i64..(4 * 86_400),
    ) {
        let zone = zone(zone_name).unwrap();
        let after = at(start).checked_add(SignedDuration::from_secs(seconds)).unwrap();
        let limit = after.checked_add(SignedDuration::from_hours(24 * 9)).unwrap();
        let text = fields.clone().map(|(text, _)| text).join(" ");
        let schedule = Schedule::parse(&text, zone.clone()).unwrap();
        let next = schedule.next(after);
        if let Some(next) = next {
            prop_assert!(next > after);
        }
        let expected = by_minutes(&fields, &zone, after, limit);
        prop_assert_eq!(next.filter(|next| *next < limit), expected, "{} in {}", text, zone_name);
    }
}

/// Answers of a kube-apiserver 1.36 to schedules of CronJobs.
#[test]
fn schedules_are_accepted_and_refused_as_by_kubernetes() {
    let check = |text: &str| Schedule::parse(text, TimeZone::UTC).map(drop);
    let good = [
        "* * * * *",
        "*/5 0-6 1,15 jan-MAR mon",
        "@hourly",
        "@every 1h30m",
        "0 0 ? * 0",
        "5/15 * * * *",
        "@every -1h",
        "@every 0",
        "1,,2 * * * *",
        "1, * * * *",
        "*-5 * * * *",
        "1,2,,3 * * * *",
    ];
    for text in good {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    let bad = [
        ("", "empty spec string"),
        ("* *", "expected exactly 5 fields, found 2: [* *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("0 0 L * *", "failed to parse int from L: strconv.Atoi: parsing \"L\": invalid syntax"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ("TZ=Mars/X 0 0 * * *", "provided bad location Mars/X: unknown time zone Mars/X"),
    ];
    for (text, want) in bad {
        assert_eq!(check(text), Err(want.to_owned()), "{text}");
    }
}
