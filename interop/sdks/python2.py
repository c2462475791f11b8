"""The plain server on the Python SDK 2.x: python2.py [low]. With `low`, it is a `Server` with handlers of its own, else an `MCPServer`.
With PORT in the environment, it serves HTTP."""

import os
import sys
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

HINTS = types.ToolAnnotations(read_only_hint=True)
PORT = int(os.environ.get("PORT", "0"))


def high() -> None:
    server = MCPServer("plain", version="1.0.0")

    @server.tool(name="plain-echo", description="Say it back", annotations=HINTS)
    def echo(text: str) -> str:
        return text

    @server.tool(name="plain-wait", description="Wait 300 ms", annotations=HINTS)
    async def wait() -> str:
        await anyio.sleep(0.3)
        return "waited"

    @server.resource("plain://about", name="plain-about", mime_type="text/plain")
    def about() -> str:
        return "A plain server"

    @server.prompt(name="plain-introduce")
    def introduce(name: str) -> str:
        return f"Introduce {name}"

    server.run("streamable-http", port=PORT) if PORT else server.run("stdio")


def refuse(why: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=why)


def check_cursor(params: types.PaginatedRequestParams | None) -> None:
    if params and params.cursor:
        raise refuse("unknown cursor")


async def tools(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    check_cursor(params)
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    echo = types.Tool(name="plain-echo", description="Say it back", input_schema=schema, annotations=HINTS)
    wait = types.Tool(name="plain-wait", description="Wait", input_schema={"type": "object"}, annotations=HINTS)
    return types.ListToolsResult(tools=[echo, wait])


async def call(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    def said(text: str, is_error: bool = False) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    if params.name == "plain-wait":
        await anyio.sleep(0.3)
        return said("waited")
    if params.name != "plain-echo":
        raise refuse("unknown tool")
    text = (params.arguments or {}).get("text")
    return said(text) if isinstance(text, str) else said("text is missing", is_error=True)


async def resources(_: Any, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    check_cursor(params)
    about = types.Resource(name="plain-about", uri="plain://about", mime_type="text/plain")
    return types.ListResourcesResult(resources=[about])


async def read(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    if str(params.uri) != "plain://about":
        raise refuse("unknown resource")
    contents = types.TextResourceContents(uri="plain://about", mime_type="text/plain", text="A plain server")
    return types.ReadResourceResult(contents=[contents])


async def prompts(_: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    check_cursor(params)
    name = types.PromptArgument(name="name", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="plain-introduce", arguments=[name])])


async def prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    if params.name != "plain-introduce":
        raise refuse("unknown prompt")
    text = types.TextContent(type="text", text=f"Introduce {(params.arguments or {}).get('name')}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


async def low() -> None:
    server = Server(
        "plain",
        version="1.0.0",
        on_list_tools=tools,
        on_call_tool=call,
        on_list_resources=resources,
        on_read_resource=read,
        on_list_prompts=prompts,
        on_get_prompt=prompt,
    )
    if PORT:
        app = server.streamable_http_app()
        return await uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="warning")).serve()
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


if sys.argv[1:] == ["low"]:
    anyio.run(low)
else:
    high()
