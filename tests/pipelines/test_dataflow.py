"""Dataflow, without a service: settings, machines that can learn, graphs as its runner translates them, templates."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.testing.load_tests import dataflow_cost_consts
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError
from google.protobuf import json_format, struct_pb2
from support.builds import ROOT, build_file, tokcore
from support.dataflow_graphs import ENGINE, describe, translate

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.commands.launch_template import GRAPHS, make_parser
from tokcore_pipelines.local.dataflow import (
    choose_learn_machine,
    find_memory,
    make_dataflow_options,
    make_learn_options,
    refuse_without_extra,
)
from tokcore_pipelines.local.engines import make_engine_options, refuse_local_paths
from tokcore_pipelines.run.engines import boot_worker
from tokcore_pipelines.run.engines.boot_worker import restore_whole_numbers, run_workers
from tokcore_pipelines.run.engines.dataflow_jobs import ask
from tokcore_pipelines.run.engines.driver_options import DRIVER_OPTION, describe_version, follow_driver
from tokcore_pipelines.work.learn_on_worker import estimate_memory
from tokcore_pipelines.work.plan_parts import count_parts, name_part
from tokcore_schemas.build_tables import EngineTable
from tokcore_schemas.config import load_config

PLACE = ROOT / "deploy" / "dataflow"


def on_dataflow(**changed: object) -> EngineTable:
    return dataclasses.replace(ENGINE, **changed)


# ------------------------------------------------------------------------------------------------------------ settings


def test_options_as_beam_reads_them():
    engine = on_dataflow(
        subnetwork="regions/us-central1/subnetworks/a",
        service_account="worker@tokcore-tests.iam.gserviceaccount.com",
        labels=("team=nlp", "run=7"),
        max_workers=30,
    )
    options = PipelineOptions(list(make_engine_options(engine)))
    cloud, workers = options.view_as(GoogleCloudOptions), options.view_as(WorkerOptions)
    assert (cloud.project, cloud.region, cloud.labels) == ("tokcore-tests", "us-central1", ["team=nlp", "run=7"])
    assert (cloud.staging_location, cloud.temp_location) == (ENGINE.staging, f"{ENGINE.staging}/temp")
    assert cloud.service_account_email == engine.service_account
    assert (workers.sdk_container_image, workers.machine_type) == (ENGINE.image, "n2-standard-4")
    assert (workers.max_num_workers, workers.use_public_ips, workers.subnetwork) == (30, False, engine.subnetwork)
    assert options.view_as(WorkerOptions).network is None
    open_to_all = PipelineOptions(list(make_dataflow_options(on_dataflow(public_addresses=True, staging="gs://abc"))))
    assert open_to_all.view_as(WorkerOptions).use_public_ips is True
    assert open_to_all.view_as(GoogleCloudOptions).staging_location == "gs://abc/staging"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"project": None}, "engine.project: missing.*the project's id"),
        ({"project": "My Project"}, "engine.project = 'My Project': expected the project's id"),
        ({"project": "123456789"}, "engine.project = '123456789': expected"),
        ({"region": "us-central1-a"}, "engine.region = 'us-central1-a': expected a region, for example us-central1"),
        ({"region": None}, "engine.region: missing"),
        ({"staging": None}, "engine.staging: missing.*gs://BUCKET/FOLDER"),
        ({"staging": "/tmp/staging"}, "engine.staging = '/tmp/staging': expected a folder of a bucket"),
        ({"temp": "s3://bucket/temp"}, "engine.temp = 's3://bucket/temp': expected a folder of a bucket"),
        ({"image": None}, "engine.image: missing.*HOST/PROJECT/NAME:TAG"),
        ({"image": "tokcore"}, "engine.image = 'tokcore': expected HOST/PROJECT/NAME:TAG"),
        ({"image": "gcr.io/a/tokcore"}, "names no fixed image.*Add a tag of a release, or a digest"),
        ({"image": "gcr.io/a/tokcore:latest"}, "names no fixed image"),
        ({"image": "gcr.io/a/tokcore@sha256:12"}, "engine.image = 'gcr.io/a/tokcore@sha256:12': expected"),
        ({"network": "a/b"}, "engine.network = 'a/b': expected the name of a network"),
        ({"subnetwork": "workers"}, "engine.subnetwork = 'workers': expected regions/REGION/subnetworks/NAME"),
        ({"subnetwork": "regions/europe-west1/subnetworks/a"}, "is not in engine.region = 'us-central1'"),
        ({"service_account": "me@example.com"}, "engine.service_account = 'me@example.com': expected NAME@PROJECT"),
        ({"machine_type": "large"}, "engine.machine_type = 'large': expected a machine type"),
        ({"labels": ("Team=nlp",)}, "engine.labels: 'Team=nlp': expected KEY=VALUE"),
        ({"labels": ("team",)}, "engine.labels: 'team': expected KEY=VALUE"),
        ({"labels": ("tokcore-job=a",)}, "which is ours"),
        ({"endpoint": "a:1"}, "engine.endpoint: dataflow has none"),
        ({"parallelism": 3}, "engine.parallelism: dataflow has none: engine.max_workers says"),
        ({"worker": "/bin/a"}, "engine.worker: dataflow has none: engine.image"),
        ({"shared_filesystem": True}, "engine.shared_filesystem: dataflow starts its hosts itself"),
        ({"environment": "external"}, "engine.environment: dataflow starts its hosts itself"),
    ],
)
def test_settings_that_do_not_fit(changed, message):
    with pytest.raises(ConfigError, match=message):
        make_engine_options(on_dataflow(**changed))


@pytest.mark.parametrize(
    "image",
    [
        f"gcr.io/a/tokcore@sha256:{'0' * 64}",
        f"europe-docker.pkg.dev/a/b/tokcore:0.1.0@sha256:{'f' * 64}",
        "localhost:5000/tokcore:v1",
    ],
)
def test_images_by_tag_or_digest(image):
    assert f"--sdk_container_image={image}" in make_engine_options(on_dataflow(image=image))


@pytest.mark.parametrize("name", ["local", "flink"])
def test_others_take_no_settings_of_dataflow(name):
    for changed in ({"project": "abc-def"}, {"labels": ("a=b",)}, {"public_addresses": True}, {"max_workers": 3}):
        with pytest.raises(ConfigError, match=f"engine.{next(iter(changed))}: the engine {name} has none"):
            make_engine_options(EngineTable(name=name, **changed))


def test_without_the_extra_a_line_says_what_to_install():
    with pytest.raises(ConfigError, match=r'^engine.name = "dataflow": .*pip install "tokcore\[gcp\]"$'):
        refuse_without_extra(lambda _: None)

    def find_nothing(name: str) -> None:
        raise ModuleNotFoundError(name)

    with pytest.raises(ConfigError, match="pip install"):
        refuse_without_extra(find_nothing)


def test_local_paths_are_refused_before_anything_is_asked(tmp_path):
    config = dataclasses.replace(load_config(str(build_file(tmp_path))), engine=ENGINE)
    with pytest.raises(ConfigError, match=r"build.output = .*Name a URL of a store$"):
        refuse_local_paths(config, str(tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"source\[0\].files = .*Name a URL of a store$"):
        refuse_local_paths(config, "gs://bucket/out")
    done = tokcore("build", tmp_path / "build.toml", "--engine", "dataflow")
    missing = 'engine.project: missing. engine.name = "dataflow" needs the project\'s id, for example my-project-1'
    assert (done.returncode, done.stderr) == (2, f"error: {missing}\n")


# ------------------------------------------------------------------------------------------------------------ learning


def test_the_machine_that_learns_has_the_memory(tmp_path):
    config = load_config(str(build_file(tmp_path)))
    pieces = dataclasses.replace(config, learn=dataclasses.replace(config.learn, model="unigram"))
    assert choose_learn_machine(ENGINE, estimate_memory(config, 1_000, 13_000)) == "n2-highmem-2"
    assert choose_learn_machine(ENGINE, estimate_memory(config, 200_000_000, 2_600_000_000)) == "n2-highmem-4"
    assert choose_learn_machine(ENGINE, estimate_memory(pieces, 200_000_000, 2_600_000_000)) == "n2-highmem-8"
    assert choose_learn_machine(ENGINE, 700 * 10**9) == "n2-highmem-128"
    with pytest.raises(ConfigError, match=r"learn_machine_type: missing. learning needs about 900.0 GB"):
        choose_learn_machine(ENGINE, 900 * 10**9)
    named = on_dataflow(learn_machine_type="m1-ultramem-160")
    assert choose_learn_machine(named, 900 * 10**9) == "m1-ultramem-160"
    small = on_dataflow(learn_machine_type="n2-standard-4")
    with pytest.raises(ConfigError, match=r"'n2-standard-4': learning needs about 24.4 GB, and this machine leaves"):
        choose_learn_machine(small, estimate_memory(config, 200_000_000, 2_600_000_000))
    assert find_memory("e2-highmem-8") == 64 << 30
    options = PipelineOptions([*make_dataflow_options(ENGINE), *make_learn_options("n2-highmem-8")])
    workers = options.view_as(WorkerOptions)
    assert (workers.machine_type, workers.num_workers, workers.max_num_workers) == ("n2-highmem-8", 1, 1)
    assert "no_use_multiple_sdk_containers" in options.view_as(DebugOptions).experiments


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (exceptions.Unauthorized("no"), ConfigError, r"refuses \(401 no\). Run: gcloud auth"),
        (exceptions.NotFound("no job\nmore"), ConfigError, r"refuses \(404 no job\). Look at \[engine\]: project"),
        (exceptions.ServiceUnavailable("busy"), StageError, r"refuses \(503 busy\). Finished work is kept"),
        (DefaultCredentialsError("none"), ConfigError, r"Dataflow: no credentials \(none\). Run: gcloud auth"),
        (
            OSError("Could not upload to GCS path gs://a/b: 403"),
            ConfigError,
            "engine.staging: Could not upload to .* 403",
        ),
        (ConnectionRefusedError("refused"), StageError, r"Dataflow does not answer \(refused\). Finished work is kept"),
    ],
)
def test_what_googles_libraries_raise_is_a_line(raised, kind, message):
    def fail() -> None:
        raise raised

    with pytest.raises(kind, match=message) as found:
        ask("Dataflow", fail)
    assert found.value.__context__ is None, "what a store raises is looked for there"


# -------------------------------------------------------------------------------------------------------------- graphs


@pytest.mark.parametrize("stage", ["count", "encode", "scatter", "gather", "watch"])
def test_graphs_as_dataflows_runner_translates_them(stage):
    """Steps, coders and environments stay as they are, unless somebody means it. Workers have nothing to fetch."""
    expected = json.loads((ROOT / "tests" / "golden" / "dataflow_graphs.json").read_bytes())[stage]
    found = describe(translate(stage, ["plan-0000.jsonl"], 10).proto_pipeline)
    assert found == expected, json.dumps(found, indent=1)
    assert [one["dependencies"] for one in found["environments"]] == [0]


@pytest.mark.parametrize("stage", ["count", "encode"])
def test_ten_million_files_fit_into_a_megabyte(stage):
    """A graph holds the names of plan files alone; the names are those that write_plan_parts gives."""
    num_items = 10**7
    parts = [name_part(i, hashlib.sha256(str(i).encode()).hexdigest()) for i in range(count_parts(num_items))]
    assert len(parts) * 10_000 > num_items // 2
    job = translate(stage, parts, num_items)
    data = job.proto_pipeline.SerializeToString()
    assert len(data) + len(job.json()) <= 1_000_000
    assert len(data) > 30 * len(parts), "the names are in the graph"


# ------------------------------------------------------------------------------------------------------------- workers


def test_options_come_in_one_table_with_floats():
    """As Dataflow hands them to workers: a Struct, whose whole numbers Beam's options would refuse."""
    options = {DRIVER_OPTION: describe_version(), "direct_num_workers": 2, "experiments": ["a"], "gbek": None}
    struct = json_format.ParseDict({"options": options, "display_data": []}, struct_pb2.Struct())
    told = restore_whole_numbers(json_format.MessageToDict(struct))
    assert repr(told["options"]["direct_num_workers"]) == "2"
    follow_driver(told)
    version = describe_version()
    others = (re.sub(r"Python 3\.\d+", "Python 3.9", version), re.sub(r"Beam 2\.\d+", "Beam 2.6", version))
    for other in ("tokcore 0.0.1 (semantics 0)", *others):
        assert other != describe_version()
        told["options"][DRIVER_OPTION] = other
        with pytest.raises(ConfigError, match=re.escape(f"the driver is {other}, and this worker is")):
            follow_driver(told)


