#!/usr/bin/env bash
# Run benchmarks one after another on a borrowed GPU until the time is up; what is finished comes back as cells.tgz.
# Usage, in the repository: bash benchmarks/lease.sh SECONDS DATA OUT SPEC...   (specs by their file names)
# AT_ONCE=3 before it trains three partitions or seeds side by side: faster, and more is lost if the time does not suffice.
# FOLDER=results/best keeps the results there instead of in results/paper. With UPLOADS=1 the clients' uploads come back too,
# in pieces (cat OUT/uploads.tar.* | tar x -C FOLDER): clients whose uploads are in FOLDER are not trained again.
set -u
seconds=$1 data=$2 out=$3; shift 3
folder=${FOLDER:-results/paper}
end=$((SECONDS + seconds))
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
for spec in "$@"; do
    left=$((end - SECONDS))
    [ "$left" -gt 60 ] || break
    # Not "exec until killed": the worker begins no group that would end too late. What it cannot foresee, timeout ends.
    timeout "$left" python3 -m fedol.bench.runner --spec "results/specs/$spec" --out "$folder" \
        --data-dir "$data" --device cuda --time-limit "$left" --side-by-side "${AT_ONCE:-1}" 2>&1 | tail -n 20
    tar czf "$out/cells.tgz" -C "$folder" cells timing 2>/dev/null
    if [ -n "${UPLOADS:-}" ]; then
        (cd "$folder" && tar c clients/*/*.fedol clients/*/*.json | split -b 15m - "$out/uploads.tar.")
    fi
done
