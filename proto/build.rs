//! Compiles the `.proto` files with protox, so that no protoc is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=proto");
    let kstore = protox::compile(["kstore/v1/kstore.proto"], ["proto"])?;
    fs::write(out.join("kstore.v1.bin"), kstore.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(kstore)?;
    let etcd = protox::compile(["etcd/rpc.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(etcd)?;
    let kms = protox::compile(["kms/v2/kms.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").btree_map(".").compile_fds(kms)?;
    Ok(())
}
