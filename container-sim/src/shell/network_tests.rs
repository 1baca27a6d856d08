//! `wget`, `curl`, `nc` and `agnhost connect` against the servers of known images. There is no network between: the test hands the bytes
//! over.

use super::{
    DnsAnswer, DnsQuestion, DnsRecord, Environment, NetworkCall, NetworkEnd, NetworkFailure, NetworkReply,
    Received, ReceivedEnd, RecordKind, Server, ServerAction, ServerGreeting, ServerPeer, Shell, ShellStep,
    TlsFailure, TlsTrust,
};
use crate::http::{HttpRead, HttpRequest, HttpResponse, RequestReader};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Servers by address and port.
type Servers = BTreeMap<(IpAddr, u16), (Server, Arc<Environment>)>;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn server(argv: &[&str], variables: &[(&str, &str)]) -> Server {
    let programs =
        [("/agnhost", "agnhost"), ("nginx", "nginx"), ("/http-echo", "http-echo"), ("httpd", "httpd")];
    let programs = programs.map(|(path, name)| (path.to_owned(), name.to_owned())).into();
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Server::of(&programs, &words(argv), &variables, None).unwrap()
}

fn peer(port: u16) -> ServerPeer {
    let (remote, local) = ("10.0.0.9:40000".parse().unwrap(), SocketAddr::new([10, 0, 0, 1].into(), port));
    ServerPeer { remote, local, uptime: Duration::from_secs(1), is_stopping: false }
}

fn environment(name: &str) -> Environment {
    Environment { hostname: name.to_owned(), workdir: "/".to_owned(), ..Environment::default() }
}

/// All servers of these tests, at 10.0.0.1.
fn servers() -> Servers {
    let of = |port: u16, server: Server, name: &str| {
        (([10, 0, 0, 1].into(), port), (server, Arc::new(environment(name))))
    };
    BTreeMap::from([
        of(80, server(&["nginx", "-g", "daemon off;"], &[]), "web"),
        of(81, server(&["httpd"], &[]), "web"),
        of(8080, server(&["/agnhost", "netexec"], &[]), "net"),
        of(9376, server(&["/agnhost", "serve-hostname"], &[]), "host"),
        of(9377, server(&["/agnhost", "serve-hostname", "--tcp", "--port=9377", "--close"], &[]), "host"),
        of(90, server(&["/agnhost", "porter"], &[("SERVE_PORT_90", "<a href=\"/x\">x</a>")]), "porter"),
        of(5678, server(&["/http-echo", "-text=hi there"], &[]), "echo"),
        of(91, server(&["/agnhost", "tcp-reset", "--port", "91"], &[]), "reset"),
    ])
}

/// What a server sends back for these bytes.
fn served(
    servers: &Servers,
    server: &Server,
    environment: &Arc<Environment>,
    port: u16,
    sent: &[u8],
) -> (Vec<u8>, ReceivedEnd) {
    match server.greeting(&environment.hostname, port) {
        ServerGreeting::Bytes(bytes, _) => return (bytes, ReceivedEnd::Done),
        ServerGreeting::Reset => return (Vec::new(), ReceivedEnd::Reset),
        ServerGreeting::Http => {}
        ServerGreeting::Health => unreachable!("no client here speaks gRPC"),
    }
    let mut reader = RequestReader::default();
    reader.push(sent);
    let mut out = Vec::new();
    loop {
        match reader.read() {
            HttpRead::More => return (out, ReceivedEnd::Done),
            HttpRead::Continue => {}
            HttpRead::Bad(code, text) => {
                out.extend(HttpResponse::refusal(code, text));
                return (out, ReceivedEnd::Done);
            }
            HttpRead::Request(request) => {
                let (action, _) = server.respond(environment, &request, &peer(port));
                let response = match action {
                    ServerAction::Answer(response)
                    | ServerAction::Exit(response, _)
                    | ServerAction::Later(_, response) => response,
                    ServerAction::Command(argv) => server.ran(argv.join(" ").as_bytes(), 3),
                    ServerAction::Silence => return (out, ReceivedEnd::TimedOut),
                    ServerAction::Dial(calls) => {
                        let replies: Vec<_> = calls.iter().map(|call| carried_out(servers, call)).collect();
                        server.dialed(&calls, &replies)
                    }
                };
                out.extend(response.head(&request, "DATE", request.is_last()));
                out.extend(response.sent_body(&request));
            }
        }
    }
}

