"""Exports of barewire as other projects' software reads them: exports.py BAREWIRE

HAR 1.2 is validated by har-validator, through view/har.mjs. Traces are read as the ExportTraceServiceRequest of
OpenTelemetry, which refuses unknown members. Prints a line for each case: pass or FAIL. Broken exports must be refused, so
that a validator that accepts everything is noticed."""
import base64
import copy
import json
import subprocess
import sys
from pathlib import Path

from google.protobuf.json_format import Parse, ParseError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

here = Path(__file__).parent
captures = here.parent / "crates/barewire-cli/tests/cmd/files"
# Without filters, and with filters that leave one half of an operation to be added.
SELECTIONS = [[], ["--errors"], ["--slower-than", "1ms"], ["--kind", "request"], ["--tool", "nothing"]]
failed = False


def case(name, why):
    global failed
    failed |= why is not None
    print(f"pass exports {name}" if why is None else f"FAIL exports {name}: {why}")


def export(*arguments):
    return subprocess.run([sys.argv[1], "read", *arguments], capture_output=True, check=True).stdout


def har_fault(text):
    """Returns what har-validator says is wrong; None if nothing is."""
    done = subprocess.run(["node", here / "view/har.mjs"], input=text, capture_output=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.decode())
    return None if done.returncode == 0 else done.stdout.decode().strip()


def in_base64(member):
    """Protobuf's JSON has bytes in Base64, OTLP/JSON has these ids in hexadecimal digits."""
    return base64.b64encode(bytes.fromhex(member)).decode()


def otlp_fault(text):
    """Returns what is wrong with an ExportTraceServiceRequest; None if nothing is."""
    try:
        request = json.loads(text)
        spans = [span for resource in request["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]
        for span in spans:
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in span:
                    span[name] = in_base64(span[name])
        read = Parse(json.dumps(request), ExportTraceServiceRequest(), ignore_unknown_fields=False)
    except (ParseError, ValueError, KeyError) as error:
        return str(error)
    read = [span for resource in read.resource_spans for scope in resource.scope_spans for span in scope.spans]
    known = {span.span_id for span in read}
    for span in read:
        if len(span.trace_id) != 16 or len(span.span_id) != 8 or len(span.parent_span_id) not in (0, 8):
            return f"{span.name}: an id has the wrong length"
        if not span.name or span.start_time_unix_nano == 0 or span.end_time_unix_nano < span.start_time_unix_nano:
            return f"{span.name}: no name, or wrong times"
        if span.kind == 0:
            return f"{span.name}: no kind"
    return None if len(known) == len(read) == len(spans) else "two spans have the same id"


def changed(text, change):
    value = copy.deepcopy(json.loads(text))
    change(value)
    return json.dumps(value).encode()


def first_span(traces):
    return traces["resourceSpans"][0]["scopeSpans"][0]["spans"][0]


for capture in ("tour.wire", "http.wire", "session.wire", "page.har"):
    for selection in SELECTIONS:
        name = " ".join([capture, *selection])
        case(f"HAR of {name}", har_fault(export("--har", *selection, captures / capture)))
        case(f"OTLP of {name}", otlp_fault(export("--otlp", *selection, captures / capture)))

har, traces = export("--har", captures / "tour.wire"), export("--otlp", captures / "tour.wire")
BROKEN = {
    "HAR without a creator": (har_fault, changed(har, lambda it: it["log"].pop("creator"))),
    "HAR with a status as text": (har_fault, changed(har, lambda it: it["log"]["entries"][0]["response"].update(status="200"))),
    "HAR with a time that is no date": (har_fault, changed(har, lambda it: it["log"]["entries"][0].update(startedDateTime="today"))),
    "OTLP with an unknown member": (otlp_fault, changed(traces, lambda it: first_span(it).update(title="x"))),
    "OTLP with a short id": (otlp_fault, changed(traces, lambda it: first_span(it).update(spanId="00ff"))),
    "OTLP with a time that is no number": (otlp_fault, changed(traces, lambda it: first_span(it).update(startTimeUnixNano="early"))),
}
for name, (fault, text) in BROKEN.items():
    case(f"refused: {name}", None if fault(text) else "the validator accepts it")
sys.exit(failed)
