#!/bin/sh
# Make the passwords of docker-compose.temporal.yml, once. What is there stays.
set -eu
umask 077
folder=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)/secrets
mkdir -p -- "$folder"
for name in grafana_password ledger_password temporal_password; do
    [ -s "$folder/$name" ] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$folder/$name"
done
printf 'postgresql://ascertain:%s@ledger/ascertain' "$(cat "$folder/ledger_password")" >"$folder/ledger_url"
# Containers read them as users of their own; the folder itself stays closed to others.
chmod 444 "$folder"/*
chmod 700 "$folder"
echo "secrets are in $folder; keep them out of version control and in your backup"
