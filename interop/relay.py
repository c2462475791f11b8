"""Runs a client and a server over HTTP, with a relay between them that records every message.

relay.py OURS OUT PATH CLIENT... -- SERVER...

The server is started first, with a free port in place of `{port}`; then the client, with the URL (PATH at the relay) after its
arguments. OURS is the side that is barewire, `server` or `client`. OUT.ndjson gets the messages, in the format of `validate`;
OUT.http a line for each request and each response; OUT.server the output of the server.

CUT in the environment names a method: after the first message with it in the response to a POST the relay breaks the
connection, once.

The relay does not change the bytes. h11 parses them on the way and reports what is not HTTP/1.1. `Rules` checks what the
specification says about HTTP besides the messages.
"""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11

EXIT_TIMEOUT = 3.0  # For a barewire server to exit after SIGTERM.
START = 20.0  # For a server to listen.
WHOLE = 150.0  # For a client; it has its own limits a case.
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Log:
    def __init__(self, ours: str, out: str) -> None:
        self.ours = ours
        self.messages = open(f"{out}.ndjson", "w", encoding="utf-8")
        self.exchanges = open(f"{out}.http", "w", encoding="utf-8")

    def message(self, side: str, message: Any) -> None:
        self.line({"from": side, "ours": side == self.ours, "message": message})

    def fault(self, side: str, fault: str) -> None:
        self.line({"from": side, "ours": side == self.ours, "fault": fault})

    def line(self, line: dict[str, Any]) -> None:
        self.messages.write(json.dumps(line) + "\n")
        self.messages.flush()

    def exchange(self, text: str) -> None:
        self.exchanges.write(f"{time.monotonic():.3f} {text}\n")
        self.exchanges.flush()


class Rules:
    """The rules of the specification's transport page about HTTP, as far as a relay can check them."""

    def __init__(self, log: Log, path: str) -> None:
        self.log = log
        self.path = path
        self.session: str | None = None
        self.agreed: str | None = None
        self.over = False
        self.cut = os.environ.get("CUT")

    def request(self, method: str, target: str, headers: dict[str, str], body: Any) -> None:
        wrong = lambda why: self.log.fault("client", f"{method} {target}: {why}")
        if self.path == "/sse":
            return  # 2024-11-05 has an endpoint of its own, and nothing in headers.
        accept = {one.split(";")[0].strip() for one in headers.get("accept", "").split(",")}
        if method == "POST" and not accept >= {"application/json", "text/event-stream"}:
            wrong(f"accepts {accept}")
        if method == "GET" and "text/event-stream" not in accept:
            wrong(f"accepts {accept}")
        if method == "POST" and headers.get("content-type", "").split(";")[0] != "application/json":
            wrong("the Content-Type of its body is not JSON")
        version = headers.get("mcp-protocol-version")
        params = body.get("params") if isinstance(body, dict) else None
        meta = (params or {}).get("_meta") if isinstance(params, dict) else None
        if isinstance(meta, dict) and META + "protocolVersion" in meta:
            if version != meta[META + "protocolVersion"]:
                wrong(f"MCP-Protocol-Version is {version}, _meta says {meta[META + 'protocolVersion']}")
            if headers.get("mcp-method") != body.get("method"):
                wrong(f"Mcp-Method is {headers.get('mcp-method')}, the method {body.get('method')}")
            if (key := NAMED.get(body.get("method"))) and headers.get("mcp-name") != params.get(key):
                wrong(f"Mcp-Name is {headers.get('mcp-name')}, {key} {params.get(key)}")
            if "mcp-session-id" in headers:
                wrong("a session id in the modern era")
        elif self.agreed is not None:
            if headers.get("mcp-session-id") != self.session:
                wrong(f"Mcp-Session-Id is {headers.get('mcp-session-id')}, the session {self.session}")
            if self.agreed >= "2025-06-18" and version != self.agreed:
                wrong(f"MCP-Protocol-Version is {version}, the negotiated revision {self.agreed}")
        self.over |= method == "DELETE"

    def response(self, method: str, body: Any, status: int, headers: dict[str, str]) -> None:
        wrong = lambda why: self.log.fault("server", f"{method} answered with {status}: {why}")
        if self.path == "/sse":
            return
        kind = headers.get("content-type", "").split(";")[0]
        messages = body if isinstance(body, list) else [body]
        asks = any(isinstance(one, dict) and "method" in one and "id" in one for one in messages)
        if method == "POST" and status < 300:
            if asks and (status != 200 or kind not in ("application/json", "text/event-stream")):
                wrong(f"{kind} for a request")
            if not asks and status != 202:
                wrong("the message was not a request")
        if method == "GET" and status == 200 and kind != "text/event-stream":
            wrong(f"{kind} for a stream")
        if method == "DELETE" and status >= 300 and status != 405:
            wrong("the session was not ended")
        if status >= 400 and status != 405 and kind != "application/json":
            wrong(f"{kind} instead of a JSON-RPC error")
        given = headers.get("mcp-session-id")
        if isinstance(body, dict) and body.get("method") == "initialize" and status == 200:
            self.session = given
        elif given is not None and given != self.session:
            wrong("an Mcp-Session-Id that is not the current session")
        if given is not None and not all(0x21 <= ord(one) <= 0x7E for one in given):
            wrong(f"Mcp-Session-Id is {given!r}")

    def answered(self, body: Any, message: Any) -> None:
        """Stores the revision in a response to `initialize`."""
        if isinstance(body, dict) and body.get("method") == "initialize" and isinstance(message, dict):
            if message.get("id") == body.get("id") and isinstance(message.get("result"), dict):
                self.agreed = message["result"].get("protocolVersion")

    def end(self) -> None:
        if self.session is not None and not self.over:
            self.log.fault("client", "the session was not ended with a DELETE")