WORKER = "import os, sys, time\nname = os.environ['WORKER_ID']\nopen(name, 'w').close()\n"


@pytest.mark.parametrize(("more", "code"), [("", 0), ("sys.exit(3) if name == 'b' else time.sleep(600)", 1)])
def test_a_container_has_a_process_for_each_worker(monkeypatch, tmp_path, more, code):
    """If one ends in trouble, the others end too, and the container: its engine starts it again."""
    (tmp_path / "some_worker.py").write_text(f"{WORKER}{more}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(boot_worker, "SDK_WORKER", "some_worker")
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run_workers(["a", "b", "c"]) == code
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "b").exists()
    if code == 0:
        assert {"a", "b", "c"} <= {path.name for path in tmp_path.iterdir()}


NO_TOOLS = """
import os, sys
def refuse(event, arguments):
    if "uname" in arguments[:1]:  # azure-identity names the machine in its requests
        return
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect", "socket.getaddrinfo"):
        raise RuntimeError(f"{event} {arguments}")
sys.addaudithook(refuse)
import tokcore_pipelines.run.engines.coders, apache_beam.runners.worker.sdk_worker_main, tokcore.kernel
assert len(tokcore.kernel.list_available()) > 1, "the kernel is compiled already"
"""


def test_workers_start_without_compiler_and_index():
    """What a worker imports starts no program and asks no host, with nothing but Python on the path."""
    environment = {"PATH": str(Path(sys.executable).parent), "HOME": "/nowhere", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", NO_TOOLS], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_stream_as_dataflows_runner_translates_it():
    """A streaming job on Streaming Engine; its graph holds no list of files."""
    job = translate("watch", [], 0)
    assert job.options.view_as(StandardOptions).streaming
    assert json.loads(job.json())["type"] in ("JOB_TYPE_STREAMING", 2)
    assert len(job.proto_pipeline.SerializeToString()) < 100_000


# ----------------------------------------------------------------------------------------------- templates, launchers


@pytest.mark.parametrize("stage", GRAPHS)
def test_templates_have_the_parameters_of_the_launcher(stage):
    told = json.loads((PLACE / f"{stage}.json").read_bytes())
    parameters = {one["name"]: one for one in told["parameters"]}
    actions = {action.dest: action for action in make_parser()._actions if action.dest != "help"}
    assert list(parameters) == list(actions)
    for name, one in parameters.items():
        assert one["isOptional"] is not actions[name].required, name
        assert one["label"], name
        assert one["helpText"].endswith("."), name
        assert not re.search(r"secret|token|passw|connection_string|key", name)
        for form in one["regexes"]:
            re.compile(form)
    assert re.fullmatch(parameters["stage"]["regexes"][0], stage)
    assert re.fullmatch(parameters["build_file"]["regexes"][0], "gs://bucket/corpus/build.toml")
    assert re.fullmatch(parameters["sdk_container_image"]["regexes"][0], str(ENGINE.image))


@pytest.mark.parametrize("name", ["cloud-run-job.yaml", "gke-job.yaml"])
def test_drivers_that_need_no_laptop(name):
    """Their command is one that exists; a driver that is lost leaves its job, and the next one goes on with it."""
    text = (PLACE / name).read_text()
    (job,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    pod = pod["template"]["spec"] if "template" in pod else pod
    (container,) = pod["containers"]
    assert container["command"] == ["tokcore"]
    assert container["args"][:1] == ["build"]
    assert container["args"][2:] == ["--engine", "dataflow", "--detach"]
    assert pod["serviceAccountName"].startswith("tokcore-driver")
    assert "env" not in container, "credentials come from the account"
    assert int(pod.get("maxRetries", job["spec"].get("backoffLimit"))) > 1


def test_the_launcher_is_a_file_that_runs_anywhere(tmp_path):
    """Google's launcher runs it by its path. What is missing is said in a line."""
    command = [sys.executable, str(PLACE / "launch.py"), "--stage=count", "--build_file=gs://bucket/build.toml"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --template_location: missing")


@pytest.mark.parametrize(
    ("amount", "price"),
    [
        (20.4, dataflow_cost_consts.VCPU_PER_HR_BATCH),
        (81, dataflow_cost_consts.MEM_PER_GB_HR_BATCH),
        (1275, dataflow_cost_consts.PD_PER_GB_HR),
    ],
)
def test_the_page_s_prices_are_those_that_beam_carries(amount, price):
    shown = f"${price:.6f}".rstrip("0")
    page = (ROOT / "docs" / "how-to" / "dataflow.md").read_text()
    row = next(line for line in page.splitlines() if f"| {shown} for a " in line)
    assert f"| {amount:,} " in row
    assert row.endswith(f"| ${amount * price:.2f} |")
