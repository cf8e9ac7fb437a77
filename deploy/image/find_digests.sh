#!/bin/sh
# find_digests.sh: print the build arguments that name the base images with their digests, as their registries tell them
# now. Needs docker with buildx. Keep what it prints: equal digests, equal bases.
set -eu
for pair in \
    PYTHON_IMAGE=python:3.11-slim-bookworm \
    LAUNCHER_IMAGE=gcr.io/dataflow-templates-base/python311-template-launcher-base:latest
do
    name=${pair%%=*}
    image=${pair#*=}
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
    case $digest in
    sha256:????????????????????????????????????????????????????????????????) ;;
    *) echo "$image: the registry told no digest: $digest" >&2; exit 1 ;;
    esac
    echo "--build-arg=$name=${image%:*}@$digest"
done
