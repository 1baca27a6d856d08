//! `kstore-server certs`: lists and renews the certificates of a data directory, and issues others. A server may run on it: it
//! shows a renewed certificate from the next connection on.

mod issue;

use crate::args::{CertsCommand, RenewArgs};
use crate::files::write_private;
use crate::kubeconfig::{self, ServerAddress};
use crate::pki::{self, Identity, Pki};
use anyhow::{Context, anyhow, bail};
use kstore_client::Kubeconfig;
use kstore_nondet::Nondet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use x509_parser::certificate::X509Certificate;

/// The users whose kubeconfigs are in a data directory.
const USERS: [Identity; 4] = [pki::ADMIN, pki::CONTROLLERS, pki::SCHEDULER, pki::KUBELET_SIM];

/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;

/// Carries out the command.
pub(crate) fn run(command: &CertsCommand) -> anyhow::Result<ExitCode> {
    match command {
        CertsCommand::Show(dir) => show(&folder(&dir.data_dir)?)?,
        CertsCommand::Renew(args) => renew(args)?,
        CertsCommand::Issue(args) => issue::issue(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The folder of the certificates in a data directory.
fn folder(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let folder = data_dir.join("pki");
    if !folder.join("ca.crt").exists() {
        bail!(
            "{} has no certificates; a server with --data-dir {} creates them",
            folder.display(),
            data_dir.display()
        );
    }
    Ok(folder)
}

fn show(folder: &Path) -> anyhow::Result<()> {
    let mut rows = vec![["NAME", "SUBJECT", "EXPIRES", "LEFT", "SIGNED BY"].map(str::to_owned).to_vec()];
    let now = Nondet::real().clock.now().as_second();
    for name in pki::ALL {
        let path = folder.join(format!("{name}.crt"));
        let Ok(text) = std::fs::read(&path) else { continue };
        let row = || {
            let (_, pem) = x509_parser::pem::parse_x509_pem(&text)?;
            anyhow::Ok(row(name, &pem.parse_x509()?, now))
        };
        rows.push(row().with_context(|| format!("cannot read the certificate {}", path.display()))?);
    }
    // The reader of standard output may have exited.
    let _ = std::io::stdout().write_all(table(&rows).as_bytes());
    Ok(())
}

fn row(name: &str, certificate: &X509Certificate<'_>, now: i64) -> Vec<String> {
    let end = certificate.validity().not_after.timestamp();
    let expires = jiff::Timestamp::from_second(end).map(|end| end.to_string()).unwrap_or_default();
    let left = if end <= now { "expired".to_owned() } else { format!("{}d", (end - now) / DAY) };
    let signer = certificate.issuer().iter_common_name().find_map(|name| name.as_str().ok());
    let subject = certificate.subject().to_string();
    vec![name.to_owned(), subject, expires, left, signer.unwrap_or_default().to_owned()]
}

/// Columns separated by three spaces, as kubectl prints them.
fn table(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default() + 3;
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}

fn renew(args: &RenewArgs) -> anyhow::Result<()> {
    let data_dir = &args.dir.data_dir;
    let folder = folder(data_dir)?;
    let renewable = || pki::ALL.iter().skip(2).copied();
    for name in &args.names {
        if !renewable().any(|known| known == name) {
            bail!(
                "{name} is no certificate that can be renewed; these can: {}",
                renewable().collect::<Vec<_>>().join(", ")
            );
        }
    }
    let pki = Pki::open(&folder, Nondet::real().clock.now())?;
    for name in renewable().filter(|name| args.names.is_empty() || args.names.iter().any(|n| n == name)) {
        let what = match USERS.iter().find(|user| user.file == name) {
            Some(user) => renew_user(&pki, data_dir, user)?,
            None if name == pki::SERVING => {
                pki.renew_serving()?;
                "a running server shows it to new connections".to_owned()
            }
            None => {
                pki.renew_front_proxy()?;
                "a running server uses it after its next start".to_owned()
            }
        };
        println!("renewed {name}: {what}");
    }
    Ok(())
}

/// Renews the certificate of a user, and the kubeconfig that contains it, if there is one.
fn renew_user(pki: &Pki, data_dir: &Path, user: &Identity) -> anyhow::Result<String> {
    let path = data_dir.join(format!("{}.kubeconfig", user.file));
    let server = match path.exists() {
        true => {
            Some(Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use {}: {error}", path.display()))?)
        }
        false => None,
    };
    let credential = pki.renew_client(user)?;
    let Some(server) = server else { return Ok("no kubeconfig contains it".to_owned()) };
    let address = ServerAddress {
        url: &server.server,
        ca_pem: Some(pki.ca_pem().as_bytes()),
        tls_server_name: server.tls_server_name.as_deref(),
    };
    let text = kubeconfig::render(&address, &server.cluster, user.user, &credential)?;
    write_private(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(format!("{} contains it", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};

    fn certs(words: &str) -> anyhow::Result<ExitCode> {
        let Some(Command::Certs(args)) = Cli::try_parse_from(words.split(' ')).unwrap().command else {
            unreachable!("the words name the command")
        };
        run(&args.command)
    }

    #[test]
    fn a_renewed_certificate_keeps_subject_and_names_and_its_kubeconfig_contains_it() {
        let dir = tempfile::tempdir().unwrap();
        let shown = dir.path().display();
        let none = certs(&format!("kstore-server certs show --data-dir {shown}")).unwrap_err();
        assert!(none.to_string().contains("has no certificates"), "{none}");
        let pki = Pki::open(&dir.path().join("pki"), Nondet::real().clock.now()).unwrap();
        pki.serving("db.example", [10, 96, 0, 1].into()).unwrap();
        let address = ServerAddress { url: "https://db.example:6443", ca_pem: None, tls_server_name: None };
        let admin = pki.client(&pki::ADMIN).unwrap();
        let path = dir.path().join("admin.kubeconfig");
        std::fs::write(&path, kubeconfig::render(&address, "kstore-db", "kubernetes-admin", &admin).unwrap())
            .unwrap();
        let facts = |name: &str| {
            let text = std::fs::read(dir.path().join(format!("pki/{name}.crt"))).unwrap();
            let (_, pem) = x509_parser::pem::parse_x509_pem(&text).unwrap();
            let certificate = pem.parse_x509().unwrap();
            let names =
                certificate.subject_alternative_name().unwrap().map(|names| format!("{:?}", names.value));
            (certificate.raw_serial_as_string(), certificate.subject().to_string(), names)
        };
        let before = ["apiserver", "admin"].map(facts);
        certs(&format!("kstore-server certs renew --data-dir {shown}")).unwrap();
        for (before, after) in before.iter().zip(["apiserver", "admin"].map(facts)) {
            assert_ne!(before.0, after.0);
            assert_eq!((&before.1, &before.2), (&after.1, &after.2));
        }
        let written = Kubeconfig::read(&path).unwrap();
        assert_eq!(
            (written.server.as_str(), written.cluster.as_str()),
            ("https://db.example:6443", "kstore-db")
        );
        let renewed = std::fs::read(dir.path().join("pki/admin.crt")).unwrap();
        assert_eq!(written.identity.unwrap().certificate, renewed);
        let authority = certs(&format!("kstore-server certs renew ca --data-dir {shown}")).unwrap_err();
        assert!(authority.to_string().contains("these can: apiserver, admin"), "{authority}");
        certs(&format!("kstore-server certs show --data-dir {shown}")).unwrap();
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = [["NAME", "LEFT"], ["front-proxy-ca", "1d"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "NAME             LEFT\nfront-proxy-ca   1d\n");
    }
}
