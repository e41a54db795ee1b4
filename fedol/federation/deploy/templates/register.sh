#!/bin/sh
# Admit the clients: once, while the SuperLink runs. A key that is registered already is no error.
set -u
. "$(dirname "$0")/connection.sh"
for key in "$here"/keys/*.pub; do
    flwr supernode register "$key" federation --name "$(basename "$key" .pub)" || echo "$key: not registered (again?)"
done
