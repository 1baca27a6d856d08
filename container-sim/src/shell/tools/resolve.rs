//! `nslookup`, `dig` and `getent hosts`: questions to the cluster's DNS, by the search list in `/etc/resolv.conf`.

use super::{Effect, Networked, Outcome, Tool, ToolCall, plain};
use crate::shell::env::Env;
use crate::shell::network::{
    DnsAnswer, DnsQuestion, DnsRecord, NetworkCall, NetworkEnd, NetworkReply, RecordKind, host,
};
use std::net::IpAddr;

pub(super) const TOOLS: &[Tool] = &[
    Tool { check: check_nslookup, ..plain("nslookup", nslookup) },
    Tool { check: check_dig, ..plain("dig", dig) },
    Tool { check: check_getent, ..plain("getent", getent) },
];

/// What `/etc/resolv.conf` says.
struct Resolver {
    server: String,
    searches: Vec<String>,
    dots: usize,
}

impl Resolver {
    fn of(env: &Env) -> Self {
        let bytes = env.read("/etc/resolv.conf").unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut resolver = Self { server: "127.0.0.1".to_owned(), searches: Vec::new(), dots: 1 };
        let mut is_first = true;
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") if is_first => {
                    resolver.server = words.next().unwrap_or_default().to_owned();
                    is_first = false;
                }
                Some("search") => resolver.searches = words.map(str::to_owned).collect(),
                Some("options") => {
                    let mut dots = words.filter_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    resolver.dots = dots.next_back().unwrap_or(resolver.dots);
                }
                Some(_) | None => {}
            }
        }
        resolver
    }

    /// The names that a resolver tries for a name, in order.
    fn names(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let searched = self.searches.iter().map(|domain| format!("{name}.{domain}"));
        match name.matches('.').count() >= self.dots {
            true => std::iter::once(name.to_owned()).chain(searched).collect(),
            false => searched.chain([name.to_owned()]).collect(),
        }
    }
}

/// How an answer is printed.
#[derive(Clone, Debug)]
enum Printing {
    /// As BIND's `nslookup`; with the port behind `:` as busybox does, or behind `#`.
    Nslookup { server: String, separator: char },
    /// As `dig`: only values, or the sections that are wanted.
    Dig { server: String, is_short: bool, shows_answer: bool, shows_rest: bool },
    /// As `getent hosts`.
    Getent,
}

/// A question that is asked for one name after the other.
#[derive(Clone, Debug)]
struct Query {
    /// The name that was given.
    given: String,
    kind: RecordKind,
    /// Names that are still to be tried, in reverse order.
    names: Vec<String>,
    printing: Printing,
}

impl Query {
    fn begin(mut self) -> Vec<Effect> {
        let Some(name) = self.names.pop() else { return self.finish("", None) };
        let question = DnsQuestion { name: name.to_ascii_lowercase(), kind: self.kind };
        let wish = NetworkCall {
            end: NetworkEnd::Lookup(question),
            send: Vec::new(),
            connect_within: None,
            idle: None,
            within: None,
            most: 0,
            tls: None,
        };
        vec![Effect::Network(Box::new(wish), Box::new(Asked { query: self, name }))]
    }

    /// Prints the answer for a name, or that there is none.
    fn finish(self, name: &str, answer: Option<DnsAnswer>) -> Vec<Effect> {
        let Self { given, kind, printing, .. } = self;
        let printed = |text: String, code: u8| {
            let mut all = vec![Effect::Print(text.into_bytes())];
            if code != 0 {
                all.push(Effect::Code(code));
            }
            all
        };
        let exists = answer.as_ref().is_some_and(|answer| answer.exists);
        let records = answer.map(|answer| answer.records).unwrap_or_default();
        match printing {
            Printing::Nslookup { server, separator } => {
                let head = format!("Server:\t\t{server}\nAddress:\t{server}{separator}53\n\n");
                match records.is_empty() {
                    false => printed(format!("{head}{}\n", looked_up(&records)), 0),
                    true if exists => printed(format!("{head}*** Can't find {given}: No answer\n\n"), 1),
                    true => printed(format!("{head}** server can't find {given}: NXDOMAIN\n\n"), 1),
                }
            }
            Printing::Dig { is_short: true, .. } => {
                printed(records.iter().map(|record| format!("{}\n", record.value)).collect(), 0)
            }
            Printing::Dig { server, shows_answer, shows_rest, .. } => {
                let name = if name.is_empty() { given.trim_end_matches('.') } else { name };
                let lines: String = records.iter().map(line).collect();
                match (shows_rest, shows_answer) {
                    (true, _) => printed(whole(name, kind, exists, &lines, records.len(), &server), 0),
                    (false, true) => printed(lines, 0),
                    (false, false) => Vec::new(),
                }
            }
            Printing::Getent => {
                let is_address =
                    |record: &&DnsRecord| matches!(record.kind, RecordKind::A | RecordKind::Aaaa);
                let found: String = records
                    .iter()
                    .filter(is_address)
                    .map(|record| format!("{:<15} {}\n", record.value, record.name))
                    .collect();
                let code = if found.is_empty() { 2 } else { 0 };
                printed(found, code)
            }
        }
    }
}

