"""Every model of ours passes the suite that is shipped."""

from __future__ import annotations

import pytest

from tokcore.models import MODELS
from tokcore.testing import ModelTests


class TestEveryModel(ModelTests):
    @pytest.fixture(autouse=True, params=MODELS)
    def choose(self, request):
        self.model = MODELS[request.param]