/// A name server that knows two names, one of which stands for the other.
fn looked_up(question: &DnsQuestion) -> DnsAnswer {
    let record = |name: &str, kind, value: &str| DnsRecord {
        name: name.to_owned(),
        kind,
        value: value.to_owned(),
        ttl: 30,
    };
    let web = || record("web.ns.svc.cluster.local", RecordKind::A, "10.96.0.7");
    let records = match (question.name.as_str(), question.kind) {
        ("web.ns.svc.cluster.local", RecordKind::A) => vec![web()],
        ("alias.ns.svc.cluster.local", RecordKind::A) => {
            let to = "web.ns.svc.cluster.local.";
            vec![record("alias.ns.svc.cluster.local", RecordKind::Cname, to), web()]
        }
        ("7.0.96.10.in-addr.arpa", RecordKind::Ptr) => {
            vec![record("7.0.96.10.in-addr.arpa", RecordKind::Ptr, "web.ns.svc.cluster.local.")]
        }
        ("web.ns.svc.cluster.local" | "alias.ns.svc.cluster.local", _) => Vec::new(),
        _ => return DnsAnswer::default(),
    };
    DnsAnswer { exists: true, records }
}

fn carried_out(servers: &Servers, call: &NetworkCall) -> NetworkReply {
    if let NetworkEnd::Lookup(question) = &call.end {
        return NetworkReply {
            answer: Some(looked_up(question)),
            ..NetworkReply::failed(NetworkFailure::InUse)
        };
    }
    let (NetworkEnd::Connect(host, port) | NetworkEnd::Datagram(host, port)) = &call.end else {
        return NetworkReply::failed(NetworkFailure::InUse);
    };
    let Ok(ip) = host.parse::<IpAddr>() else { return NetworkReply::failed(NetworkFailure::UnknownName) };
    if ip == IpAddr::from([10, 0, 0, 2]) {
        return NetworkReply::failed(NetworkFailure::TimedOut(ip));
    }
    if matches!(call.end, NetworkEnd::Datagram(..)) {
        let server = servers.values().find(|(server, _)| server.receives(*port));
        let Some((server, environment)) = server else {
            return NetworkReply::failed(NetworkFailure::Refused(ip));
        };
        let answer = server.answer(&call.send, &environment.hostname, &peer(*port));
        let (bytes, end) =
            answer.map_or((Vec::new(), ReceivedEnd::TimedOut), |bytes| (bytes, ReceivedEnd::Done));
        let result = Ok(Received { peer: SocketAddr::new(ip, *port), bytes, end });
        return NetworkReply { result, room: None, answer: None };
    }
    let Some((server, environment)) = servers.get(&(ip, *port)) else {
        return NetworkReply::failed(NetworkFailure::Refused(ip));
    };
    // The server at port 9376 stands for one whose certificate has no known authority.
    let encrypted = call.tls.as_ref().map(|tls| match (port, &tls.trust) {
        (9376, TlsTrust::Anything) => None,
        (9376, TlsTrust::Authorities(pem)) if pem.is_empty() => Some(TlsFailure::UnknownAuthority),
        (9376, TlsTrust::Authorities(_)) => Some(TlsFailure::WrongName),
        _ => Some(TlsFailure::NotTls),
    });
    if let Some(Some(why)) = encrypted {
        return NetworkReply::failed(NetworkFailure::Tls(why));
    }
    let (mut bytes, end) = served(servers, server, environment, *port, &call.send);
    bytes.truncate(call.most);
    NetworkReply {
        result: Ok(Received { peer: SocketAddr::new(ip, *port), bytes, end }),
        room: None,
        answer: None,
    }
}

/// Standard output, standard error and exit code of a script.
fn sh(environment: &Environment, script: &str) -> (String, String, u8) {
    let servers = servers();
    let mut shell = Shell::run(environment.clone(), &words(&["sh", "-c", script])).unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    loop {
        match shell.step() {
            ShellStep::Print(1, bytes) => out.push_str(&String::from_utf8_lossy(bytes.as_ref())),
            ShellStep::Print(_, bytes) => err.push_str(&String::from_utf8_lossy(bytes.as_ref())),
            ShellStep::Network(number, call) => {
                let reply = carried_out(&servers, &call);
                shell.network(number, reply, Duration::ZERO);
            }
            ShellStep::Sleep(_) | ShellStep::Yield => {}
            ShellStep::Read => shell.input(None),
            ShellStep::ReadLine => shell.line(None),
            ShellStep::Exit(code) => return (out, err, code),
        }
    }
}

