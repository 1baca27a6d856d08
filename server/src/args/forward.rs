//! [`Forward`]: an address of this machine that leads to a Service or a pod of the cluster, as `--forward` writes it. The module `forward`
//! listens there.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// `[HOST:]PORT=[NAMESPACE/]svc|pod/NAME[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The loopback address of the listener; port 0 selects a free one.
    pub listen: SocketAddr,
    /// The namespace of the target.
    pub namespace: String,
    /// What a connection leads to.
    pub target: ForwardTarget,
    /// The port of the target; `None`: its only one.
    pub port: Option<ForwardPort>,
}

/// What connections to a forwarded address lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardTarget {
    /// The ready pods of the Service with this name.
    Service(String),
    /// The pod with this name.
    Pod(String),
}

/// A port of a Service or a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardPort {
    /// Its number.
    Number(u16),
    /// Its name.
    Name(String),
}

impl Forward {
    /// The variable in which a command of `run` finds the address: `KSTORE_FORWARD_` and the name of the target.
    pub fn variable(&self) -> String {
        let (ForwardTarget::Service(name) | ForwardTarget::Pod(name)) = &self.target;
        format!("KSTORE_FORWARD_{}", name.to_uppercase().replace(['-', '.'], "_"))
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match &self.target {
            ForwardTarget::Service(name) => ("svc", name),
            ForwardTarget::Pod(name) => ("pod", name),
        };
        write!(f, "{}/{kind}/{name}", self.namespace)?;
        match &self.port {
            None => Ok(()),
            Some(ForwardPort::Number(port)) => write!(f, ":{port}"),
            Some(ForwardPort::Name(port)) => write!(f, ":{port}"),
        }
    }
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "expected [HOST:]PORT=[NAMESPACE/]svc|pod/NAME[:PORT], for example 8080=svc/web:80";
        let (listen, target) = text.split_once('=').ok_or(FORM)?;
        let (path, port) = match target.rsplit_once(':') {
            Some((path, port)) => (path, Some(port_of(port)?)),
            None => (target, None),
        };
        let (namespace, kind, name) = match path.split('/').collect::<Vec<_>>()[..] {
            [kind, name] => ("default", kind, name),
            [namespace, kind, name] => (namespace, kind, name),
            _ => return Err(FORM.to_owned()),
        };
        let is_name = |text: &str| {
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            !text.is_empty() && text.chars().all(is_part)
        };
        if !is_name(namespace) || !is_name(name) {
            return Err(FORM.to_owned());
        }
        let target = match kind {
            "svc" | "service" | "services" => ForwardTarget::Service(name.to_owned()),
            "pod" | "po" | "pods" => ForwardTarget::Pod(name.to_owned()),
            other => return Err(format!("`{other}` cannot be forwarded: use svc/NAME or pod/NAME")),
        };
        Ok(Self { listen: listen_address(listen)?, namespace: namespace.to_owned(), target, port })
    }
}

fn port_of(text: &str) -> Result<ForwardPort, String> {
    match text.parse::<u16>() {
        Ok(0) => Err("port 0 is no port of a Service or pod".to_owned()),
        Ok(number) => Ok(ForwardPort::Number(number)),
        Err(_) if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(format!("`{text}` is not a port (1 to 65535, or a name)"))
        }
        Err(_) => Ok(ForwardPort::Name(text.to_owned())),
    }
}

/// The address of a listener: a port of 127.0.0.1, or of another loopback address.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let port = port.parse().map_err(|_| format!("`{port}` is not a port (0 to 65535)"))?;
    let ip = match host {
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        host => host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok(),
    };
    match ip {
        Some(ip) if ip.is_loopback() => Ok(SocketAddr::new(ip, port)),
        _ => Err(format!(
            "cannot listen at {host}: other machines would reach programs of the cluster; use a loopback address, such as 127.0.0.1:{port}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_names_a_loopback_address_and_a_service_or_pod() {
        let of = |text: &str| {
            text.parse::<Forward>()
                .map(|forward| (forward.listen.to_string(), forward.to_string(), forward.variable()))
        };
        let expected = |listen: &str, target: &str, variable: &str| {
            Ok((listen.to_owned(), target.to_owned(), format!("KSTORE_FORWARD_{variable}")))
        };
        assert_eq!(of("8080=svc/web:80"), expected("127.0.0.1:8080", "default/svc/web:80", "WEB"));
        assert_eq!(
            of("localhost:0=prod/service/my-web"),
            expected("127.0.0.1:0", "prod/svc/my-web", "MY_WEB")
        );
        assert_eq!(of("[::1]:5=pod/db-0:http"), expected("[::1]:5", "default/pod/db-0:http", "DB_0"));
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, reason) in [
            ("web", "expected [HOST:]PORT="),
            ("80=web", "expected [HOST:]PORT="),
            ("80=svc/", "expected [HOST:]PORT="),
            ("80=svc/Web", "expected [HOST:]PORT="),
            ("80=deploy/web", "`deploy` cannot be forwarded: use svc/NAME or pod/NAME"),
            ("x=svc/web", "`x` is not a port (0 to 65535)"),
            ("80=svc/web:", "`` is not a port"),
            ("80=svc/web:0", "port 0 is no port"),
            ("80=svc/web:70000", "`70000` is not a port"),
            (
                "0.0.0.0:80=svc/web",
                "cannot listen at 0.0.0.0: other machines would reach programs of the cluster",
            ),
            ("example.com:80=svc/web", "cannot listen at example.com"),
        ] {
            let refused = text.parse::<Forward>().unwrap_err();
            assert!(refused.starts_with(reason), "{text}: {refused}");
        }
    }
}
