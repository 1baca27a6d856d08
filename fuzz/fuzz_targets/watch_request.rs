//! Bytes as a request on a watch stream; what decodes is encoded to something that decodes to the same.

#![no_main]

use kstore_proto::etcd::etcdserverpb::WatchRequest;
use prost::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = WatchRequest::decode(bytes) {
        let again = WatchRequest::decode(&request.encode_to_vec()[..]);
        assert_eq!(again.ok(), Some(request), "what is written is read");
    }
});
