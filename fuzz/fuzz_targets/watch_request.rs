//! Fuzz target: watch stream requests; a decoded request is encoded to bytes that decode to the same request.

#![no_main]

use kstore_proto::etcd::etcdserverpb::WatchRequest;
use prost::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = WatchRequest::decode(bytes) {
        let again = WatchRequest::decode(&request.encode_to_vec()[..]);
        assert_eq!(again.ok(), Some(request), "the encoded request decodes");
    }
});
