// A resource server on the TypeScript SDK 1.x, with its metadata router and its bearer middleware: ts1.mjs PORT ISSUER

import express from 'express';
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { verifier } from './verify.mjs';

const [port, issuer] = process.argv.slice(2);
const resource = new URL(`http://127.0.0.1:${port}/mcp`);
const oauthMetadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
const app = express();
app.use(express.json());
app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: resource, scopesSupported: ['mcp'] }));
const bearer = requireBearerAuth({
  verifier: { verifyAccessToken: verifier(issuer, (why) => new InvalidTokenError(why)) },
  requiredScopes: ['mcp'],
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
  expectedResource: resource,
});
app.all('/mcp', bearer, async (request, response) => {
  const server = new McpServer({ name: 'ts1', version: '1.0.0' });
  server.registerTool('whoami', { description: 'Says who calls' }, ({ authInfo }) => ({
    content: [{ type: 'text', text: `${authInfo.extra.sub} ${authInfo.scopes.join(' ')}` }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  await server.connect(transport);
  await transport.handleRequest(request, response, request.body);
});
app.listen(Number(port), '127.0.0.1', () => console.log('listening'));
