"""A receiver of OTLP over HTTP: prints its port, then each span that arrives as a line of JSON."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = {one.key: one.value.string_value for one in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        names = sorted(one.key for one in span.attributes)
                        _write(json.dumps([span.name, service["service.name"], names]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.timeout = 20
    _write(str(server.server_address[1]))
    for _ in range(10):
        server.handle_request()
