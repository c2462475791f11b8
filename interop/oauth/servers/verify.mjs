// An access token of oidc-provider (a JWT, signed with ES256) -> the `AuthInfo` that the TypeScript SDKs expect of a verifier.

import { createPublicKey, verify } from 'node:crypto';

const part = (text) => JSON.parse(Buffer.from(text, 'base64url').toString());

/** Returns a function that verifies tokens of the issuer, or throws what `refuse` returns. */
export function verifier(issuer, refuse) {
  return async (token) => {
    const [header, claims, signature] = token.split('.');
    if (!signature) throw refuse('the token is not a JWT');
    const { kid, alg } = part(header);
    const { keys } = await (await fetch(`${issuer}/jwks`)).json();
    const jwk = keys.find((key) => key.kid === kid);
    const key = jwk && { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' };
    const signed = Buffer.from(`${header}.${claims}`);
    const good = alg === 'ES256' && key && verify('sha256', signed, key, Buffer.from(signature, 'base64url'));
    if (!good) throw refuse('the signature is wrong');
    const { iss, aud, exp, scope, sub, client_id: clientId } = part(claims);
    if (iss !== issuer) throw refuse('the token is of another issuer');
    // The SDKs compare the resource with that of the server.
    return { token, clientId, scopes: scope.split(' '), expiresAt: exp, resource: new URL(aud), extra: { sub } };
  };
}
