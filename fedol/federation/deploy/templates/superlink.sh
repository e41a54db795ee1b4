#!/bin/sh
# The server's side of the network: TLS, and only nodes whose keys are registered.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export FLWR_HOME="$here/flower" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$FLWR_HOME"
exec flower-superlink \
    --host "${FEDOL_BIND:-0.0.0.0}" --port "${FEDOL_PORT:-@PORT@}" \
    --ssl-ca-certfile "$here/ca.crt" --ssl-certfile "$here/server.crt" --ssl-keyfile "$here/server.key" \
    --enable-supernode-auth \
    --database "$here/flower/state.db" \
    --disable-runtime-dependency-installation
