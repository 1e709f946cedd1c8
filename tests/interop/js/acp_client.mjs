// Clients of the Agent Client Protocol over its SDK. Every message that the agent sends is checked against the schema of the SDK.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as sdk from '@agentclientprotocol/sdk';
import { createWebSocketStream } from '@agentclientprotocol/sdk/experimental/ws-client';
import Ajv from 'ajv/dist/2020.js';
import { WebSocket } from 'ws';
import { expect, same } from './common.mjs';

const schemaFile = join(import.meta.dirname, 'node_modules/@agentclientprotocol/sdk/schema/v1/schema.json');
const schema = JSON.parse(readFileSync(schemaFile, 'utf8'));
const ajv = new Ajv({ strict: false, validateFormats: false, discriminator: false });
ajv.addSchema(schema, 'acp');
let checked = 0;
export const messagesChecked = () => checked;

function check(name, value) {
  const valid = ajv.getSchema(`acp#/$defs/${name}`);
  expect(valid(value), `${name}: ${JSON.stringify(value)}: ${JSON.stringify(valid.errors)}`);
  checked += 1;
}

/** Checks an update of a session. */
export const checkUpdate = (update) => check('SessionUpdate', update);

/** The definition of the parameters or the result of a method. */
function definition(method, kind) {
  const fits = ([name, one]) => one['x-method'] === method && name.endsWith(kind);
  return Object.entries(schema.$defs).find(fits)?.[0] ?? expect(false, `the schema has no ${kind} of ${method}`);
}

/** Checks messages of the agent; `asked` has the methods of the client's requests by their ids. */
function checkMessage(message, asked) {
  same(message.jsonrpc, '2.0', 'JSON-RPC');
  if (message.method === '$/cancel_request') check('CancelRequestNotification', message.params);
  else if (message.method === 'session/update') check('SessionNotification', message.params);
  else if (message.method) check(definition(message.method, 'Request'), message.params);
  else if (message.error) check('Error', message.error);
  else check(definition(asked.get(message.id), 'Response'), message.result);
}

/** A stream whose messages are checked in both directions: `messages` are those of the agent. */
export function watched({ readable, writable }) {
  const asked = new Map();
  const failures = [];
  const messages = [];
  const out = new TransformStream({
    transform(message, controller) {
      if (message.method && message.id !== undefined) asked.set(message.id, message.method);
      controller.enqueue(message);
    },
  });
  const incoming = new TransformStream({
    transform(message, controller) {
      try {
        checkMessage(message, asked);
      } catch (error) {
        failures.push(error);
      }
      messages.push(message);
      controller.enqueue(message);
    },
  });
  out.readable.pipeTo(writable).catch(() => {});
  return { stream: { readable: readable.pipeThrough(incoming), writable: out.writable }, failures, messages };
}

/** A client: the messages it got, and its answers to requests. */
export class Seen {
  updates = [];
  answer = () => 'proceed_once';
  fillIn = () => ({ action: 'cancel' });
  waiting = [];

  async permission(params) {
    const option = await this.answer(params);
    return { outcome: option ? { outcome: 'selected', optionId: option } : { outcome: 'cancelled' } };
  }

  update({ update }) {
    this.updates.push(update);
    this.waiting = this.waiting.filter(({ fits, done }) => !(fits(update) && (done(update), true)));
  }

  until(fits) {
    const found = this.updates.find(fits);
    return found ?? new Promise((done) => this.waiting.push({ fits, done }));
  }

  take() {
    return this.updates.splice(0);
  }
}

export function newer(stream, seen) {
  const app = sdk
    .client({ name: 'interop' })
    .onRequest(sdk.methods.client.session.requestPermission, ({ params }) => seen.permission(params))
    .onRequest(sdk.methods.client.elicitation.create, ({ params }) => seen.fillIn(params))
    .onNotification(sdk.methods.client.session.update, ({ params }) => seen.update(params));
  return new Promise((ready) => {
    let end;
    const over = new Promise((done) => (end = done));
    const connected = app.connectWith(stream, async (context) => {
      ready({ request: (...given) => context.request(...given), notify: (...given) => context.notify(...given), end });
      await over;
    });
    // When the connection is lost, its open requests fail, which the steps notice.
    connected.catch(() => {});
  });
}

export const initialize = { protocolVersion: 1, clientCapabilities: {}, clientInfo: { name: 'interop', version: '1' } };
/** All capabilities of a client. */
export const capabilities = { elicitation: { form: {} }, session: { notices: {}, compaction: {} } };
export const text = (words) => [{ type: 'text', text: words }];
export const isText = (update) => update.sessionUpdate === 'agent_message_chunk';

/** A client over WebSocket that has sent `initialize`. `cut` closes its connection without a close frame. */
export async function socket(address, clientInfo = initialize.clientInfo) {
  let cut;
  class Cuttable extends WebSocket {
    constructor(...given) {
      super(...given);
      cut = () => this.terminate();
    }
  }
  const seen = new Seen();
  const { stream, failures, messages } = watched(createWebSocketStream(address, { WebSocket: Cuttable }));
  const agent = await newer(stream, seen);
  same((await agent.request('initialize', { ...initialize, clientInfo })).protocolVersion, 1, 'the version');
  return { agent, seen, failures, messages, cut };
}
