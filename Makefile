# The same commands everywhere: here, on a new machine, in CI. Needs Python >= 3.11, make and a C++20 compiler.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
OUT ?= out/demo
# Threads of the build itself.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc 2>/dev/null || echo 2)
# Containers often set it. Without bytecode, each of the thousands of processes that tests start compiles 270 modules,
# which is half of its start-up.
unexport PYTHONDONTWRITEBYTECODE

SERVERS = $(VENV)/servers
FLINK = $(SERVERS)/flink.classpath $(SERVERS)/flink-overlay $(SERVERS)/loopback.so

.PHONY: demo test change site proof budgets image-check servers prism flink flink-faults check lint lines chaos history soak fuzz mutants conformance fingerprints bench bench-record bench-quick clients schema charts browser oldest-beam clean help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

# tokcore and what it needs. Rebuilt when pyproject.toml or the C++ changes. Warnings are errors here, but not when a user
# runs pip install.
$(VENV)/demo-installed: pyproject.toml .ci/install.py $(shell find tokcore/native -name '*.cpp' -o -name '*.h' -o -name CMakeLists.txt)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python .ci/install.py
	touch $@

# What tests, linters and longer runs need on top. C++ that changes is compiled again, but nothing is installed again.
$(VENV)/installed: pyproject.toml .ci/install.py | $(VENV)/demo-installed
	$(BIN)/python .ci/install.py dev
	touch $@

demo: $(VENV)/demo-installed ## run the main job on the corpus in deploy/demo, twice: Beam's own runner makes the same root
	$(BIN)/tokcore build deploy/demo/build.toml --output $(OUT)
	$(BIN)/tokcore verify $(OUT) --decode all
	rm -rf $(OUT)-direct
	$(BIN)/tokcore build deploy/demo/build.toml --output $(OUT)-direct --engine direct --quiet
	cmp $(OUT)/manifest.json $(OUT)-direct/manifest.json && echo "the same root with --engine direct"

