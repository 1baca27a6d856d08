//! The etcd API over a store in memory, through a pipe with HTTP/2 frames; the client is as cheap as a client can be.

use super::virtual_time::{SEED, in_virtual_time};
use crate::etcd::link::{Link, Piece};
use crate::etcd::request::{self, PUT, RANGE};
use anyhow::ensure;
use kstore_etcd::EmbeddedServer;
use kstore_nondet::Nondet;
use kstore_proto::etcd::etcdserverpb::RangeRequest;
use kstore_store::{Config, Store};
use prost::Message;
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;

/// Bytes that a pipe holds, about as many as a socket.
const PIPE: usize = 256 << 10;
/// Keys that are there before the count.
const KEYS: usize = 1_000;
const VALUE_BYTES: usize = 256;
const AUTHORITY: &str = "etcd.invalid:2379";

/// Put of 256 B to an existing key.
pub(super) fn put(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let mut link = filled().await?;
        for number in 0..times {
            put_one(&mut link, usize::try_from(number)? * 7 % KEYS).await?;
        }
        Ok(())
    })
}

/// Linearizable range of one key.
pub(super) fn range(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let mut link = filled().await?;
        for number in 0..times {
            let key = request::key("ratchet", usize::try_from(number)? * 7 % KEYS);
            let bytes = call(&mut link, RANGE, &RangeRequest { key, ..RangeRequest::default() }).await?;
            ensure!(bytes > VALUE_BYTES, "the key is there");
        }
        Ok(())
    })
}

/// A connection to a server with [`KEYS`] keys.
async fn filled() -> anyhow::Result<Link<DuplexStream>> {
    let store = Store::open(Config::memory(), Nondet::simulated(SEED)).await?;
    let server = EmbeddedServer::new(store, &format!("http://{AUTHORITY}"), CancellationToken::new());
    let (ours, theirs) = tokio::io::duplex(PIPE);
    tokio::spawn(async move { server.serve_connection(theirs).await });
    let mut link = Link::over(ours, AUTHORITY.to_owned());
    for number in 0..KEYS {
        put_one(&mut link, number).await?;
    }
    Ok(link)
}

async fn put_one(link: &mut Link<DuplexStream>, number: usize) -> anyhow::Result<()> {
    let message = request::put(request::key("ratchet", number), request::value(VALUE_BYTES));
    let bytes = call(link, PUT, &message).await?;
    ensure!(bytes > 0, "the put failed");
    Ok(())
}

/// Sends one call and waits for the end of its answer, whose size in bytes is returned.
async fn call(link: &mut Link<DuplexStream>, path: &str, message: &impl Message) -> anyhow::Result<usize> {
    let call = link.call(path, message);
    let (mut bytes, mut has_ended) = (0, false);
    while !has_ended {
        link.process(|stream, piece| match piece {
            Piece::Data(data) if stream == call => bytes += data.len(),
            Piece::End if stream == call => has_ended = true,
            _ => {}
        })
        .await?;
    }
    Ok(bytes)
}
