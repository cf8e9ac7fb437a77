#!/usr/bin/env bash
# build.sh TARGET: build the Prism of the pinned Beam, so that its job server listens on the loopback interface only.
# As released it listens on every interface, without a password, and starts whatever process a job names.
set -euo pipefail
target=$(realpath -m "$1")
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go mod download github.com/apache/beam/sdks/v2
beam=$(go list -mod=readonly -m -f '{{.Dir}}' github.com/apache/beam/sdks/v2)
cp -r "$beam" "$work/beam"
chmod -R u+w "$work/beam"
server=$work/beam/go/pkg/beam/runners/prism/internal/jobservices/server.go
old='net.Listen("tcp", fmt.Sprintf(":%d", port))'
new='net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))'
test "$(grep -cF "$old" "$server")" = 1 || { echo "$server: does not listen as expected" >&2; exit 1; }
content=$(cat "$server")
printf '%s\n' "${content//"$old"/"$new"}" > "$server"
cp go.mod go.sum "$work"
go mod edit -replace "github.com/apache/beam/sdks/v2=$work/beam" "$work/go.mod"
go build -modfile "$work/go.mod" -o "$target" github.com/apache/beam/sdks/v2/go/cmd/prism
