"""Unigram in byte form.

byte_unigram: byte strings with scores. pathpiece: the fewest of them.
"""
