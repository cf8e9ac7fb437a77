"""What manifests say of a shard. In a module of its own: who reads a manifest need not load what reads shards."""

from __future__ import annotations

import dataclasses

from tokcore.files.jsonable import written_unless


@dataclasses.dataclass(frozen=True, slots=True)
class ShardFacts:
    """Which shard it is and what it holds, whatever its formats: what a manifest says of each of its files."""

    shard: str  # name, e.g. train-00003-00001
    item: int  # number of the work item that wrote it
    lang: str  # empty unless shards are kept apart by language
    split: str  # train or validation
    documents: int
    tokens: int
    max_token_id: int  # -1 without any token
    # 12 hexadecimal digits that follow from all that determined the shard; "" of those that no build wrote.
    result_key: str = written_unless("")
    partition: str = written_unless("")  # KEY=VALUE/KEY=VALUE; empty unless shards are kept apart by partition

    @property
    def folder(self) -> str:
        """The folders of its language or its partition; empty if shards hold all documents."""
        return self.partition or self.lang

    @property
    def place(self) -> str:
        """Its name, below the folders of its own if it has any: the same in equal builds on all machines."""
        return f"{self.folder}/{self.shard}" if self.folder else self.shard

    @property
    def stem(self) -> str:
        """What the paths of its files have in common: its place and its result key."""
        return f"{self.place}-{self.result_key}" if self.result_key else self.place