#[test]
fn wget_prints_and_stores_pages_and_fails_as_busybox_does() {
    let env = environment("c");
    let (page, err, code) = sh(&env, "wget -qO- http://10.0.0.1");
    assert!(
        page.contains("<title>Welcome to nginx!</title>") && (err.as_str(), code) == ("", 0),
        "{page} {err}"
    );
    let (out, err, code) = sh(&env, "wget 10.0.0.1:81 && cat index.html; wget 10.0.0.1:81");
    assert_eq!((out.as_str(), code), ("<html><body><h1>It works!</h1></body></html>\n", 1));
    assert!(err.starts_with("Connecting to 10.0.0.1:81 (10.0.0.1:81)\nsaving to 'index.html'\n"), "{err}");
    assert!(err.ends_with("wget: can't open 'index.html': File exists\n"), "{err}");
    for (script, expected) in [
        ("wget -qO- 10.0.0.1/no", "wget: server returned error: HTTP/1.1 404 Not Found\n"),
        ("wget -qO- 10.0.0.1:1", "wget: can't connect to remote host (10.0.0.1): Connection refused\n"),
        ("wget -qO- 10.0.0.2", "wget: download timed out\n"),
        ("wget -qO- http://web/", "wget: bad address 'web'\n"),
        ("wget -qO- 10.0.0.1:91", "wget: error getting response: Connection reset by peer\n"),
        (
            "wget -q https://10.0.0.1:8080",
            "wget: note: TLS certificate validation not implemented\nwget: error getting response: Connection reset by peer\n",
        ),
        (
            "wget -q --no-check-certificate https://10.0.0.1:1",
            "wget: can't connect to remote host (10.0.0.1): Connection refused\n",
        ),
    ] {
        let (_, err, code) = sh(&env, script);
        assert_eq!((err.as_str(), code), (expected, 1), "{script}");
    }
    let circle = format!("wget -qO- 10.0.0.1:8080{}", "/redirect?location=".repeat(12));
    assert_eq!(sh(&env, &circle).1, "wget: too many redirections\n");
    let posted = sh(&env, "wget -qO- --post-data 'msg=a b%21' --header 'X-Y: z' 10.0.0.1:8080/echo");
    assert_eq!(posted, ("a b!".to_owned(), String::new(), 0));
    let named = Environment {
        files: BTreeMap::from([("/etc/hosts".to_owned(), Arc::from(&b"10.0.0.1\tweb other\n"[..]))]),
        ..environment("c")
    };
    assert_eq!(sh(&named, "wget -qO- other:9376").0, "host");
}

