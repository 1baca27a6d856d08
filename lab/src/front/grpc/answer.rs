//! Answers of gRPC calls as streams of messages. A stream holds one batch at a time, and makes the next when the reader has taken it.

use super::codec::{FilePiece, LoadImagePiece};
use super::{AnswerForm, GrpcCall, Messages, refused};
use crate::cluster::LabCluster;
use crate::front::observed::{self, Follower};
use crate::front::{Call, Reply, files, perform};
use crate::limits;
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use kstore_api::status::Status;
use prost::Message as _;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::Streaming;

/// The JSON of an answer.
///
/// # Errors
/// The refusal that an idempotency key has kept.
fn json_of(reply: Reply) -> Result<Value, Status> {
    match reply {
        Reply::Json(code, body) if code >= 400 => {
            Err(serde_json::from_slice(&body).unwrap_or_else(Status::internal))
        }
        Reply::Json(_, body) => serde_json::from_slice(&body).map_err(Status::internal),
        Reply::Stream(_) => Err(Status::internal("the answer is no JSON")),
    }
}

/// An advance that lets time pass.
struct Advancing {
    performing: BoxFuture<'static, Result<Reply, Status>>,
    progress: Interval,
    cluster: Arc<LabCluster>,
}

impl Advancing {
    /// The next event, and whether it is the last one.
    async fn event(&mut self) -> Result<(Value, bool), Status> {
        tokio::select! {
            biased;
            answered = &mut self.performing => Ok((json!({"result": json_of(answered?)?}), true)),
            _ = self.progress.tick() => {
                let clock = serde_json::to_value(self.cluster.clock()?).map_err(Status::internal)?;
                Ok((json!({"progress": clock}), false))
            }
        }
    }
}

impl GrpcCall {
    /// Answers a call with one message.
    pub(super) async fn answer(self, messages: Streaming<Bytes>) -> Result<Messages, tonic::Status> {
        let members = self.members(messages).await?;
        self.answer_to(members).await.map_err(|status| refused(&status))
    }

    async fn answer_to(self, members: serde_json::Map<String, Value>) -> Result<Messages, Status> {
        let (call, path) = self.http(members)?;
        if self.rpc.form == AnswerForm::Log
            && let Some(follower) = observed::follower(&call)?
        {
            return Ok(self.followed(follower));
        }
        let key = self.key.clone();
        match self.rpc.form {
            AnswerForm::Progress => Ok(self.advancing(call, path)),
            AnswerForm::Download => match perform(call, None, &path).await? {
                Reply::Stream(response) => Ok(pieces(response.into_body())),
                Reply::Json(..) => Err(Status::internal("the answer is no file")),
            },
            AnswerForm::Program => {
                let cluster = call.cluster.clone();
                let program = json_of(perform(call, key.as_deref(), &path).await?)?;
                Ok(self.program(program, cluster))
            }
            _ => {
                let answer = json_of(perform(call, key.as_deref(), &path).await?)?;
                let messages: Vec<Value> = self.rpc.messages(answer);
                Ok(stream::iter(messages).map(move |json| self.message(&json)).boxed())
            }
        }
    }

    /// The clock while time passes, and the result. The advance ends with the stream.
    fn advancing(self, call: Call, path: String) -> Messages {
        let (cluster, key) = (call.cluster.clone(), self.key.clone());
        let performing = async move { perform(call, key.as_deref(), &path).await }.boxed();
        let mut progress = tokio::time::interval(limits::PROGRESS);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let advancing = Advancing { performing, progress, cluster };
        stream::unfold(Some((self, advancing)), |state| async {
            let (call, mut advancing) = state?;
            match advancing.event().await {
                Ok((event, true)) => Some((call.message(&event), None)),
                Ok((event, false)) => Some((call.message(&event), Some((call, advancing)))),
                Err(status) => Some((Err(refused(&status)), None)),
            }
        })
        .boxed()
    }

    /// Requests as they come.
    fn followed(self, follower: Follower) -> Messages {
        stream::unfold(Some((self, follower)), |state| async {
            let (call, mut follower) = state?;
            match follower.requests().await {
                Ok(None) => None,
                Ok(Some((requests, next))) => {
                    let message = call.message(&json!({"requests": requests, "next": next}));
                    Some((message, Some((call, follower))))
                }
                Err(forgotten) => {
                    let since = forgotten.oldest.saturating_sub(1);
                    let text = format!(
                        "the reader fell behind: the log has dropped requests before {}; go on with since {since}",
                        forgotten.oldest
                    );
                    let status = Status::foreign(429, "TooManyRequests".to_owned(), text);
                    Some((Err(refused(&status.cause("Position", since.to_string()))), None))
                }
            }
        })
        .boxed()
    }

    /// A program when it was started, and when it has ended.
    fn program(self, started: Value, cluster: Arc<LabCluster>) -> Messages {
        let is_running = started["state"] == "running";
        let name = started["name"].as_str().unwrap_or_default().to_owned();
        let first = self.message(&started);
        let end = async move {
            let ended = cluster.programs().ended(&name).await;
            let ended = ended.and_then(|report| serde_json::to_value(report).map_err(Status::internal));
            ended.map_err(|status| refused(&status)).and_then(|json| self.message(&json))
        };
        let rest = is_running.then(|| stream::once(end));
        stream::once(async { first }).chain(stream::iter(rest).flatten()).boxed()
    }

    /// Answers a call that sends a file.
    pub(super) async fn upload(self, mut messages: Streaming<Bytes>) -> Result<Messages, tonic::Status> {
        let decode = |bytes: Bytes| {
            LoadImagePiece::decode(bytes).map_err(|error| tonic::Status::invalid_argument(error.to_string()))
        };
        let Some(first) = messages.message().await? else {
            return Err(tonic::Status::invalid_argument("the call has no message"));
        };
        let LoadImagePiece { name, data } = decode(first)?;
        let rest = messages.map(move |bytes| decode(bytes?).map(|piece| piece.data));
        let body = Body::from_stream(stream::once(async { Ok(data) }).chain(rest));
        let answer = self.load(name, body).await.map_err(|status| refused(&status))?;
        let message = self.message(&answer);
        Ok(stream::once(async { message }).boxed())
    }

    async fn load(&self, name: String, body: Body) -> Result<Value, Status> {
        let members = [("name".to_owned(), Value::String(name))].into_iter().collect();
        let (mut call, path) = self.http(members)?;
        call.upload = Some(files::receive(&self.lab, body).await?);
        json_of(perform(call, None, &path).await?)
    }
}

/// A file in messages.
fn pieces(body: Body) -> Messages {
    let piece = |data: Result<Bytes, axum::Error>| match data {
        Ok(data) => Ok(FilePiece { data }.encode_to_vec().into()),
        Err(error) => Err(refused(&Status::internal(error))),
    };
    body.into_data_stream().map(piece).boxed()
}
