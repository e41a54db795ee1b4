#!/bin/sh
# One federation: ask every node, collect, train, write the run folder. Arguments go on to `flwr run`, for instance
#   ./run.sh --run-config "out='/srv/fedol/server/run-2' deadline='1h'"
set -eu
. "$(dirname "$0")/connection.sh"
exec flwr run "$here/app" federation --stream \
    --run-config "task='${FEDOL_TASK:-$here/task}' out='${FEDOL_OUT:-$here/run}'" "$@"
