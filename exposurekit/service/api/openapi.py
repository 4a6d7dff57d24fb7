"""The OpenAPI 3.1 document, generated from the operations table."""

from typing import Any

from pydantic import TypeAdapter

from exposurekit import __version__
from exposurekit.contract.codec import MEDIA_TYPES
from exposurekit.contract.operations import CREDENTIAL_HEADERS, OPERATIONS, PREFIX, Operation, Parameter
from exposurekit.service.api import requests
from exposurekit.service.api.schemas import DELIVERY, RESOURCES, RESPONSES, TEXT, Schema, named

_BODIES = (requests.JSON, requests.FORM, requests.MULTIPART, requests.XML[0])
_REFUSALS = {
    400: "Fields are missing or invalid.",
    401: "The api_key, the api_secret, or the user's id and secret are not accepted.",
    404: "There is nothing at this path.",
    413: f"The body is larger than {requests.BODY_MAX // 1024} KiB.",
    415: "The body has an unsupported content type, or is compressed.",
    429: "Too many requests or failed authentications; Retry-After says how long to wait.",
    503: "The service or its database is busy; Retry-After says when to try again.",
}
_ABOUT = (
    "Parameters are read from the path, the query and the body, and credentials also from the headers "
    "X-Api-Secret and X-User-Secret. The path's suffix selects the encoding of the response; without one, the "
    "Accept header does. XML has the root `hash`, dasherised names and typed leaves; an error is "
    "`<error><message>`."
)


def document() -> dict[str, Any]:
    """Return the document as plain values."""
    components = dict(RESOURCES)
    paths: dict[str, dict[str, Any]] = {}
    suffixes = {"": tuple(MEDIA_TYPES)} | {f".{name}": (name,) for name in MEDIA_TYPES}
    for operation in OPERATIONS:
        for suffix, formats in suffixes.items():
            described = _described(operation, suffix, formats, components)
            paths.setdefault(PREFIX + operation.path + suffix, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "User Exposure Monitoring Service API",
            "version": __version__,
            "description": _ABOUT,
        },
        "paths": paths,
        "webhooks": {"delivery": {"post": _webhook()}},
        "components": {"schemas": components},
    }


def _webhook() -> dict[str, Any]:
    headers = {
        "webhook-id": "The delivery's id, the same in every attempt.",
        "webhook-timestamp": "When the attempt was signed, in unix epoch seconds.",
        "webhook-signature": "Standard Webhooks signatures of id, timestamp and body, separated by spaces.",
    }
    return {
        "operationId": "delivery",
        "summary": "Webhook delivery",
        "description": (
            "Sent to the integrator's callback URL with what happened to one user within ten minutes. `events` names "
            "the lists that are present. A callback with a signing secret has signed deliveries."
        ),
        "parameters": [
            _parameter("header", name, about, TEXT, required=name != "webhook-signature")
            for name, about in headers.items()
        ],
        "requestBody": {"required": True, "content": {MEDIA_TYPES["json"]: {"schema": DELIVERY}}},
        "responses": {"2XX": {"description": "Delivered. Any other response is retried three times."}},
    }


def _described(
    operation: Operation, suffix: str, formats: tuple[str, ...], components: Schema
) -> dict[str, Any]:
    described = {
        "operationId": operation.name + suffix.replace(".", "_"),
        "summary": operation.title,
        "description": operation.about,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation, components)],
        "responses": {
            "200": _response("Success.", RESPONSES[operation.name], formats),
            **{str(status): _response(about, named("Error"), formats) for status, about in _REFUSALS.items()},
        },
    }
    if operation.takes_body:
        described["requestBody"] = _request_body(operation, components)
    return described


def _response(about: str, schema: Schema, formats: tuple[str, ...]) -> dict[str, Any]:
    return {"description": about, "content": {MEDIA_TYPES[name]: {"schema": schema} for name in formats}}


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    about = {parameter.name: parameter.about for parameter in operation.parameters}
    schemas = {"integration_name": TEXT, "api_key": TEXT}
    schemas |= {name: {"type": "integer", "minimum": 0} for name in operation.path_names}
    return [
        _parameter("path", name, about.get(name, "The integrator's name."), schema)
        for name, schema in schemas.items()
    ]


def _parameter(
    location: str, name: str, about: str, schema: Schema, *, required: bool = True
) -> dict[str, Any]:
    return {"name": name, "in": location, "required": required, "description": about, "schema": schema}


def _query_parameters(operation: Operation, components: Schema) -> list[dict[str, Any]]:
    return [
        _parameter(
            "query",
            one.name,
            one.about,
            TEXT if one.name in CREDENTIAL_HEADERS else _schema(one, components),
            required=one.required,
        )
        for one in _pathless(operation)
        if not operation.takes_body or one.name in CREDENTIAL_HEADERS
    ]


def _request_body(operation: Operation, components: Schema) -> dict[str, Any]:
    parameters = [parameter for parameter in _pathless(operation) if parameter.name not in CREDENTIAL_HEADERS]
    required = [parameter.name for parameter in parameters if parameter.required]
    schema: Schema = {
        "type": "object",
        "properties": {parameter.name: _schema(parameter, components) for parameter in parameters},
    }
    if required:
        schema["required"] = required
    content = {media_type: {"schema": schema} for media_type in _BODIES}
    return {"required": bool(required), "content": content}


def _pathless(operation: Operation) -> list[Parameter]:
    return [
        parameter
        for parameter in operation.parameters
        if parameter.name not in {"api_key", *operation.path_names}
    ]


def _schema(parameter: Parameter, components: Schema) -> Schema:
    schema = TypeAdapter(parameter.type).json_schema(ref_template="#/components/schemas/{model}")
    components.update(schema.pop("$defs", {}))
    return {**schema, "description": parameter.about}
