//! Networks of pods on this machine: programs of a container and a network in this process, joined by a gateway. The test's own program is
//! the launcher. Where containers cannot be confined or have no network, or there is no Python, the test says so and why, and passes.

use kstore_host_runtime::child::{ContainerEnd, ContainerStreams, RunningContainer};
use kstore_host_runtime::gateway::{
    Answers, Boxed, ByteStream, Datagram, Opened, OuterNetwork, PodPort, Unreached,
};
use kstore_host_runtime::mapping::ImageMap;
use kstore_host_runtime::plan::ContainerPlan;
use kstore_host_runtime::{HostPrograms, PodLink, launcher, outside};
use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
    DuplexStream, ReadBuf, copy, duplex, split,
};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Longest wait for something that is about to happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// The address of the pod.
const POD: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 5);
const PYTHON: &str = "/usr/bin/python3";

/// The tests cannot run here, for this reason: a failure with `KSTORE_NEEDS_NAMESPACES`.
fn skipped(why: &str) -> ExitCode {
    println!("skipped: {why}");
    ExitCode::from(u8::from(std::env::var_os("KSTORE_NEEDS_NAMESPACES").is_some()))
}

fn main() -> ExitCode {
    if let Some(code) = std::env::args().nth(1).as_deref().and_then(launcher::run) {
        return code;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let programs = HostPrograms::new(ImageMap::default(), "/proc/self/exe".into(), dir.path());
    if let Err(why) = programs.network() {
        return skipped(&format!("pods have no network of their own here: {why}"));
    }
    if !Path::new(PYTHON).exists() {
        return skipped(&format!("{PYTHON} is not here"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tests = Networks { programs, dir: dir.path() };
    runtime.block_on(async {
        tests.programs_reach_the_outer_network_and_hear_its_refusals().await;
        tests.programs_reach_nothing_of_this_machine().await;
        tests.clients_reach_programs_with_their_own_addresses().await;
        tests.containers_and_commands_of_a_pod_share_its_loopback().await;
        tests.clients_of_the_loopback_reach_what_listens_there_alone().await;
        tests.connections_out_of_the_cluster_lose_no_byte_at_their_end().await;
        tests.many_connections_carry_their_own_bytes().await;
        tests.datagrams_to_programs_are_answered().await;
        tests.nothing_of_a_network_is_left().await;
    });
    println!("9 tests passed");
    ExitCode::SUCCESS
}

/// An outer network: at port 80 of each address is a server that sends everything back, at 81 is none, to 82 is no way, and at 83 packets
/// vanish. Datagrams are answered in capital letters.
struct Outer;

impl OuterNetwork for Outer {
    fn connect(&self, to: SocketAddr) -> Boxed<std::result::Result<Opened, Unreached>> {
        Box::pin(async move {
            match to.port() {
                80 => {}
                81 => return Err(Unreached::Refused),
                82 => return Err(Unreached::NoRoute),
                _ => return Err(Unreached::Vanished),
            }
            let (near, far) = duplex(4096);
            let serving: Boxed<()> = Box::pin(async move {
                let (mut reader, mut writer) = split(far);
                let copied = copy(&mut reader, &mut writer).await;
                // The client may have ended the connection.
                if copied.is_ok() {
                    let _ = writer.shutdown().await;
                }
            });
            Ok(Opened { stream: Box::new(Pipe(near)), serving: Some(serving) })
        })
    }

    fn send(&self, datagram: Datagram) -> Boxed<()> {
        Box::pin(async move { datagram.answers.send(datagram.bytes.to_ascii_uppercase()) })
    }
}

/// An outer network in which every address leads to one of this machine.
struct Beyond(SocketAddr);

impl OuterNetwork for Beyond {
    fn connect(&self, _to: SocketAddr) -> Boxed<std::result::Result<Opened, Unreached>> {
        let to = self.0;
        Box::pin(async move {
            let socket = outside::connect(to).await?;
            let (near, far) = duplex(64 << 10);
            let serving: Boxed<()> = Box::pin(outside::relay(socket, Box::new(Pipe(far))));
            Ok(Opened { stream: Box::new(Pipe(near)), serving: Some(serving) })
        })
    }

    fn send(&self, _datagram: Datagram) -> Boxed<()> {
        Box::pin(std::future::ready(()))
    }
}

struct Pipe(DuplexStream);

impl ByteStream for Pipe {
    fn reset(self: Box<Self>) {}
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

struct Networks<'d> {
    programs: HostPrograms,
    dir: &'d Path,
}

/// A running program and what it prints.
struct Running {
    lines: tokio::io::Lines<BufReader<ChildStdout>>,
    _end: ContainerEnd,
}

impl Running {
    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("it prints");
        line.expect("text").unwrap_or_default()
    }
}

impl Running {
    /// Waits until the program has ended.
    async fn ended(&mut self) {
        let rest = timeout(PATIENCE, self.lines.next_line()).await.expect("it ends");
        assert_eq!(rest.expect("text"), None);
    }
}

/// The code of a server at a port of the pod that sends back what it gets, after the address of its client.
const SERVER: &str = "
import socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write((self.client_address[0] + '\\n').encode())
        while part := self.request.recv(65536):
            self.request.sendall(part)
socketserver.ThreadingTCPServer.request_queue_size = 64
server = socketserver.ThreadingTCPServer(('', 80), Echo)
print('listens', flush=True)
server.serve_forever()
";

impl Networks<'_> {
    fn link(&self) -> PodLink {
        self.programs.link(POD.into(), Arc::new(Outer), 7).expect("a network")
    }

    /// Starts a program of Python in a network.
    fn start(&self, name: &str, link: &PodLink, code: &str) -> Running {
        let program: PathBuf = self.dir.join(name);
        std::fs::write(&program, format!("#!{PYTHON}\n{code}")).expect("a program");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let plan = ContainerPlan {
            program,
            env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            workdir: "/".to_owned(),
            user: (1000, 1000),
            network: Some(Arc::clone(link.namespace())),
            ..ContainerPlan::default()
        };
        let started = self.programs.start("pod", name, &plan).expect("it starts");
        let RunningContainer { streams, end } = started.into_running().expect("it runs");
        let ContainerStreams::Pipes { stdout, mut stderr, .. } = streams else { panic!("a terminal") };
        tokio::spawn(async move {
            let mut errors = String::new();
            let _ = stderr.read_to_string(&mut errors).await;
            eprint!("{errors}");
        });
        Running { lines: BufReader::new(stdout).lines(), _end: end }
    }

    async fn programs_reach_the_outer_network_and_hear_its_refusals(&self) {
        let link = self.link();
        let mut program = self.start(
            "client",
            &link,
            "
import errno, os, socket, threading
s = socket.create_connection(('10.96.0.1', 80))
print(s.getsockname()[0], s.getpeername()[0])
sent = os.urandom(1 << 20)
threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR))).start()
got = b''
while part := s.recv(1 << 16): got += part
print(got == sent)
for port in (81, 82):
    try: socket.create_connection(('10.96.0.1', port))
    except OSError as error: print(errno.errorcode[error.errno])
try: socket.create_connection(('10.96.0.1', 83), timeout=0.3)
except TimeoutError: print('silence')
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.connect(('10.96.0.10', 53))
for size in (5, 8000):
    u.send(b'a' * size)
    print(u.recv(9000) == b'A' * size)
",
        );
        assert_eq!(program.line().await, "10.128.0.5 10.96.0.1");
        assert_eq!(program.line().await, "True", "a mebibyte there and back");
        assert_eq!(program.line().await, "ECONNREFUSED");
        assert_eq!(program.line().await, "EHOSTUNREACH");
        assert_eq!(program.line().await, "silence");
        assert_eq!(program.line().await, "True", "a short datagram");
        assert_eq!(program.line().await, "True", "a long datagram");
    }

    async fn programs_reach_nothing_of_this_machine(&self) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let link = self.link();
        let code = format!(
            "
import socket
print(sorted(name for _, name in socket.if_nameindex()))
try: socket.create_connection(('127.0.0.1', {port}))
except ConnectionRefusedError: print('refused')
"
        );
        let mut program = self.start("inside", &link, &code);
        assert_eq!(program.line().await, "['eth0', 'lo']");
        assert_eq!(program.line().await, "refused");
    }

    /// Connects to a port of the pod, sends a text, and returns everything that comes back.
    async fn ask(&self, link: &PodLink, from: Option<Ipv4Addr>, text: &[u8]) -> Vec<u8> {
        let (near, far) = duplex(4096);
        let dialled = link.gateway().dial(from.map(Into::into), PodPort::Pod(80), Box::new(Pipe(far)));
        timeout(PATIENCE, dialled).await.expect("an answer").expect("a program listens");
        let (mut reader, mut writer) = split(near);
        let mut all = Vec::new();
        let sending = async {
            writer.write_all(text).await.expect("it reads");
            writer.shutdown().await.expect("it reads");
        };
        let both = async { tokio::join!(sending, reader.read_to_end(&mut all)).1 };
        timeout(PATIENCE, both).await.expect("an end").expect("an end in order");
        all
    }

    async fn clients_reach_programs_with_their_own_addresses(&self) {
        let link = self.link();
        // Port 80 needs no right, as in containers elsewhere.
        let mut program = self.start("server", &link, SERVER);
        assert_eq!(program.line().await, "listens");
        let client = Ipv4Addr::new(10, 128, 3, 4);
        assert_eq!(self.ask(&link, Some(client), b"hello").await, b"10.128.3.4\nhello");
        let of_gateway = self.ask(&link, None, b"").await;
        assert!(of_gateway.starts_with(b"169.254."), "{of_gateway:?}");
        let (_near, far) = duplex(64);
        let refused = link.gateway().dial(Some(client.into()), PodPort::Pod(99), Box::new(Pipe(far)));
        assert_eq!(timeout(PATIENCE, refused).await.expect("an answer"), Err(Unreached::Refused));
    }

    async fn containers_and_commands_of_a_pod_share_its_loopback(&self) {
        let link = self.link();
        let mut server = self.start("one", &link, SERVER);
        assert_eq!(server.line().await, "listens");
        let ask =
            "import socket; print(socket.create_connection(('127.0.0.1', 80)).makefile().readline(), end='')";
        let mut other = self.start("two", &link, ask);
        assert_eq!(other.line().await, "127.0.0.1");
        let argv = [PYTHON, "-c", ask].map(str::to_owned);
        let mut command = self.programs.command(("pod", "one"), &argv, false).expect("it runs");
        let output = timeout(PATIENCE, command.output()).await.expect("it ends").expect("it starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "127.0.0.1\n", "{output:?}");
    }

    async fn clients_of_the_loopback_reach_what_listens_there_alone(&self) {
        let link = self.link();
        let code = SERVER.replace("('', 80)", "('127.0.0.1', 80)");
        let mut server = self.start("local", &link, &code);
        assert_eq!(server.line().await, "listens");
        let dial = async |to: PodPort| {
            let (near, far) = duplex(4096);
            let dialled = link.gateway().dial(None, to, Box::new(Pipe(far)));
            timeout(PATIENCE, dialled).await.expect("an answer").map(|()| near)
        };
        let mut near = dial(PodPort::Loopback(80)).await.expect("it listens there");
        near.write_all(b"to the loopback").await.expect("it reads");
        near.shutdown().await.expect("it reads");
        let mut all = String::new();
        timeout(PATIENCE, near.read_to_string(&mut all)).await.expect("an end").expect("text");
        assert!(all.starts_with("169.254.") && all.ends_with("\nto the loopback"), "{all}");
        assert_eq!(dial(PodPort::Pod(80)).await.err(), Some(Unreached::Refused));
        assert_eq!(dial(PodPort::Loopback(81)).await.err(), Some(Unreached::Refused));
    }

    /// The server closes its direction first; the program then sends a mebibyte and ends at once.
    async fn connections_out_of_the_cluster_lose_no_byte_at_their_end(&self) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let to = listener.local_addr().expect("it has one");
        let link = self.programs.link(POD.into(), Arc::new(Beyond(to)), 7).expect("a network");
        let code = "
import os, socket
s = socket.create_connection(('192.0.2.7', 80))
print(s.recv(100), s.recv(100), flush=True)
s.sendall(b'x' * (1 << 20))
os._exit(0)
";
        let mut program = self.start("last", &link, code);
        let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.expect("a client").expect("one");
        stream.write_all(b"first").await.expect("it reads");
        stream.shutdown().await.expect("it reads");
        assert_eq!(program.line().await, "b'first' b''");
        // Much is still on its way when the program has ended.
        let mut all = Vec::new();
        let reading = timeout(PATIENCE, stream.read_to_end(&mut all));
        tokio::join!(program.ended(), reading).1.expect("an end").expect("bytes");
        assert_eq!(all.len(), 1 << 20);
        let refused = outside::connect("127.0.0.1:1".parse().expect("an address")).await;
        assert_eq!(refused.err(), Some(Unreached::Refused));
    }

    async fn many_connections_carry_their_own_bytes(&self) {
        let link = self.link();
        let mut program = self.start("server", &link, SERVER);
        assert_eq!(program.line().await, "listens");
        for round in 0..5_u8 {
            let ask = async |number: u8| {
                let text = vec![number ^ round; 30_000 + usize::from(number)];
                let answer = self.ask(&link, Some(Ipv4Addr::new(10, 128, 4, number)), &text).await;
                let head = format!("10.128.4.{number}\n");
                assert!(answer == [head.as_bytes(), &text].concat(), "of {number}");
            };
            futures_join(&ask).await;
        }
    }

    async fn datagrams_to_programs_are_answered(&self) {
        let link = self.link();
        let mut program = self.start(
            "datagrams",
            &link,
            "
import socket
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('', 5353))
print('listens', flush=True)
while True:
    got, peer = u.recvfrom(9000)
    for part in (got[::-1], peer[0].encode()): u.sendto(part, peer)
",
        );
        assert_eq!(program.line().await, "listens");
        let (sender, mut answers) = mpsc::channel(8);
        let answers_to = Answers::new(move |bytes| drop(sender.try_send(bytes)));
        let from = "10.128.9.9:4444".parse().expect("an address");
        let to = SocketAddr::new(POD.into(), 5353);
        link.gateway().deliver(Datagram { from, to, bytes: b"abc".to_vec(), answers: answers_to });
        for expected in ["cba", "10.128.9.9"] {
            let answer = timeout(PATIENCE, answers.recv()).await.expect("an answer").expect("bytes");
            assert_eq!(String::from_utf8_lossy(&answer), expected);
        }
    }

    async fn nothing_of_a_network_is_left(&self) {
        let link = self.link();
        let entry = format!("{:?}", link.namespace());
        let mut program = self.start("server", &link, SERVER);
        assert_eq!(program.line().await, "listens");
        let of =
            |path: PathBuf| std::fs::read_link(path).map(|to| to.display().to_string()).unwrap_or_default();
        let own = of("/proc/self/ns/net".into());
        let others = || {
            let all = std::fs::read_dir("/proc").expect("there are processes").flatten();
            // A process that has another name than this program and the network of this process is none of this test.
            let is_program = |pid: &Path| {
                let line = std::fs::read(pid.join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains("/opt/bin/server")
            };
            let networks =
                all.map(|entry| entry.path()).filter(|pid| is_program(pid)).map(|pid| of(pid.join("ns/net")));
            networks.filter(|network| *network != own && !network.is_empty()).collect::<Vec<_>>()
        };
        let network = others().pop().expect("the program has a network of its own");
        let held = || {
            let all = std::fs::read_dir("/proc/self/fd").expect("there are descriptors").flatten();
            all.map(|entry| of(entry.path())).filter(|to| *to == network || to == "/dev/net/tun").count()
        };
        assert!(held() >= 2, "the namespace and its device: {entry}");
        drop(program);
        drop(link);
        let left = async {
            while held() > 0 || !others().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, left).await.expect("descriptors and processes end");
    }
}

/// Asks for twenty at once.
async fn futures_join(ask: &impl AsyncFn(u8)) {
    let (a, b) = (
        async |first: u8| {
            tokio::join!(ask(first), ask(first + 1), ask(first + 2), ask(first + 3), ask(first + 4))
        },
        5,
    );
    tokio::join!(a(0), a(b), a(2 * b), a(3 * b));
}
