// A resource server on the TypeScript SDK 2.x, with its metadata documents and its bearer gate: ts2.mjs PORT ISSUER

import { serve } from '@hono/node-server';
import {
  McpServer, OAuthError, OAuthErrorCode, createMcpHandler, getOAuthProtectedResourceMetadataUrl, oauthMetadataResponse,
  requireBearerAuth,
} from '@modelcontextprotocol/server';
import { verifier } from './verify.mjs';

const [port, issuer] = process.argv.slice(2);
const resource = new URL(`http://127.0.0.1:${port}/mcp`);
const oauthMetadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
const documents = { oauthMetadata, resourceServerUrl: resource, scopesSupported: ['mcp'] };
const gate = requireBearerAuth({
  verifier: { verifyAccessToken: verifier(issuer, (why) => new OAuthError(OAuthErrorCode.InvalidToken, why)) },
  requiredScopes: ['mcp'],
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
  expectedResource: resource,
});
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'ts2', version: '1.0.0' });
  server.registerTool('whoami', { description: 'Says who calls' }, ({ http }) => ({
    content: [{ type: 'text', text: `${http.authInfo.extra.sub} ${http.authInfo.scopes.join(' ')}` }],
  }));
  return server;
});
async function answer(request) {
  const document = oauthMetadataResponse(request, documents);
  if (document) return document;
  const authInfo = await gate(request);
  return authInfo instanceof Response ? authInfo : handler.fetch(request, { authInfo });
}
serve({ fetch: answer, port: Number(port), hostname: '127.0.0.1' }, () => console.log('listening'));