#[test]
fn curl_answers_with_the_exit_codes_and_texts_of_the_real_one() {
    let env = environment("c");
    for (script, out, err, code) in [
        ("curl -s 10.0.0.1:9376", "host", "", 0),
        ("curl -s 10.0.0.1:1", "", "", 7),
        (
            "curl 10.0.0.1:1",
            "",
            "curl: (7) Failed to connect to 10.0.0.1 port 1 after 0 ms: Could not connect to server\n",
            7,
        ),
        ("curl -sS -m 1.5 10.0.0.2", "", "curl: (28) Connection timed out after 1500 milliseconds\n", 28),
        ("curl -sS http://nope/", "", "curl: (6) Could not resolve host: nope\n", 6),
        (
            "curl -sSf 10.0.0.1:8080/echo?code=500",
            "",
            "curl: (22) The requested URL returned error: 500\n",
            22,
        ),
        ("curl -sS 10.0.0.1:91", "", "curl: (56) Recv failure: Connection reset by peer\n", 56),
        ("curl -s -o /dev/null -w '%{http_code}\\n' 10.0.0.1/x", "404\n", "", 0),
        ("curl -s -X POST -d msg=a -d x=b 10.0.0.1:8080/echo", "a", "", 0),
        ("curl -sL 10.0.0.1:8080/redirect?location=/echo?msg=there", "there", "", 0),
        ("curl -s -G -d msg=q 10.0.0.1:8080/echo", "q", "", 0),
        ("curl -s -H 'X-A: b' 10.0.0.1:8080/header?key=x-a", "b", "", 0),
        ("curl -su a:b 10.0.0.1:8080/header?key=Authorization", "Basic YTpi", "", 0),
        ("curl -s 10.0.0.1:5678", "hi there\n", "", 0),
        ("curl -sk https://10.0.0.1:9376 -w '%{url_effective}'", "hosthttps://10.0.0.1:9376/", "", 0),
        (
            "curl -sS https://10.0.0.1:9376",
            "",
            "curl: (60) SSL certificate problem: unable to get local issuer certificate\n",
            60,
        ),
        (
            "echo x > /tmp/ca; curl -sS --cacert /tmp/ca https://10.0.0.1:9376",
            "",
            "curl: (60) SSL: no alternative certificate subject name matches target host name '10.0.0.1'\n",
            60,
        ),
        (
            "curl -sS --cacert /no https://10.0.0.1",
            "",
            "curl: (77) error setting certificate file: /no\n",
            77,
        ),
        (
            "curl -sSk https://10.0.0.1:8080",
            "",
            "curl: (35) TLS connect error: error:0A00010B:SSL routines::wrong version number\n",
            35,
        ),
        ("curl -s 10.0.0.1:8080/clientip 10.0.0.1:8080/x", "10.0.0.9:40000", "", 0),
        (
            "curl -sI 10.0.0.1:90 | tr -d '\\r' | head -n 2",
            "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8\n",
            "",
            0,
        ),
    ] {
        assert_eq!(sh(&env, script), (out.to_owned(), err.to_owned(), code), "{script}");
    }
    let tries = "curl -s --retry 2 --retry-connrefused --retry-delay 1 10.0.0.1:1; echo $SECONDS";
    assert_eq!(sh(&env, tries).0, "3\n", "a second, and then two");
}

#[test]
fn ps_shows_the_first_process() {
    let env = Environment { first_process: "sleep 3600".to_owned(), ..environment("c") };
    let head = "PID   USER     TIME  COMMAND\n";
    assert_eq!(sh(&env, "ps").0, format!("{head}    1 root      0:00 sleep 3600\n    7 root      0:00 ps\n"));
    assert_eq!(sh(&environment("c"), "ps aux | tail -n 1").0, "    7 root      0:00 ps aux\n");
}

#[test]
fn names_are_looked_up_by_the_search_list() {
    let resolver = "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";
    let files = [("/etc/resolv.conf", resolver), ("/etc/hosts", "10.0.0.9\town\n")];
    let files = files.map(|(path, text)| (path.to_owned(), Arc::from(text.as_bytes())));
    let env = Environment { files: files.into(), ..environment("c") };
    let head = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n";
    let whole = "web.ns.svc.cluster.local";
    for (script, out, code) in [
        ("nslookup web".to_owned(), format!("{head}Name:\t{whole}\nAddress: 10.96.0.7\n\n"), 0),
        ("nslookup none".to_owned(), format!("{head}** server can't find none: NXDOMAIN\n\n"), 1),
        ("nslookup 10.96.0.7".to_owned(), format!("{head}7.0.96.10.in-addr.arpa\tname = {whole}.\n\n"), 0),
        ("dig +short +search web".to_owned(), "10.96.0.7\n".to_owned(), 0),
        ("dig +short web".to_owned(), String::new(), 0),
        (format!("dig +notcp +noall +answer {whole} A"), format!("{whole}.\t30\tIN\tA\t10.96.0.7\n"), 0),
        (format!("dig +short {whole} AAAA"), String::new(), 0),
        ("dig +short -x 10.96.0.7".to_owned(), format!("{whole}.\n"), 0),
        (
            "dig +noall +answer +search alias".to_owned(),
            format!("alias.ns.svc.cluster.local.\t30\tIN\tCNAME\t{whole}.\n{whole}.\t30\tIN\tA\t10.96.0.7\n"),
            0,
        ),
        ("getent hosts web".to_owned(), format!("10.96.0.7       {whole}\n"), 0),
        ("getent hosts own".to_owned(), "10.0.0.9        own\n".to_owned(), 0),
        ("getent hosts none".to_owned(), String::new(), 2),
        ("dig none | grep -o 'status: [A-Z]*'".to_owned(), "status: NXDOMAIN\n".to_owned(), 0),
    ] {
        assert_eq!(sh(&env, &script), (out, String::new(), code), "{script}");
    }
}

