//! `kstore-server ui`: the page of a server in a browser. This process serves the page on loopback, and asks the server with the
//! kubeconfig's user for what it shows. `file_page` shows a data directory or a snapshot.

mod browser;
mod gate;
mod headers;
mod placement;
mod proxy;
mod response;
mod session;

use crate::args::UiArgs;
use crate::client_command::{Connection, print};
use crate::kubeconfig::kubeconfig_path;
use crate::runtime;
use crate::shutdown::Signals;
use anyhow::anyhow;
pub(crate) use browser::open as open_browser;
use kstore_client::Kubeconfig;
use kstore_nondet::Nondet;
pub(crate) use proxy::LocalProxy;
use std::process::ExitCode;

/// Serves the page until a signal ends it.
pub(crate) fn ui(args: UiArgs) -> anyhow::Result<ExitCode> {
    runtime::block_on(async {
        let mut signals = Signals::catch()?;
        let path = kubeconfig_path(args.kubeconfig, std::env::var_os("KUBECONFIG"))?;
        let kubeconfig =
            Kubeconfig::read(&path).map_err(|error| anyhow!("cannot use the kubeconfig: {error}"))?;
        let connection = Connection::open(Some(path), None, "kstore-ui").await?;
        let proxy = LocalProxy::start(connection.client, args.port, &Nondet::real()).await?;
        let link = proxy.link();
        let text = "the link works once, within a minute; Ctrl-C ends it";
        print(&format!("the page of {}: {link}\n{text}\n", kubeconfig.server))?;
        let opened = if args.prints_only { None } else { open_browser(&link) };
        signals.next().await;
        drop(opened);
        Ok(ExitCode::SUCCESS)
    })
}