# Builds sync every file, for which a disk takes milliseconds. So tests keep theirs in memory where that has 8 GB free.
TEST_TMPDIR ?= $(or $(TMPDIR),$(shell findmnt --noheadings --output OPTIONS /dev/shm 2>/dev/null | grep --quiet noexec || \
	df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 8000000 { print "/dev/shm" }'),/tmp)

test: $(VENV)/installed ## run all tests that need no server
	TMPDIR=$(TEST_TMPDIR) $(BIN)/python tests/run.py test

# In .ci/run with the profile ci: the same examples in each run.
proof: export TOKCORE_TEST_PROFILE ?= proof
proof: servers browser ## run the tests with servers, engines, a browser and sanitizers; longer chaos: make proof [FULL=1]
	TMPDIR=$(TEST_TMPDIR) $(BIN)/python tests/run.py proof $(if $(FULL),--full)

change: export TOKCORE_TEST_PROFILE ?= change
change: $(VENV)/installed ## run the tests nearest to what changed, for ten minutes: make change [CHANGE="--since HEAD~3"] [CHANGE=--list]
	TMPDIR=$(TEST_TMPDIR) PYTHONPATH=tests $(BIN)/python -m change $(CHANGE)

# The servers that tests/stores starts. moto, for S3, comes with .[dev]; these need Node.js and Go.
servers: $(VENV)/installed $(SERVERS)/azurite/installed $(SERVERS)/fake-gcs-server $(SERVERS)/fake-pubsub $(SERVERS)/promtool $(SERVERS)/prism $(SERVERS)/boot $(SERVERS)/hclfmt $(FLINK) ## install the stores and engines that tests start

$(SERVERS)/azurite/installed: tests/stores/azurite/package-lock.json
	mkdir -p $(@D)
	cp tests/stores/azurite/package.json tests/stores/azurite/package-lock.json $(@D)
	cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

$(SERVERS)/fake-gcs-server: tests/stores/fake_gcs/go.sum
	cd tests/stores/fake_gcs && go build -mod=readonly -o $(abspath $@) github.com/fsouza/fake-gcs-server
	touch $@

$(SERVERS)/fake-pubsub: tests/stores/fake_pubsub/go.sum tests/stores/fake_pubsub/main.go
	cd tests/stores/fake_pubsub && go build -mod=readonly -o $(abspath $@) .

# Prometheus' own reader of rules and metrics, of Debian's package, which is not installed: it would start a server.
$(SERVERS)/promtool:
	mkdir -p $(SERVERS)/prometheus
	cd $(SERVERS)/prometheus && { apt-get download --quiet --quiet prometheus || { \
		test "$$(id -u)" = 0 && run= || run=sudo; $$run apt-get update --quiet --quiet && apt-get download prometheus; }; }
	dpkg-deb --fsys-tarfile $(SERVERS)/prometheus/prometheus_*.deb | tar -x -C $(SERVERS)/prometheus ./usr/bin/promtool
	mv $(SERVERS)/prometheus/usr/bin/promtool $@
	rm -r $(SERVERS)/prometheus

$(SERVERS)/prism: tests/engines/prism/go.sum tests/engines/prism/build.sh
	mkdir -p $(@D)
	tests/engines/prism/build.sh $@

# What starts the workers in Beam's own images.
$(SERVERS)/boot: tests/engines/prism/go.sum
	mkdir -p $(@D)
	cd $(<D) && go build -mod=readonly -o $(abspath $@) github.com/apache/beam/sdks/v2/python/container

# The parser and the formatter of Terraform's files.
$(SERVERS)/hclfmt: tests/deploy/hclfmt/go.sum tests/deploy/hclfmt/main.go
	mkdir -p $(@D)
	cd tests/deploy/hclfmt && go build -mod=readonly -o $(abspath $@) .

image-check: $(VENV)/installed $(SERVERS)/prism $(SERVERS)/boot ## do what deploy/image/Dockerfile does, step by step, without a container engine
	$(BIN)/python -m pip install --quiet -r tests/deploy/requirements.txt
	PYTHONPATH=tests $(BIN)/python tests/deploy/image_check.py --prism $(SERVERS)/prism --boot $(SERVERS)/boot

# What makes a site of the pages. The environment of builds has it, since pages of the reference follow from the code.
$(VENV)/site-installed: docs/site/requirements.txt | $(VENV)/installed
	$(BIN)/python -m pip install --quiet -r $<
	touch $@

site: $(VENV)/site-installed ## make the site of all pages, which a browser opens without a network: out/site/html/index.html
	$(BIN)/python docs/site/make_site.py out/site

# Debian's Chromium, unless there is one.
browser: $(VENV)/installed $(VENV)/site-installed $(SERVERS)/axe/installed ## install what tests of pages need: playwright, Chromium, axe-core
	$(BIN)/python -m pip install --quiet -r tests/browser/requirements.txt
	command -v chromium chromium-browser google-chrome > /dev/null || { \
		test "$$(id -u)" = 0 && run= || run=sudo; $$run apt-get update --quiet --quiet && \
		$$run apt-get install --quiet --quiet --yes --no-install-recommends chromium fonts-noto-core fonts-noto-cjk; }

$(SERVERS)/axe/installed: tests/browser/axe/package-lock.json
	mkdir -p $(@D)
	cp tests/browser/axe/package.json tests/browser/axe/package-lock.json $(@D)
	cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

# Its job server listens on 127.0.0.1:8073, and its workers are processes of this machine.
prism: $(VENV)/installed $(SERVERS)/prism ## build the demo on Prism, and compare its root with the local one
	$(BIN)/tokcore build deploy/demo/build.toml --output $(OUT) --quiet
	rm -rf out/prism
	$(SERVERS)/prism --serve_http=false --log_level=warn & server=$$!; trap "kill $$server" EXIT; sleep 2; \
		$(BIN)/tokcore build deploy/demo/build.toml --output out/prism --engine prism --shared-filesystem
	test "$$($(BIN)/tokcore build deploy/demo/build.toml --output out/prism --quiet)" = \
		"$$($(BIN)/tokcore build deploy/demo/build.toml --output $(OUT) --quiet)"

# From Maven Central. Only these jars, with these bytes.
$(SERVERS)/flink.classpath: tests/engines/flink/pom.xml tests/engines/flink/jars.sha256
	mkdir -p $(@D)
	mvn --quiet --batch-mode --file $< dependency:build-classpath -Dmdep.outputFile=$(abspath $@).new
	tr ':' '\n' < $@.new | xargs sha256sum | sed 's#  .*/#  #' | LC_ALL=C sort -k2 | diff tests/engines/flink/jars.sha256 -
	mv $@.new $@

$(SERVERS)/flink-overlay: tests/engines/flink/overlay/ClasspathScanningResourcesDetector.java $(SERVERS)/flink.classpath
	javac -cp "$$(cat $(SERVERS)/flink.classpath)" -d $@ $<
	touch $@

# Beam's servers in Java would listen on every interface.
$(SERVERS)/loopback.so: tests/engines/flink/loopback.c
	mkdir -p $(@D)
	$(CC) -shared -fPIC -O1 -Wall -Wextra -Werror -o $@ $<

flink: $(VENV)/installed $(FLINK) ## build the demo and 300 MB on a Flink cluster, and compare roots with local ones: make flink [MEGABYTES=300]
	PYTHONPATH=tests $(BIN)/python tests/engines/flink/run.py --megabytes $(or $(MEGABYTES),300)

# Without what that release would need: its requirements rule out those of newer ones.
oldest-beam: $(VENV)/installed ## run the tests of transforms and of the graph of a step with the oldest Beam that pyproject.toml allows
	$(BIN)/python -m pip install --quiet --upgrade --no-deps --target build/oldest-beam \
		"apache-beam==$$(sed -n 's/.*"apache-beam>=\([0-9.]*\),.*/\1/p' pyproject.toml).*"
	TMPDIR=$(TEST_TMPDIR) PYTHONPATH=build/oldest-beam $(BIN)/python -m pytest -q tests/pipelines/test_transforms.py \
		tests/pipelines/test_executors.py

flink-faults: $(VENV)/installed $(FLINK) ## kill each part of a Flink cluster while it counts, merges, encodes and follows a stream
	TOKCORE_FLINK_FAULTS=all TOKCORE_TEST_SERVERS=required $(BIN)/python -m pytest -q tests/engines/test_flink.py tests/engines/test_flink_streams.py

lint: $(VENV)/installed ## ruff, mypy, clang-format, and our own lints: layers, code from data, seeded defects
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'tokcore/native/*.cpp' 'tokcore/native/*.h' ':!*unicode_tables*')
	PYTHONPATH=tests $(BIN)/python -m lints

check: lint test ## linters, and the tests that need no server

lines: ## count the lines of the product, room by room
	@$(PYTHON) .ci/lines.py

chaos: $(VENV)/installed ## play 1,000 seeded schedules of killed builds and broken stores: make chaos [CHAOS=N] [SEED=N]
	PYTHONPATH=tests $(BIN)/python -m chaos.run --schedules $(or $(CHAOS),1000) --seed $(or $(SEED),0)

history: $(VENV)/installed ## let outputs and inputs change in every way, and compare each state with a fresh build: make history [HISTORY=N] [STEPS=N]
	TOKCORE_TEST_PROFILE=proof HISTORY=$(or $(HISTORY),50) STEPS=$(or $(STEPS),20) $(BIN)/python -m pytest -q tests/chaos/test_history.py

soak: servers ## let 10,000 files land in a bucket that two watchers follow, killed and refused: make soak [SOAK="--files 2000"]
	PYTHONPATH=tests $(BIN)/python -m stores.soak $(SOAK)

fuzz: $(VENV)/installed ## give broken input to every reader, under sanitizers: make fuzz [FUZZ_SECONDS=60] [TARGET=scan] [SEED=N]
	PYTHONPATH=tests $(BIN)/python -m fuzz.run --seconds $(or $(FUZZ_SECONDS),60) --seed $(or $(SEED),1) \
		$(foreach target,$(TARGET),--target $(target))

mutants: servers ## put in seeded defects one by one, to see that tests notice: make mutants [MUTANTS="--only NAME"]
	PYTHONPATH=tests $(BIN)/python -m mutants.run $(MUTANTS)

clients: $(VENV)/installed ## have the trainers' own readers read shards: make clients [CLIENTS="mds olmo"]; downloads gigabytes
	PYTHONPATH=tests $(BIN)/python tests/clients/run.py $(CLIENTS)

budgets: $(VENV)/installed ## build 1 GB in 2,000 files on S3, and compare its requests with the budget: make budgets [BUDGETS="--megabytes 50"]
	PYTHONPATH=tests $(BIN)/python tests/benchmarks/budgets.py $(BUDGETS)

# musl's compiler gets a folder of its own: it is large.
fingerprints: $(VENV)/installed ## compile the learners with -O0, -O2 and for musl, and compare what they learn
	test -d build/ziglang || $(BIN)/python -m pip install --quiet --no-deps --target build/ziglang ziglang
	PYTHONPATH=build/ziglang $(BIN)/python tests/native/fingerprints.py

conformance: $(VENV)/installed ## compare encodings with tiktoken, tokenizers and sentencepiece: make conformance CORPUS=PATH
	@test -n "$(CORPUS)" || { echo "usage: make conformance CORPUS=PATH" >&2; exit 2; }
	# For its published models alone: it asks for an older numpy, so it gets a folder of its own.
	test -d build/mistral-common || $(BIN)/python -m pip install --quiet --no-deps --target build/mistral-common mistral-common
	PYTHONPATH=build/mistral-common $(BIN)/python -m pytest -q tests/conformance/test_published_models.py
	$(BIN)/python tests/conformance/run.py $(CORPUS)
	$(BIN)/python tests/conformance/published.py $(CORPUS)

$(VENV)/bench-installed: $(VENV)/installed
	$(BIN)/python .ci/install.py bench
	touch $@

bench: $(VENV)/bench-installed ## all benchmarks, with the libraries compared: make bench [BENCH="--corpus PATH"]
	$(BIN)/python tests/benchmarks/run.py --json out/bench.json --markdown out/bench.md $(BENCH)

bench-record: ## write the last make bench into RESULTS.md and the README
	$(BIN)/python tests/benchmarks/run.py --only none --json out/bench.json --markdown tests/benchmarks/RESULTS.md --readme README.md

bench-quick: $(VENV)/bench-installed ## in a minute, compare our speed with the last record
	$(BIN)/python tests/benchmarks/quick.py $(BENCH)

# npm puts its packages below build/charts; the bundle goes back only if it is the committed one, or with NEW=1.
charts: ## build the charts of reports again from their npm packages, and compare: make charts [NEW=1]
	mkdir -p build/charts
	cp pipelines/look/report/page_files/charts/* build/charts
	cd build/charts && npm ci --ignore-scripts --no-audit --no-fund && node build.mjs
	cd build/charts && { test -n "$(NEW)" && sha256sum charts.js LICENSES.txt > SHA256SUMS || sha256sum --check SHA256SUMS; }
	cp build/charts/charts.js build/charts/LICENSES.txt build/charts/SHA256SUMS pipelines/look/report/page_files/charts

schema: $(VENV)/installed ## write the JSON Schema of the build file again, and its classes for Python
	$(BIN)/python -m tokcore_schemas.json_schema > schemas/build.schema.json
	$(BIN)/python -m tokcore_schemas.generate_build_classes

clean: ## remove what these commands made
	rm -rf $(VENV) build out tokcore/_native*.so
