//! Tails a resource: prints one tab-separated line for each change, with the number of objects per value of a
//! field.
//!
//! `cargo run -p kstore-client --example tail -- pods --by node --kubeconfig kstore-data/admin.kubeconfig`
//! prints `revision  change  key  value  count`, where `count` is the current number of objects with that
//! value. `--by` takes `node`, `namespace`, `phase`, or a path such as `spec.serviceAccountName`; `--initial`
//! begins with the existing objects.

use anyhow::{Context as _, bail};
use kstore_api::kind;
use kstore_client::{Client, DynamicObject, Gvr, Kubeconfig, WatchParams};
use kstore_informer::{Builder, Delta, Index, Informer, Object};
use std::collections::BTreeMap;
use std::io::Write as _;
use tokio_util::sync::CancellationToken;

struct Args {
    resource: String,
    by: String,
    kubeconfig: String,
    initial: bool,
}

fn args() -> anyhow::Result<Args> {
    let mut given = std::env::args().skip(1);
    let kubeconfig = std::env::var("KUBECONFIG").unwrap_or_default();
    let resource =
        given.next().context("usage: tail RESOURCE [--by FIELD] [--initial] [--kubeconfig FILE]")?;
    let mut args = Args { resource, by: "namespace".into(), kubeconfig, initial: false };
    while let Some(flag) = given.next() {
        let mut value = || given.next().with_context(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--by" => args.by = value()?,
            "--kubeconfig" => args.kubeconfig = value()?,
            "--initial" => args.initial = true,
            _ => bail!("unknown argument {flag}"),
        }
    }
    Ok(args)
}

/// The path of a field with a short name.
fn path(by: &str) -> Vec<String> {
    let path = match by {
        "node" => "spec.nodeName",
        "namespace" => "metadata.namespace",
        "phase" => "status.phase",
        path => path,
    };
    path.split('.').map(str::to_owned).collect()
}

fn value(object: &DynamicObject, path: &[String]) -> String {
    let found = path.iter().try_fold(object.value(), |value, field| value.get(field));
    match found {
        None => "-".into(),
        Some(value) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = args()?;
    let row = kind::stored().find(|row| row.plural == args.resource);
    let row = row.with_context(|| format!("the server does not have a resource type {:?}", args.resource))?;
    let kubeconfig = Kubeconfig::read(args.kubeconfig.as_ref()).context("--kubeconfig or $KUBECONFIG")?;
    let client = Client::connect(&kubeconfig, "tail").await?;

    let path = path(&args.by);
    let by = {
        let path = path.clone();
        Index::new(move |object: &DynamicObject, emit: &mut dyn FnMut(String)| emit(value(object, &path)))
    };
    let stop = CancellationToken::new();
    let source = client.dynamic(Gvr::new(row.group, row.version, row.plural)).source(WatchParams::default());
    let objects = Builder::new(source).index(&by).name(&args.resource).spawn(&stop);
    objects.synced().await?;
    let mut changes = objects.subscribe();
    let begun = changes.try_next();
    if args.initial {
        begun.iter().try_for_each(|delta| print(delta, &path, &objects, &by))?;
    }
    print_counts(&objects, &path)?;
    loop {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => return print_counts(&objects, &path),
            deltas = changes.next() => {
                let deltas = deltas.context("the informer has stopped")?;
                deltas.iter().try_for_each(|delta| print(delta, &path, &objects, &by))?;
            }
        }
    }
}

fn print(
    delta: &Delta<DynamicObject>,
    path: &[String],
    objects: &Informer<DynamicObject>,
    by: &Index<DynamicObject, String>,
) -> anyhow::Result<()> {
    let object = delta.object();
    let change = match delta {
        Delta::Added(_) => "ADDED",
        Delta::Deleted(_) => "DELETED",
        _ => "CHANGED",
    };
    let value = value(object, path);
    let count = objects.by(by, value.as_str()).len();
    let mut out = std::io::stdout().lock();
    Ok(writeln!(out, "{}\t{change}\t{}\t{value}\t{count}", object.revision(), object.key())?)
}

/// Prints all values and their counts at one revision.
fn print_counts(objects: &Informer<DynamicObject>, path: &[String]) -> anyhow::Result<()> {
    let view = objects.view();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    view.iter().for_each(|object| *counts.entry(value(object, path)).or_default() += 1);
    let mut out = std::io::stdout().lock();
    for (value, count) in counts {
        writeln!(out, "{}\tTOTAL\t\t{value}\t{count}", view.revision())?;
    }
    Ok(())
}
