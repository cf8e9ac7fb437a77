"""Shared by all tests. Being here also puts tests/ on the import path, for the helper modules beside it."""
