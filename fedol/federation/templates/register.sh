#!/bin/sh
# Admit the clients: once, while the SuperLink runs. A key that is registered already is no error.
set -u
. "$(dirname "$0")/connection.sh"
failed=0
for key in "$here"/keys/*.pub; do
    name=$(basename "$key" .pub)
    said=$(flwr supernode register "$key" federation --name "$name" 2>&1)
    case $said in
        *"registered successfully"*) echo "$name: registered" ;;
        *"already in use"*) echo "$name: registered before" ;;
        *) echo "$name: not registered: $said" >&2; failed=1 ;;
    esac
done
exit $failed
