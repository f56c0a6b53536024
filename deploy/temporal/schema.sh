#!/bin/sh
# Bring Temporal's two databases to the schema of this release. Safe to run again.
set -eu
SQL_PASSWORD=$(cat /run/secrets/temporal_password)
export SQL_PASSWORD
for name in temporal:temporal temporal_visibility:visibility; do
    database=${name%%:*}
    temporal-sql-tool --db "$database" create
    temporal-sql-tool --db "$database" setup-schema -v 0.0 || true # it is set up already
    temporal-sql-tool --db "$database" update-schema -d "/etc/temporal/schema/postgresql/v12/${name##*:}/versioned"
done
