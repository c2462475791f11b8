"""Runs the client of the Python SDK 2.x through every case: client.py legacy|2026-07-28|auto COMMAND...|URL"""

import base64
import json
import os
import re
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from surface import SURFACE

warnings.simplefilter("ignore", MCPDeprecationWarning)  # The legacy era's own methods.

MODERN = types.LATEST_PROTOCOL_VERSION
NOT_HERE = "not here"


class Session:
    """A connected client, and the notifications and elicitations it received."""

    def __init__(self) -> None:
        self.client: Client
        self.updated: list[str] = []
        self.grown = 0
        self.asked: list[types.ElicitRequestParams] = []
        self.answer = types.ElicitResult(action="cancel")

    @property
    def modern(self) -> bool:
        return self.client.protocol_version == MODERN

    @property
    def before_elicitation(self) -> bool:
        return self.client.protocol_version < "2025-06-18"

    async def on_elicitation(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params)
        return self.answer

    async def on_message(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(message.params.uri)
        if isinstance(message, types.ToolListChangedNotification):
            self.grown += 1

    async def call(self, tool: str, arguments: dict[str, Any], **options: Any) -> types.CallToolResult:
        return await self.client.call_tool(tool, arguments, **options)

    async def say(self, tool: str, arguments: dict[str, Any], **options: Any) -> str:
        return text(await self.call(tool, arguments, **options))


def text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def last_number(said: str) -> float:
    found = re.search(r"(-?\d+(?:\.\d+)?)\.?$", said)
    assert found, said
    return float(found[1])


async def refused(request: Awaitable[Any], code: int) -> None:
    """Fails unless the request ends in a JSON-RPC error with this code."""
    try:
        answer = await request
    except MCPError as error:
        assert error.code == code, f"error {error.code} ({error}) instead of {code}"
    else:
        raise AssertionError(f"answered {answer}")


async def until(found: Callable[[], Any], seconds: float, what: str) -> None:
    try:
        with anyio.fail_after(seconds):
            while not found():
                await anyio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"no {what} in {seconds} s") from None


async def connect(s: Session) -> None:
    assert s.client.protocol_version == EXPECTED, s.client.protocol_version
    if MODE == MODERN:
        return  # Without a discovery before, the SDK knows neither name nor capabilities.
    assert s.client.server_info and s.client.server_info.name, "the server has no name"
    assert s.client.server_capabilities.tools, "no tools declared"


async def ping(s: Session) -> str | None:
    if s.modern:
        return NOT_HERE
    await s.client.send_ping()


async def list_tools(s: Session) -> None:
    tools = (await s.client.list_tools()).tools
    missing = set(SURFACE["tools"]) - {tool.name for tool in tools}
    assert not missing, missing
    assert all(tool.input_schema["type"] == "object" for tool in tools)


async def echo(s: Session) -> None:
    assert await s.say(SURFACE["echo"]["tool"], SURFACE["echo"]["arguments"]) == SURFACE["echo"]["text"]


async def add(s: Session) -> None:
    assert last_number(await s.say(SURFACE["add"]["tool"], SURFACE["add"]["arguments"])) == SURFACE["add"]["sum"]


async def twenty_at_once(s: Session) -> None:
    sums: dict[int, float] = {}

    async def one(b: int) -> None:
        sums[b] = last_number(await s.say(SURFACE["add"]["tool"], {"a": 1000, "b": b}))

    async with anyio.create_task_group() as tasks:
        for b in range(20):
            tasks.start_soon(one, b)
    assert sums == {b: 1000 + b for b in range(20)}, sums


async def fail(s: Session) -> None:
    result = await s.call(SURFACE["fail"]["tool"], SURFACE["fail"]["arguments"])
    assert result.is_error
    assert SURFACE["fail"]["contains"] in text(result), text(result)


async def image(s: Session) -> None:
    content = (await s.call(SURFACE["image"]["tool"], {})).content
    found = next(block for block in content if isinstance(block, types.ImageContent))
    assert found.mime_type == SURFACE["image"]["mimeType"]
    assert base64.b64decode(found.data)[1:4] == b"PNG"


async def unknown_tool(s: Session) -> None:
    await refused(s.call("no-such-tool", {}), types.INVALID_PARAMS)


