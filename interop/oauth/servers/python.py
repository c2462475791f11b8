"""A resource server on the Python SDK 2.x, with its auth settings and a token verifier: python.py PORT ISSUER"""

import sys

import anyio
import jwt
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

PORT, ISSUER = int(sys.argv[1]), sys.argv[2]
RESOURCE = f"http://127.0.0.1:{PORT}/mcp"


class Verifier:
    """Verifies JWTs of the issuer with its published keys."""

    def __init__(self) -> None:
        self.keys = jwt.PyJWKClient(f"{ISSUER}/jwks")

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            key = await anyio.to_thread.run_sync(self.keys.get_signing_key_from_jwt, token)
            # The SDK compares the audience: validate_token_resource.
            options = {"verify_aud": False}
            claims = jwt.decode(token, key, algorithms=["ES256"], issuer=ISSUER, options=options)
        except jwt.PyJWTError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims["scope"].split(),
            expires_at=claims["exp"],
            resource=claims["aud"],
            subject=claims["sub"],
        )


settings = AuthSettings(
    issuer_url=ISSUER,  # type: ignore[arg-type]
    resource_server_url=RESOURCE,  # type: ignore[arg-type]
    required_scopes=["mcp"],
    validate_token_resource=True,
)
server = MCPServer("python", version="1.0.0", auth=settings, token_verifier=Verifier())


@server.tool(description="Says who calls", structured_output=False)
def whoami() -> str:
    token = get_access_token()
    assert token is not None
    return f"{token.subject} {' '.join(token.scopes)}"


server.run("streamable-http", port=PORT)
