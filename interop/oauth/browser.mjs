// A browser that a script clicks: follows redirects with cookies, signs in as a user, and consents. As a program, it takes an
// authorization URL and a user, and prints the URL that the client is called back with.

import { pathToFileURL } from 'node:url';

/** Opens an authorization URL, signs in as the user, and returns the URL that the client is called back with. */
export async function signIn(authorizationUrl, user) {
  const cookies = new Map();
  let url = new URL(authorizationUrl);
  let request = {};
  for (let step = 0; step < 20; step += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { ...request.headers, cookie };
    const response = await fetch(url, { ...request, headers, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) {
      const [name, value] = line.split(';')[0].split(/=(.*)/s);
      cookies.set(name, value);
    }
    if (response.status >= 300 && response.status < 400) {
      const next = new URL(response.headers.get('location'), url);
      if (next.origin !== new URL(authorizationUrl).origin) return next;
      [url, request] = [next, {}];
      continue;
    }
    const page = await response.text();
    const action = page.match(/<form[^>]*action="([^"]+)"/)?.[1];
    const prompt = page.match(/name="prompt" value="([^"]+)"/)?.[1];
    if (!action || !prompt) throw new Error(`no form in the page (status ${response.status}): ${page.slice(0, 300)}`);
    url = new URL(action, url);
    const body = new URLSearchParams({ prompt, ...(prompt === 'login' ? { login: user, password: 'any' } : {}) });
    request = { method: 'POST', body, headers: { 'content-type': 'application/x-www-form-urlencoded' } };
  }
  throw new Error('too many steps');
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(String(await signIn(process.argv[2], process.argv[3])));
}
