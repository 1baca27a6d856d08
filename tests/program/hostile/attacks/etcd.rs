//! The etcd API beside an API server: responses that are never taken.

use super::target::{Target, Writer};
use super::{Attack, Scale};
use crate::hostile::etcd_port::client;
use crate::hostile::frames::{self, DATA, END_STREAM};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kstore_proto::etcd::etcdserverpb::PutRequest;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::time::sleep;

/// Streamed reads of megabytes whose parts are never taken. They are bounded by the budget of one connection.
pub(super) const STALLED_PARTS: Attack = Attack::new("etcd: stalled parts", 384, stalled_parts).with_etcd();

fn stalled_parts(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    const VALUES: u8 = 8;
    const STREAMS: u32 = 1_000;
    async move {
        let mut admin = client(&target.etcd()).await;
        for number in 0..VALUES {
            let (key, value) = (vec![b'k', number].into(), vec![7; 1 << 20].into());
            admin.put(PutRequest { key, value, ..PutRequest::default() }).await.unwrap();
        }
        target.begin(Writer::Tenant).await;
        let mut greedy = UnixStream::connect(target.etcd()).await.unwrap();
        let mut bytes = [frames::PREFACE, &frames::initial_window(0)].concat();
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/etcdserverpb.KV/RangeStream"),
            ("content-type", "application/grpc"),
        ];
        // A message of two fields: the key "k" and the range end "l".
        let message = [0, 0, 0, 0, 6, 0x0a, 1, b'k', 0x12, 1, b'l'];
        for number in 0..STREAMS {
            bytes.extend(frames::head(2 * number + 1, 0, &fields));
            bytes.extend(frames::frame(DATA, END_STREAM, 2 * number + 1, &message));
        }
        greedy.write_all(&bytes).await.unwrap();
        sleep(scale.time()).await;
        bytes.len()
    }
    .boxed_local()
}
