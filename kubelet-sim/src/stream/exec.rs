//! A command in a simulated container, and a terminal that is attached to its main process.

use super::environment::{TooLarge, container_of};
use super::host_exec;
use super::log::chosen_log;
use super::network::Asker;
use super::real::{Errand, is_real};
use super::runner::ProgramRun;
use super::{Exit, Feed, ManagerMessage, Snapshot, Streams};
use crate::chosen_run::{Chosen, choose, find};
use crate::limits::{LINE_BYTES, OUTPUT_CHUNK};
use crate::program::{self, Program};
use kstore_api::status::{Cause, Details, Reason, Status};
use kstore_client::{NodeStream, StreamReader, StreamRequest, StreamWriter, Terminal};
use kstore_container_sim::{LineDiscipline, LogReader, ShellStep};
use kstore_informer::Key;

impl Streams {
    pub(super) async fn exec(&self, feed: &Feed, argv: &[String], terminal: Terminal, stream: NodeStream) {
        let (_, snapshot) = feed.get();
        let container = stream.request.container.clone();
        let chosen = match running(&snapshot, &container) {
            Ok(chosen) => chosen,
            Err(status) => return stream.refuse(&status),
        };
        if is_real(&snapshot.record.pod) {
            return Box::pin(self.serve_client((feed, &chosen), Errand::Exec(argv), terminal, stream)).await;
        }
        if host_exec::is_on_host(&snapshot, chosen.container) {
            return Box::pin(self.exec_on_host((feed, &chosen), argv, terminal, stream)).await;
        }
        let environment = self.environment(&snapshot, &container, &chosen.run.id, argv).await;
        let (reader, writer) = stream.begin();
        let spec = snapshot.record.pod.container(chosen.container);
        let missing = spec.and_then(|spec| program::missing(&snapshot.record.pod, spec, argv));
        let started = match (environment, missing) {
            (_, Some(why)) => Err(why),
            (Ok((environment, budget)), None) => {
                let started =
                    self.start_program((&snapshot, Asker::Command), budget, environment, argv.to_vec()).await;
                started.map_err(|error| error.to_string())
            }
            (Err(TooLarge(why)), None) => Err(why.to_owned()),
        };
        match started {
            Ok(program) => {
                let mut session = Session {
                    reader,
                    terminal,
                    line: LineDiscipline::new(terminal.tty),
                    open: terminal.stdin,
                    size: None,
                };
                let status = tokio::select! {
                    biased;
                    () = writer.ended() => return,
                    // The command is killed with the container: 128 + SIGKILL.
                    () = lost(feed, &chosen) => exit(137),
                    (code, _) = session.run(program, &writer) => exit(code),
                };
                writer.close(&status);
            }
            Err(error) => {
                let text = "error executing command in container: failed to exec in container: \
                            failed to start exec: OCI runtime exec failed: exec failed: \
                            unable to start container process";
                writer.close(&Status::internal(format!("{text}: {error}")));
            }
        }
    }

    pub(super) async fn attach(&self, feed: &Feed, terminal: Terminal, stream: NodeStream) {
        let (_, snapshot) = feed.get();
        let chosen = match running(&snapshot, &stream.request.container) {
            Ok(chosen) => chosen,
            Err(status) => return stream.refuse(&status),
        };
        if is_real(&snapshot.record.pod) {
            return Box::pin(self.serve_client((feed, &chosen), Errand::Attach, terminal, stream)).await;
        }
        if terminal.stdin
            && !host_exec::is_on_host(&snapshot, chosen.container)
            && !matches!(program::of(&snapshot.record.pod, chosen.container), Program::Shell(_))
            && let Some(process) = Box::pin(self.process(&snapshot, &chosen, &stream.request)).await
        {
            return self.attach_to(feed, chosen, process, terminal, stream).await;
        }
        let container = &stream.request.container;
        let outputs = snapshot.outputs.as_ref();
        if let Some(console) = outputs.and_then(|outputs| outputs.console(container, &chosen.run.id)) {
            return Box::pin(self.attach_to_console((feed, &chosen), &console, terminal, stream)).await;
        }
        let log = chosen_log(&chosen, &snapshot);
        let log_reader = LogReader::from_now(&log, self.clock.now());
        let (mut reader, writer) = stream.begin();
        let swallow = async {
            // The main process reads no input; input is discarded, so that the client does not block.
            while reader.next().await.is_some() {}
            std::future::pending::<()>().await;
        };
        let done = tokio::select! {
            biased;
            done = self.send_log(feed, chosen, log_reader, true, &writer) => done,
            () = swallow => return,
        };
        match done {
            Ok(()) => writer.close(&Status::success(200)),
            Err(super::log::Unfinished) => drop(writer),
        }
    }
}

