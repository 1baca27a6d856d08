//! Servers of known images: finds the one that listens at a port of a pod, and serves its connections.

use super::environment::expand_all;
use super::health;
use super::network::{Asker, Boxed, PodNetwork, Transport, pay_connection};
use super::program::ended;
use super::runner::ContainerBudget;
use super::tls::{self, HANDSHAKE, PLAIN_REQUEST};
use super::{Exit, Feed, ManagerMessage, ServerLine, Snapshot, Streams};
use crate::behavior;
use crate::known_image;
use crate::limits::{HANDSHAKE_WORK, NETWORK_BUFFER, REQUEST_WORK};
use crate::pod::container::Phase;
use crate::pod_object::{ContainerSpec, PodObject};
use crate::program;
use jiff::Timestamp;
use kstore_container_sim::http::{HttpRead, HttpRequest, HttpResponse, RequestReader};
use kstore_container_sim::time::between;
use kstore_container_sim::{
    Environment, Server, ServerAction, ServerCertificate, ServerEncryption, ServerGreeting, ServerPeer,
};
use kstore_fabric::Stream;
use kstore_informer::Key;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A server of a running container.
pub(super) struct Served {
    streams: Streams,
    feed: Feed,
    index: usize,
    container: String,
    run: String,
    started_at: Timestamp,
    server: Server,
    environment: Arc<Environment>,
    budget: Arc<ContainerBudget>,
    network: PodNetwork,
    /// Who asks it.
    asker: Asker,
}

impl Streams {
    /// The server that listens at a port of a pod.
    pub(super) async fn listener(
        &self,
        feed: Feed,
        (port, transport): (u16, Transport),
        asker: Asker,
    ) -> Option<Served> {
        let (_, snapshot) = feed.get();
        let object = &snapshot.record.pod;
        for (index, spec) in object.containers().enumerate() {
            let container = snapshot.machine.containers.get(index);
            let Some(run) = container.and_then(|container| container.run()) else { continue };
            let is_declared = asker != Asker::Kubelet && transport == Transport::Tcp;
            let fixed = is_declared.then(|| declared(object, index, spec, port)).flatten();
            let argv = match (&fixed, program::server_command(object, index)) {
                (Some(_), _) => Vec::new(),
                (None, Some(argv)) => argv,
                (None, None) => continue,
            };
            let is_stopping = matches!(snapshot.machine.containers[index].phase, Phase::Stopping(_));
            if is_stopping && known_image::is_dormant(&spec.image) {
                continue;
            }
            // The semaphore is closed only at the end of the simulation.
            let _permit = self.program_starts.acquire().await.ok()?;
            let environment = self.environment(&snapshot, &spec.name, &run.id, &argv).await;
            let Ok((environment, budget)) = environment else { continue };
            let server = match fixed {
                Some(page) => Some(Server::fixed(port, page)),
                None => server_of(&spec.image, &argv, &environment),
            };
            let is_there = |server: &Server| match transport {
                Transport::Tcp => server.listens(port),
                Transport::Udp => server.receives(port),
            };
            let Some(server) = server.filter(is_there) else { continue };
            let memory = environment.memory.clone();
            return Some(Served {
                streams: self.clone(),
                index,
                container: spec.name.clone(),
                run: run.id.clone(),
                started_at: run.started_at,
                server,
                environment: Arc::new(environment),
                budget,
                network: self.network_of(&snapshot, memory, Asker::Server).await,
                asker,
                feed: Arc::clone(&feed),
            });
        }
        None
    }
}

/// The server of a known image that a command is.
fn server_of(image: &str, argv: &[String], environment: &Environment) -> Option<Server> {
    let argv = expand_all(argv, &environment.variables).ok()?;
    Server::of(&environment.programs, &argv, &environment.variables, known_image::version(image))
}

/// What a declared port answers of a container whose program is not simulated, or which has the annotation `http`: so that clients which
/// only wait until something listens go on.
fn declared(object: &PodObject, index: usize, spec: &ContainerSpec, port: u16) -> Option<String> {
    let ports = spec.options.as_deref().map(|options| options.ports.as_slice()).unwrap_or_default();
    let is_tcp = |protocol: &str| matches!(protocol, "" | "TCP");
    if !ports.iter().any(|one| one.container_port == i32::from(port) && is_tcp(&one.protocol)) {
        return None;
    }
    if let Some(page) = behavior::script(&object.metadata.annotations, &spec.name).http {
        return Some(page);
    }
    let is_simulated =
        program::has_process(object, index) || program::server_command(object, index).is_some();
    let meta = &object.metadata;
    let page =
        || format!("simulated pod {}/{}, container {}, port {port}\n", meta.namespace, meta.name, spec.name);
    (!is_simulated).then(page)
}

