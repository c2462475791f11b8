"""The demo surface (surface.json) on the Python SDK 2.x, in both eras: server.py [http PORT], or stdio."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated
from pydantic import BaseModel, Field
from surface import SURFACE

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89"
    b"\0\0\0\rIDATx\xdacd\xf8\xcfP\x0f\0\x03\x86\x01\x80Z4}k\0\0\0\0IEND\xaeB`\x82"
)
HEADERS = SURFACE["mirror"]["headers"]
bus = InMemorySubscriptionBus()
# Sessions with a legacy subscription; the SDK handles modern ones itself, behind the bus.
watching: dict[str, Any] = {}


@asynccontextmanager
async def ticking(_server: MCPServer) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await anyio.sleep(0.3)
            await bus.publish(ResourceUpdated(uri=SURFACE["clock"]["uri"]))
            if SURFACE["clock"]["uri"] in watching:
                await watching[SURFACE["clock"]["uri"]].send_resource_updated(SURFACE["clock"]["uri"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        yield
        tasks.cancel_scope.cancel()


server = MCPServer("python", version="1.0.0", lifespan=ticking, subscriptions=bus)


class Name(BaseModel):
    name: str


async def ask_for_a_name() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool(description="Say it back", structured_output=False)
def echo(text: str) -> str:
    return text


@server.tool(description="Add two numbers", structured_output=False)
def add(a: float, b: float) -> str:
    return str(a + b)


@server.tool(description="Fail as told", structured_output=False)
def fail(message: str) -> str:
    raise ToolError(message)


@server.tool(description="One pixel", structured_output=False)
def dot() -> Image:
    return Image(data=PNG, format="png")


@server.tool(description="Tell what goes into headers too", structured_output=False)
def mirror(
    text: Annotated[str, Field(json_schema_extra={"x-mcp-header": HEADERS["text"]})],
    count: Annotated[int, Field(json_schema_extra={"x-mcp-header": HEADERS["count"]})],
    sure: Annotated[bool, Field(json_schema_extra={"x-mcp-header": HEADERS["sure"]})],
) -> str:
    return f"{text} {count} {str(sure).lower()}"


@server.tool(description="Take a while", structured_output=False)
async def sleep(ms: float, context: Context) -> str:
    for step in range(1, 6):
        await anyio.sleep(ms / 5000)
        await context.report_progress(step, 5)
    return f"slept {ms} ms"


@server.tool(description="Ask for a name and greet", structured_output=False)
def greet(who: Annotated[Name, Resolve(ask_for_a_name)]) -> str:
    return f"Hello, {who.name}!"


@server.tool(description="Add a tool", structured_output=False)
async def grow(context: Context) -> str:
    server.add_tool(lambda: "new", name=f"grown-{time.monotonic_ns()}", description="Was not there before")
    await context.notify_tools_changed()
    if context.protocol_version != types.LATEST_PROTOCOL_VERSION:
        await context.session.send_tool_list_changed()
    return "grown"


@server.resource(SURFACE["about"], mime_type="text/plain")
def about() -> str:
    return "A demo server on the Python SDK 2.x"


@server.resource(SURFACE["clock"]["uri"], mime_type="text/plain")
def clock() -> str:
    return datetime.now(UTC).isoformat()


@server.resource(SURFACE["template"]["uri"], mime_type="text/plain")
def greeting(name: str) -> str:
    return f"Hello, {name}!"


@server.prompt()
def introduce(name: str) -> str:
    return f"Introduce yourself to {name}."


@server.completion()
async def complete(_ref: Any, argument: types.CompletionArgument, _context: Any) -> types.Completion:
    return types.Completion(values=[name for name in ("Ada", "Alan", "Grace") if name.startswith(argument.value)])


async def subscribe(context: ServerRequestContext[Any], params: types.SubscribeRequestParams) -> types.EmptyResult:
    watching[params.uri] = context.session
    return types.EmptyResult()


async def unsubscribe(_: ServerRequestContext[Any], params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    watching.pop(params.uri, None)
    return types.EmptyResult()


lowlevel = server._lowlevel_server  # MCPServer has no way of its own to take legacy subscriptions.
lowlevel.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
lowlevel.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)


class Events(EventStore):
    """The messages sent on each stream, for resuming it."""

    def __init__(self) -> None:
        self.events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream = self.events[last][0]
        for at, (of, message) in enumerate(self.events[last + 1 :], last + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(at)))
        return stream


match sys.argv[1:]:
    case ["http", port]:
        server.run("streamable-http", port=int(port), event_store=Events())
    case _:
        server.run("stdio")
