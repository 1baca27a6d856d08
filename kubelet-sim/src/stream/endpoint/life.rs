//! The lives of clients' containers: they start, run programs of the simulation, and end.

use super::Endpoint;
use super::log_writer::LogWriter;
use super::ports;
use super::table::{Begun, key_of, nanos};
use crate::behavior::{self, Script, StopScript};
use crate::limits::ENDPOINT_KILL;
use crate::program::{self, Program};
use crate::stream::{Exit, Launch, ManagerMessage};
use kstore_informer::{Key, Object as _};
use kstore_proto::cri::v1::{ContainerEventResponse, ContainerEventType};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Status;

/// The exit code of a killed process: 128 and the number of SIGKILL.
const KILLED: i32 = 137;
/// The exit code of a container that was removed before it ended.
const NEVER_STARTED: i32 = 0;

impl Endpoint {
    /// The id of the container of a CRI client that has this id, or alone has an id that begins so.
    pub(super) fn container_key(&self, id: &str) -> Result<String, Status> {
        let table = self.table();
        let known = key_of(&table.containers, id).map(str::to_owned);
        known.ok_or_else(|| {
            Status::not_found(format!("an error occurred when try to find container {id:?}: not found"))
        })
    }

    /// The id of the sandbox of a CRI client that has this id, or alone has an id that begins so.
    pub(super) fn sandbox_key(&self, id: &str) -> Result<String, Status> {
        let table = self.table();
        let known = key_of(&table.sandboxes, id).map(str::to_owned);
        known.ok_or_else(|| {
            Status::not_found(format!("an error occurred when try to find sandbox {id:?}: not found"))
        })
    }