impl Served {
    /// Serves a connection until it ends, or the container's run does.
    pub(super) fn serve(self, stream: Stream) -> Boxed<()> {
        Box::pin(async move {
            pay_connection(&self.budget).await;
            match self.server.encryption(&self.environment, stream.local().port()) {
                ServerEncryption::Plain => self.serve_plain(stream).await,
                ServerEncryption::Tls(certificate) => self.serve_tls(stream, &certificate).await,
                ServerEncryption::Broken(why) => {
                    self.log(&format!("{why}\n")).await;
                    stream.reset();
                }
            }
        })
    }

    async fn serve_plain(&self, mut stream: Stream) {
        let ends = (stream.peer(), stream.local());
        let is_over = tokio::select! {
            biased;
            () = ended(&self.feed, self.index, &self.run) => false,
            is_over = self.converse(&mut stream, ends) => is_over,
        };
        if !is_over {
            stream.reset();
        }
    }

    async fn serve_tls(&self, mut stream: Stream, certificate: &ServerCertificate) {
        let ends = (stream.peer(), stream.local());
        let conversation = async {
            match stream.peek().await {
                Ok(Some(HANDSHAKE)) => {}
                Ok(Some(_)) => {
                    // The client may be gone.
                    let _ = stream.write_all(PLAIN_REQUEST).await;
                    return;
                }
                Ok(None) | Err(_) => return,
            }
            self.budget.pay(HANDSHAKE_WORK).await;
            match tls::accept(stream, certificate).await {
                Ok(mut stream) => {
                    if self.converse(&mut stream, ends).await {
                        let _ = stream.shutdown().await;
                    }
                }
                Err(why) => {
                    let time = self.streams.clock.now().strftime("%Y/%m/%d %H:%M:%S");
                    self.log(&format!("{time} http: TLS handshake error from {}: {why}\n", ends.0)).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = ended(&self.feed, self.index, &self.run) => {}
            () = conversation => {}
        }
    }

    /// Writes a line to the log of the server's container.
    async fn log(&self, line: &str) {
        let (_, snapshot) = self.feed.get();
        let (container, run, now) = (&self.container, &self.run, self.streams.clock.now());
        let is_error = self.server.logs_to_stderr();
        match &snapshot.outputs {
            Some(outputs) if outputs.of(container, run).is_some() => {
                outputs.print(container, run, is_error, line.as_bytes(), now);
            }
            // The first line of a server that runs no command: the manager makes a place for it.
            Some(_) | None => {
                let meta = &snapshot.record.pod.metadata;
                let (pod, uid) = (Key::new(&meta.namespace, &meta.name), meta.uid.clone());
                let (container, run) = (container.clone(), run.clone());
                let line = ServerLine { pod, uid, container, run, is_error, line: line.to_owned() };
                // The manager may have ended.
                let _ = self.streams.messages.send(ManagerMessage::Logged(Box::new(line))).await;
            }
        }
    }

    /// Answers on a connection between a client and this server. Returns false if the connection is to be reset.
    async fn converse<S>(&self, stream: &mut S, ends: (SocketAddr, SocketAddr)) -> bool
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        match self.server.greeting(&self.environment.hostname, ends.1.port()) {
            ServerGreeting::Http => {}
            ServerGreeting::Health => {
                self.answer_health_checks(stream).await;
                return true;
            }
            ServerGreeting::Reset => return false,
            ServerGreeting::Bytes(bytes, closes) => {
                let sent = stream.write_all(&bytes).await.is_ok();
                // It reads on until the client leaves.
                let mut buffer = vec![0; NETWORK_BUFFER];
                while !closes && sent && matches!(stream.read(&mut buffer).await, Ok(1..)) {}
                return true;
            }
        }
        let mut reader = RequestReader::default();
        let mut buffer = vec![0; NETWORK_BUFFER];
        // Bytes of requests count against the memory of the server's container.
        let Some(mut room) = self.environment.memory.hold(NETWORK_BUFFER) else { return false };
        loop {
            match reader.read() {
                HttpRead::More => match stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return true,
                    Ok(count) if room.grow(count) => reader.push(&buffer[..count]),
                    Ok(_) => return false,
                },
                HttpRead::Continue => {
                    if stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err() {
                        return true;
                    }
                }
                HttpRead::Bad(code, text) => {
                    let _ = stream.write_all(&HttpResponse::refusal(code, text)).await;
                    return true;
                }
                HttpRead::Request(request) => {
                    if !Box::pin(self.answer(&request, stream, ends)).await {
                        return true;
                    }
                    drop(request);
                    match self.environment.memory.hold(NETWORK_BUFFER + reader.held()) {
                        Some(less) => room = less,
                        None => return false,
                    }
                }
            }
        }
    }

