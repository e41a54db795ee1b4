#!/bin/sh
# The server's side of the network: TLS, and only nodes whose keys are registered. It listens on this machine only:
# whoever reaches this port can run code here and on every node. Nodes elsewhere come in through nginx.conf.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
export FLWR_HOME="$here/flower" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$FLWR_HOME"
exec flower-superlink \
    --host 127.0.0.1 --port "${FEDOL_PORT:-@CONTROL@}" \
    --ssl-ca-certfile "$here/ca.crt" --ssl-certfile "$here/server.crt" --ssl-keyfile "$here/server.key" \
    --enable-supernode-auth \
    --database "$here/flower/state.db" \
    --disable-runtime-dependency-installation
