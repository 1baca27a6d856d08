//! Sends the log of a container, and follows it if the request says so.

use super::{Feed, Outputs, Snapshot, Streams};
use crate::chosen_run::{Chosen, choose, find};
use kstore_api::status::Status;
use kstore_client::{LogOptions, NodeStream, StreamWriter};
use kstore_container_sim::time::between;
use kstore_container_sim::{Log, LogQuery, LogReader, LogStep, LogStream};

impl Streams {
    pub(super) async fn log(&self, feed: &Feed, options: &LogOptions, stream: NodeStream) {
        let (_, snapshot) = feed.get();
        let object = &snapshot.record.pod;
        let chosen = match choose(&snapshot.machine, object, &stream.request.container, options.previous) {
            Ok(chosen) => chosen,
            Err(why) => return stream.refuse(&Status::bad_request(why)),
        };
        let reader = LogReader::new(&query(options), &chosen_log(&chosen, &snapshot), self.clock.now());
        let (_reader, writer) = stream.begin();
        match self.send_log(feed, chosen, reader, options.follow, &writer).await {
            Ok(()) => writer.close(&Status::success(200)),
            Err(Unfinished) => drop(writer),
        }
    }

    /// Sends the log of a run until all of it is sent, its limit is reached, or the client leaves.
    pub(super) async fn send_log(
        &self,
        feed: &Feed,
        mut chosen: Chosen,
        mut reader: LogReader,
        follow: bool,
        writer: &StreamWriter,
    ) -> Result<(), Unfinished> {
        let (mut seen, mut snapshot) = feed.get();
        loop {
            let outputs = snapshot.outputs.clone();
            let printed = outputs.as_ref().map_or(0, |outputs| outputs.seen());
            let log = latest(&mut chosen, &snapshot);
            let now = self.clock.now();
            match reader.step(&log, now) {
                LogStep::Send(channel, text) => {
                    if !writer.send(channel, text).await {
                        return Err(Unfinished);
                    }
                    continue;
                }
                LogStep::Enough => return Ok(()),
                LogStep::Wait if !follow || log.ended() || snapshot.gone => return Ok(()),
                LogStep::Wait if !snapshot.reachable => return Err(Unfinished),
                LogStep::Wait => {}
            }
            let next = reader.next(&log, now).map(|at| between(now, at));
            tokio::select! {
                biased;
                () = writer.ended() => return Err(Unfinished),
                () = printed_more(outputs.as_deref(), printed) => {}
                newer = feed.after(seen) => (seen, snapshot) = newer,
                () = tokio::time::sleep(next.unwrap_or_default()), if next.is_some() => {}
            }
        }
    }
}

/// The query for the options of a request. A time that does not parse and a negative number of lines or bytes are ignored.
fn query(options: &LogOptions) -> LogQuery {
    LogQuery {
        since_seconds: options.since_seconds,
        since_time: options.since_time.as_deref().and_then(|time| time.parse().ok()),
        tail_lines: options.tail_lines.and_then(|lines| u64::try_from(lines).ok()),
        limit_bytes: options.limit_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        timestamps: options.timestamps,
        stream: match options.stream.as_str() {
            "Stdout" => LogStream::Stdout,
            "Stderr" => LogStream::Stderr,
            _ => LogStream::All,
        },
    }
}

/// Waits until commands have printed more than the sequence number `seen` covers; never returns if the run has no commands.
async fn printed_more(outputs: Option<&Outputs>, seen: u64) {
    match outputs {
        Some(outputs) => outputs.after(seen).await,
        None => std::future::pending().await,
    }
}

/// The stream ended before the log did.
pub(super) struct Unfinished;

/// The current log of the run. A run that the container no longer remembers has no further lines.
fn latest(chosen: &mut Chosen, snapshot: &Snapshot) -> Log {
    let container = &snapshot.machine.containers[chosen.container];
    match find(container, &chosen.run.id) {
        Some(run) => chosen.run = run,
        None => chosen.run.ended = chosen.run.ended.or(Some((chosen.run.started_at, 0))),
    }
    chosen_log(chosen, snapshot)
}

/// The log of a run, including the output of its command.
pub(super) fn chosen_log(chosen: &Chosen, snapshot: &Snapshot) -> Log {
    let object = &snapshot.record.pod;
    let spec = object.container(chosen.container);
    let printed = snapshot
        .outputs
        .as_ref()
        .zip(spec)
        .and_then(|(outputs, spec)| outputs.of(&spec.name, &chosen.run.id));
    chosen.log(object, printed)
}