#[test]
fn nc_and_connect_say_what_they_reach() {
    let mut env = environment("c");
    let bad = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request";
    assert_eq!(sh(&env, "echo hostName | nc -w 2 10.0.0.1 8080"), (bad.to_owned(), String::new(), 0));
    assert_eq!(sh(&env, "nc 10.0.0.1 9377 </dev/null").0, "host");
    assert_eq!(sh(&env, "nc -z 10.0.0.1 80; echo $?; nc -z 10.0.0.1 1; echo $?").0, "0\n1\n");
    let (_, err, _) = sh(&env, "nc -v -w 1 10.0.0.1 1; nc db 1");
    assert_eq!(
        err,
        "nc: can't connect to remote host (10.0.0.1): Connection refused\nnc: bad address 'db'\n"
    );
    env.programs = [("/agnhost".to_owned(), "agnhost".to_owned())].into();
    let (_, err, _) = sh(&env, "echo hostName | nc -v -t -w 2 10.0.0.1 8080; nc -vz 10.0.0.1 1");
    assert_eq!(
        err,
        "Connection to 10.0.0.1 8080 port [tcp/*] succeeded!\nnc: connect to 10.0.0.1 port 1 (tcp) failed: Connection refused\n"
    );
    for (target, text, code) in
        [("10.0.0.1:80", "", 0), ("10.0.0.1:1", "REFUSED\n", 1), ("10.0.0.2:1", "TIMEOUT\n", 1)]
    {
        let got = sh(&env, &format!("/agnhost connect --timeout=3s {target}"));
        assert_eq!(got, (String::new(), text.to_owned(), code));
    }
}

#[test]
fn datagrams_are_answered_by_netexec_and_their_clients_say_what_came() {
    let mut env = environment("c");
    for (sent, answer) in [
        ("hostName", "net"),
        ("ECHO a b", "a b"),
        ("clientip", "10.0.0.9:40000"),
        ("serverport", "8081"),
        ("nothing", ""),
    ] {
        let got = sh(&env, &format!("echo {sent} | nc -u -w 1 10.0.0.1 8081"));
        assert_eq!(got, (answer.to_owned(), String::new(), 0), "{sent}");
    }
    let refused = "nc: can't connect to remote host (10.0.0.1): Connection refused\n";
    assert_eq!(sh(&env, "echo x | nc -u -w 1 10.0.0.1 1"), (String::new(), refused.to_owned(), 1));
    let dial = |port: u16, request: &str| {
        let query = format!("host=10.0.0.1&port={port}&request={request}&protocol=udp");
        sh(&env, &format!("curl -s '10.0.0.1:8080/dial?{query}'")).0
    };
    assert_eq!(dial(8081, "hostname"), "{\"responses\":[\"net\"]}");
    assert_eq!(dial(8081, "x"), "{\"errors\":[\"i/o timeout\"]}");
    assert_eq!(dial(1, "x"), "{\"errors\":[\"connect: connection refused\"]}");
    env.programs = [("/agnhost".to_owned(), "agnhost".to_owned())].into();
    for (target, data, text, code) in [
        ("10.0.0.1:8081", "hostname", "", 0),
        ("10.0.0.1:8081", "x", "TIMEOUT\n", 1),
        ("10.0.0.1:1", "x", "REFUSED\n", 1),
    ] {
        let got = sh(&env, &format!("/agnhost connect --protocol=udp --udp-data={data} {target}"));
        assert_eq!(got, (String::new(), text.to_owned(), code), "{target} {data}");
    }
    let (_, err, _) = sh(&env, "nc -vzu 10.0.0.1 8081");
    assert_eq!(err, "Connection to 10.0.0.1 8081 port [udp/*] succeeded!\n");
    let off = server(&["/agnhost", "netexec", "--udp-port=-1"], &[]);
    assert!(!off.receives(8081));
    let names = server(&["/agnhost", "serve-hostname", "--udp", "--port=9377"], &[]);
    assert_eq!(names.answer(b"x", "host", &peer(9377)), Some(b"host".to_vec()));
    assert!(names.receives(9377) && !server(&["/agnhost", "serve-hostname"], &[]).receives(9376));
}

