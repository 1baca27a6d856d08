# What the checks need beyond a Rust toolchain, installed only where it is missing. Sourced by run.
#
# kubectl comes from Debian's archive, which carries 1.32 since trixie: downloaded and unpacked under target/, not installed, so
# that neither root nor another release's sources are needed. cargo-deny is built from source, unoptimised: building it optimised
# takes longer than it will ever run.

TOOLS=$ROOT/target/ci-tools
KUBECTL_MINOR=32
CARGO_DENY=0.20.2
export PATH=$TOOLS/bin:$PATH

install_tools() {
    mkdir -p "$TOOLS/bin"
    install_c_linker && install_rust_components && install_kubectl && install_cargo_deny
}

install_c_linker() {
    command -v cc >/dev/null && return 0
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install gcc libc6-dev
}

install_rust_components() {
    cargo --version || return 1
    cargo fmt --version && cargo clippy --version && return 0
    rustup component add rustfmt clippy
}

install_kubectl() {
    if ! recent_kubectl; then
        (cd "$TOOLS" && download_kubectl) || return 1
        cp "$TOOLS/kubectl/usr/bin/kubectl" "$TOOLS/bin/kubectl"
    fi
    recent_kubectl && printf 'kubectl: %s\n' "$(command -v kubectl)" && kubectl version --client
}

recent_kubectl() {
    local minor
    minor=$(kubectl version --client 2>/dev/null | sed -n 's/^Client Version: v1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge "$KUBECTL_MINOR" ]
}

# Where this machine gets Debian's packages from.
debian_mirror() {
    local found
    found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{sources,list} 2>/dev/null |
        sed -nE '/security/d; s/^(URIs:|deb( \[[^]]*\])?) *(https?:[^ ]+).*/\3/p') || true
    printf '%s\n' "${found%%$'\n'*}"
}

# An apt of its own in the current directory: its own sources, lists and idea of what is installed (nothing).
download_kubectl() {
    local apt=(-qq -o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$PWD/lists"
        -o "Dir::State::status=$PWD/status" -o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User=)
    mkdir -p lists/partial cache/archives/partial
    : >status
    printf 'deb %s trixie main\n' "$(debian_mirror)" >sources.list
    apt-get "${apt[@]}" update && apt-get "${apt[@]}" download kubectl && dpkg -x kubectl_*.deb kubectl
}

install_cargo_deny() {
    if ! cargo deny --version 2>/dev/null; then
        cargo install --quiet --locked --debug --root "$TOOLS" --target-dir "$TOOLS/build" \
            --version "$CARGO_DENY" cargo-deny || return 1
        rm -rf "$TOOLS/build"
        cargo deny --version
    fi
}
