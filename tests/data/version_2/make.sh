#!/bin/sh
# How outputs.tar.zst was made, by the release c84fa77: make.sh TOKCORE, in an empty folder.
# changed/ is plain/, updated once, and with a language and a document removed. rejects/ has records that it rejected and
# that later releases take.
set -eu
mkdir -p plain/in/de plain/in/mixed
python3 - <<'PY'
import json
def write(name, lang, num, **more):
    stem = name.rpartition("/")[2]
    with open(f"plain/in/{name}.jsonl", "w") as file:
        for i in range(num):
            text = f"{stem} tells the {i % 7}th story of the {stem} and fox {i}, again and again"
            file.write(json.dumps({"id": f"{stem}-{i}", "text": text, **({"lang": lang} if lang else {}), **more}) + "\n")
write("de/a", "", 12)
write("de/b", "", 12)
write("mixed/c", "EN", 9)
write("mixed/d", "fr", 9)
write("mixed/e", "pt-br", 9)
PY
cat > plain/build.toml <<'TOML'
version = 1
[build]
output = "out"
[[source]]
lang = "de"
files = "in/de/*.jsonl"
id = "id"
[[source]]
lang_field = "lang"
files = "in/mixed/*.jsonl"
id = "id"
[plan]
range_bytes = 1000
[learn]
vocab_size = 280
[shards]
target_tokens = 300
validation = 0.2
formats = ["arrow", "megatron"]
TOML
find plain/in -type f -exec touch -d 2026-01-02T03:04:05Z {} +
cp -a plain changed
"$1" build plain/build.toml --quiet
"$1" build changed/build.toml --quiet
sed 's/a-/f-/; s/a tells/f tells/' changed/in/de/a.jsonl > changed/in/de/f.jsonl
touch -d 2026-01-03T03:04:05Z changed/in/de/f.jsonl
"$1" update changed/build.toml --quiet
(cd changed && echo b-3 > gone.txt && "$1" remove out --lang fr --ids gone.txt > /dev/null && rm gone.txt)
mkdir -p rejects/in
python3 - <<'PY'
import json
import pyarrow as pa
import pyarrow.parquet as pq

words = [f"the {i}th story of the fox and the hen, again and again" for i in range(30)]
lines = [json.dumps({"id": f"l-{i}", "text": text}) for i, text in enumerate(words)]
for at, odd in ((3, '"loss": NaN'), (9, '"loss": -Infinity'), (12, '"odds": 1e999'), (20, '"x": "\\ud800", "loss": NaN')):
    lines[at] = lines[at][:-1] + f", {odd}}}"
open("rejects/in/lines.jsonl", "w").write("\n".join(lines) + "\n")
pq.write_table(pa.table({"id": [1.0, 2.5, 3.0], "text": words[:3]}), "rejects/in/floats.parquet")
pq.write_table(
    pa.Table.from_arrays([pa.array(words[:2])] * 2 + [pa.array(["t-0", "t-1"])], names=["text", "text", "id"]),
    "rejects/in/twice.parquet",
)
runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(words[:2]))
table = pa.record_batch({"id": pa.array(["r-0", "r-1", "r-2"]), "text": runs})
with pa.ipc.new_file("rejects/in/runs.arrow", table.schema) as writer:
    writer.write_batch(table)
PY
cat > rejects/build.toml <<'TOML'
version = 1
[build]
output = "out"
max_rejected = 1
[[source]]
lang = "en"
files = "in/*"
id = "id"
[learn]
vocab_size = 280
[shards]
target_tokens = 300
formats = ["arrow"]
TOML
find rejects -type f -exec touch -d 2026-01-02T03:04:05Z {} +
"$1" build rejects/build.toml --quiet
for one in plain changed rejects; do "$1" verify $one/out > /dev/null; done
find . -name run.json -delete
tar --sort=name --owner=0 --group=0 --numeric-owner -cf - plain changed rejects | zstd -19 -q -o outputs.tar.zst
