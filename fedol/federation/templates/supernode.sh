#!/bin/sh
# @NAME@'s node. Edit what is between the lines; data and model never leave this machine. Paths are from this folder.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
# ---------------------------------------------------------------------------------------------------------------------
task=${FEDOL_TASK:-$here/task}              # the task's folder, as the coordinator gave it
data=${FEDOL_DATA-$here/data.npz}           # your data: .npz, a folder of images, my.py:function; FEDOL_DATA= for none
model=${FEDOL_MODEL:-resnet20}              # what to train on them; without data: model.onnx, model.joblib, my.py:load
policy=${FEDOL_POLICY:-$here/policy.toml}     # your rules for what may leave; by default each file must be approved
training=${FEDOL_TRAINING:-epochs=50 batch-size=64 lr=0.001}
# ---------------------------------------------------------------------------------------------------------------------
export FLWR_HOME="$here/flower" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$FLWR_HOME"
exec flower-supernode \
    --superlink "${FEDOL_SUPERLINK:-@HOST@:@PORT@}" --root-certificates "$here/ca.crt" \
    --auth-supernode-private-key "$here/client.key" \
    --host 127.0.0.1 --port "${FEDOL_LOCAL_PORT:-@LOCAL_PORT@}" \
    --node-config "client='@NAME@' task='$task' data='$data' model='$model' cache='$here/cache' policy='$policy' $training"