#[test]
fn netexec_dials_others_and_liveness_ails_after_ten_seconds() {
    let env = environment("c");
    let dial = "curl -s '10.0.0.1:8080/dial?host=10.0.0.1&port=8080&request=hostname&tries=2&protocol=http'";
    assert_eq!(sh(&env, dial).0, "{\"responses\":[\"net\",\"net\"]}");
    // Each of a hundred connections has a copy of the request.
    let long = "form=$(printf '%9000s' | tr ' ' x); curl -s -d \"host=10.0.0.1&port=8080&tries=100&request=$form\" 10.0.0.1:8080/dial";
    assert_eq!(sh(&env, long).0, "host and request parameters are too long\n");
    let refused = sh(&env, "curl -s '10.0.0.1:8080/dial?host=10.0.0.1&port=7&request=hostname'").0;
    assert_eq!(refused, "{\"errors\":[\"connect: connection refused\"]}");
    let many = sh(&env, "curl -s '10.0.0.1:8080/dial?host=10.0.0.1&port=8080&request=x&tries=100000'").0;
    assert_eq!(many, "tries parameter is invalid\n");
    let run = sh(&env, "curl -s '10.0.0.1:8080/shell?cmd=echo%20%22hi%22'").0;
    assert_eq!(run, "{\"error\":\"exit status 3\",\"output\":\"/bin/sh -c echo \\\"hi\\\"\"}");

    let liveness = server(&["/agnhost", "liveness"], &[]);
    let ask = |path: &str, seconds: f64| {
        let request = crate::http::HttpRequest {
            method: "GET".to_owned(),
            target: path.to_owned(),
            ..Default::default()
        };
        let peer = ServerPeer { uptime: Duration::from_secs_f64(seconds), ..peer(8080) };
        match liveness.respond(&Arc::new(environment("l")), &request, &peer).0 {
            ServerAction::Answer(response) => {
                (response.code, String::from_utf8_lossy(&response.body).into_owned())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask("/healthz", 9.0), (200, "ok".to_owned()));
    assert_eq!(ask("/healthz", 12.5), (500, "error: 12.5".to_owned()));
    assert_eq!(ask("/started", 1.5), (200, "1.5s".to_owned()));
}

#[test]
fn grpc_health_checks_know_one_service_and_fail_after_the_time_that_a_flag_says() {
    let of = |flags: &[&str]| server(&[&["/agnhost", "grpc-health-checking"], flags].concat(), &[]);
    let ill = of(&["--delay-unhealthy-sec=10", "--service=s", "--port", "5001"]);
    let after = Duration::from_secs;
    assert_eq!(
        [9, 10, 11].map(|second| ill.health("s", after(second))),
        [Some(true), Some(true), Some(false)]
    );
    assert_eq!(ill.health("", after(1)), None);
    assert_eq!(ill.greeting("", 5001), ServerGreeting::Health);
    assert_eq!(ill.greeting("", 8080), ServerGreeting::Http);
    let well = of(&[]);
    assert!(well.listens(5000) && well.listens(8080) && !well.listens(5001));
    assert_eq!(well.health("", after(1_000_000)), Some(true));
    assert_eq!(server(&["/agnhost", "netexec"], &[]).health("", after(1)), None);
}

#[test]
fn file_servers_serve_what_the_container_has() {
    let env = environment("f");
    let script = "mkdir -p /data/in /usr/share/nginx/html/d; echo '<p>two' > /usr/share/nginx/html/index.html; \
                  echo x > /data/a.json; echo y > /data/in/index.html; echo z > '/data/b&'";
    assert_eq!(sh(&env, script).2, 0);
    let env = Arc::new(env);
    let get = |server: &Server, path: &str| {
        let request = crate::http::HttpRequest {
            method: "GET".to_owned(),
            target: path.to_owned(),
            ..Default::default()
        };
        match server.respond(&env, &request, &peer(80)).0 {
            ServerAction::Answer(response) => {
                let header = |name: &str| {
                    response.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
                };
                let shown = header("Location").or(header("Content-Type")).unwrap_or_default();
                (response.code, shown, String::from_utf8_lossy(&response.body).into_owned())
            }
            other => panic!("{other:?}"),
        }
    };
    let files = server(&["/agnhost", "test-webserver"], &[]);
    let nginx = server(&["nginx"], &[]);
    let cases = [
        (&files, "/data/a.json", 200, "application/json", "x\n"),
        (&files, "/data", 301, "data/", ""),
        (&files, "/data/in/", 200, "text/html; charset=utf-8", "y\n"),
        (&files, "/data/in/index.html", 301, "./", ""),
        (&files, "/no", 404, "text/plain; charset=utf-8", "404 page not found\n"),
        (&files, "/data/../../data/a.json", 200, "application/json", "x\n"),
        (&nginx, "/", 200, "text/html", "<p>two\n"),
        (&nginx, "/../../../../data/a.json", 404, "text/html", ""),
        (&nginx, "/d/", 403, "text/html", ""),
    ];
    for (server, path, code, shown, body) in cases {
        let got = get(server, path);
        assert_eq!((got.0, got.1.as_str()), (code, shown), "{path}");
        assert!(got.2.starts_with(body), "{path}: {}", got.2);
    }
    let (_, _, listing) = get(&files, "/data/");
    assert!(
        listing
            .contains("<a href=\"a.json\">a.json</a>\n<a href=\"b&\">b&amp;</a>\n<a href=\"in/\">in/</a>\n"),
        "{listing}"
    );
}

#[test]
fn agnhost_serves_datagrams_of_porter_overrides_and_checks_of_addresses() {
    let variables =
        [("SERVE_UDP_PORT_90", "dgram"), ("SERVE_TCP_PORT_91", "stream"), ("SERVE_PORT_90", "both")];
    let porter = server(&["/agnhost", "porter"], &variables);
    assert!(porter.receives(90) && !porter.receives(91) && porter.listens(90) && porter.listens(91));
    assert_eq!(porter.answer(b"x", "h", &peer(90)), Some(b"dgram".to_vec()));
    assert_eq!(porter.answer(b"x", "h", &peer(91)), None);
    let shared = Arc::new(environment("h"));
    let asked = |server: &Server, target: &str, port: u16| {
        let request =
            HttpRequest { method: "POST".to_owned(), target: target.to_owned(), ..HttpRequest::default() };
        server.respond(&shared, &request, &peer(port)).0
    };
    let text = |action: ServerAction| match action {
        ServerAction::Answer(response) => {
            (response.code, String::from_utf8_lossy(&response.body).into_owned())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(text(asked(&porter, "/", 90)), (200, "both".to_owned()));
    let fixed = server(&["/agnhost", "netexec", "--http-override=/echo?msg=always&code=418"], &[]);
    assert_eq!(text(asked(&fixed, "/hostname", 8080)), (418, "always".to_owned()));
    let own = [("POD_IP", "10.0.0.9"), ("NODE_IP", "172.30.0.2")];
    let checks = server(&["/agnhost", "no-snat-test"], &own);
    assert_eq!(text(asked(&checks, "/whoami", 8080)), (200, peer(8080).remote.to_string()));
    let ServerAction::Dial(calls) = asked(&checks, "/checknosnat?ips=10.0.0.1:8080,10.0.0.2:80", 8080) else {
        panic!("it asks others")
    };
    assert_eq!(calls[1].end, NetworkEnd::Connect("10.0.0.2".to_owned(), 80));
    let reply = |seen: &str| {
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{seen}", seen.len()).into_bytes();
        let received = Received { peer: peer(80).remote, bytes, end: ReceivedEnd::Done };
        NetworkReply { result: Ok(received), room: None, answer: None }
    };
    let good = checks.dialed(&calls, &[reply("10.0.0.9:4000"), reply("10.0.0.9:4001")]);
    assert_eq!((good.code, &good.body[..]), (200, &b""[..]));
    let bad = checks.dialed(&calls, &[reply("172.30.0.2:4000"), reply("10.0.0.9:4001")]);
    let told = "Returned ip \"172.30.0.2\" != my Pod ip \"10.0.0.9\", == my Node ip \"172.30.0.2\" - SNAT";
    assert_eq!((bad.code, String::from_utf8_lossy(&bad.body).into_owned()), (500, told.to_owned()));
    assert_eq!(text(asked(&checks, "/checknosnat?ips=", 8080)).0, 500);
}

#[test]
fn curl_follows_a_redirect_that_a_query_names() {
    let env = environment("c");
    let (page, err, code) = sh(&env, "curl -s 10.0.0.1:8080/echo?msg=http://x/");
    assert_eq!((page.as_str(), err.as_str(), code), ("http://x/", "", 0));
}