async def bad_arguments(s: Session) -> None:
    # A protocol error up to 2025-06-18, a tool error since. Both mean that the call was not carried out.
    try:
        assert (await s.call(SURFACE["add"]["tool"], SURFACE["add"]["bad"])).is_error
    except MCPError as error:
        assert error.code == types.INVALID_PARAMS, error


async def progress(s: Session) -> None:
    seen: list[float] = []

    async def on_progress(done: float, _total: float | None, _message: str | None) -> None:
        seen.append(done)

    await s.call(SURFACE["sleep"]["tool"], SURFACE["sleep"]["short"], progress_callback=on_progress)
    assert len(seen) >= 2, seen
    assert all(one < next_one for one, next_one in zip(seen, seen[1:])), seen


async def cancellation(s: Session) -> None:
    with anyio.move_on_after(0.2) as scope:
        await s.call(SURFACE["sleep"]["tool"], SURFACE["sleep"]["long"])
    assert scope.cancelled_caught
    await echo(s)


async def elicitation_accepted(s: Session) -> str | None:
    if s.before_elicitation:
        return NOT_HERE
    s.asked.clear()
    s.answer = types.ElicitResult(action="accept", content=SURFACE["greet"]["answer"])
    assert SURFACE["greet"]["contains"] in await s.say(SURFACE["greet"]["tool"], {})
    (asked,) = s.asked
    assert isinstance(asked, types.ElicitRequestFormParams)
    assert asked.requested_schema["properties"][SURFACE["greet"]["field"]]["type"] == "string"


async def elicitation_declined(s: Session) -> str | None:
    if s.before_elicitation:
        return NOT_HERE
    s.answer = types.ElicitResult(action="decline")
    assert (await s.call(SURFACE["greet"]["tool"], {})).is_error


async def elicitation_cancelled(s: Session) -> str | None:
    if s.before_elicitation:
        return NOT_HERE
    s.answer = types.ElicitResult(action="cancel")
    assert (await s.call(SURFACE["greet"]["tool"], {})).is_error


async def elicitation_before(s: Session) -> str | None:
    if not s.before_elicitation:
        return NOT_HERE
    assert (await s.call(SURFACE["greet"]["tool"], {})).is_error


async def list_resources(s: Session) -> None:
    uris = {resource.uri for resource in (await s.client.list_resources()).resources}
    assert SURFACE["about"] in uris, uris
    assert SURFACE["clock"]["uri"] in uris or "toggle" in SURFACE["clock"], uris


async def list_templates(s: Session) -> None:
    templates = (await s.client.list_resource_templates()).resource_templates
    assert SURFACE["template"]["uri"] in {template.uri_template for template in templates}, templates


async def read(s: Session) -> None:
    template = SURFACE["template"]
    for uri, contained in ((SURFACE["about"], ""), (template["expanded"], template["contains"])):
        (contents,) = (await s.client.read_resource(uri)).contents
        assert contents.uri == uri
        assert isinstance(contents, types.TextResourceContents)
        assert contents.text and contained in contents.text, contents


async def unknown_resource(s: Session) -> None:
    await refused(s.client.read_resource(SURFACE["nowhere"]), types.INVALID_PARAMS if s.modern else -32002)


async def ticking(s: Session) -> None:
    clock, toggle = SURFACE["clock"]["uri"], SURFACE["clock"].get("toggle")
    before = len(s.updated)
    if s.modern:
        async with s.client.listen(resource_subscriptions=[clock]) as subscription:
            assert subscription.honored.resource_subscriptions == [clock], subscription.honored
            with anyio.fail_after(5):
                async for event in subscription:
                    assert event.uri == clock, event
                    break
    else:
        await s.client.subscribe_resource(clock)
        if toggle:
            await s.call(toggle, {})
        await until(lambda: len(s.updated) > before, 5, "notifications/resources/updated")
        assert s.updated[-1] == clock
    assert (await s.client.read_resource(clock)).contents
    if not s.modern:
        await s.client.unsubscribe_resource(clock)
        if toggle:
            await s.call(toggle, {})
    await anyio.sleep(0.2)  # What was on its way.
    after = len(s.updated)
    await anyio.sleep(1.3)
    assert len(s.updated) == after, "updates go on after the end of the subscription"


