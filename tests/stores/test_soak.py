"""`make soak`, short: a watcher over a bucket in trouble holds each file once, in its last version."""

from __future__ import annotations

from stores.soak import Options, Soak


def test_what_lands_in_a_bucket_is_held_once(s3, tmp_path):
    figures = Soak(s3, tmp_path, Options(files=150, seconds=30, kills=3, overwritten=0.5)).run()
    assert (figures.files, figures.kills) == (150, 3)
    assert figures.landings > 150
    assert figures.refused > 0
    assert figures.followed >= 3 * figures.files
