"""A trainer's loop over an output that grows, in a process of its own: python -m stores.follower URL STATE

Prints a line for each document: its commit, its place there, the sha256 of its ids, and the state after it. STATE: the
last one, as JSON, to go on from; or "" to begin.
"""

from __future__ import annotations

import hashlib
import json
import sys

import tokcore


def main() -> None:
    """Read until killed."""
    url, state = sys.argv[1:]
    followed = tokcore.open_shards(url, "all", follow=True)
    followed.poll_seconds = 1
    if state:
        followed.load_state_dict(json.loads(state))
    for one in followed:
        digest = hashlib.sha256(one.tokens.astype("<i4").tobytes()).hexdigest()
        print(json.dumps([one.commit, one.document, digest, followed.state_dict()]), flush=True)


if __name__ == "__main__":
    main()
