//! The code in `generated` is what the `.proto` files say. `protox` compiles them, so no protoc is needed.

use prost::Message as _;
use std::error::Error;
use std::fs;
use std::path::Path;

/// Compiles the `.proto` files into this folder.
fn generate(out: &Path) -> Result<(), Box<dyn Error>> {
    let compile = |file: &str| protox::compile([file], [Path::new(env!("CARGO_MANIFEST_DIR")).join("proto")]);
    let builder = || tonic_prost_build::configure().bytes(".").out_dir(out);
    let kstore = compile("kstore/v1/kstore.proto")?;
    fs::write(out.join("kstore.v1.bin"), kstore.encode_to_vec())?;
    builder().compile_fds(kstore)?;
    // Without comments, and without code: the lab reads messages by their descriptors.
    let mut lab = protox::Compiler::new([Path::new(env!("CARGO_MANIFEST_DIR")).join("proto")])?;
    lab.include_imports(true).include_source_info(false).open_file("kstore/lab/v1/lab.proto")?;
    fs::write(out.join("kstore.lab.v1.bin"), lab.encode_file_descriptor_set())?;
    builder().compile_fds(compile("etcd/rpc.proto")?)?;
    builder().btree_map(".").compile_fds(compile("kms/v2/kms.proto")?)?;
    builder().btree_map(".").compile_fds(compile("cri/v1/runtime.proto")?)?;
    Ok(())
}

#[test]
fn the_generated_code_is_that_of_the_proto_files() -> Result<(), Box<dyn Error>> {
    let (made, kept) = (tempfile::tempdir()?, Path::new(env!("CARGO_MANIFEST_DIR")).join("generated"));
    generate(made.path())?;
    let mut files = 0;
    for file in fs::read_dir(made.path())? {
        let file = file?;
        // Not `.rs`: the rules for source files do not hold for generated ones.
        let name = file.file_name().to_string_lossy().replace(".rs", ".in");
        let (made, kept) = (fs::read(file.path())?, kept.join(&name));
        if std::env::var_os("KSTORE_WRITE_GENERATED").is_some() {
            fs::write(&kept, &made)?;
        }
        let is_same = fs::read(&kept).is_ok_and(|kept| kept == made);
        assert!(is_same, "{name} is out of date: KSTORE_WRITE_GENERATED=1 cargo test -p kstore-proto");
        files += 1;
    }
    assert_eq!(files, fs::read_dir(&kept)?.count(), "a file in `generated` comes from no .proto file");
    Ok(())
}
