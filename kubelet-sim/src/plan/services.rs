//! The variables with which a container finds Services, as `envvars.FromServices` makes them.

use k8s_openapi::api::core::v1::{Service, ServicePort};

/// The variables of these Services, in their order. Those without an address have none.
pub fn variables<'s>(services: impl IntoIterator<Item = &'s Service>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for service in services {
        let Some(spec) = &service.spec else { continue };
        let address = spec.cluster_ip.as_deref().filter(|ip| !matches!(*ip, "" | "None"));
        let (Some(address), Some(ports)) = (address, &spec.ports) else { continue };
        let Some(first) = ports.first() else { continue };
        let name = variable_name(service.metadata.name.as_deref().unwrap_or_default());
        all.push((format!("{name}_SERVICE_HOST"), address.to_owned()));
        all.push((format!("{name}_SERVICE_PORT"), first.port.to_string()));
        for port in ports {
            if let Some(own) = port.name.as_deref().filter(|own| !own.is_empty()) {
                all.push((format!("{name}_SERVICE_PORT_{}", variable_name(own)), port.port.to_string()));
            }
        }
        links(&name, address, ports, &mut all);
    }
    all
}

/// The variables of links between containers, which Docker made once.
fn links(name: &str, address: &str, ports: &[ServicePort], all: &mut Vec<(String, String)>) {
    for (at, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if at == 0 {
            all.push((format!("{name}_PORT"), url.clone()));
        }
        let prefix = format!("{name}_PORT_{}_{protocol}", port.port);
        all.push((format!("{prefix}_PROTO"), protocol.to_lowercase()));
        all.push((format!("{prefix}_PORT"), port.port.to_string()));
        all.push((format!("{prefix}_ADDR"), address.to_owned()));
        all.push((prefix, url));
    }
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_the_variables_of_its_address_and_ports() {
        let service = |text: &str| serde_yaml_ng::from_str::<Service>(text).unwrap();
        let web = service(
            "{metadata: {name: my-web}, spec: {clusterIP: 10.0.0.7, ports: [{port: 80, name: http}, {port: 53, protocol: UDP}]}}",
        );
        let headless = service("{metadata: {name: db}, spec: {clusterIP: None, ports: [{port: 1}]}}");
        let made = variables([&web, &headless]);
        let expected = [
            ("MY_WEB_SERVICE_HOST", "10.0.0.7"),
            ("MY_WEB_SERVICE_PORT", "80"),
            ("MY_WEB_SERVICE_PORT_HTTP", "80"),
            ("MY_WEB_PORT", "tcp://10.0.0.7:80"),
            ("MY_WEB_PORT_80_TCP_PROTO", "tcp"),
            ("MY_WEB_PORT_80_TCP_PORT", "80"),
            ("MY_WEB_PORT_80_TCP_ADDR", "10.0.0.7"),
            ("MY_WEB_PORT_80_TCP", "tcp://10.0.0.7:80"),
            ("MY_WEB_PORT_53_UDP_PROTO", "udp"),
            ("MY_WEB_PORT_53_UDP_PORT", "53"),
            ("MY_WEB_PORT_53_UDP_ADDR", "10.0.0.7"),
            ("MY_WEB_PORT_53_UDP", "udp://10.0.0.7:53"),
        ];
        assert_eq!(made, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
