//! The files in `/etc` that a kubelet manages.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

/// The address of the cluster's DNS in the default range of Services.
pub const DNS: &str = "10.96.0.10";
/// The domain of the cluster.
const ZONE: &str = "cluster.local";
/// The most name servers of a resolver.
const NAME_SERVERS: usize = 3;
/// The most search domains of a resolver, as Kubernetes bounds them.
const SEARCHES: usize = 32;
/// The longest search domain: with a longer one, resolvers such as that of glibc 2.28 end the program.
const SEARCH_BYTES: usize = 253;
/// The longest list of search domains with the blanks between them.
const SEARCH_LINE_BYTES: usize = 2048;

/// The hosts that every file names.
const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
                     fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

/// The content of a file of a node that a `hostPath` shows, as far as nodes have such files.
pub fn node_file(path: &str) -> &'static str {
    match path {
        "/etc/hosts" => HOSTS,
        _ => "",
    }
}

/// The host name of a pod.
pub fn hostname(spec: &PodSpec, pod: &str) -> String {
    match (&spec.hostname, spec.host_network, &spec.node_name) {
        (_, Some(true), Some(node)) => node.clone(),
        (Some(name), ..) if !name.is_empty() => name.clone(),
        _ => pod.chars().take(63).collect(),
    }
}

/// `/etc/hosts`.
pub fn hosts(spec: &PodSpec, namespace: &str, hostname: &str, ip: &str) -> String {
    let mut text = match spec.host_network {
        Some(true) => format!("# Kubernetes-managed hosts file (host network).\n{HOSTS}"),
        _ => format!("# Kubernetes-managed hosts file.\n{HOSTS}"),
    };
    if spec.host_network != Some(true) {
        let whole = spec.subdomain.as_deref().filter(|subdomain| !subdomain.is_empty());
        let whole = whole.map(|subdomain| format!("{hostname}.{subdomain}.{namespace}.svc.{ZONE}\t"));
        text.push_str(&format!("{ip}\t{}{hostname}\n", whole.unwrap_or_default()));
    }
    let mut aliases = spec.host_aliases.iter().flatten().peekable();
    if aliases.peek().is_some() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        text.push_str(&format!("{}\t{names}\n", alias.ip));
    }
    text
}

/// The settings of a pod that decide about its resolver.
#[derive(Clone, Copy, Debug)]
pub struct DnsSettings<'p> {
    /// `dnsPolicy`.
    pub policy: &'p str,
    /// `dnsConfig`.
    pub config: Option<&'p PodDNSConfig>,
    /// `hostNetwork`.
    pub host_network: bool,
    /// The namespace of the pod.
    pub namespace: &'p str,
}

/// What a pod's resolver is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    servers: Vec<String>,
    searches: Vec<String>,
    options: Vec<(String, Option<String>)>,
    /// What was left out because a resolver takes no more: the messages of `DNSConfigForming` events.
    pub omitted: Vec<String>,
}

impl Resolver {
    /// The resolver of a pod with these settings.
    pub fn of(settings: DnsSettings<'_>) -> Self {
        let DnsSettings { policy, config, host_network, namespace } = settings;
        let is_of_cluster = match policy {
            "ClusterFirst" => !host_network,
            "ClusterFirstWithHostNet" => true,
            _ => false,
        };
        let mut resolver = Self::default();
        let Self { servers, searches, options, .. } = &mut resolver;
        if is_of_cluster {
            servers.push(DNS.to_owned());
            searches.extend([format!("{namespace}.svc.{ZONE}"), format!("svc.{ZONE}"), ZONE.to_owned()]);
            options.push(("ndots".to_owned(), Some("5".to_owned())));
        } else if policy != "None" {
            servers.push(DNS.to_owned());
        }
        if let Some(config) = config {
            let add = |list: &mut Vec<String>, more: &Option<Vec<String>>| {
                for one in more.iter().flatten() {
                    if !list.contains(one) {
                        list.push(one.clone());
                    }
                }
            };
            add(servers, &config.nameservers);
            add(searches, &config.searches);
            for option in config.options.iter().flatten() {
                let name = option.name.clone().unwrap_or_default();
                options.retain(|(own, _)| *own != name);
                options.push((name, option.value.clone()));
            }
        }
        resolver.bound();
        resolver
    }

    /// Leaves out what a resolver does not take, as a kubelet does.
    fn bound(&mut self) {
        if self.servers.len() > NAME_SERVERS {
            self.servers.truncate(NAME_SERVERS);
            let applied = self.servers.join(" ");
            self.omitted.push(format!(
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {applied}"
            ));
        }
        let before = self.searches.len();
        let searches = &mut self.searches;
        searches.truncate(SEARCHES);
        searches.retain(|search| search.len() <= SEARCH_BYTES);
        while searches.iter().map(|search| search.len() + 1).sum::<usize>() > SEARCH_LINE_BYTES + 1 {
            searches.pop();
        }
        if searches.len() < before {
            let applied = searches.join(" ");
            self.omitted.push(format!(
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {applied}"
            ));
        }
    }
}

