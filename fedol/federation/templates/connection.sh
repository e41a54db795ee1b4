#!/bin/sh
# Sourced by the other scripts: how this machine reaches the SuperLink's control interface.
umask 077
here=$(cd "$(dirname "$0")" && pwd)
export FLWR_HOME="$here/flower" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
mkdir -p "$FLWR_HOME"
cat > "$FLWR_HOME/config.toml" <<END
[superlink]
default = "federation"

[superlink.federation]
address = "127.0.0.1:${FEDOL_PORT:-@CONTROL@}"
root-certificates = "$here/ca.crt"
END
