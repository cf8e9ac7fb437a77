"""What a store may keep of files that were removed from it, which no command of ours can reach."""

from __future__ import annotations

from collections.abc import Mapping

from tokcore_pipelines.store import urls

# By the scheme of a URL: what keeps removed files, and what ends that.
_KEPT: Mapping[str, str] = {
    "": "snapshots and backups of this disk, and open files of readers, keep them",
    "s3": (
        "a bucket with versioning keeps them as noncurrent versions, and Object Lock forbids to remove these: a "
        "lifecycle rule with NoncurrentVersionExpiration ends them; replicas have rules of their own"
    ),
    "gs": (
        "soft deletion keeps them for seven days, unless the bucket has another period, and versioning as noncurrent "
        "versions: the bucket's soft_delete_policy and a lifecycle rule (isLive: false) end that"
    ),
    "az": (
        "soft deletion of blobs and containers, versions and snapshots keep them: the retention of each, or a rule of "
        "the lifecycle, ends that"
    ),
}
_SAME = {"file": "", "abfs": "az", "abfss": "az", "gcs": "gs", "s3a": "s3"}
_OTHER = "versions, soft deletion and replicas of this store may keep them"


def describe_out_of_reach(url: str) -> str:
    """What is left of files that were removed at a URL, in a sentence."""
    scheme = urls.find_scheme(url) or ""
    kept = _KEPT.get(_SAME.get(scheme, scheme), _OTHER)
    return f"Out of reach: {kept}. So do copies that readers have made."