/// The main process of a container that reads standard input.
struct Process {
    program: ProgramRun,
    /// Standard input ends with the first client (`stdinOnce`).
    once: bool,
}

impl Streams {
    /// The container's main process, if the container has `stdin: true`: its command if the simulated shell can run it, else a shell.
    /// Each client that attaches gets the process at its beginning.
    async fn process(
        &self,
        snapshot: &Snapshot,
        chosen: &Chosen,
        request: &StreamRequest,
    ) -> Option<Process> {
        let pod = self.object_of(snapshot).await.ok()?;
        let spec = container_of(pod.spec.as_ref()?, &request.container);
        if spec.stdin != Some(true) {
            return None;
        }
        let argv: Vec<String> = spec.command.into_iter().chain(spec.args).flatten().collect();
        let environment = self.environment(snapshot, &request.container, &chosen.run.id, &argv).await;
        let (environment, budget) = environment.ok()?;
        let argv = if argv.is_empty() { vec!["sh".to_owned()] } else { argv };
        let program = self.start_program((snapshot, Asker::Command), budget, environment, argv).await.ok()?;
        Some(Process { program, once: spec.stdin_once == Some(true) })
    }

    /// Connects a client to a process until the process ends, which ends its container, or the client leaves.
    async fn attach_to(
        &self,
        feed: &Feed,
        chosen: Chosen,
        process: Process,
        terminal: Terminal,
        stream: NodeStream,
    ) {
        let request = stream.request.clone();
        let (reader, writer) = stream.begin();
        let mut session = Session {
            reader,
            terminal,
            line: LineDiscipline::new(terminal.tty),
            open: terminal.stdin,
            size: None,
        };
        let ended = tokio::select! {
            biased;
            () = writer.ended() => process.once.then_some((0, false)),
            () = lost(feed, &chosen) => None,
            ended = session.run(process.program, &writer) => Some(ended),
        };
        // The end of one client's input does not end the process: other clients may attach to it.
        let ended = ended.filter(|_| process.once || terminal.tty || session.open);
        if let Some((code, oom)) = ended {
            let pod = Key::new(&request.namespace, &request.pod);
            let StreamRequest { uid, container, .. } = request;
            let exit = Exit { pod, uid, container, run: chosen.run.id, code, oom, at: None };
            // The manager may have ended.
            let _ = self.messages.send(ManagerMessage::Exit(exit)).await;
        }
        // The container's status reports how the process ended.
        writer.close(&Status::success(200));
    }
}

/// The current run of a running container.
fn running(snapshot: &Snapshot, container: &str) -> Result<Chosen, Status> {
    let chosen = choose(&snapshot.machine, &snapshot.record.pod, container, false);
    let running = chosen.ok().filter(|chosen| chosen.run.ended.is_none());
    running.ok_or_else(|| {
        Status::internal(format!("unable to upgrade connection: container not found (\"{container}\")"))
    })
}

/// Waits until the run has ended, the pod is deleted, or its node does not answer.
pub(super) async fn lost(feed: &Feed, chosen: &Chosen) {
    let (mut seen, mut snapshot) = feed.get();
    let runs = |snapshot: &Snapshot| {
        let run = find(&snapshot.machine.containers[chosen.container], &chosen.run.id);
        run.is_some_and(|run| run.ended.is_none())
    };
    while snapshot.reachable && !snapshot.gone && runs(&snapshot) {
        (seen, snapshot) = feed.after(seen).await;
    }
}

/// A command that is executed, with its input and its terminal.
struct Session {
    reader: StreamReader,
    terminal: Terminal,
    line: LineDiscipline,
    /// More input may come.
    open: bool,
    /// Columns and rows of the terminal, as the client's last resize message says.
    size: Option<(u16, u16)>,
}

