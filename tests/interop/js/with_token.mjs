// A JavaScript client with a bearer token, through a proxy with TLS.
//
//     with_token.mjs VERSION URL WORKSPACE
//
// The token is in the variable TOKEN, the certificate in NODE_EXTRA_CA_CERTS. The agent card says how the token is sent.

import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createAuthenticatingFetchWithRetry } from '@a2a-js/sdk/client';
import { allOf, BINDINGS, expect, same } from './common.mjs';

const [version, url, workspace] = process.argv.slice(2);
const { Sdk } = await import(`./sdk_${version.replace('.', '')}.mjs`);
const file = join(workspace, 'interop.txt');

const card = await (await fetch(`${url}/.well-known/agent-card.json`)).json();

// The header field with the token, according to the card.
function shown() {
  for (const name of card.security.flatMap(Object.keys)) {
    const scheme = card.securitySchemes[name];
    if (scheme.type === 'http' && scheme.scheme.toLowerCase() === 'bearer') return { Authorization: `Bearer ${process.env.TOKEN}` };
    if (scheme.type === 'apiKey' && scheme.in === 'header') return { [scheme.name]: process.env.TOKEN };
  }
  expect(false, 'the card names a way to send a token');
}

const handler = {
  headers: async () => shown(),
  shouldRetryWithHeaders: async () => undefined,
};

for (const binding of BINDINGS) {
  const stranger = await Sdk.connect(url, binding);
  const refusal = await stranger.send('say hello').then(
    () => undefined,
    (error) => error,
  );
  expect(refusal, `${binding}: refused without a token`);
  const agent = await Sdk.connect(url, binding, createAuthenticatingFetchWithRetry(fetch, handler));
  const told = await allOf(agent.stream('say hello'));
  same(told.map((event) => event.said ?? '').join(''), 'Hello from the script.', `${binding}: hello`);
  rmSync(file, { force: true });
  const asked = await agent.send('write it please');
  same(asked.state, 'input-required', `${binding}: it asks`);
  same((await agent.send('yes', { task: asked })).state, 'completed', `${binding}: it is approved`);
  expect(existsSync(file), `${binding}: the file is written`);
  console.log(`guarded, JavaScript SDK ${version}, ${binding}: ok`);
}
