// A WebSocket client of the live session at /ws, and its messages.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import WebSocket from 'ws';
import { expect, joined, same } from './common.mjs';

// One connection. Stores every received object, and the responses to its own requests separately.
export class Socket {
  static async open(base, query = {}, protocols = []) {
    const address = new URL('/ws', base.replace(/^http/, 'ws'));
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
    const socket = new Socket();
    socket.seen = [];
    socket.replies = [];
    socket.waiting = new Set();
    socket.ws = new WebSocket(address, protocols);
    socket.ws.on('message', (data, isBinary) => {
      expect(!isBinary, 'every frame is text');
      const value = JSON.parse(data);
      const isReply = value.jsonrpc || value.ok || value.error;
      (isReply ? socket.replies : socket.seen).push(value);
      for (const check of socket.waiting) check();
    });
    await once(socket.ws, 'open');
    same(socket.ws.protocol, protocols[0] ?? '', 'the sub-protocol asked for');
    return socket;
  }

  say(value) {
    this.ws.send(JSON.stringify(value));
  }

  // Waits for a condition on the received objects; the caller limits the time.
  until(condition) {
    return new Promise((resolve) => {
      const check = () => {
        const found = condition(this);
        if (!found) return;
        this.waiting.delete(check);
        resolve(found);
      };
      this.waiting.add(check);
      check();
    });
  }

  // Sends a request and waits for the first response.
  async ask(method, params) {
    const id = randomUUID();
    this.say({ jsonrpc: '2.0', id, method, params });
    return this.until(({ replies }) => replies.find((reply) => reply.id === id));
  }

  // The same in our own dialect.
  async call(call) {
    const id = randomUUID();
    this.say({ id, call });
    return this.until(({ replies }) => replies.find((reply) => reply.id === id));
  }

  // Sends a request and collects responses up to the one that satisfies the condition.
  async stream(method, params, last) {
    const id = randomUUID();
    this.say({ jsonrpc: '2.0', id, method, params });
    await this.until(({ replies }) => replies.some((reply) => reply.id === id && (reply.error || last(reply.result))));
    return this.replies.filter((reply) => reply.id === id).map((reply) => reply.result ?? reply);
  }

  async close() {
    this.ws.close(1000);
    const [code] = await once(this.ws, 'close');
    same(code, 1000, 'the goodbye is returned');
  }
}

export const prompt = (text) => ({ message: { role: 'user', messageId: randomUUID(), content: { text } } });
export const decision = (call, option) => ({
  message: {
    role: 'user',
    messageId: randomUUID(),
    content: { data: { kind: 'TOOL_CALL_CONFIRMATION', tool_call_id: call, selected_option_id: option } },
  },
});

export const textOf = (objects) => joined(objects.filter((one) => one.kind === 'TEXT_CONTENT').map((one) => one.content.text));
export const ended = (object) => object.kind === 'STATE_CHANGE' && object.state === 'input-required';
export const asks = (object) => object.kind === 'TOOL_CALL_UPDATE' && object.status === 'PENDING' && object.confirmation_request;

// Sends a prompt in the session. Returns the events of the turn that each watcher got, up to its end or a question.
export async function turn(client, watchers, method, params) {
  const before = watchers.map((watcher) => watcher.seen.length);
  const reply = await client.ask(method, params);
  same(reply.result?.accepted, true, `accepted: ${JSON.stringify(reply)}`);
  const turns = watchers.map(async (watcher, at) => {
    await watcher.until(({ seen }) => seen.slice(before[at]).some(ended));
    return watcher.seen.slice(before[at]);
  });
  return Promise.all(turns);
}
