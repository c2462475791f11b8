"""Checks messages that barewire sent with other projects' validators: validate FILE...

A file is NDJSON, one message a line:

    {"revision": "2025-06-18", "connection": "1", "from": "server", "message": {…}, "answers": "tools/call", "ours": true}

- `from` is the side that sent the message, `message` the message itself (an array for a batch).
- `revision` may be left out: then it is the negotiated revision of the connection, or the one in the request's `_meta`.
- `connection` may be left out in a file with one connection.
- `answers` is the method of the request that a response answers. It may be left out if that request is earlier in the file.
- `ours` is false for messages of the other side, which are read but not checked. The default is true.
- `fault` instead of `message` is a fault that the recorder found.

`.wire` captures are read too; `--ours server|client` names the side to check (default: server).

There are two validators, neither of them from this project: the conformance suite's check against the JSON Schema of the
revision (`judge.mjs`), and `mcp_types.methods`, which also knows the methods that each side may send in each revision.
`"id":null` in an error is an exception, and so are tasks, which only the schema of 2025-11-25 knows. This script checks
what they cannot see: a second response, and a response or progress for a request that has ended. `faults.ndjson` tests the
validators: `--refuse` passes only if every message in it is rejected.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_types import methods
from mcp_types.jsonrpc import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, KNOWN_PROTOCOL_VERSIONS
from pydantic import ValidationError

HERE = Path(__file__).resolve().parent
MODERN = KNOWN_PROTOCOL_VERSIONS[-1]
META = "io.modelcontextprotocol/"
OTHER = {"client": "server", "server": "client"}


@dataclass
class Connection:
    """The state of one connection, from its messages so far."""

    agreed: str | None = None
    # (sender, id as JSON) -> (method, revision) of the request
    asked: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    # progress token as JSON -> (sender, id as JSON) of the request that it came with
    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)
    # (sender, id as JSON) -> how that request ended
    ended: dict[tuple[str, str], str] = field(default_factory=dict)
    # whether the file also has the other side's messages
    whole: bool = False

    def revision(self, side: str, message: dict[str, Any]) -> str:
        """The revision of a message."""
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        meta = params.get("_meta") if isinstance(params.get("_meta"), dict) else {}
        if META + "protocolVersion" in meta:
            named = meta[META + "protocolVersion"]
            return named if named in KNOWN_PROTOCOL_VERSIONS else MODERN
        match message.get("method"):
            case "initialize":
                named = params.get("protocolVersion")
                return named if named in HANDSHAKE_PROTOCOL_VERSIONS else HANDSHAKE_PROTOCOL_VERSIONS[-1]
            case "notifications/cancelled":
                for sender in (side, OTHER[side]):
                    if (request := self.asked.get((sender, json.dumps(params.get("requestId"))))) is not None:
                        return request[1]
            case "notifications/progress":
                if (request := self.tokens.get(json.dumps(params.get("progressToken")))) is not None:
                    return self.asked[request][1]
            case None:
                if (request := self.asked.get((OTHER[side], json.dumps(message.get("id"))))) is not None:
                    return request[1]
        if META + "subscriptionId" in meta:
            return MODERN
        return self.agreed or MODERN

    def read(self, side: str, message: dict[str, Any], revision: str) -> str | None:
        """Stores what later messages need. Returns the fault in the order of messages, if there is one."""
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        if "method" in message and "id" in message:
            request = (side, json.dumps(message["id"]))
            self.asked[request] = (message["method"], revision)
            self.ended.pop(request, None)
            meta = params.get("_meta") if isinstance(params.get("_meta"), dict) else {}
            if (token := meta.get("progressToken")) is not None:
                self.tokens[json.dumps(token)] = request
        elif message.get("method") == "notifications/cancelled":
            request = (side, json.dumps(params.get("requestId")))
            if request in self.asked:
                self.ended.setdefault(request, "cancelled")
        elif message.get("method") == "notifications/progress" and self.whole:
            request = self.tokens.get(json.dumps(params.get("progressToken")))
            if request is None:
                return "progress without a progress token in any request"
            if request in self.ended:
                return f"progress of a request that was {self.ended[request]}"
        elif "method" not in message:
            request = (OTHER[side], json.dumps(message.get("id")))
            if isinstance(message.get("result"), dict) and self.answered(side, message) == "initialize":
                self.agreed = message["result"].get("protocolVersion")
            if request in self.ended:
                return f"answers a request that was {self.ended[request]}"
            if request in self.asked:
                self.ended[request] = "answered"
        return None

    def answered(self, side: str, message: dict[str, Any]) -> str | None:
        """The method of the request that a response answers."""
        request = self.asked.get((OTHER[side], json.dumps(message.get("id"))))
        return request[0] if request else None


@dataclass
class Line:
    """A message to check, with the context that the validators need."""

    where: str
    side: str
    revision: str
    message: Any
    answers: str | None
    verdicts: list[str]


def lines(path: Path, ours: str):
    """The lines of a file as objects, NDJSON or `.wire`."""
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not text:
            continue
        if path.suffix != ".wire":
            yield number, json.loads(text)
        elif text[:1] in ("<", ">"):
            head, _, content = text.partition(" ")
            channel, _, marks = head[1:].partition("(")
            side = "client" if head[0] == ">" else "server"
            try:
                message = json.loads(content) if "esc" not in marks.rstrip(")").split() else None
            except ValueError:
                message = None
            if message is not None or side == ours:
                line = {"from": side, "ours": side == ours, "connection": channel, "message": message}
                yield number, line if message is not None else {**line, "fault": f"not a message: {content}"}


def read(path: Path, ours: str) -> tuple[list[Line], list[str]]:
    """The messages to check in a file, and the faults recorded in it."""
    connections: dict[str, Connection] = {}
    judged: list[Line] = []
    faults: list[str] = []
    for number, line in lines(path, ours):
        where = f"{path}:{number}"
        if "fault" in line:
            faults += [f"{where}: {line['fault']}"] if line.get("ours", True) else []
            continue
        connection = connections.setdefault(line.get("connection", ""), Connection())
        side, message = line["from"], line["message"]
        for one in message if isinstance(message, list) else [message]:
            if not isinstance(one, dict):
                continue
            revision = line.get("revision") or connection.revision(side, one)
            answers = line.get("answers") or connection.answered(side, one) if "method" not in one else None
            wrong = connection.read(side, one, revision)
            if line.get("ours", True):
                judged.append(Line(where, side, revision, one, answers, [f"order: {wrong}"] if wrong else []))
            else:
                connection.whole = True
        if isinstance(message, list) and line.get("ours", True):
            judged.append(Line(where, side, line.get("revision") or connection.agreed or MODERN, message, None, []))
    return judged, faults


def without_null_id(message: Any) -> Any:
    """The one exception: on byte streams an error for an unreadable id has `"id":null`, as in JSON-RPC."""
    if isinstance(message, dict) and "error" in message and "id" in message and message["id"] is None:
        return {**message, "id": 0}
    return message


def is_of_a_task(line: Line) -> bool:
    """Whether a message is part of tasks, which `mcp_types` does not know. The schema of 2025-11-25 has them; of the
    extension of the modern era only the envelope is checked here, and its members by the conformance suite's scenarios."""
    method = line.message.get("method") or line.answers or ""
    result = line.message.get("result")
    is_task = line.revision == "2025-11-25" and isinstance(result, dict) and "task" in result
    return method.startswith(("tasks/", "notifications/tasks")) or (method == "tools/call" and is_task)


