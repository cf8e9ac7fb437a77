"""What the recipe of the image does, step by step, without a container engine: make image-check.

    PYTHONPATH=tests python tests/deploy/image_check.py [--folder build/image] [--prism PROGRAM [--boot PROGRAM]]

1. The wheelhouse: what requirements.txt names, downloaded by hash, and tokcore's own wheel for old C libraries, which
   deploy/wheels/build_wheel.py builds and auditwheel accepts.
2. A clean environment, from the wheelhouse alone: no index, no compiler in reach, nothing of another environment. It
   has the kernels that GCC compiles here.
3. The demo is built and verified in it, and has the root of the demo.
4. The launcher's entry point starts in it, as Google's launcher starts it, and names the parameters that it takes.
5. Prism builds the demo with workers that `tokcore-worker`, the image's entry point, starts there.
6. The same with workers that Beam's `boot` starts there.
7. The wheel for arm64, as far as it can be looked at without such a machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from golden.test_demo import DEMO_ROOT
from support.engines import find_free_port, running, write_boot_starter

from tokcore.kernel import IMPLEMENTATIONS

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy" / "image"
DEMO = ROOT / "deploy" / "demo" / "build.toml"


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    """What a command prints; ends the check if it fails. It runs outside the sources, which Python would import."""
    told = list(map(str, command))
    with tempfile.TemporaryDirectory() as away:
        done = subprocess.run(told, env=environment, stdout=subprocess.PIPE, text=True, check=False, cwd=away)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def build_wheel(platform: str, folder: Path) -> str:
    """The path of our own wheel for a platform, in a folder."""
    return run(sys.executable, ROOT / "deploy" / "wheels" / "build_wheel.py", platform, "-o", folder).strip()


def make_wheelhouse(folder: Path) -> None:
    """Every wheel that the last stage of the recipe installs."""
    pip = (sys.executable, "-m", "pip", "--quiet")
    run(*pip, "wheel", "--no-deps", "--require-hashes", "-w", folder, "-r", IMAGE / "requirements.txt")
    print(build_wheel("manylinux_2_28_x86_64", folder))


def make_environment(folder: Path, wheelhouse: Path) -> dict[str, str]:
    """A clean environment from the wheelhouse alone, as the variables with which its programs run."""
    run(sys.executable, "-m", "venv", "--clear", folder)
    shut = {
        "PATH": f"{folder}/bin",  # no compiler, no other Python
        "HOME": str(folder),
        "PIP_NO_INDEX": "1",
        "PYTHONNOUSERSITE": "1",
        "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT": "1",
    }
    wheels = sorted(wheelhouse.glob("*.whl"))
    run(folder / "bin/python", "-m", "pip", "--quiet", "install", "--no-index", "--no-deps", *wheels, environment=shut)
    run(folder / "bin/python", "-m", "pip", "check", environment=shut)
    assert shutil.which("c++", path=shut["PATH"]) is None
    ask = "from tokcore.kernel import IMPLEMENTATIONS; print(IMPLEMENTATIONS)"
    assert run(folder / "bin/python", "-c", ask, environment=shut).strip() == str(IMPLEMENTATIONS)
    return shut


def build_demo(environment: dict[str, str], output: Path, *options: str) -> None:
    """Build the demo anew in that environment, and compare its root."""
    shutil.rmtree(output, ignore_errors=True)
    tokcore = Path(environment["PATH"]) / "tokcore"
    root = run(tokcore, "build", DEMO, "--output", output, "--quiet", *options, environment=environment).strip()
    assert root == DEMO_ROOT, root
    run(tokcore, "verify", output, environment=environment)


def check_launcher(environment: dict[str, str]) -> None:
    """Start what Google's launcher starts: it knows its parameters, and says by name what it was not given."""
    launch = (Path(environment["PATH"]) / "python", ROOT / "deploy" / "dataflow" / "launch.py")
    told = run(*launch, "--help", environment=environment)
    assert all(name in told for name in ("--stage", "--build_file", "--output", "--sdk_container_image")), told
    command = [*map(str, launch), "--stage=count", f"--build_file={DEMO}", "--template_location=graph.json"]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "engine.project" in done.stderr, done.stderr


def check_on_prism(environment: dict[str, str], folder: Path, prism: Path, worker: Path) -> None:
    """Build the demo on Prism with workers that a program starts in that environment."""
    port = find_free_port()
    engine = {"endpoint": f"127.0.0.1:{port}", "worker": str(worker)}
    options = [part for key, one in engine.items() for part in ("--set", f"engine.{key}={json.dumps(one)}")]
    command = [str(prism), "--serve_http=false", f"--job_port={port}", "--log_level=warn"]
    with (folder / "prism.log").open("wb") as log, running(command, port, log, environment):
        output = folder / f"on-prism-{worker.name}"
        build_demo(environment, output, "--engine=prism", "--shared-filesystem", *options)
    told = json.loads((output / "shards" / "run.json").read_bytes())
    assert told["processes"], "no worker has left its name"


def main() -> None:
    """Run all steps, and say which were done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "image")
    parser.add_argument("--prism", type=Path)
    parser.add_argument("--boot", type=Path)
    given = parser.parse_args()
    folder = given.folder.resolve()
    wheelhouse = folder / "wheels"
    shutil.rmtree(wheelhouse, ignore_errors=True)
    make_wheelhouse(wheelhouse)
    print(f"1. {len(list(wheelhouse.glob('*.whl')))} wheels", flush=True)
    environment = make_environment(folder / "environment", wheelhouse)
    print("2. installed without an index", flush=True)
    build_demo(environment, folder / "demo")
    print("3. the demo has its root", flush=True)
    check_launcher(environment)
    print("4. the launcher's entry point starts", flush=True)
    if given.prism:
        check_on_prism(environment, folder, given.prism.resolve(), Path(environment["PATH"]) / "tokcore-worker")
        print("5. tokcore-worker starts workers", flush=True)
    if given.prism and given.boot:
        check_on_prism(environment, folder, given.prism.resolve(), write_boot_starter(folder, given.boot.resolve()))
        print("6. Beam's boot starts workers", flush=True)
    print(f"7. {build_wheel('manylinux_2_28_aarch64', folder)}")


if __name__ == "__main__":
    main()
