//! Calls about snapshot files: download and upload of images.

use super::clusters::image_report;
use super::{Call, Reply, parse};
use crate::error::{bad_request, too_large, too_many};
use crate::registry::Lab;
use crate::snapshot::{self, Identity, SaveOptions};
use crate::{limits, values};
use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::Method;
use http_body_util::BodyExt as _;
use kstore_api::status::Status;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// The body of an upload, in a temporary file without a name.
pub(super) struct Upload {
    file: File,
    permit: OwnedSemaphorePermit,
}

/// Whether a call sends a file instead of JSON.
pub(super) fn is_upload(method: &Method, path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    method == Method::PUT && matches!(path[..], ["images", _, "file"] | ["clusters", _, "images", _, "file"])
}

fn permit(lab: &Lab) -> Result<OwnedSemaphorePermit, Status> {
    let permit = lab.files.clone().try_acquire_owned();
    permit.map_err(|_| too_many("snapshot files", limits::FILES, "too many snapshot files at a time"))
}

/// Reads the body of an upload into a file.
pub(super) async fn receive(lab: &Lab, mut body: Body) -> Result<Upload, Status> {
    let permit = permit(lab)?;
    let (pieces, mut waiting) = mpsc::channel::<Bytes>(limits::FILE_PIECES);
    let writing = tokio::task::spawn_blocking(move || {
        let mut file = tempfile::tempfile()?;
        while let Some(piece) = waiting.blocking_recv() {
            file.write_all(&piece)?;
        }
        Ok::<_, io::Error>(file)
    });
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Status::bad_request(format!("the body cannot be read: {error}")))?;
        let Ok(piece) = frame.into_data() else { continue };
        length += piece.len() as u64;
        if length > limits::FILE_BYTES {
            return Err(too_large(usize::try_from(limits::FILE_BYTES).unwrap_or(usize::MAX)));
        }
        if pieces.send(piece).await.is_err() {
            // The file cannot be written; its error follows.
            break;
        }
    }
    drop(pieces);
    let file = writing.await.map_err(Status::internal)?.map_err(Status::internal)?;
    Ok(Upload { file, permit })
}

/// `GET /images/{name}/file?keys=&history=`.
pub(super) async fn save(call: &Call, name: &str) -> Result<Reply, Status> {
    parse::only(&call.query, &["keys", "history"])?;
    let options = SaveOptions {
        keys: parse::parameter(&call.query, "keys")?.unwrap_or(false),
        history: parse::parameter(&call.query, "history")?.unwrap_or(true),
    };
    let (image, permit) = (call.lab.image(name)?, permit(&call.lab)?);
    let file = snapshot::save(&image, options).await.map_err(Status::internal)?;
    let length = file.metadata().map_err(Status::internal)?.len();
    let pieces = stream::unfold(Some((file, permit)), |rest| async {
        let (file, permit) = rest?;
        let read = tokio::task::spawn_blocking(move || piece(file)).await;
        match read.map_err(io::Error::other).flatten() {
            Ok((bytes, _)) if bytes.is_empty() => None,
            Ok((bytes, file)) => Some((Ok(bytes), Some((file, permit)))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Reply::stream("application/octet-stream", Some(length), Body::from_stream(pieces))
}

/// The next piece of a file; an empty one at its end.
fn piece(mut file: File) -> io::Result<(Bytes, File)> {
    let mut bytes = vec![0; limits::FILE_PIECE];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    Ok((bytes.into(), file))
}

/// `PUT /images/{name}/file?identity=`.
pub(super) async fn load(call: &mut Call, name: &str) -> Result<Reply, Status> {
    parse::only(&call.query, &["identity"])?;
    let identity = match parse::text(&call.query, "identity") {
        None | Some("kept") => Identity::Kept,
        Some("new") => Identity::New,
        Some(other) => return Err(bad_request("identity", format!("{other:?} is none of kept, new"))),
    };
    values::name(name, "name")?;
    let Some(Upload { file, permit }) = call.upload.take() else {
        return Err(bad_request("/", "the body is a snapshot file"));
    };
    let keys = call.lab.cluster_keys().clone();
    let path = Path::new("the snapshot file");
    let image = snapshot::load(file, path, (name, identity), (&keys, call.lab.template())).await;
    let image = image.map_err(|error| Status::bad_request(error.to_string()))?;
    drop(permit);
    let image = call.lab.keep_image(image)?;
    let shared = call.lab.images().into_iter().find(|(known, _)| Arc::ptr_eq(known, &image));
    Reply::with(201, &image_report(&image, shared.map_or(0, |(_, shared)| shared)))
}
