//! Table columns of jobs and cron jobs.
//!
//! Follows `printJob` and `printCronJob`.

use super::text::{NONE, UNSET, containers, int, length, list, of, or, selector};
use super::{
    AGE, CONTAINERS, IMAGES, NAME, Printer, SELECTOR, age, flag, human_duration, name, number, printer,
    since, text,
};
use crate::meta;
use jiff::Timestamp;
use serde_json::Value;

pub(crate) const JOB: Printer = printer(
    &[
        NAME,
        text("Status", "Status of the job."),
        text("Completions", "Succeeded pods of the desired completions."),
        text("Duration", "Duration of the job."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |job, now| {
        let mut cells = vec![
            name(job),
            status(job).into(),
            completions(job).into(),
            duration(&job["status"], now).into(),
            age(job, now),
        ];
        cells.extend(containers(&job["spec"]["template"]["spec"]));
        cells.push(selector(&job["spec"]["selector"]).into());
        cells
    },
);

/// In 1.33 a job that has met its criteria is running.
pub(crate) const JOB_WITHOUT_CRITERIA: Printer = printer(JOB.columns, |job, now| {
    let mut cells = (JOB.cells)(job, now);
    if cells[STATUS] == CRITERIA_MET {
        cells[STATUS] = "Running".into();
    }
    cells
});

/// Place of the cell of the status.
const STATUS: usize = 1;

/// The status of a job that has met its success criteria and whose pods still end.
const CRITERIA_MET: &str = "SuccessCriteriaMet";

fn status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        list(&job["status"]["conditions"]).iter().any(|c| c["type"] == kind && c["status"] == "True")
    };
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if meta::is_being_deleted(job) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has(CRITERIA_MET) => CRITERIA_MET,
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let (spec, done) = (&job["spec"], int(&job["status"]["succeeded"]));
    match (spec["completions"].as_i64(), int(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    }
}

fn duration(status: &Value, now: Timestamp) -> String {
    let Some(start) = meta::parse_time(of(&status["startTime"])) else { return String::new() };
    let end = meta::parse_time(of(&status["completionTime"])).unwrap_or(now);
    human_duration(end.duration_since(start).as_secs())
}

pub(crate) const CRON_JOB: Printer = printer(
    &[
        NAME,
        text("Schedule", "Cron schedule of the jobs."),
        text("Timezone", "Time zone of the schedule."),
        flag("Suspend", "Whether job creation is suspended."),
        number("Active", "Jobs that are running."),
        text("Last Schedule", "Time since the last job was created."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |job, now| {
        let (spec, status) = (&job["spec"], &job["status"]);
        let suspend = match spec["suspend"].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => UNSET,
        };
        let last =
            status["lastScheduleTime"].as_str().map_or_else(|| NONE.to_owned(), |time| since(time, now));
        let mut cells = vec![
            name(job),
            of(&spec["schedule"]).into(),
            or(&spec["timeZone"], NONE).into(),
            suspend.into(),
            length(&status["active"]),
            last.into(),
            age(job, now),
        ];
        cells.extend(containers(&spec["jobTemplate"]["spec"]["template"]["spec"]));
        cells.push(selector(&spec["jobTemplate"]["spec"]["selector"]).into());
        cells
    },
);