async def list_changed(s: Session) -> str | None:
    if "grow" not in {tool.name for tool in (await s.client.list_tools()).tools}:
        return NOT_HERE
    if s.modern:
        async with s.client.listen(tools_list_changed=True) as subscription:
            await s.call("grow", {})
            with anyio.fail_after(2):
                async for _event in subscription:
                    break
    else:
        await s.call("grow", {})
        await until(lambda: s.grown, 2, "notifications/tools/list_changed")


async def mirrored(s: Session) -> str | None:
    # The list tells a client which arguments to repeat in headers.
    mirror = SURFACE.get("mirror", {"tool": None})
    if mirror["tool"] not in {tool.name for tool in (await s.client.list_tools()).tools}:
        return NOT_HERE
    assert await s.say(mirror["tool"], mirror["arguments"]) == mirror["text"]


async def list_prompts(s: Session) -> None:
    prompts = {prompt.name: prompt for prompt in (await s.client.list_prompts()).prompts}
    arguments = prompts[SURFACE["prompt"]["name"]].arguments or []
    assert set(SURFACE["prompt"]["arguments"]) <= {argument.name for argument in arguments}, arguments


async def get_prompt(s: Session) -> None:
    result = await s.client.get_prompt(SURFACE["prompt"]["name"], SURFACE["prompt"]["arguments"])
    content = result.messages[0].content
    assert isinstance(content, types.TextContent) and SURFACE["prompt"]["contains"] in content.text, content


async def unknown_prompt(s: Session) -> None:
    await refused(s.client.get_prompt("no-such-prompt"), types.INVALID_PARAMS)


async def completion(s: Session) -> None:
    ref = types.PromptReference(name=SURFACE["completion"]["prompt"])

    async def complete(value: str) -> list[str]:
        argument = {"name": SURFACE["completion"]["argument"], "value": value}
        return (await s.client.complete(ref, argument)).completion.values

    every = await complete("")
    assert every, "nothing to complete with"
    assert every[0] in await complete(every[0][:1]), every


async def logging(s: Session) -> str | None:
    if s.modern or not s.client.server_capabilities.logging:
        return NOT_HERE
    await s.client.set_logging_level("debug")


CASES: dict[str, Callable[[Session], Awaitable[str | None]]] = {
    "connect": connect,
    "ping": ping,
    "tools/list": list_tools,
    "echo": echo,
    "add": add,
    "twenty at once": twenty_at_once,
    "a tool that fails": fail,
    "an image": image,
    "an unknown tool": unknown_tool,
    "bad arguments": bad_arguments,
    "progress": progress,
    "cancellation": cancellation,
    "elicitation, accepted": elicitation_accepted,
    "elicitation, declined": elicitation_declined,
    "elicitation, cancelled": elicitation_cancelled,
    "elicitation, before there was one": elicitation_before,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read,
    "an unknown resource": unknown_resource,
    "a ticking resource": ticking,
    "list_changed": list_changed,
    "mirrored arguments": mirrored,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "an unknown prompt": unknown_prompt,
    "completion": completion,
    "logging": logging,
}


async def main() -> int:
    known = os.environ.get("EXCEPT", "").split(";")
    only = os.environ["ONLY"].split(";") if "ONLY" in os.environ else CASES.keys()
    failed = 0
    session = Session()
    stdio = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=dict(os.environ))
    client = Client(
        COMMAND[0] if COMMAND[0].startswith("http://") else stdio,
        mode=MODE,
        elicitation_callback=session.on_elicitation,
        message_handler=session.on_message,
        client_info=types.Implementation(name="python", version="1.0.0"),
        cache=None,
    )
    async with client as session.client:
        for name, case in CASES.items():
            if name not in only:
                continue
            try:
                with anyio.fail_after(15):
                    outcome = await case(session)
                print(f"{'skip' if outcome == NOT_HERE else 'pass'} python {MODE}: {name}", flush=True)
            except Exception as error:
                verdict = "known" if name in known else "FAIL"
                failed += verdict == "FAIL"
                print(f"{verdict} python {MODE}: {name}: {json.dumps(repr(error))[1:-1]}", flush=True)
    print(f"pass python {MODE}: close")
    return 1 if failed else 0


MODE, *COMMAND = sys.argv[1:]
# With a server of one era, `auto` ends up in that era; EXPECT names the revision.
EXPECTED = os.environ.get("EXPECT") or ("2025-11-25" if MODE == "legacy" else MODERN)
sys.exit(anyio.run(main))
