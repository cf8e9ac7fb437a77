#!/usr/bin/env bash
# run.sh CLASSPATH COMMAND...: run a command beside Beam's job server with a Flink of its own, at 127.0.0.1:8099.
# The job server listens on every interface, without a password, so all of it runs in a network namespace that has the
# loopback interface only. CLASSPATH: the file that names the jars.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
  exec unshare --map-root-user --net -- "$0" --inside "$@"
fi
shift
classpath=$(cat "$1")
shift
ip link set lo up
log=$(mktemp)
java -Xmx1g -cp "$classpath" org.apache.beam.runners.flink.FlinkJobServerDriver \
  --flink-master='[local]' --job-host=127.0.0.1 > "$log" 2>&1 &
server=$!
trap 'kill $server 2> /dev/null || true; rm -f "$log"' EXIT
for _ in $(seq 300); do
  kill -0 $server || { cat "$log" >&2; exit 1; }
  if (exec 3<> /dev/tcp/127.0.0.1/8099) 2> /dev/null; then
    "$@"
    exit
  fi
  sleep 0.2
done
echo "run.sh: the job server does not listen" >&2
cat "$log" >&2
exit 1
