"""Calls the tools of the probe with the client of fastmcp, in one process: fastmcp_calls.py CONFIG"""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client

TOOLS = ["echo", "slow", "large", "deep", "structured", "fail", "error"]


async def main() -> None:
    async with Client(json.loads(Path(sys.argv[1]).read_text())) as client:
        # As a host does. Without it, the client requests the first page by itself, for the output schema of a tool.
        await client.list_tools()
        for tool in TOOLS:
            try:
                await client.call_tool(tool, {})
            except Exception as error:
                print(f"{tool}: {error}")


asyncio.run(main())