impl Session {
    /// Runs the command to its end; returns its exit code, and whether it was killed for want of memory.
    async fn run(&mut self, mut program: ProgramRun, writer: &StreamWriter) -> (u8, bool) {
        loop {
            if let Some((rows, columns)) = self.size {
                program.resized(rows, columns);
            }
            match program.step().await {
                ShellStep::Print(channel, printed) => self.print(channel, printed.as_ref(), writer).await,
                ShellStep::Sleep(time) => program.wait(time).await,
                ShellStep::Read => {
                    let bytes = self.more(writer).await;
                    program.input(bytes).await;
                }
                ShellStep::ReadLine => {
                    self.prompt(writer).await;
                    let line = self.line(writer).await;
                    program.line(line).await;
                }
                ShellStep::Yield | ShellStep::Network(..) => {}
                ShellStep::Exit(code) => return (code, program.is_out_of_memory()),
            }
        }
    }

    async fn print(&self, channel: u32, bytes: &[u8], writer: &StreamWriter) {
        // A terminal has one output stream, and ends lines with CR LF.
        let channel = if self.terminal.tty { 1 } else { channel };
        let wanted = if channel == 2 { self.terminal.stderr } else { self.terminal.stdout };
        if wanted {
            // Sent in pieces, each after the client took the previous one: a copy of the whole output would not count against the budget.
            for piece in bytes.chunks(OUTPUT_CHUNK) {
                writer.send(channel, self.line.output(piece)).await;
            }
        }
    }

    async fn prompt(&self, writer: &StreamWriter) {
        if self.terminal.tty {
            self.print(1, b"/ # ", writer).await;
        }
    }

    /// The next bytes of input; `None` at its end.
    async fn more(&mut self, writer: &StreamWriter) -> Option<Vec<u8>> {
        if let Some(lines) = self.line.lines() {
            return Some(lines);
        }
        let (bytes, echo) = self.input().await?;
        if !echo.is_empty() {
            writer.send(1, echo).await;
        }
        Some(bytes)
    }

    /// One line of input; `None` at its end.
    async fn line(&mut self, writer: &StreamWriter) -> Option<String> {
        loop {
            if let Some(line) = self.line.take() {
                return Some(line);
            }
            let Some((bytes, echo)) = self.input().await else { return self.line.rest() };
            if !echo.is_empty() {
                writer.send(1, echo).await;
            }
            self.line.push(&bytes);
            if self.line.buffered() > LINE_BYTES {
                return None;
            }
        }
    }

    /// The next input as the program reads it, and its echo on the terminal; `None` at the end of input.
    async fn input(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        while self.open {
            match self.reader.next().await {
                Some(incoming) if incoming.channel == 0 => {
                    self.open = !incoming.end;
                    let (bytes, echo, end) = self.line.input(&incoming.data);
                    self.open &= !end;
                    if !bytes.is_empty() || !echo.is_empty() {
                        return Some((bytes, echo));
                    }
                }
                Some(incoming) if incoming.channel == 4 => self.size = size(&incoming.data).or(self.size),
                Some(_) => {}
                None => self.open = false,
            }
        }
        None
    }
}

/// The size of a terminal: `{"Width": 80, "Height": 24}`. Names have any case, as for Go's decoder: the JavaScript client
/// writes them in lower case.
pub(super) fn size(message: &[u8]) -> Option<(u16, u16)> {
    let size: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(message).ok()?;
    let part = |name: &str| {
        let (_, value) = size.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        u16::try_from(value.as_u64()?).ok()
    };
    Some((part("height")?, part("width")?))
}

/// The Status that carries an exit code.
pub(super) fn exit(code: u8) -> Status {
    if code == 0 {
        return Status::success(0);
    }
    let mut status =
        Status::bad_request(format!("command terminated with non-zero exit code: exit status {code}"));
    status.code = 0;
    status.reason = Reason::NonZeroExitCode;
    let cause = Cause { reason: "ExitCode".to_owned(), message: code.to_string(), ..Cause::default() };
    status.details = Some(Box::new(Details { causes: vec![cause], ..Details::default() }));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_terminal_size_may_have_any_case() {
        for (message, expected) in [
            (r#"{"Width":80,"Height":24}"#, Some((24, 80))),
            (r#"{"height":24,"width":80}"#, Some((24, 80))),
            (r#"{"Width":80}"#, None),
            (r#"{"Width":80,"Height":70000}"#, None),
            ("[80,24]", None),
            ("", None),
        ] {
            assert_eq!(size(message.as_bytes()), expected, "{message}");
        }
    }
}
