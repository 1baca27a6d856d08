# The store alone: with etcd's own tools, and its directory without a server.

# serve_store NAME FLAG…: starts a plain etcd for etcdctl.
serve_store() {
    local name=$1 end=$((SECONDS + STEP_SECONDS))
    serve "$name" --components store --etcd-listen 127.0.0.1:0 "${@:2}"
    until grep -qs '^  etcd ' "$WORK/$name.log"; do
        [ "$SECONDS" -lt "$end" ] || return 0
        sleep 0.05
    done
    ETCDCTL_ENDPOINTS=$(sed -n 's/^  etcd  *\(http[^ ]*\).*/\1/p' "$WORK/$name.log")
    export ETCDCTL_ENDPOINTS
}

refused 'kstore-server --components store' 'etcd-listen'
refused 'kstore-server --components store --etcd-listen 0.0.0.0:0 --in-memory' 'etcd-allow-anyone'

# etcdctl gives up after two and five seconds by default, and reads the variables for these limits too late.
etcdctl() { command etcdctl --dial-timeout="$WAIT" --command-timeout="$WAIT" "$@"; }
export -f etcdctl
for engine in segments sled; do
    data=$WORK/store-$engine
    export data
    serve_store "$engine" --data-dir "$data" --engine "$engine"
    step 'etcdctl put greeting hello' '^OK$'
    step 'etcdctl get greeting' '^hello$'
    step 'etcdctl put greeting goodbye && etcdctl get greeting --rev=2' '^hello$'
    step 'printf "mod(\"greeting\") = \"3\"\n\nput seen yes\n\nput seen no\n\n" | etcdctl txn' '^SUCCESS$'
    rm -f "$WORK/watch"
    # A process of its own instead of the function, which the signal would not reach.
    step 'env etcdctl watch greeting --rev=2 >"$WORK/watch" & until grep -qs goodbye "$WORK/watch"; do sleep 0.1; done; kill $! && cat "$WORK/watch"' '^hello$' '^goodbye$'
    step 'id=$(etcdctl lease grant 60 | cut -d" " -f2) && etcdctl put --lease=$id leased x && etcdctl lease revoke $id && etcdctl get leased --count-only -w fields' '"Count" : 0'
    step 'etcdctl endpoint health' 'is healthy'
    step 'etcdctl endpoint status -w table' 'true'
    step 'etcdctl endpoint hashkv -w json' '"hash":'
    step 'etcdctl compact 3 --physical && etcdctl get greeting --rev=2 2>&1 || true' 'required revision has been compacted'
    step 'etcdctl defrag' 'Finished defragmenting'
    step 'etcdctl alarm list'
    step 'etcdctl snapshot save $data.db' 'saved'
    step 'etcdutl snapshot status $data.db -w table' 'REVISION|[0-9]+'
    step 'curl -fsS $ETCDCTL_ENDPOINTS/version' 'etcdserver'
    step 'curl -fsS $ETCDCTL_ENDPOINTS/health' '"true"'
    step 'curl -fsS $ETCDCTL_ENDPOINTS/metrics' '^etcd_debugging_mvcc_current_revision '
    end KILL "$server"
    step 'kstore-server store status --data-dir $data' '[Rr]evision'
    step 'kstore-server store verify --data-dir $data'
    refused 'kstore-server store status --data-dir $WORK/nothing'
    serve_store "$engine-again" --data-dir "$data" --engine "$engine"
    step 'etcdctl get greeting' '^goodbye$'
    refused 'kstore-server store verify --data-dir $data' 'in use|running|locked|held'
    end TERM "$server"
    step 'kstore-server store snapshot restore $data.db --data-dir $data.restored'
    serve_store "$engine-restored" --data-dir "$data.restored"
    step 'etcdctl get greeting' '^goodbye$'
    end TERM "$server"
done
unset ETCDCTL_ENDPOINTS
unset -f etcdctl
