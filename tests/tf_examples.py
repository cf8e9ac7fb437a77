"""tf.train.Example by protobuf itself, from its published schema: what ArrayRecord files of trainers hold."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def make_example(ids: Iterable[int]) -> bytes:
    """The serialized Example of a document: input_ids, a list of int64."""
    example = find_class()()
    entry = example.features.feature.add(key="input_ids")
    entry.value.int64_list.SetInParent()
    entry.value.int64_list.value.extend(ids)
    return example.SerializeToString()


@functools.cache
def find_class() -> Any:
    """The class of Example, with as much of its schema as lists of int64 need."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    fields = {
        "Int64List": [("value", 1, kind.TYPE_INT64, "")],
        "Feature": [("int64_list", 3, kind.TYPE_MESSAGE, ".t.Int64List")],
        "Entry": [("key", 1, kind.TYPE_STRING, ""), ("value", 2, kind.TYPE_MESSAGE, ".t.Feature")],
        "Features": [("feature", 1, kind.TYPE_MESSAGE, ".t.Entry")],
        "Example": [("features", 1, kind.TYPE_MESSAGE, ".t.Features")],
    }
    for message, own in fields.items():
        added = file.message_type.add(name=message)
        for name, number, type_, of in own:
            repeated = (message, name) in (("Int64List", "value"), ("Features", "feature"))
            label = kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL
            added.field.add(name=name, number=number, type=type_, label=label, type_name=of or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))
