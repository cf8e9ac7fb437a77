"""What [engine] says of Dataflow, as Beam's options: checked before anything is submitted. No Beam.

Workers run our own image, which is all that they need: nothing is staged but the graph, and no host is asked for
packages. They get no public addresses unless engine.public_addresses says so.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable

from tokcore.errors import ConfigError
from tokcore_pipelines.store import storage
from tokcore_schemas.build_tables import EngineTable

NAME = "dataflow"
DEFAULT_MACHINE = "n2-standard-4"
# Else Beam would run pip freeze, and stage a list of the driver's packages, only for workers to log it.
NO_PACKAGE_LIST = "--experiments=disable_logging_submission_environment"
# Rules that a label of Google's follows, and the name of ours that says which job a template's job is.
JOB_LABEL = "tokcore-job"
_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}=[a-z0-9_-]{0,63}")
_IMAGE = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)+(:(?P<tag>[A-Za-z0-9_][\w.-]{0,127}))?(@sha256:[0-9a-f]{64})?")
_FORMS = {
    "project": (r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]", "the project's id, for example my-project-1"),
    "region": (r"[a-z]+(-[a-z]+)+\d{1,2}", "a region, for example us-central1"),
    "staging": (r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^\s?#]*)?", "a folder of a bucket, gs://BUCKET/FOLDER"),
    "temp": (r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^\s?#]*)?", "a folder of a bucket, gs://BUCKET/FOLDER"),
    "network": (r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "the name of a network"),
    "subnetwork": (
        r"(https://www\.googleapis\.com/compute/v1/projects/[a-z0-9.:-]+/)?"
        r"regions/(?P<region>[a-z0-9-]+)/subnetworks/[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
        "regions/REGION/subnetworks/NAME, or the full URL of it",
    ),
    "service_account": (r"[a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com", "NAME@PROJECT.iam.gserviceaccount.com"),
    "machine_type": (r"[a-z][a-z0-9]*(-[a-z0-9]+)+", "a machine type, for example n2-standard-4"),
    "learn_machine_type": (r"[a-z][a-z0-9]*(-[a-z0-9]+)+", "a machine type, for example n2-highmem-8"),
}
_OF_DATAFLOW = (*_FORMS, "image", "max_workers")
_OF_OTHERS = {
    "endpoint": "its address is Google's",
    "parallelism": "engine.max_workers says how many hosts a job has",
    "processes": "a host has a worker process for each core",
    "worker": "engine.image has the workers' program",
    "web": "its pages are Google's",
    "checkpoints": "they are of Flink",
}


def make_dataflow_options(engine: EngineTable) -> tuple[str, ...]:
    """Beam's options. Raises ConfigError, with the key and what to do, for what is missing or does not fit."""
    refuse_without_extra()
    _check(engine)
    staging = str(engine.staging).rstrip("/")
    told = {
        "runner": "DataflowRunner",
        "project": engine.project,
        "region": engine.region,
        "staging_location": f"{staging}/staging" if staging.count("/") == 2 else staging,
        "temp_location": (engine.temp or f"{staging}/temp").rstrip("/"),
        "sdk_container_image": engine.image,
        "sdk_location": "container",
        "network": engine.network,
        "subnetwork": engine.subnetwork,
        "service_account_email": engine.service_account,
        "machine_type": engine.machine_type or DEFAULT_MACHINE,
        "max_num_workers": engine.max_workers,
    }
    options = [f"--{name}={value}" for name, value in told.items() if value is not None]
    options += [f"--labels={label}" for label in engine.labels]
    # The image is all that workers need: else Beam would stage the driver's main module, too.
    options += [NO_PACKAGE_LIST, "--no_save_main_session"]
    return (*options, "--use_public_ips" if engine.public_addresses else "--no_use_public_ips")


def refuse_settings_of_dataflow(engine: EngineTable) -> None:
    """Raise ConfigError for a key that only Dataflow has, where another engine is named."""
    given = [key for key in _OF_DATAFLOW if getattr(engine, key) is not None]
    given += ["labels"] if engine.labels else []
    given += ["public_addresses"] if engine.public_addresses else []
    if given:
        raise ConfigError(
            f'engine.{given[0]}: the engine {engine.name} has none. Say engine.name = "dataflow", or remove it'
        )


def refuse_without_extra(is_there: Callable[[str], object] = importlib.util.find_spec) -> None:
    """Raise ConfigError unless the packages are there that speak with Dataflow."""
    try:
        if is_there("google.cloud.dataflow") and is_there("gcsfs"):
            return
    except ModuleNotFoundError:  # of google.cloud
        pass
    raise ConfigError('engine.name = "dataflow": its packages are not installed. Run: pip install "tokcore[gcp]"')


def require_staging(engine: EngineTable) -> None:
    """Raise ConfigError if the bucket for staging is not there: Beam would try for ten minutes to write to it."""
    try:
        storage.require_bucket(str(engine.staging))
    except ConfigError as error:
        raise ConfigError(f"engine.staging = {error}. Make the bucket, or name one that is there") from error


