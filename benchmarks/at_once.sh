#!/usr/bin/env bash
# Parts of benchmarks, each a process of its own, at once on a borrowed GPU, where MPS lets their kernels run together: short
# trainings of small networks keep one process busy with Python between them, and a method that is done is kept at once.
# Usage, in the repository: bash benchmarks/at_once.sh SECONDS DATA OUT SPEC/PARTITION/METHODS...
#   e.g. ... 1500 DATA OUT 4-rounds-width16-short/classes:20/feddf 4-rounds-width16-short/classes:20/mine
# Each part works in results/parts/; finished cells go to results/paper/cells at once, and to OUT/cells.tgz in the end.
set -u
seconds=$1 data=$2 out=$3; shift 3
end=$((SECONDS + seconds))
# Without a limit every process starts as many threads as there are cores, and they wait for each other for minutes.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
if command -v nvidia-cuda-mps-control > /dev/null; then
    export CUDA_MPS_PIPE_DIRECTORY=/tmp/fedol-mps CUDA_MPS_LOG_DIRECTORY=/tmp/fedol-mps
    mkdir -p /tmp/fedol-mps && nvidia-cuda-mps-control -d
fi
running=() folders=()
mkdir -p results/paper/cells results/paper/timing
keep() {  # not their timing: each had a share of the GPU
    for folder in "${folders[@]}"; do cp -u "$folder"/cells/*.json results/paper/cells/ 2> /dev/null; done
    tar czf "$out/cells.new" -C results/paper cells && mv "$out/cells.new" "$out/cells.tgz"
}
for part in "$@"; do
    IFS=/ read -r spec partition methods <<< "$part"
    folder=results/parts/${part//[:\/,]/-}
    mkdir -p "$folder" && cp -r results/paper/cells* results/paper/timing "$folder/"
    python3 - "results/specs/$spec.json" "$partition" "$methods" > "$folder/$spec.json" << 'P'
import json, sys
path, partition, methods = sys.argv[1:]
print(json.dumps({**json.load(open(path)), "partitions": [partition], "methods": methods}))
P
    # PyTorch keeps the memory that it has freed, which the other processes may need: each has its share.
    python3 - "$#" --spec "$folder/$spec.json" --out "$folder" --data-dir "$data" --device "${DEVICE:-cuda}" \
        --time-limit "$seconds" > "$folder/log" 2>&1 << 'P' &
import runpy, sys, torch
share = 0.95 / int(sys.argv.pop(1))
if torch.cuda.is_available():
    torch.cuda.set_per_process_memory_fraction(share)
runpy.run_module("fedol.bench.runner", run_name="__main__", alter_sys=True)
P
    running+=($!) folders+=("$folder")
done
while [ $SECONDS -lt $end ] && kill -0 "${running[@]}" 2> /dev/null; do
    sleep 5
    keep
done
kill "${running[@]}" 2> /dev/null
keep
for folder in "${folders[@]}"; do echo "$folder: $(tail -n 1 "$folder/log")"; done
[ -z "${CUDA_MPS_PIPE_DIRECTORY:-}" ] || echo quit | nvidia-cuda-mps-control
