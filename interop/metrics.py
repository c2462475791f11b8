"""The metrics of `barewire serve --http` as the official parser of OpenMetrics reads them: metrics.py BAREWIRE

Prints a line for each case: pass or FAIL. A call in each era, a refusal and an open stream must be in the numbers."""
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

MODERN = "2026-07-28"
ACCEPT = "application/json, text/event-stream"
EXPECTED = {
    "barewire_requests": "counter",
    "barewire_request_duration_seconds": "histogram",
    "barewire_streams": "gauge",
    "barewire_sessions": "gauge",
    "barewire_exchanges": "gauge",
    "barewire_senders": "gauge",
    "barewire_body_bytes": "gauge",
    "barewire_ready": "gauge",
}
failed = False


def case(name, holds, why=""):
    global failed
    failed |= not holds
    print(f"pass metrics {name}" if holds else f"FAIL metrics {name}: {why}")


def open_url(url, message=None, **headers):
    data = None if message is None else json.dumps(message).encode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if data:
        headers |= {"Content-Type": "application/json", "Accept": ACCEPT}
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10)


def call(tool, **arguments):
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def modern(message):
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    message["params"]["_meta"] = message["params"].get("_meta", {}) | meta
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": message["method"], "Mcp_Name": message["params"]["name"]}
    return {"message": message, **headers}


def load(endpoint):
    """Sends requests, and returns the stream that is still open."""
    open_url(endpoint, **modern(call("echo", text="a"))).read()
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "interop", "version": "1"}}
    answer = open_url(endpoint, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    session = {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"]}
    open_url(endpoint, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session).read()
    open_url(endpoint, call("echo", text="a"), **session).read()
    try:
        open_url(endpoint, {"jsonrpc": "2.0"})
    except urllib.error.HTTPError as error:
        assert error.code == 400, error
    stream = open_url(endpoint, Accept="text/event-stream", **session)
    stream.readline()
    return stream


server = subprocess.Popen(
    [sys.argv[1], "serve", "--http", "127.0.0.1:0", "--metrics", "/metrics"],
    stdin=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
)
try:
    endpoint = re.search(r"http://\S+/mcp", server.stderr.readline())[0]
    metrics_url = endpoint.removesuffix("/mcp") + "/metrics"
    stream = load(endpoint)
    response = open_url(metrics_url)
    text = response.read().decode()
    expected = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    case("media type", response.headers["Content-Type"] == expected, response.headers["Content-Type"])
    families = {family.name: family for family in text_string_to_metric_families(text)}
    types = {name: family.type for name, family in families.items()}
    case("names and types", types == EXPECTED, types)
    case("texts", all(family.documentation for family in families.values()), "a HELP is empty")
    values = {(sample.name, *sorted(sample.labels.values())): sample.value
              for family in families.values() for sample in family.samples}
    for key, expected in {
        ("barewire_requests_total", "answered", "modern"): 1,
        ("barewire_requests_total", "answered", "legacy"): 2,
        # The notification and the stream.
        ("barewire_requests_total", "accepted", "legacy"): 2,
        ("barewire_requests_total", "refused", "unknown"): 1,
        ("barewire_request_duration_seconds_count", "legacy"): 2,
        ("barewire_request_duration_seconds_bucket", "+Inf", "modern"): 1,
        ("barewire_sessions",): 1,
        ("barewire_streams", "legacy"): 1,
        ("barewire_ready",): 1,
    }.items():
        case(" ".join(key), values.get(key) == expected, values.get(key))
    stream.close()
    # The parser is worth something only if it refuses what is wrong.
    for name, wrong in {
        "no end": text.removesuffix("# EOF\n"),
        "a counter without its suffix": text.replace("barewire_requests_total", "barewire_requests"),
        "a bucket with fewer": re.sub(r'(le="\+Inf"}) [1-9]\d*', r"\1 0", text),
    }.items():
        try:
            list(text_string_to_metric_families(wrong))
            case(f"refused: {name}", False, "the parser accepts it")
        except ValueError:
            case(f"refused: {name}", True)
finally:
    server.terminate()
    server.wait(10)
sys.exit(failed)