    /// Answers a request. Returns whether the connection goes on.
    async fn answer<S>(
        &self,
        request: &HttpRequest,
        stream: &mut S,
        (remote, local): (SocketAddr, SocketAddr),
    ) -> bool
    where
        S: AsyncWrite + Send + Unpin,
    {
        self.budget.pay(REQUEST_WORK).await;
        let (_, snapshot) = self.feed.get();
        let now = self.streams.clock.now();
        let peer = ServerPeer {
            remote,
            local,
            uptime: between(self.started_at, now),
            is_stopping: matches!(snapshot.machine.containers[self.index].phase, Phase::Stopping(_)),
        };
        let (action, line) = self.server.respond(&self.environment, request, &peer);
        if let Some(line) = line {
            self.log(&line).await;
        }
        let (response, exit) = match action {
            ServerAction::Answer(response) => (response, None),
            ServerAction::Exit(response, code) => (response, Some(code)),
            ServerAction::Later(time, response) => {
                tokio::time::sleep(time).await;
                (response, None)
            }
            ServerAction::Silence => std::future::pending().await,
            ServerAction::Command(_) | ServerAction::Dial(_) if self.asker == Asker::Server => {
                let text = "kstore: a request of a server makes no further requests\n";
                (HttpResponse::sniffed(503, text), None)
            }
            ServerAction::Command(argv) => {
                let (mut output, container) = (Vec::new(), (&*self.container, &*self.run, Asker::Server));
                let code = self.streams.run_command(&snapshot, container, &argv, &mut output).await;
                (self.server.ran(&output, code), None)
            }
            ServerAction::Dial(calls) => {
                let mut replies = Vec::with_capacity(calls.len());
                for call in &calls {
                    replies.push(self.network.clone().perform(call.clone()).await);
                }
                (self.server.dialed(&calls, &replies), None)
            }
        };
        let is_last = request.is_last() || exit.is_some();
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let head = response.head(request, &date, is_last);
        let sent = stream.write_all(&head).await.is_ok()
            && stream.write_all(response.sent_body(request)).await.is_ok()
            && stream.flush().await.is_ok();
        if let Some(code) = exit {
            self.exit(&snapshot, code).await;
        }
        sent && !is_last
    }

    /// The answer to a datagram between these addresses; `None`: there is none.
    pub(super) async fn answer_datagram(
        &self,
        bytes: &[u8],
        (remote, local): (SocketAddr, SocketAddr),
    ) -> Option<Vec<u8>> {
        self.budget.pay(REQUEST_WORK).await;
        let uptime = between(self.started_at, self.streams.clock.now());
        let peer = ServerPeer { remote, local, uptime, is_stopping: false };
        self.server.answer(bytes, &self.environment.hostname, &peer)
    }

    /// Answers gRPC health checks on a connection until its client leaves.
    async fn answer_health_checks<S>(&self, stream: &mut S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let (server, clock, started_at) = (self.server.clone(), self.streams.clock, self.started_at);
        let is_healthy = move |service: &str| server.health(service, between(started_at, clock.now()));
        health::serve(stream, Arc::clone(&self.budget), is_healthy).await;
    }

    /// Ends the server's container.
    async fn exit(&self, snapshot: &Snapshot, code: u8) {
        let meta = &snapshot.record.pod.metadata;
        let pod = Key::new(&meta.namespace, &meta.name);
        let (container, run, uid) = (self.container.clone(), self.run.clone(), meta.uid.clone());
        // The manager may have ended.
        let exit = Exit { pod, uid, container, run, code, oom: false, at: None };
        let _ = self.streams.messages.send(ManagerMessage::Exit(exit)).await;
    }
}
