"""deploy/terraform: parsed and formatted, every name declared, buckets that clean up, accounts with few roles."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest
from support.installed_servers import find_server

from tokcore_schemas.build_tables import EngineTable

FOLDER = Path(__file__).parents[2] / "deploy" / "terraform"
FILES = sorted(FOLDER.glob("*.tf"))
TEXT = "\n".join(re.sub(r"(?m)^\s*#.*$", "", path.read_text()) for path in FILES)

# Whoever adds a role says here why it is needed.
ROLES = {
    "roles/dataflow.worker": "what each of Dataflow's workers needs",
    "roles/dataflow.developer": "the driver creates, follows and cancels jobs",
    "roles/iam.serviceAccountUser": "the driver starts workers as their account",
    "roles/storage.objectViewer": "both read the corpus",
    "roles/storage.objectUser": "both write outputs and staging",
    "roles/storage.legacyBucketReader": "the driver's Beam looks at the bucket's settings before it stages a graph",
    "roles/artifactregistry.reader": "both read the image",
}


def read_blocks() -> dict[str, dict[str, Any]]:
    """Kind and name of each block -> what it says, for example resource.google_storage_bucket.output."""
    found: dict[str, dict[str, Any]] = {}
    for path in FILES:
        for kind, blocks in hcl2.loads(path.read_text()).items():
            for block in blocks if isinstance(blocks, list) else ():
                place, inner = [kind], block
                while isinstance(inner, dict) and len(inner := _drop_marks(inner)) == 1 and len(place) < _depth(kind):
                    ((name, inner),) = inner.items()
                    place.append(name.strip('"'))
                if isinstance(inner, dict):
                    found[".".join(place)] = _drop_marks(inner)
    return found


def _depth(kind: str) -> int:
    return {"resource": 3, "variable": 2, "output": 2, "provider": 2}.get(kind, 1)


def _drop_marks(block: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in block.items() if not name.startswith("__")}


@pytest.mark.proof
def test_it_is_parsed_and_formatted_as_terraform_fmt_has_it():
    assert FILES
    done = subprocess.run([find_server("hclfmt", "hclfmt"), *FILES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_name_is_declared_and_used():
    blocks = read_blocks()
    declared = {name.removeprefix("variable.") for name in blocks if name.startswith("variable.")}
    assert declared
    assert set(re.findall(r"\bvar\.(\w+)", TEXT)) == declared
    resources = {name.removeprefix("resource.") for name in blocks if name.startswith("resource.")}
    assert set(re.findall(r"(?<![\w\"./])(google_\w+\.\w+)", TEXT)) <= resources
    assert all(block.get("description") for name, block in blocks.items() if name.startswith(("variable.", "output.")))


@pytest.mark.parametrize("name", ["output", "staging"])
def test_buckets_drop_unfinished_uploads_and_are_not_public(name):
    bucket = read_blocks()[f"resource.google_storage_bucket.{name}"]
    told = str(bucket)
    assert "AbortIncompleteMultipartUpload" in told
    assert bucket["uniform_bucket_level_access"] is True
    assert "enforced" in bucket["public_access_prevention"]
    deletes = [rule for rule in bucket["lifecycle_rule"] if "Delete" in str(rule["action"])]
    assert deletes
    # Nothing that a manifest names may grow old and go.
    assert name == "staging" or all("_attempts/" in str(rule["condition"]) for rule in deletes)


def test_the_rule_that_deletes_never_stands_without_a_prefix():
    """Without one it would delete the shards, too."""
    folders = read_blocks()["variable.output_folders"]
    assert "length(var.output_folders) > 0" in str(folders["validation"])
    assert 'folder != ""' in str(folders["validation"]).replace("\\", "")
    assert "var.leftovers_days >= 1" in str(read_blocks()["variable.leftovers_days"]["validation"])


def test_accounts_have_the_least_roles():
    assert set(re.findall(r'"(roles/[\w.]+)"', TEXT)) == set(ROLES)
    assert "allUsers" not in TEXT
    assert "google_service_account_key" not in TEXT


def test_workers_have_no_public_addresses():
    blocks = read_blocks()
    assert blocks["resource.google_compute_subnetwork.workers"]["private_ip_google_access"] is True
    assert "0.0.0.0/0" not in TEXT
    assert "access_config" not in TEXT


def test_in_an_empty_project_interfaces_are_enabled_first():
    """What names no other resource of ours waits for the services that it is made with."""
    blocks = read_blocks()
    kinds = ("service_account", "storage_bucket", "compute_network", "artifact_registry_repository")
    for kind in (*kinds, "monitoring_notification_channel", "monitoring_alert_policy"):
        found = [name for name in blocks if name.startswith(f"resource.google_{kind}.")]
        assert found, kind
        for name in found:
            assert "google_project_service.needed" in str(blocks[name].get("depends_on")), name
    enabled = set(re.findall(r'"(\w+)\.googleapis\.com"', TEXT))
    assert {"cloudresourcemanager", "iam", "dataflow", "compute", "storage"} <= enabled, "roles of a project need it"


def test_the_driver_is_told_of_everything_that_terraform_made():
    engine = re.search(r"engine = \{(.*?)\n  \}", TEXT, re.DOTALL)
    assert engine
    keys = set(re.findall(r"(?m)^\s+(\w+)\s*=", engine[1]))
    assert keys == {"project", "region", "staging", "image", "subnetwork", "service_account"}
    assert keys <= {field.name for field in dataclasses.fields(EngineTable)}


def test_the_runbook_names_what_terraform_has():
    page = (FOLDER.parents[1] / "docs" / "how-to" / "dataflow.md").read_text()
    (told,) = re.findall(r"cat > my.auto.tfvars <<END\n(.*?)END\n", page, re.DOTALL)
    blocks = read_blocks()
    variables = {name.removeprefix("variable.") for name in blocks if name.startswith("variable.")}
    named = set(hcl2.loads(told)) | set(re.findall(r"echo ['\"](\w+) = ", page)) | {"leftovers_days", "with_nat"}
    assert {name for name in named if not name.startswith("__")} <= variables
    asked = set(re.findall(r"output -raw (\w+)", page))
    assert asked
    assert asked <= {name.removeprefix("output.") for name in blocks if name.startswith("output.")}
    assert "gs://my-project-1-tokcore-output/" in page
    assert "-tokcore-output" in str(blocks["resource.google_storage_bucket.output"]["name"])


def test_the_runbook_builds_where_terraform_cleans_up():
    """Its output is a folder whose leftovers go; its build file lies in a bucket that keeps it."""
    page = (FOLDER.parents[1] / "docs" / "how-to" / "dataflow.md").read_text()
    bucket = "gs://my-project-1-tokcore-output"
    outputs = set(re.findall(rf"(?:verify|gc|--output) {bucket}/(\S+)", page))
    outputs |= set(re.findall(rf'output = "{bucket}/([^"]+)"', page))
    blocks = read_blocks()
    assert outputs == {one.strip('"') for one in blocks["variable.output_folders"]["default"]}
    assert f'build_file = "{bucket}/build.toml"' in page


def test_the_runbook_sets_the_output_of_what_init_writes(tmp_path):
    """Its line of sed finds the line of init's."""
    from tokcore_pipelines.begin.build_text import write_build_text
    from tokcore_pipelines.begin.propose import propose

    (tmp_path / "en.jsonl").write_text('{"text": "a text"}\n')
    written = write_build_text(propose(str(tmp_path)), str(tmp_path / "build.toml"))
    page = (FOLDER.parents[1] / "docs" / "how-to" / "dataflow.md").read_text()
    (found,) = re.findall(r"sed -i\.bak 's\|\^(.*?)\|", page)
    assert len(re.findall(f"^{found}", written, re.MULTILINE)) == 1
