//! The Snapshot call: sends a database that etcd's tools open in pieces, followed by its digest. The snapshot is
//! written to a temporary file in the data directory first, so that a slow client delays nothing.

use crate::error;
use crate::limits::SNAPSHOT_PIECE;
use crate::node::{CLUSTER_VERSION, Node};
use futures::stream::{self, Stream};
use kstore_proto::etcd::etcdserverpb::SnapshotResponse;
use kstore_store::{SnapshotError, Store};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Seek};
use std::pin::Pin;
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Response, Status};

pub(crate) type SnapshotStream =
    Pin<Box<dyn Stream<Item = Result<SnapshotResponse, Status>> + Send + 'static>>;

/// The remaining part of a snapshot.
struct SnapshotReader {
    file: File,
    remaining: u64,
    digest: Sha256,
    _permit: OwnedSemaphorePermit,
}

/// Takes the snapshot and starts to send it.
pub(crate) async fn snapshot(node: &Node) -> Result<Response<SnapshotStream>, Status> {
    let permit = node.snapshots.clone().try_acquire_owned().map_err(|_| error::TOO_MANY_REQUESTS)?;
    let store = node.store.clone();
    let rest = blocking(move || take(&store, permit)).await?;
    let pieces = stream::unfold(Some(rest), |rest| async {
        let rest = rest?;
        match blocking(move || rest.next()).await {
            Ok((piece, rest)) => Some((Ok(piece), rest)),
            Err(status) => Some((Err(status), None)),
        }
    });
    Ok(Response::new(Box::pin(pieces)))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|_| error::STOPPED)?
}

fn take(store: &Store, permit: OwnedSemaphorePermit) -> Result<SnapshotReader, Status> {
    let file = match store.snapshot_dir().map_err(refused)? {
        Some(dir) => tempfile::tempfile_in(dir),
        None => tempfile::tempfile(),
    };
    let mut file = file.map_err(failed)?;
    let info = store.snapshot(&mut file).map_err(refused)?;
    file.rewind().map_err(failed)?;
    Ok(SnapshotReader { file, remaining: info.bytes, digest: Sha256::new(), _permit: permit })
}

fn refused(error: SnapshotError) -> Status {
    match error {
        SnapshotError::Stopped(_) => error::STOPPED.into(),
        SnapshotError::Damaged { .. } | SnapshotError::Unreadable(_) => Status::data_loss(error.to_string()),
        SnapshotError::Write(error) => failed(error),
    }
}

fn failed(error: std::io::Error) -> Status {
    Status::unknown(format!("kstore: the temporary file of a snapshot: {error}"))
}

impl SnapshotReader {
    /// Returns the next piece and the rest; the digest follows the last piece.
    fn next(mut self) -> Result<(SnapshotResponse, Option<Self>), Status> {
        let version = CLUSTER_VERSION.to_owned();
        if self.remaining == 0 {
            let blob = self.digest.finalize().to_vec().into();
            return Ok((SnapshotResponse { header: None, remaining_bytes: 0, blob, version }, None));
        }
        let mut piece = vec![0; SNAPSHOT_PIECE.min(usize::try_from(self.remaining).unwrap_or(usize::MAX))];
        self.file.read_exact(&mut piece).map_err(failed)?;
        self.digest.update(&piece);
        self.remaining -= piece.len() as u64;
        let remaining_bytes = self.remaining;
        Ok((SnapshotResponse { header: None, remaining_bytes, blob: piece.into(), version }, Some(self)))
    }
}