/// A question that is under way for a name.
#[derive(Debug)]
struct Asked {
    query: Query,
    name: String,
}

impl Networked for Asked {
    fn reply(self: Box<Self>, _env: &Env, reply: NetworkReply) -> Vec<Effect> {
        let Self { query, name } = *self;
        let answer = reply.answer.unwrap_or_default();
        // A name that exists ends the search, also without a record of the kind.
        match answer.exists || query.names.is_empty() {
            true => query.finish(&name, Some(answer)),
            false => query.begin(),
        }
    }
}

fn line(record: &DnsRecord) -> String {
    format!("{}.\t{}\tIN\t{}\t{}\n", record.name, record.ttl, record.kind.text(), record.value)
}

fn looked_up(records: &[DnsRecord]) -> String {
    let text = |record: &DnsRecord| {
        let (name, value) = (&record.name, &record.value);
        match record.kind {
            RecordKind::A | RecordKind::Aaaa => format!("Name:\t{name}\nAddress: {value}\n"),
            RecordKind::Cname => format!("{name}\tcanonical name = {value}\n"),
            RecordKind::Ptr => format!("{name}\tname = {value}\n"),
            RecordKind::Srv => format!("{name}\tservice = {value}\n"),
        }
    };
    records.iter().map(text).collect()
}

/// All sections of an answer.
fn whole(name: &str, kind: RecordKind, exists: bool, lines: &str, count: usize, server: &str) -> String {
    let status = if exists { "NOERROR" } else { "NXDOMAIN" };
    let answer = if lines.is_empty() { String::new() } else { format!(";; ANSWER SECTION:\n{lines}\n") };
    format!(
        "\n; <<>> DiG 9.18.33 <<>> {name}\n;; global options: +cmd\n;; Got answer:\n\
         ;; ->>HEADER<<- opcode: QUERY, status: {status}, id: 1\n\
         ;; flags: qr aa rd; QUERY: 1, ANSWER: {count}, AUTHORITY: 0, ADDITIONAL: 0\n\n\
         ;; QUESTION SECTION:\n;{name}.\t\tIN\t{}\n\n{answer};; Query time: 0 msec\n;; SERVER: {server}#53({server}) (UDP)\n\n",
        kind.text()
    )
}

/// The name under which the name of an address is found.
fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits = ip.octets().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
            let digits: Vec<String> = digits.map(|digit| format!("{digit:x}.")).collect();
            format!("{}ip6.arpa", digits.into_iter().rev().collect::<String>())
        }
    }
}

fn kind_of(text: &str) -> Option<RecordKind> {
    RecordKind::ALL.into_iter().find(|kind| kind.text().eq_ignore_ascii_case(text))
}

/// The type that `nslookup` is asked for, its name and its server.
fn nslookup_words(arguments: &[String]) -> Result<(RecordKind, String, Option<String>), String> {
    let mut kind = RecordKind::A;
    let mut words = Vec::new();
    for word in arguments {
        match word.strip_prefix('-').map(|flag| flag.split_once('=').unwrap_or((flag, ""))) {
            Some(("type" | "querytype" | "query" | "q", text)) => {
                kind = kind_of(text).ok_or_else(|| format!("the type {text:?} is not simulated"))?;
            }
            Some((flag, _)) => return Err(format!("its flag -{flag} is not simulated")),
            None => words.push(word.clone()),
        }
    }
    match words.as_slice() {
        [name] => Ok((kind, name.clone(), None)),
        [name, server] => Ok((kind, name.clone(), Some(server.clone()))),
        _ => Err("it needs a name".to_owned()),
    }
}

fn check_nslookup(arguments: &[String]) -> Result<(), String> {
    nslookup_words(arguments).map(|_| ())
}

fn nslookup(call: &ToolCall<'_>) -> Outcome {
    let resolver = Resolver::of(call.env);
    let (kind, given, server) = match nslookup_words(call.arguments()) {
        Ok(words) => words,
        Err(why) => return Outcome::fail(1, format!("nslookup: {why}\n")),
    };
    let separator = if call.env.programs.values().any(|program| program == "agnhost") { '#' } else { ':' };
    let (kind, mut names) = match given.parse::<IpAddr>() {
        Ok(address) => (RecordKind::Ptr, vec![reverse(address)]),
        Err(_) => (kind, resolver.names(&given)),
    };
    names.reverse();
    let printing = Printing::Nslookup { server: server.unwrap_or(resolver.server), separator };
    Outcome { then: Query { given, kind, names, printing }.begin(), ..Outcome::default() }
}

/// What the words of `dig` say.
#[derive(Default)]
struct Dug {
    name: String,
    kind: Option<RecordKind>,
    server: Option<String>,
    is_short: bool,
    hides_all: bool,
    shows_answer: bool,
    searches: bool,
}

