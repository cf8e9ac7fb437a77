"""On the import path of a process, this makes s3:// the folder FAKE_S3, which behaves like a store.

FAKE_FAIL names an operation that fails with FAKE_KIND, an exception that quotes secrets that no message may show.
"""

import builtins
import os
from pathlib import Path

import fsspec

CANARIES = [
    "CANARY-in-url",
    "CANARY-in-query",
    "CANARY-in-aws-key",
    "CANARY-in-hf-token",
    "CANARY-in-azure-string",
    "CANARY-in-fsspec-setting",
]
ENVIRONMENT = {
    "AWS_SECRET_ACCESS_KEY": "CANARY-in-aws-key",
    "HF_TOKEN": "CANARY-in-hf-token",
    "AZURE_STORAGE_CONNECTION_STRING": "AccountKey=CANARY-in-azure-string;",
    "FSSPEC_S3_SECRET": "CANARY-in-fsspec-setting",
}


class FakeS3(fsspec.AbstractFileSystem):
    protocol = "s3"
    cachable = False

    def _place(self, path):
        return Path(os.environ["FAKE_S3"]) / self._strip_protocol(path)

    def _may_fail(self, operation):
        if os.environ.get("FAKE_FAIL") == operation:
            quoted = " ".join(os.environ.get(name, "") for name in ENVIRONMENT)
            settings = fsspec.config.conf
            raise getattr(builtins, os.environ["FAKE_KIND"])(
                f"403 for https://me:CANARY-in-url@host/{operation}?X-Sig=CANARY-in-query, {quoted}, {settings}"
            )

    def info(self, path, **_):
        self._may_fail("info")
        place = self._place(path)
        facts = place.stat()
        kind = "directory" if place.is_dir() else "file"
        return {"name": self._strip_protocol(path), "size": facts.st_size, "type": kind, "ETag": f'"{facts.st_ino}"'}

    def ls(self, path, detail=True, **_):
        self._may_fail("ls")
        path = self._strip_protocol(path)
        names = [f"{path}/{place.name}" for place in sorted(self._place(path).iterdir())]
        return [self.info(name) for name in names] if detail else names

    def open(self, path, mode="rb", **_):
        self._may_fail("write" if "w" in mode else "open")
        if "w" in mode:
            self._place(path).parent.mkdir(parents=True, exist_ok=True)
        return self._place(path).open(mode)

    def pipe_file(self, path, value, mode="overwrite", **_):
        self._may_fail("write")
        self._place(path).parent.mkdir(parents=True, exist_ok=True)
        with self._place(path).open("xb" if mode == "create" else "wb") as file:
            file.write(value)

    def cp_file(self, path, target, **_):
        self.pipe_file(target, self._place(path).read_bytes())

    def rm_file(self, path):
        self._place(path).unlink()


if __name__ == "sitecustomize":  # not where a test imports this: there, s3:// may be a real server
    fsspec.register_implementation("s3", FakeS3, clobber=True)
