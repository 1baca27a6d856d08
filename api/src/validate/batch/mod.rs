//! Validation of jobs and cron jobs, one file per kind.

mod cron_job;
mod indexes;
mod job;
mod policy;
mod status;

pub(crate) use cron_job::{change as cron_job_change, create as cron_job_create};
pub(crate) use job::{change as job_change, content as job};
pub(crate) use status::status as job_status;