/// `/etc/resolv.conf`.
pub fn resolver(spec: &PodSpec, namespace: &str) -> String {
    let Resolver { servers, searches, options, .. } = Resolver::of(DnsSettings {
        policy: spec.dns_policy.as_deref().unwrap_or("ClusterFirst"),
        config: spec.dns_config.as_ref(),
        host_network: spec.host_network == Some(true),
        namespace,
    });
    let mut text = String::new();
    if !searches.is_empty() {
        text.push_str(&format!("search {}\n", searches.join(" ")));
    }
    for server in servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !options.is_empty() {
        let all = options.into_iter().map(|(name, value)| match value {
            Some(value) if !value.is_empty() => format!("{name}:{value}"),
            _ => name,
        });
        text.push_str(&format!("options {}\n", all.collect::<Vec<_>>().join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> PodSpec {
        serde_yaml_ng::from_str(&format!("{{containers: [], {text}}}")).unwrap()
    }

    #[test]
    fn the_hosts_of_a_pod_are_its_own_and_its_aliases() {
        let text = hosts(
            &spec("hostAliases: [{ip: 1.2.3.4, hostnames: [foo, bar]}], subdomain: sub"),
            "ns",
            "web",
            "10.0.0.1",
        );
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{text}");
        let end = "10.0.0.1\tweb.sub.ns.svc.cluster.local\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n";
        assert!(text.ends_with(end), "{text}");
        let text = hosts(&spec("hostNetwork: true"), "ns", "web", "10.0.0.1");
        assert!(
            text.starts_with("# Kubernetes-managed hosts file (host network).\n")
                && !text.contains("10.0.0.1")
        );
    }

    #[test]
    fn the_resolver_follows_the_policy_and_the_own_settings_of_the_pod() {
        let of = |text: &str| resolver(&spec(text), "ns");
        assert_eq!(
            of(""),
            "search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
        );
        let own = "dnsConfig: {nameservers: [1.1.1.1], searches: [a.b], options: [{name: ndots, value: '2'}, {name: edns0}]}";
        assert_eq!(
            of(&format!("dnsPolicy: None, {own}")),
            "search a.b\nnameserver 1.1.1.1\noptions ndots:2 edns0\n"
        );
        assert!(of(own).ends_with("nameserver 10.96.0.10\nnameserver 1.1.1.1\noptions ndots:2 edns0\n"));
        assert_eq!(of("dnsPolicy: Default"), "nameserver 10.96.0.10\n");
    }

    #[test]
    fn what_a_resolver_does_not_take_is_left_out_and_told() {
        let of = |text: &str| {
            let spec = spec(text);
            let config = spec.dns_config.as_ref();
            Resolver::of(DnsSettings { policy: "ClusterFirst", config, host_network: false, namespace: "ns" })
        };
        assert_eq!(of("dnsConfig: {nameservers: [1.1.1.1, 2.2.2.2]}").omitted, [""; 0]);
        let cut = of("dnsConfig: {nameservers: [1.1.1.1, 2.2.2.2, 3.3.3.3]}");
        let text = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 10.96.0.10 1.1.1.1 2.2.2.2";
        assert_eq!(cut.omitted, [text]);
        let many = (0..30).map(|number| format!("s{number}.example")).collect::<Vec<_>>();
        let cut = of(&format!("dnsConfig: {{searches: [{}]}}", many.join(", ")));
        assert_eq!((cut.searches.len(), cut.searches.last().unwrap().as_str()), (32, "s28.example"));
        assert!(cut.omitted[0].starts_with("Search Line limits were exceeded") && cut.omitted.len() == 1);
        let long = ["a".repeat(254), "b".to_owned()].join(", ");
        assert_eq!(of(&format!("dnsConfig: {{searches: [{long}]}}")).searches.last().unwrap(), "b");
        let wide = (0..12).map(|number| format!("{}{number:02}", "c".repeat(198))).collect::<Vec<_>>();
        let cut = of(&format!("dnsConfig: {{searches: [{}]}}", wide.join(", ")));
        let line = cut.searches.join(" ").len();
        assert!((1848..=2048).contains(&line) && cut.omitted.len() == 1, "{line}");
    }

    #[test]
    fn the_host_name_is_that_of_the_pod_or_of_its_node() {
        assert_eq!(hostname(&spec(""), "web"), "web");
        assert_eq!(hostname(&spec("hostname: h"), "web"), "h");
        assert_eq!(hostname(&spec("hostNetwork: true, nodeName: n"), "web"), "n");
        assert_eq!(hostname(&spec(""), &"x".repeat(80)).len(), 63);
    }
}
