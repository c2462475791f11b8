"""The plain server on FastMCP 2, 3 and 4. With PORT in the environment, it serves HTTP."""

import os

import anyio
from fastmcp import FastMCP

server = FastMCP("plain", version="1.0.0")


@server.tool(name="plain-echo", description="Say it back", annotations={"readOnlyHint": True})
def echo(text: str) -> str:
    return text


@server.tool(name="plain-wait", description="Wait 300 ms", annotations={"readOnlyHint": True})
async def wait() -> str:
    await anyio.sleep(0.3)
    return "waited"


@server.resource("plain://about", name="plain-about", mime_type="text/plain")
def about() -> str:
    return "A plain server"


@server.prompt(name="plain-introduce")
def introduce(name: str) -> str:
    return f"Introduce {name}"


if "PORT" in os.environ:
    # The protection against foreign hosts and origins is the author's to turn on.
    server.run("http", port=int(os.environ["PORT"]), show_banner=False, host_origin_protection=True)
else:
    server.run("stdio", show_banner=False)
