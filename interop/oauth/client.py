"""The client of the Python SDK 2.x signs in through the scripted browser, and calls a tool: client.py URL"""

import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

BROWSER = Path(__file__).with_name("browser.mjs")


class Kept:
    """What the client has registered and received, and where its browser ended up."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.callback = ""

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def open_browser(self, url: str) -> None:
        browser = await anyio.run_process(["node", str(BROWSER), url, "grace"], stderr=subprocess.PIPE)
        self.callback = browser.stdout.decode().strip()

    async def called_back(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self.callback).query)
        return AuthorizationCodeResult(**{name: query[name][0] for name in ("code", "state", "iss") if name in query})


async def main(url: str) -> None:
    kept = Kept()
    metadata = OAuthClientMetadata(
        redirect_uris=["http://127.0.0.1:9/callback"],  # type: ignore[list-item]
        client_name="interop",
        token_endpoint_auth_method="none",
        grant_types=["authorization_code"],
        response_types=["code"],
    )
    auth = OAuthClientProvider(url, metadata, kept, kept.open_browser, kept.called_back)
    async with create_mcp_http_client(auth=auth) as http, Client(streamable_http_client(url, http_client=http)) as client:
        result = await client.call_tool("echo", {"text": "signed in"})
    assert result.content[0].text == "signed in", result
    assert kept.tokens is not None, "the server has asked for a token"


anyio.run(main, sys.argv[1])
