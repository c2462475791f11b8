// oidc-provider as the authorization server: a certified implementation, here with JWT access tokens for the resource that a
// client names, DPoP, dynamic registration, and a user who can sign in with any password.

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

/** Returns a private key of the issuer, with a name. */
export function issuerKey(kid) {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'ES256' };
}

/** Starts the issuer at a port, with these keys. The first key signs. */
export async function startProvider(port, keys) {
  const issuer = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'robot', client_secret: 'robot-secret', grant_types: ['client_credentials'], response_types: [],
        redirect_uris: [], token_endpoint_auth_method: 'client_secret_basic',
      },
      {
        client_id: 'server', client_secret: 'server-secret', grant_types: [], response_types: [], redirect_uris: [],
        token_endpoint_auth_method: 'client_secret_basic',
      },
    ],
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    cookies: { keys: ['for tests only'] },
    jwks: { keys },
    scopes: ['openid', 'offline_access', 'mcp', 'admin'],
    pkce: { required: () => true },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      registration: { enabled: true },
      revocation: { enabled: true },
      dPoP: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          scope: 'mcp admin',
          audience: resource.replace(/\?opaque$/, ''),
          accessTokenTTL: 300,
          accessTokenFormat: resource.endsWith('?opaque') ? 'opaque' : 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  });
  const http = createServer(provider.callback());
  await new Promise((listening) => http.listen(port, '127.0.0.1', listening));
  const stop = () => new Promise((stopped) => { http.closeAllConnections(); http.close(stopped); });
  return { issuer, stop };
}
