"""Shared by all tests. Being here also puts tests/ on the import path, for the helper modules beside it."""

from __future__ import annotations

from hypothesis import settings

# No deadline: how long an example takes says more about what else the machine does.
settings.register_profile("tokcore", deadline=None)
settings.load_profile("tokcore")
