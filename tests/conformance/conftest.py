"""What is compared only where it is installed: `make conformance` does, the other tests need none of it."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("mistral_common") else ["test_published_models.py"]