class Half:
    """One direction of a connection, parsed by h11, one HTTP message after the other."""

    def __init__(self, role: Any) -> None:
        self.role = role
        self.parser = h11.Connection(role)
        self.broken = False

    def read(self, data: bytes) -> list[Any]:
        events: list[Any] = []
        if self.broken:
            return events
        try:
            self.parser.receive_data(data)
            while (event := self.parser.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.ConnectionClosed):
                    break
                events.append(event)
                if isinstance(event, h11.EndOfMessage):
                    rest, _ = self.parser.trailing_data
                    self.parser = h11.Connection(self.role)
                    if rest:
                        self.parser.receive_data(rest)
                    elif not data:
                        break
        except h11.RemoteProtocolError as error:
            self.broken = True
            if data:  # A stream that was broken off is no fault: a client may go when it likes.
                events.append(error)
        return events


class Connection:
    """The traffic of one connection, parsed while it passes."""

    def __init__(self, log: Log, rules: Rules) -> None:
        self.log, self.rules = log, rules
        self.requests, self.responses = Half(h11.SERVER), Half(h11.CLIENT)
        self.asked: list[tuple[str, Any]] = []  # Requests that wait for their answer, in order.
        self.head: Any = None
        self.body_in = b""
        self.body = b""
        self.kind = ""
        self.lines: list[bytes] = []
        self.broken = False

    def from_client(self, data: bytes) -> None:
        for event in self.requests.read(data):
            if isinstance(event, h11.Request):
                self.head, self.body_in = event, b""
            elif isinstance(event, h11.Data):
                self.body_in += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.request()
            else:
                self.log.fault("client", f"not HTTP: {event}")

    def request(self) -> None:
        method, target = self.head.method.decode(), self.head.target.decode()
        headers = {name.decode(): value.decode("latin-1") for name, value in self.head.headers}
        body = None
        if self.body_in:
            try:
                body = json.loads(self.body_in)
                self.log.message("client", body)
            except ValueError:
                self.log.fault("client", f"not JSON: {self.body_in!r}")
        own = {name: value for name, value in headers.items() if name.startswith("mcp-") or name == "last-event-id"}
        what = body.get("method", "an answer") if isinstance(body, dict) else "a batch" if body else ""
        self.log.exchange(f"-> {method} {target} {what} {own}")
        self.rules.request(method, target, headers, body)
        self.asked.append((method, body))

    def from_server(self, data: bytes) -> None:
        for event in self.responses.read(data):
            if isinstance(event, h11.InformationalResponse):
                continue
            if isinstance(event, h11.Response):
                self.response(event)
            elif isinstance(event, h11.Data):
                self.body += bytes(event.data)
                if self.kind == "text/event-stream":
                    *whole, self.body = self.body.split(b"\n")
                    for line in whole:
                        self.event_line(line.removesuffix(b"\r"))
            elif isinstance(event, h11.EndOfMessage):
                if self.body and self.kind == "application/json":
                    self.message(self.body)
                self.body, self.lines = b"", []
                if self.asked:
                    self.asked.pop(0)
            else:
                self.log.fault("server", f"not HTTP: {event}")

    def response(self, head: h11.Response) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        self.kind = headers.get("content-type", "").split(";")[0]
        method, body = self.asked[0] if self.asked else ("?", None)
        what = body.get("method", "an answer") if isinstance(body, dict) else ""
        self.log.exchange(f"<- {method} {what} {head.status_code} {self.kind} {headers.get('mcp-session-id', '')}")
        self.rules.response(method, body, head.status_code, headers)

    def event_line(self, line: bytes) -> None:
        if line:
            self.lines.append(line)
            return
        event = b"\n".join(one[5:].removeprefix(b" ") for one in self.lines if one.startswith(b"data:"))
        endpoint = any(one.replace(b" ", b"") == b"event:endpoint" for one in self.lines)
        self.lines = []
        if event and not endpoint:
            self.message(event)

    def message(self, text: bytes) -> None:
        try:
            message = json.loads(text)
        except ValueError:
            self.log.fault("server", f"not JSON: {text!r}")
            return
        self.log.message("server", message)
        method, body = self.asked[0] if self.asked else ("?", None)
        self.rules.answered(body, message)
        if self.rules.cut and method == "POST" and isinstance(message, dict) and message.get("method") == self.rules.cut:
            self.log.exchange(f"cut after {self.rules.cut}")
            self.rules.cut, self.broken = None, True


