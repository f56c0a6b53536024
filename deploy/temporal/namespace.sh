#!/bin/sh
# Make the namespace, unless it is there. Workers add the search attributes themselves.
set -eu
temporal operator namespace describe --namespace "$NAMESPACE" >/dev/null 2>&1 \
    || temporal operator namespace create --namespace "$NAMESPACE" --retention "$RETENTION"
