//! [`report_file`]: the report file of a cluster of the lab: one HTML file with the page of kstore and what happened in the cluster.

use crate::host::Running;
use crate::limits::REPORT_TIME;
use crate::objects;
use futures::future::BoxFuture;
use kstore_cluster::{ReportError, ReportRequest, report};
use std::sync::Arc;

/// What a report file says beside what the cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportText {
    /// What it is about, such as a command.
    pub title: String,
    /// What failed; empty: nothing.
    pub failure: String,
    /// What the failed test or command printed. If it is too long, its beginning is left out.
    pub output: String,
    /// Version of the program that makes it.
    pub version: String,
    /// What plans did, each with the newest revision of that moment: marks of slider and timeline.
    pub faults: Vec<(i64, String)>,
    /// The begins of parts of the test, likewise.
    pub steps: Vec<(i64, String)>,
    /// The first revision; `None`: the oldest one from which the cluster tells changes.
    pub since: Option<i64>,
}

/// Why there is no report file.
#[derive(Debug, thiserror::Error)]
pub enum ReportFileError {
    /// The cluster cannot be read, or is too large.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The cluster ended meanwhile.
    #[error("the cluster has ended")]
    Ended,
    /// [`REPORT_TIME`] ran out.
    #[error("the cluster was not read within {REPORT_TIME:?}")]
    Late,
}

/// The report file of a running cluster, as its administrator sees it. The cluster's clock does not move for it, and its requests are in no
/// log. May be called from any runtime with timers in real time.
///
/// # Errors
/// See [`ReportFileError`].
/// Boxed here, so that no crate above generates the code again.
pub fn report_file(
    running: &Arc<Running>,
    text: ReportText,
) -> BoxFuture<'static, Result<Vec<u8>, ReportFileError>> {
    let (running, reader) = (running.clone(), running.clone());
    Box::pin(async move {
        let ReportText { title, failure, output, version, faults, steps, since } = text;
        let request = ReportRequest {
            title,
            failure,
            output,
            version,
            since,
            faults,
            steps,
            ..ReportRequest::default()
        };
        let reading = running.call(async move {
            let client = objects::client(&reader);
            report(&client, &request).await
        });
        match tokio::time::timeout(REPORT_TIME, reading).await {
            Ok(Ok(file)) => Ok(file?),
            Ok(Err(_)) => Err(ReportFileError::Ended),
            Err(_) => Err(ReportFileError::Late),
        }
    })
}