def _check(engine: EngineTable) -> None:
    for key, instead in _OF_OTHERS.items():
        if getattr(engine, key) is not None:
            raise ConfigError(f"engine.{key}: dataflow has none: {instead}. Remove it")
    if engine.environment != "process" or engine.shared_filesystem:
        key = "environment" if engine.environment != "process" else "shared_filesystem"
        raise ConfigError(f"engine.{key}: dataflow starts its hosts itself, from engine.image. Remove it")
    for key in ("project", "region", "staging", "image"):
        if getattr(engine, key) is None:
            raise ConfigError(f'engine.{key}: missing. engine.name = "dataflow" needs {_describe(key)}')
    for key, (form, expected) in _FORMS.items():
        value = getattr(engine, key)
        if value is not None and not re.fullmatch(form, value):
            raise ConfigError(f"engine.{key} = {value!r}: expected {expected}")
    _check_image(str(engine.image))
    _check_subnetwork(engine)
    for label in engine.labels:
        if not _LABEL.fullmatch(label) or label.startswith(f"{JOB_LABEL}="):
            raise ConfigError(
                f"engine.labels: {label!r}: expected KEY=VALUE of small letters, digits, - and _, at most 63 of them "
                f"in each, and not {JOB_LABEL}, which is ours"
            )


def _describe(key: str) -> str:
    if key == "image":
        return "the image of the workers: HOST/PROJECT/NAME:TAG. deploy/image has its recipe"
    return _FORMS[key][1]


def _check_image(image: str) -> None:
    found = _IMAGE.fullmatch(image)
    if found is None:
        raise ConfigError(f"engine.image = {image!r}: expected HOST/PROJECT/NAME:TAG, or NAME@sha256:HASH")
    if "@" in image:
        return
    if found["tag"] in (None, "latest"):
        raise ConfigError(
            f"engine.image = {image!r}: names no fixed image, so workers that start later may be of another release. "
            f"Add a tag of a release, or a digest: NAME@sha256:HASH"
        )


def _check_subnetwork(engine: EngineTable) -> None:
    if engine.subnetwork is None:
        return
    found = re.fullmatch(_FORMS["subnetwork"][0], engine.subnetwork)
    assert found is not None
    if found["region"] != engine.region:
        raise ConfigError(
            f"engine.subnetwork = {engine.subnetwork!r}: is not in engine.region = {engine.region!r}. "
            f"Name a subnetwork of that region"
        )


# ------------------------------------------------------------------------------------------- a machine that can learn

_GB = 10**9
# Size of a machine of n2-highmem, in processors -> GiB of memory.
_HIGHMEM = {2: 16, 4: 32, 8: 64, 16: 128, 32: 256, 48: 384, 64: 512, 80: 640, 96: 768, 128: 864}
# GiB for each processor, of families and shapes that are what their names say.
_PER_CPU = {
    **{(family, "standard"): 4.0 for family in ("e2", "n2", "n2d", "n4", "c3", "c3d", "c4", "t2d")},
    **{(family, "highmem"): 8.0 for family in ("e2", "n2", "n2d", "n4", "c3", "c3d")},
    **{(family, "highcpu"): 1.0 for family in ("e2", "n2", "n2d")},
    ("n1", "standard"): 3.75,
    ("n1", "highmem"): 6.5,
    ("n1", "highcpu"): 0.9,
}
_GIB = 1 << 30
# Of a machine's memory, so much is left for learning beside the system and the service's own processes.
_SHARE = 0.85
_RESERVED = 2 * _GIB


def choose_learn_machine(engine: EngineTable, needed_bytes: int) -> str:
    """The machine type of the worker that learns, which needs so much memory.

    Raises ConfigError if the one that the build file names has too little, or if none that we know has enough.
    """
    needed = f"learning needs about {needed_bytes / _GB:,.1f} GB"
    if (named := engine.learn_machine_type) is not None:
        size = find_memory(named)
        if size is not None and _usable(size) < needed_bytes:
            raise ConfigError(
                f"engine.learn_machine_type = {named!r}: {needed}, and this machine leaves {_usable(size) / _GB:,.1f} "
                f"GB for it. Name a larger one, or count less (count.sample, learn.min_documents)"
            )
        return named
    for processors, gib in _HIGHMEM.items():
        if _usable(gib * _GIB) >= needed_bytes:
            return f"n2-highmem-{processors}"
    raise ConfigError(
        f"engine.learn_machine_type: missing. {needed}, more than any n2-highmem has. Name a machine type that has it "
        f"(m1-ultramem-160 has 3,844 GiB), or count less (count.sample, learn.min_documents)"
    )


def make_learn_options(machine_type: str) -> tuple[str, ...]:
    """Beam's options for the one worker that learns: one host, and one process of it, whose threads use all cores."""
    one_host = ("--num_workers=1", "--max_num_workers=1", "--autoscaling_algorithm=NONE")
    return (f"--machine_type={machine_type}", *one_host, "--experiments=no_use_multiple_sdk_containers")


def find_memory(machine_type: str) -> int | None:
    """Bytes of memory of a machine type; None if its name does not say.

    >>> find_memory("n2-highmem-4") >> 30, find_memory("n2-custom-8-65536-ext") >> 30, find_memory("m1-megamem-96")
    (32, 64, None)
    """
    if custom := re.fullmatch(r"(?:[a-z0-9]+-)?custom-\d+-(\d+)(?:-ext)?", machine_type):
        return int(custom[1]) << 20
    if (shape := re.fullmatch(r"([a-z0-9]+)-([a-z]+)-(\d+)", machine_type)) is None:
        return None
    if shape[1] == "n2" and shape[2] == "highmem":
        gib: float | None = _HIGHMEM.get(int(shape[3]))
        return None if gib is None else int(gib * _GIB)
    per_cpu = _PER_CPU.get((shape[1], shape[2]))
    return None if per_cpu is None else int(per_cpu * int(shape[3]) * _GIB)


def _usable(size_bytes: int) -> int:
    return max(0, int(size_bytes * _SHARE) - _RESERVED)
