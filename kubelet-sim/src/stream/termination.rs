//! The termination message of a container: the end of its file, or of its log if it failed and its policy says so.

use super::{Disks, Outputs};
use crate::chosen_run::Chosen;
use crate::limits::{TERMINATION_LOG_BYTES, TERMINATION_LOG_LINES, TERMINATION_MESSAGE};
use crate::pod::container::Run;
use crate::pod_object::PodObject;
use jiff::Timestamp;
use kstore_container_sim::{ContainerRun, LogQuery, LogReader, LogStep};

/// Where the containers of a pod have left their last words.
pub(crate) struct TerminationMessageSource<'a> {
    pub(crate) disks: &'a Disks,
    pub(crate) outputs: Option<&'a Outputs>,
}

impl TerminationMessageSource<'_> {
    /// The message of a run that ends now with this code.
    pub(crate) fn message(
        &self,
        pod: &PodObject,
        container: usize,
        run: &Run,
        code: i32,
        now: Timestamp,
    ) -> String {
        let Some(spec) = pod.container(container) else { return String::new() };
        let file = self.disks.termination_message(&spec.name, &run.id);
        if !file.is_empty() {
            let start = file.len().saturating_sub(TERMINATION_MESSAGE);
            return String::from_utf8_lossy(&file[start..]).into_owned();
        }
        let falls_back = spec.options.as_ref().is_some_and(|options| options.falls_back_to_logs);
        if !falls_back || code == 0 {
            return String::new();
        }
        let (id, started_at, ended) = (run.id.clone(), run.started_at, Some((now, code)));
        let chosen = Chosen { container, run: ContainerRun { id, started_at, ended } };
        let printed = self.outputs.and_then(|outputs| outputs.of(&spec.name, &run.id));
        let log = chosen.log(pod, printed);
        let query = LogQuery { tail_lines: Some(TERMINATION_LOG_LINES), ..LogQuery::default() };
        let mut reader = LogReader::new(&query, &log, now);
        let mut text = String::new();
        while let LogStep::Send(_, more) = reader.step(&log, now) {
            text.push_str(&more);
            let surplus = text.len().saturating_sub(TERMINATION_LOG_BYTES);
            text.drain(..text.ceil_char_boundary(surplus));
        }
        if self.outputs.is_some_and(|outputs| outputs.ends_within_line(&spec.name, &run.id)) {
            text.truncate(text.trim_end_matches('\n').len());
        }
        text
    }
}