def judged_by_the_python_sdk(line: Line) -> list[str]:
    """The faults that `mcp_types` finds in a message."""
    message, revision = without_null_id(line.message), line.revision
    if isinstance(message, list) or is_of_a_task(line):
        return []
    params = message.get("params")
    notification = "id" not in message
    try:
        jsonrpc_message_adapter.validate_python(message)
        if "error" in message:
            return []
        if "method" in message:
            match line.side, notification:
                case "client", True:
                    methods.validate_client_notification(message["method"], revision, params)
                case "client", False:
                    methods.validate_client_request(message["method"], revision, params)
                case "server", True:
                    methods.parse_server_notification(message["method"], revision, params)
                case "server", False:
                    methods.parse_server_request(message["method"], revision, params)
        elif line.answers is None:
            return ["a response to no known request"]
        elif line.side == "server":
            methods.validate_server_result(line.answers, revision, message["result"])
        else:
            methods.validate_client_result(line.answers, revision, message["result"])
    except KeyError:
        method = message.get("method") or f"a result of {line.answers}"
        return [f"{method} is not for a {line.side} to send in {revision}"]
    except ValidationError as error:
        return [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return []


def judged_by_the_conformance_suite(judged: list[Line]) -> list[list[str]]:
    """The faults that the conformance suite finds in each message."""
    manifest = HERE / "rmcp" / "Cargo.toml"
    metadata = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", str(manifest)]
    packages = json.loads(subprocess.run(metadata, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    carrier = next(package for package in packages if package["name"] == "mcp-types")
    schema = Path(carrier["manifest_path"]).parent / "spec" / "2024-11-05-schema.json"
    questions = [
        {"revision": line.revision, "message": without_null_id(line.message), "answers": line.answers} for line in judged
    ]
    judge = subprocess.run(
        ["node", str(HERE / "judge.mjs"), str(schema)],
        input="\n".join(map(json.dumps, questions)),
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    return [json.loads(line) for line in judge.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", choices=("server", "client"), default="server", help="the side to check in .wire files")
    parser.add_argument("--refuse", action="store_true", help="pass only if every message is rejected")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    judged: list[Line] = []
    failures = 0
    for path in options.files:
        messages, faults = read(path, options.ours)
        judged += messages
        for fault in faults:
            failures += 1
            print(f"FAIL {fault}")
    for line, wire in zip(judged, judged_by_the_conformance_suite(judged), strict=True):
        line.verdicts += [f"wire schema: {one}" for one in wire]
        line.verdicts += [f"mcp_types: {one}" for one in judged_by_the_python_sdk(line)]
        if bool(line.verdicts) != options.refuse:
            failures += 1
            print(f"FAIL {line.where}: {line.side}, {line.revision}: {json.dumps(line.message)[:500]}")
            for verdict in line.verdicts or ["no validator rejects it"]:
                print(f"       {verdict}")
    count = Counter(line.revision for line in judged)
    by_revision = ", ".join(f"{count[revision]} of {revision}" for revision in sorted(count))
    print(f"{len(judged)} messages checked ({by_revision}), {failures} faults")
    return 1 if failures or not judged else 0


sys.exit(main())
