"""Tells schemathesis what OpenAPI 3.1 cannot express: the shape of each event of a stream."""

import schemathesis


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    event = schemas["StreamEvent"]
    answer = event["properties"]["data"]
    event["properties"]["data"] = {
        "type": "string", "contentMediaType": "application/json", "contentSchema": answer,
    }
    for path in raw_schema["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                stream = response.get("content", {}).get("text/event-stream")
                if stream is not None:
                    # It reads the schema of a stream as the schema of each event.
                    stream["schema"] = {"$ref": "#/components/schemas/StreamEvent"}
