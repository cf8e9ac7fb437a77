"""Two Azure accounts with equal container names: each file is read from, and written to, the account that it names."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest
from stores.servers import AZURE_ACCOUNTS, Store, azure_connection
from support.builds import jsonl, texts, tokcore

from tokcore import open_shards

FIRST, OTHER = AZURE_ACCOUNTS


@pytest.mark.parametrize("spelled", ["in full", "by the environment", "by the build file"])
def test_inputs_in_one_account_and_the_output_in_another(azure: Store, spelled: str, tmp_path: Path) -> None:
    """Both hold an input of that container and name, and the first one the output's manifest, of another kind."""
    folder = azure.fresh().rpartition("/")[2]
    systems = {
        account: fsspec.filesystem("abfs", connection_string=azure_connection(azure.proxy, account))
        for account in AZURE_ACCOUNTS
    }
    for seed, account in enumerate(AZURE_ACCOUNTS):
        documents = [{"id": f"{account}-{i}", "text": text} for i, text in enumerate(texts("en", 10, seed))]
        systems[account].pipe_file(f"tokcore-tests/{folder}/in/en.jsonl", jsonl(documents))
    systems[FIRST].pipe_file(f"tokcore-tests/{folder}/out/manifest.json", b"of the wrong account")
    of = {name: f"abfs://tokcore-tests@{name}.dfs.core.windows.net/{folder}" for name in AZURE_ACCOUNTS}
    source = of[FIRST] if spelled == "in full" else f"az://tokcore-tests/{folder}"
    path = tmp_path / "build.toml"
    path.write_text(
        f'version = 1\n[build]\noutput = "{of[OTHER]}/out"\n[[source]]\nlang = "en"\nid = "id"\n'
        f'files = "{source}/in/*.jsonl"\n[learn]\nvocab_size = 300\n'
    )
    environment = azure.variables()
    if spelled == "by the build file":  # which is asked before the environment, here of the other account
        path.write_text(f'{path.read_text()}[storage.azure]\naccount_name = "{FIRST}"\n')
        environment["AZURE_STORAGE_CONNECTION_STRING"] = azure_connection(azure.proxy, OTHER)
    azure.proxy.reset()
    done = tokcore("build", path, "--workers", "1", env=environment, timeout=200)
    assert done.returncode == 0, done.stderr
    planned = json.loads(systems[OTHER].cat_file(f"tokcore-tests/{folder}/out/plan/files.jsonl").splitlines()[0])
    assert planned["uri"] == f"{of[FIRST]}/in/en.jsonl"
    verified = tokcore("verify", f"{of[OTHER]}/out", "--decode", "all", "--json", env=environment, timeout=200)
    assert json.loads(verified.stdout)["num_decoded"] == 10, verified.stderr
    keys = {request.key for request in azure.proxy.requests}
    assert not [key for key in keys if key.startswith(f"{OTHER}/tokcore-tests/{folder}/in")]
    assert not [key for key in keys if key.startswith(f"{FIRST}/tokcore-tests/{folder}/out")]
    systems[OTHER].get(f"tokcore-tests/{folder}/out", str(tmp_path / "copy"), recursive=True)
    shards = open_shards(tmp_path / "copy", split="all")
    assert {shards.document(row).id.partition("-")[0] for row in range(len(shards))} == {FIRST}
