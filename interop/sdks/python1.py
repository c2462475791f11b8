"""The plain server on the Python SDK 1.x: python1.py [low]. With `low`, it is a `Server` with handlers of its own, else a `FastMCP`.
With PORT in the environment, it serves HTTP."""

import os
import sys
from collections.abc import Callable
from importlib.metadata import version

import anyio
from mcp import types
from mcp.shared.exceptions import McpError

# Versions before 1.7 have no hints. In those before 1.16, the handler of a list sees no cursor.
HINTS = {"annotations": types.ToolAnnotations(readOnlyHint=True)} if hasattr(types, "ToolAnnotations") else {}
SEES_CURSOR = tuple(map(int, version("mcp").split(".")[:2])) >= (1, 16)
PORT = int(os.environ.get("PORT", "0"))


def high() -> None:
    from mcp.server.fastmcp import FastMCP

    server = FastMCP("plain", **({"port": PORT} if PORT else {}))

    @server.tool(name="plain-echo", description="Say it back", **HINTS)
    def echo(text: str) -> str:
        return text

    @server.tool(name="plain-wait", description="Wait 300 ms", **HINTS)
    async def wait() -> str:
        await anyio.sleep(0.3)
        return "waited"

    @server.resource("plain://about", name="plain-about", mime_type="text/plain")
    def about() -> str:
        return "A plain server"

    @server.prompt(name="plain-introduce")
    def introduce(name: str) -> str:
        return f"Introduce {name}"

    server.run("streamable-http" if PORT else "stdio")


async def low() -> None:
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    server = Server("plain", version="1.0.0")

    def refuse(why: str) -> McpError:
        return McpError(types.ErrorData(code=types.INVALID_PARAMS, message=why))

    def check_cursor(request: types.PaginatedRequest | None) -> None:
        if request and request.params and request.params.cursor:
            raise refuse("unknown cursor")

    def lists(register: Callable, items: str) -> Callable:
        """Registers a handler that takes a request, or the items that it returns without one."""

        def decorate(handle: Callable) -> None:
            async def without_request() -> list:
                return getattr(await handle(None), items)

            register(handle if SEES_CURSOR else without_request)

        return decorate

    @lists(server.list_tools(), "tools")
    async def tools(request: types.ListToolsRequest) -> types.ListToolsResult:
        check_cursor(request)
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        echo = types.Tool(name="plain-echo", description="Say it back", inputSchema=schema, **HINTS)
        wait = types.Tool(name="plain-wait", description="Wait", inputSchema={"type": "object"}, **HINTS)
        return types.ListToolsResult(tools=[echo, wait])

    @server.call_tool()
    async def call(name: str, arguments: dict) -> list[types.TextContent]:
        if name == "plain-wait":
            await anyio.sleep(0.3)
            return [types.TextContent(type="text", text="waited")]
        if name != "plain-echo":
            raise refuse("unknown tool")
        return [types.TextContent(type="text", text=arguments["text"])]

    @lists(server.list_resources(), "resources")
    async def resources(request: types.ListResourcesRequest) -> types.ListResourcesResult:
        check_cursor(request)
        about = types.Resource(name="plain-about", uri="plain://about", mimeType="text/plain")
        return types.ListResourcesResult(resources=[about])

    @server.read_resource()
    async def read(uri: object) -> str:
        if str(uri) != "plain://about":
            raise refuse("unknown resource")
        return "A plain server"

    @lists(server.list_prompts(), "prompts")
    async def prompts(request: types.ListPromptsRequest) -> types.ListPromptsResult:
        check_cursor(request)
        name = types.PromptArgument(name="name", required=True)
        return types.ListPromptsResult(prompts=[types.Prompt(name="plain-introduce", arguments=[name])])

    @server.get_prompt()
    async def prompt(name: str, arguments: dict | None) -> types.GetPromptResult:
        if name != "plain-introduce":
            raise refuse("unknown prompt")
        text = types.TextContent(type="text", text=f"Introduce {(arguments or {}).get('name')}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    if PORT:
        return await serve_http(server)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


async def serve_http(server: object) -> None:
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.routing import Mount

    local = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"127.0.0.1:{PORT}"],
        allowed_origins=[f"http://127.0.0.1:{PORT}"],
    )
    manager = StreamableHTTPSessionManager(server, security_settings=local)
    app = Starlette(routes=[Mount("/", app=manager.handle_request)], lifespan=lambda _: manager.run())
    await uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="warning")).serve()


if sys.argv[1:] == ["low"]:
    anyio.run(low)
else:
    high()