async def pump(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, connection: Connection, read: Callable[[bytes], None]
) -> None:
    try:
        while data := await source.read(65536):
            read(data)
            target.write(data)
            await target.drain()
            if connection.broken:
                return
        read(b"")
    except (ConnectionError, BrokenPipeError):
        pass


async def relay(port: int, log: Log, rules: Rules, down: asyncio.StreamReader, up: asyncio.StreamWriter) -> None:
    connection = Connection(log, rules)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        up.close()
        return
    ways = [
        asyncio.create_task(pump(down, writer, connection, connection.from_client)),
        asyncio.create_task(pump(reader, up, connection, connection.from_server)),
    ]
    # No HTTP client closes only one direction: a close ends the connection.
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    for end in (writer, up):
        end.close()


def free_port() -> int:
    """A free port, below those that the system uses for outgoing connections."""
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start(command: list[str], out: str) -> tuple[subprocess.Popen[bytes], int]:
    """Starts the server, and waits until it listens."""
    with open(f"{out}.server", "wb") as printed:
        for _ in range(3):  # The port may be gone meanwhile.
            port = free_port()
            given = [part.replace("{port}", str(port)) for part in command]
            server = subprocess.Popen(given, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True)
            end = time.monotonic() + START
            while server.poll() is None and time.monotonic() < end:
                if listens(port):
                    return server, port
                time.sleep(0.05)
            stop(server)
    sys.exit(f"the server does not listen on its port: {Path(f'{out}.server').read_text(errors='replace')}")


def stop(server: subprocess.Popen[bytes]) -> None:
    """Ends the server and the processes that it started."""
    try:
        os.killpg(server.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    server.wait()


async def between(port: int, path: str, client: list[str], log: Log) -> int:
    rules = Rules(log, path)
    listener = await asyncio.start_server(lambda down, up: relay(port, log, rules, down, up), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}{path}"
    child = await asyncio.create_subprocess_exec(*client, url)
    try:
        code = await asyncio.wait_for(child.wait(), WHOLE)
    except TimeoutError:
        child.kill()
        code = await child.wait()
    listener.close()
    rules.end()
    if rules.cut:
        print(f"nothing was cut: no {rules.cut}", file=sys.stderr)
        return code or 1
    return code


def main() -> int:
    ours, out, path, *rest = sys.argv[1:]
    split = rest.index("--")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    server, port = start(rest[split + 1 :], out)
    log = Log(ours, out)
    try:
        code = asyncio.run(between(port, path, rest[:split], log))
        if ours == "server":
            server.terminate()
            try:
                if (ended := server.wait(EXIT_TIMEOUT)) != 0:
                    log.fault("server", f"exit code {ended}")
            except subprocess.TimeoutExpired:
                log.fault("server", f"still running {EXIT_TIMEOUT} s after SIGTERM")
        return code
    finally:
        stop(server)


sys.exit(main())
