# What the checks of .ci/run share: the tools in PATH, the build profile, the program under test. Sourced.
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

export CI=true CARGO_TERM_COLOR=never
# etcd is required: a skipped comparison with etcd would prove nothing.
export KSTORE_REQUIRE_ETCD=1
# Tests that wait for processes and sockets take most of their time; more threads than cores let others run meanwhile.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}

# Random cases of properties are the same in each run of the gate, so that whether a change lands depends on the change alone. With `all`
# they are new ones; the input that fails there becomes a test of its own.
[ "${CI_MODE:-}" = all ] || export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

# Everything is built once, with this profile of Cargo.toml, and clippy is the compiler of what the workspace builds for tests: its lints
# cost a fifth more in a build that happens anyway, and a second pass over all crates without it.
export PROFILE=gate
RUSTC_WORKSPACE_WRAPPER=
if command -v clippy-driver >/dev/null; then RUSTC_WORKSPACE_WRAPPER=$(realpath "$(dirname "${BASH_SOURCE[0]}")/rustc"); fi
export RUSTC_WORKSPACE_WRAPPER

# A test program that hangs ends after its time, says where its threads are, and lets the others run.
runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
declare -x "$runner=$(realpath "$(dirname "${BASH_SOURCE[0]}")/runner")"

# The packages and features of that build. Every call names the same ones: with others, cargo would build much of it again.
# Default features but jemalloc.
WORKSPACE=(--profile "$PROFILE" --workspace --no-default-features --features kstore-benches/informer,kstore-benches/ratchet,kstore-testing/kube)
# Those of the released program and of what measures it.
MEASURED=(-p kstore-server -p kstore-benches --no-default-features --features kstore-server/jemalloc --bench gate)

# built TARGET: prints the path of the executable of a test or benchmark of that build, which is brought up to date first.
built() {
    local printed
    printed=$(cargo test "${WORKSPACE[@]}" --all-targets --no-run 2>&1) || { printf '%s\n' "$printed" >&2 && return 1; }
    realpath "$(sed -nE "s|^ *Executable .*\((.*/deps/$1-[0-9a-f]+)\)\$|\1|p" <<<"$printed")"
}

# The gate's program has the allocator of the C library, which keeps large blocks of each thread that had one. As with jemalloc, they go back
# to the system: here those above 4 MiB.
export MALLOC_MMAP_THRESHOLD_=4194304

# The program that smoke, docs, terminal and clients run: the released one with `all`, else that of the gate's build, unless KSTORE_SERVER
# names another one.
if [ "${CI_MODE:-}" = all ]; then
    export KSTORE_SERVER=${KSTORE_SERVER:-$ROOT/target/release/kstore-server}
else
    export KSTORE_SERVER=${KSTORE_SERVER:-$ROOT/target/$PROFILE/kstore-server}
fi

# Recordings of a kube-apiserver for the replay tests, if they are beside this folder.
if [ -d "$ROOT/../shared/transcripts" ]; then
    KSTORE_TRANSCRIPTS=${KSTORE_TRANSCRIPTS:-$(realpath "$ROOT/../shared/transcripts")}
    export KSTORE_TRANSCRIPTS
fi