fn dug(arguments: &[String]) -> Result<Dug, String> {
    let mut dug = Dug { shows_answer: true, ..Dug::default() };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "+short" => dug.is_short = true,
            "+noall" => (dug.hides_all, dug.shows_answer) = (true, false),
            "+answer" => dug.shows_answer = true,
            "+search" => dug.searches = true,
            "-x" => {
                let text = words.next().map(String::as_str).unwrap_or_default();
                let address: IpAddr = text.parse().map_err(|_| format!("Invalid IP address {text}"))?;
                (dug.name, dug.kind) = (reverse(address), Some(RecordKind::Ptr));
            }
            "-t" => {
                let text = words.next().map(String::as_str).unwrap_or_default();
                dug.kind = Some(kind_of(text).ok_or_else(|| format!("the type {text:?} is not simulated"))?);
            }
            option if option.starts_with('+') => {
                let known = [
                    "+tcp",
                    "+notcp",
                    "+nocmd",
                    "+nostats",
                    "+nocomments",
                    "+noedns",
                    "+time=",
                    "+tries=",
                    "+timeout=",
                ];
                if !known.iter().any(|own| option.starts_with(own)) {
                    return Err(format!("its option {option} is not simulated"));
                }
            }
            server if server.starts_with('@') => dug.server = Some(server[1..].to_owned()),
            flag if flag.starts_with('-') => return Err(format!("its flag {flag} is not simulated")),
            word => match kind_of(word) {
                Some(kind) if !dug.name.is_empty() => dug.kind = Some(kind),
                _ if dug.name.is_empty() => dug.name = word.to_owned(),
                _ => return Err(format!("the type {word:?} is not simulated")),
            },
        }
    }
    if dug.name.is_empty() { Err("it needs a name".to_owned()) } else { Ok(dug) }
}

fn check_dig(arguments: &[String]) -> Result<(), String> {
    dug(arguments).map(|_| ())
}

fn dig(call: &ToolCall<'_>) -> Outcome {
    let resolver = Resolver::of(call.env);
    let dug = match dug(call.arguments()) {
        Ok(dug) => dug,
        Err(why) => return Outcome::fail(1, format!("dig: {why}\n")),
    };
    let mut names = match dug.searches {
        true => resolver.names(&dug.name),
        false => vec![dug.name.trim_end_matches('.').to_owned()],
    };
    names.reverse();
    let printing = Printing::Dig {
        server: dug.server.unwrap_or(resolver.server),
        is_short: dug.is_short,
        shows_answer: dug.shows_answer,
        shows_rest: !dug.hides_all,
    };
    let kind = dug.kind.unwrap_or(RecordKind::A);
    Outcome { then: Query { given: dug.name, kind, names, printing }.begin(), ..Outcome::default() }
}

fn check_getent(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [database, _] if database == "hosts" => Ok(()),
        _ => Err("getent is only simulated for hosts".to_owned()),
    }
}

fn getent(call: &ToolCall<'_>) -> Outcome {
    let [_, name] = call.arguments() else {
        return Outcome::fail(1, "getent: wrong number of arguments\n".to_owned());
    };
    let known = host(call.env, name);
    if known.parse::<IpAddr>().is_ok() {
        return Outcome::text(format!("{known:<15} {name}\n"));
    }
    let mut names = Resolver::of(call.env).names(name);
    names.reverse();
    let query = Query { given: name.clone(), kind: RecordKind::A, names, printing: Printing::Getent };
    Outcome { then: query.begin(), ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tried_in_the_order_of_the_search_list_and_the_dots() {
        let searches = ["ns.svc.z", "svc.z"].map(str::to_owned).to_vec();
        let resolver = Resolver { server: String::new(), searches, dots: 2 };
        assert_eq!(resolver.names("web"), ["web.ns.svc.z", "web.svc.z", "web"]);
        assert_eq!(resolver.names("a.b.c"), ["a.b.c", "a.b.c.ns.svc.z", "a.b.c.svc.z"]);
        assert_eq!(resolver.names("web."), ["web"]);
        assert_eq!(reverse("10.1.2.3".parse().unwrap()), "3.2.1.10.in-addr.arpa");
        assert!(reverse("fd00::1".parse().unwrap()).starts_with("1.0.0.0."));
    }

    #[test]
    fn words_of_dig_are_read_in_any_order_and_unknown_ones_refused() {
        let read = |text: &str| dug(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let all = read("@1.2.3.4 +notcp +noall +answer +search web SRV").unwrap();
        assert_eq!((all.name.as_str(), all.kind, all.searches), ("web", Some(RecordKind::Srv), true));
        assert_eq!((all.server.as_deref(), all.hides_all, all.shows_answer), (Some("1.2.3.4"), true, true));
        assert_eq!(read("-x 10.0.0.1").unwrap().name, "1.0.0.10.in-addr.arpa");
        for bad in ["+trace web", "-f file", "web MX", "+short"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