    /// Tells clients that something has happened to a container or sandbox.
    pub(super) fn tell(&self, id: &str, kind: ContainerEventType) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let table = self.table();
        let sandbox = table.containers.get(id).map_or(id, |entry| entry.sandbox.as_str());
        let event = ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: kind.into(),
            created_at: nanos(self.streams.clock.now()),
            pod_sandbox_status: table.sandboxes.get(sandbox).map(|sandbox| sandbox.status.clone()),
            containers_statuses: table
                .containers_of(sandbox)
                .map(|(_, entry)| entry.status.clone())
                .collect(),
        };
        drop(table);
        // The last client may have left.
        let _ = self.events.send(event);
    }

    /// Starts a container.
    pub(super) fn start(&self, id: &str) -> Result<(), Status> {
        let now = self.streams.clock.now();
        let begun = self.table().begin(id, now)?;
        let object = &begun.record.pod;
        let program = program::of(object, begun.index);
        begun.outputs.begin(&begun.name, &begun.run);
        if let Some(log) = LogWriter::of(self, id, &begun) {
            self.tasks.spawn(log.run());
        }
        self.tasks.spawn(ports::serve(self.clone(), Arc::clone(&begun.feed), begun.index, begun.run.clone()));
        match program {
            Program::Shell(argv) => self.launch(&begun, argv),
            Program::Scripted => self.schedule_end(&begun),
            Program::Image | Program::Attached | Program::NotRun(_) => {}
            Program::Missing(_) | Program::Host | Program::Real => {}
        }
        self.tell(id, ContainerEventType::ContainerStartedEvent);
        Ok(())
    }

    /// Runs the command of a container.
    fn launch(&self, begun: &Begun, argv: Vec<String>) {
        let launch = Launch {
            pod: begun.record.key(),
            uid: begun.record.uid().to_owned(),
            index: begun.index,
            container: begun.name.clone(),
            run: begun.run.clone(),
            argv,
            program: None,
            is_real: false,
            outputs: Arc::clone(&begun.outputs),
        };
        let running = self.streams.clone().run_program(Arc::clone(&begun.feed), launch);
        let (stop, removed) = (self.tasks.stop().clone(), begun.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = removed.cancelled() => {}
                () = running => {}
            }
        });
    }

    /// Ends a container when the annotations of its pod say.
    fn schedule_end(&self, begun: &Begun) {
        let object = &begun.record.pod;
        let script = behavior::script(&object.metadata.annotations, &begun.name);
        let Some((after, code, oom)) = self.scripted_end(&script) else { return };
        let exit = Exit {
            pod: Key::new(&object.metadata.namespace, &object.metadata.name),
            uid: object.metadata.uid.clone(),
            container: begun.name.clone(),
            run: begun.run.clone(),
            code,
            oom,
            at: None,
        };
        let (messages, stop, removed) =
            (self.streams.messages.clone(), self.tasks.stop().clone(), begun.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = removed.cancelled() => {}
                () = sleep(after) => {
                    // The endpoint may have ended.
                    let _ = messages.send(ManagerMessage::Exit(exit)).await;
                }
            }
        });
    }

    /// After what time a script ends a run, with which code, and whether for want of memory.
    fn scripted_end(&self, script: &Script) -> Option<(Duration, u8, bool)> {
        let rng = &self.streams.rng;
        let runs = script.run.map(|delay| delay.draw(rng)).or(script.exit_code.map(|_| Duration::ZERO));
        let killed = script.oom_after.map(|delay| delay.draw(rng));
        match (runs, killed) {
            (runs, Some(killed)) if runs.is_none_or(|runs| killed <= runs) => Some((killed, 137, true)),
            (Some(runs), _) => {
                Some((runs, u8::try_from(script.exit_code.unwrap_or(0)).unwrap_or(255), false))
            }
            (None, _) => None,
        }
    }

    /// Ends a run with this code, and writes what it has left to the machine before clients see the end. No effect on one that has ended.
    pub(super) async fn finish(&self, id: &str, end: (i32, bool)) {
        let written = {
            let table = self.table();
            let Some(entry) = table.containers.get(id).filter(|entry| !entry.has_ended()) else { return };
            let sandbox = table.sandboxes.get(&entry.sandbox);
            sandbox.map(|sandbox| (Arc::clone(&sandbox.mounts), entry.status.mounts.clone()))
        };
        if let Some((mounts, paths)) = written {
            mounts.write_back(paths).await;
        }
        let has_run = self.table().end(id, end, String::new(), self.streams.clock.now());
        if has_run {
            self.tell(id, ContainerEventType::ContainerStoppedEvent);
        }
    }

    /// Asks a container to end, and kills it after `grace`; returns once it has ended.
    pub(super) async fn stop_container(&self, id: &str, grace: Duration) {
        let found = {
            let table = self.table();
            let entry = table.containers.get(id).filter(|entry| entry.is_running());
            entry.and_then(|entry| {
                Some((table.sandboxes.get(&entry.sandbox)?.feed(), entry.name().to_owned()))
            })
        };
        let Some((feed, name)) = found else { return };
        let (mut seen, snapshot) = feed.get();
        let object = &snapshot.record.pod;
        let script = behavior::script(&object.metadata.annotations, &name);
        let index = object.containers().position(|spec| spec.name == name);
        let is_program = script.stop == StopScript::default()
            && index.is_some_and(|index| program::has_process(object, index));
        let after = script.stop.after.unwrap_or(self.stop_delay).draw(&self.streams.rng);
        let (after, code) = match script.stop.ignore || is_program || after > grace {
            true => (grace, KILLED),
            false => (after, script.stop.code),
        };
        if !after.is_zero() {
            self.table().ask_to_stop(id);
        }
        let until = Instant::now() + after.min(ENDPOINT_KILL);
        while self.table().containers.get(id).is_some_and(|entry| entry.is_running()) {
            match timeout_at(until, feed.after(seen)).await {
                Ok((number, _)) => seen = number,
                Err(_) => self.finish(id, (code, false)).await,
            }
        }
    }

    /// Removes a container, which is killed if it runs.
    pub(super) async fn remove_container(&self, id: &str) {
        self.stop_container(id, Duration::ZERO).await;
        {
            // One that was created and never started ends, too.
            let mut table = self.table();
            table.end(id, (NEVER_STARTED, false), String::new(), self.streams.clock.now());
        }
        self.tell(id, ContainerEventType::ContainerDeletedEvent);
        self.table().remove(id);
    }

    /// Ends the containers of a sandbox and gives its address back.
    pub(super) async fn stop_sandbox(&self, id: &str) {
        let running: Vec<String> = self.table().containers_of(id).map(|(id, _)| id.clone()).collect();
        for container in running {
            self.stop_container(&container, Duration::ZERO).await;
        }
        let address = self.table().sandboxes.get(id).and_then(|sandbox| sandbox.address);
        if let Some(address) = address {
            self.set_address(address, None);
        }
        let was_ready = self.table().sandboxes.get(id).is_some_and(super::table::Sandbox::is_ready);
        self.table().stop_sandbox(id);
        if was_ready {
            self.tell(id, ContainerEventType::ContainerStoppedEvent);
        }
    }
}
