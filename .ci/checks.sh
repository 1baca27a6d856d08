# Runs the checks that .ci/run chooses, one after the other or side by side, and reports. Sourced by run, after lib.sh.

CHECKS=$ROOT/.ci/checks.tsv
LOGS=$ROOT/target/ci-logs
# Seconds that the gate may take on two quiet cores.
GATE_SECONDS=1800
# Compiler errors, failed tests and their panics, smoke steps, missed bounds, findings of the fuzzer.
FAILURE_LINES='^error|signal: |^fatal runtime error|has overflowed its stack|panicked at|\.\.\. FAILED|^test result: FAILED|^FAIL |^Error: |^offence|\*\*(missed|failed)\*\*|FOUND by|No space left'

# What runs: gate, all, or the named checks.
mode=gate
chosen=()
# Lanes that run in the background, and the checks of each.
lanes=()
lane_checks=()

# select_checks [all | CHECK…]: sets what runs; ends the run for a name that is no check.
select_checks() {
    local name
    mkdir -p "$LOGS"
    rm -f "$LOGS"/*.result "$LOGS"/*.pid
    commit_before=$(git rev-parse HEAD)
    load_before=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || printf '?')
    case ${1:-} in
        '') mode=gate ;;
        all) mode=all ;;
        *)
            mode=named
            for name in "$@"; do
                [ -n "$(column 2 "$name")" ] || { printf 'there is no check %s; .ci/run --list shows them\n' "$name" >&2 && exit 2; }
                chosen+=("$name")
            done
            ;;
    esac
    export CI_MODE=$mode
}

# stop: ends the checks that run; for an interrupted run.
stop() {
    trap - INT TERM
    local file
    for file in "$LOGS"/*.pid; do if [ -e "$file" ]; then kill "$(cat "$file")" 2>/dev/null || true; fi; done
    kill $(jobs -p) 2>/dev/null || true
    printf '\ninterrupted\n'
    exit 130
}
trap stop INT TERM

# column NUMBER CHECK: a column of the check's line in checks.tsv.
column() { awk -F '\t' -v name="$2" -v column="$1" '$1 == name { print $column }' "$CHECKS"; }

# is_chosen CHECK: `headline` is part of `performance`, which replaces it with `all`.
is_chosen() {
    case $mode in
        gate) [ "$(column 2 "$1")" = gate ] ;;
        all) [ "$1" != headline ] ;;
        named) [[ " ${chosen[*]} " == *" $1 "* ]] ;;
    esac
}

# run_check CHECK: runs its script and leaves NAME.log and NAME.result: exit code, seconds, and processor seconds.
run_check() {
    local name=$1 code=0 limit
    # A check that hangs ends here; one that is slow only because the machine is busy does not.
    limit=$(($(column 3 "$name") * 4 + 120))
    local TIMEFORMAT='%R %U %S'
    {
        time {
            timeout -k 10 "$limit" "$ROOT/.ci/checks/$name" >"$LOGS/$name.log" 2>&1 &
            printf '%d' $! >"$LOGS/$name.pid"
            wait $! || code=$?
        }
    } 2>"$LOGS/$name.times"
    rm "$LOGS/$name.pid"
    [ "$code" != 124 ] || printf 'FAIL  %s did not end within %d s\n' "$name" "$limit" >>"$LOGS/$name.log"
    awk -v code="$code" 'END { printf "%d %.0f %.0f\n", code, $1, $2 + $3 }' "$LOGS/$name.times" >"$LOGS/$name.result"
}

# one_by_one CHECK…: runs the chosen ones of them, and shows their output while they run.
one_by_one() {
    local name shown
    for name in "$@"; do
        is_chosen "$name" || continue
        printf '\n== %s\n' "$name"
        : >"$LOGS/$name.log"
        tail -n +1 -f "$LOGS/$name.log" &
        shown=$!
        # In a shell of its own, which waits for nothing else: the processor time of checks that end beside it is not its own.
        (run_check "$name")
        sleep 0.3
        kill "$shown" && wait "$shown" 2>/dev/null || true
        closing "$name"
    done
}

# beside CHECK…: starts a lane that runs the chosen ones of them, one after the other, beside everything that follows.
beside() {
    local name names=()
    for name in "$@"; do if is_chosen "$name"; then names+=("$name"); fi; done
    [ ${#names[@]} -gt 0 ] || return 0
    printf '\n== %s: beside what follows\n' "${names[*]}"
    (for name in "${names[@]}"; do run_check "$name"; done) &
    lanes+=($!)
    lane_checks+=("${names[@]}")
}

# finish_beside: waits for the lanes and shows the output of their checks.
finish_beside() {
    local lane name
    for lane in ${lanes[@]+"${lanes[@]}"}; do wait "$lane" || true; done
    for name in ${lane_checks[@]+"${lane_checks[@]}"}; do
        printf '\n== %s\n' "$name"
        cat "$LOGS/$name.log"
        closing "$name"
    done
    lanes=()
    lane_checks=()
}

# closing CHECK: counts a check that has ended, and says how it ended.
closing() {
    local name=$1 code=1 seconds=0 used=0 counts
    read -r code seconds used <"$LOGS/$name.result" || true
    ended+=("$name")
    # The script's steps are counted, too.
    counts=$(tail -n 1 "$LOGS/$name.log" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')
    if [ "$name" = smoke ] && [ -n "$counts" ]; then
        passed=$((passed + ${counts% *}))
        failed=$((failed + ${counts#* }))
    fi
    if [ "$code" = 0 ]; then
        passed=$((passed + 1))
        printf -- '-- %s: %d s\n' "$name" "$seconds"
    else
        failed=$((failed + 1))
        failures+=("$name (exit code $code)")
        failed_checks+=("$name")
        printf 'FAIL  %s: exit code %d after %d s\n' "$name" "$code" "$seconds"
        # A full disk or a lack of memory makes checks fail without a defect.
        df -h "$ROOT" /tmp || true
        free -m || true
    fi
}
ended=()
failed_checks=()

# panics LOG: what failed tests said, such as the smallest input that a property found; without it a rare failure cannot be repeated. A
# property panics at one place for every input that it shrinks: of each place and thread only the first and the last are shown.
panics() {
    awk '/panicked at/ { place = $0; sub(/^[0-9]+:/, "", place); nth[FNR == NR, place]++ }
        FNR == NR { next }
        /panicked at/ { shown = nth[0, place] == 1 || nth[0, place] == nth[1, place] ? 60 : 0 }
        /^stack backtrace|^note: |^test result/ { shown = 0 }
        shown > 0 && lines < 150 { print; shown--; lines++ }' "$1" "$1" | cut -c 1-400
}

# failures LOG: the lines that name a failure, each text once.
failures() {
    grep -nE "$FAILURE_LINES" "$1" | awk '{ text = $0; sub(/^[0-9]+:/, "", text) } !seen[text]++' | sed -n 1,40p | cut -c 1-240
}

# excerpts: the lines of failed checks that name the failure, and the ends of their logs: a log that is cut in the middle still shows the
# reason.
excerpts() {
    local name
    for name in ${failed_checks[@]+"${failed_checks[@]}"}; do
        printf '\n== why %s failed (all of it: target/ci-logs/%s.log)\n' "$name" "$name"
        failures "$LOGS/$name.log" || true
        panics "$LOGS/$name.log"
        printf '   …\n'
        tail -n 10 "$LOGS/$name.log" | cut -c 1-240
    done
}

# table: a line for each check that ended, with tabs: name, seconds, processor seconds, budget, result.
table() {
    local name code seconds used
    for name in "${ended[@]}"; do
        read -r code seconds used <"$LOGS/$name.result"
        printf '%s\t%d\t%d\t%d\t%s\n' "$name" "$seconds" "$used" "$(column 3 "$name")" "$([ "$code" = 0 ] && printf passed || printf FAILED)"
    done
}

# record: writes the table into docs/checks.md.
record() {
    if ! "$ROOT/.ci/record" "$LOGS/table.tsv" --load-before "$load_before" --commit "$commit_before"; then
        failed=$((failed + 1))
        failures+=("the record in docs/checks.md")
    fi
}

# report: prints excerpts, the table, what is above its budget, and the verdict; ends the run.
report() {
    local name seconds used budget result
    excerpts
    table >"$LOGS/table.tsv"
    printf '\n%-12s %8s %10s %8s  %s\n' check seconds processor budget result
    while IFS=$'\t' read -r name seconds used budget result; do
        printf '%-12s %8d %10d %8d  %s\n' "$name" "$seconds" "$used" "$budget" "$result"
    done <"$LOGS/table.tsv"
    printf '%-12s %8d\n' all "$SECONDS"
    printf 'load before: %s; cores: %s\n' "$load_before" "$(nproc)"
    if [ "$mode" = all ]; then record; fi
    while IFS=$'\t' read -r name seconds used budget result; do
        [ "$seconds" -le "$budget" ] || printf 'above its budget: %s took %d s of %d\n' "$name" "$seconds" "$budget"
    done <"$LOGS/table.tsv"
    if [ "$mode" = gate ] && [ "$SECONDS" -gt "$GATE_SECONDS" ]; then
        printf 'above its budget: the gate took %d s of %d\n' "$SECONDS" "$GATE_SECONDS"
    fi
    if verdict; then exit 0; fi
    exit 1
}
