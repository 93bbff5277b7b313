"""What grpcurl does, by reflection alone: no generated code of ours, so that what the server tells of itself is enough.

Understood are the lines of the README: `-plaintext`, `-d JSON`, ADDRESS, then `list [SERVICE]`, `describe NAME` or
SERVICE/METHOD. A call is unary.
"""

from __future__ import annotations

import argparse

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

_TIMEOUT_S = 30


def grpcurl(arguments: list[str]) -> str:
    """What grpcurl would print."""
    parser = argparse.ArgumentParser(prog="grpcurl")
    parser.add_argument("-plaintext", action="store_true", required=True)
    parser.add_argument("-d", default="{}")
    parser.add_argument("address")
    parser.add_argument("verb")
    parser.add_argument("name", nargs="?", default="")
    given = parser.parse_args(arguments)
    with grpc.insecure_channel(given.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = DescriptorPool(database)
        if given.verb == "list":
            names = list(database.get_services())
            return "\n".join(names if not given.name else methods(pool.FindServiceByName(given.name)))
        if given.verb == "describe":
            return describe(pool, given.name)
        service, _, method = given.verb.partition("/")
        return call(channel, pool.FindServiceByName(service).FindMethodByName(method), given.d)


def methods(service: ServiceDescriptor) -> list[str]:
    return [f"{service.full_name}.{method.name}" for method in service.methods]


def describe(pool: DescriptorPool, name: str) -> str:
    """The fields of a message."""
    message: Descriptor = pool.FindMessageTypeByName(name)
    return "\n".join(f"{field.name} = {field.number}" for field in message.fields)


def call(channel: grpc.Channel, method: MethodDescriptor, text: str) -> str:
    request_class, response_class = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
    invoke = channel.unary_unary(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=request_class.SerializeToString,
        response_deserializer=response_class.FromString,
    )
    return json_format.MessageToJson(invoke(json_format.Parse(text, request_class()), timeout=_TIMEOUT_S))
