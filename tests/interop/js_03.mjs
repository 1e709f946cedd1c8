// The JavaScript A2A SDK, version 0.3, against a running server: the same steps as python_03.py.
//
//     node js_03.mjs URL WORKSPACE

import assert from 'node:assert/strict';
import { existsSync, readFileSync, unlinkSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { ClientFactory, TaskNotCancelableError, TaskNotFoundError } from '@a2a-js/sdk/client';

const PATIENCE_MS = 60_000;
const [url, workspace] = process.argv.slice(2);

const message = (parts, task) => ({
  message: {
    kind: 'message',
    role: 'user',
    messageId: randomUUID(),
    parts,
    ...(task && { taskId: task.id, contextId: task.contextId }),
  },
});
const say = (text, task) => message([{ kind: 'text', text }], task);
const answer = (task, callId, outcome) => message([{ kind: 'data', data: { callId, outcome } }], task);

const partsOf = (event) => (event.kind === 'status-update' ? (event.status.message?.parts ?? []) : []);
const textsOf = (events) =>
  events.flatMap(partsOf).filter((part) => part.kind === 'text').map((part) => part.text).join('');
const dataOf = (events) => events.flatMap(partsOf).filter((part) => part.kind === 'data').map((part) => part.data);
const everythingSaid = (task) =>
  [task.status.message, ...(task.history ?? []), ...(task.artifacts ?? [])]
    .filter(Boolean)
    .flatMap((owner) => owner.parts)
    .filter((part) => part.kind === 'text')
    .map((part) => part.text);

async function allOf(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

function expectEnd(events, state, what) {
  const last = events.at(-1);
  assert.equal(last.kind, 'status-update', `${what}: ends with a status`);
  assert.equal(last.final, true, `${what}: its last event is final`);
  assert.equal(last.status.state, state, `${what}: ends ${state}`);
}

async function theCard(client) {
  const card = await client.getAgentCard();
  assert.ok(card.name, 'the card has a name');
  assert.match(card.protocolVersion, /^0\.3/, 'protocol 0.3');
  assert.equal(card.capabilities.streaming, true, 'the card offers streaming');
  assert.ok(card.skills.length > 0, 'the card names a skill');
}

async function aBlockingSend(client) {
  const task = await client.sendMessage({ ...say('say hello'), configuration: { blocking: true } });
  assert.equal(task.kind, 'task', 'a prompt makes a task');
  assert.equal(task.status.state, 'input-required', 'it waits for the next prompt');
  assert.ok(everythingSaid(task).includes('Hello from the script.'), `the whole answer is in ${everythingSaid(task)}`);
}

async function aStreamAndItsTask(client) {
  const events = await allOf(client.sendMessageStream(say('say hello')));
  const [first] = events;
  assert.equal(first.kind, 'task', 'the first event is the task');
  assert.equal(textsOf(events), 'Hello from the script.', 'all text, in order');
  expectEnd(events, 'input-required', 'a turn');
  assert.deepEqual([...new Set(events.slice(1).map((e) => e.taskId))], [first.id], 'all events are about one task');

  const task = await client.getTask({ id: first.id });
  assert.deepEqual([task.id, task.contextId], [first.id, first.contextId], 'the same task is found again');
  assert.equal(task.status.state, 'input-required', 'its state is the last one');
  assert.ok(everythingSaid(task).includes('say hello'), `its history has the prompt: ${everythingSaid(task)}`);

  const again = await allOf(client.sendMessageStream(say('say hello', first)));
  assert.equal(textsOf(again), 'Hello from the script.', 'a second turn in the same task is answered');
  assert.deepEqual([...new Set(again.map((e) => e.taskId))], [first.id], 'a second turn makes no second task');
}

async function aCancelledTurn(client) {
  const events = [];
  for await (const event of client.sendMessageStream(say('take for ever'))) {
    if (partsOf(event).length > 0 && !events.some((seen) => partsOf(seen).length > 0)) {
      const cancelled = await client.cancelTask({ id: event.taskId });
      assert.equal(cancelled.status.state, 'canceled', 'the answer to a cancel is the cancelled task');
    }
    events.push(event);
  }
  expectEnd(events, 'canceled', 'a cancelled turn');
  await assert.rejects(client.cancelTask({ id: events[0].id }), TaskNotCancelableError, 'cancelling what is cancelled');
}

// One that joins while the agent works sees the task as it is, and then what the first one sees.
async function aSecondReader(client) {
  const first = [];
  let joined;
  for await (const event of client.sendMessageStream(say('pause in the middle'))) {
    first.push(event);
    if (!joined && partsOf(event).length > 0) joined = allOf(client.resubscribeTask({ id: event.taskId }));
  }
  const second = await joined;
  assert.equal(second[0].kind, 'task', 'the first event of a subscription is the task');
  assert.equal(second[0].id, first[0].id, 'and it is the same task');
  assert.equal(textsOf(first), 'First half, second half.', 'the first reader has all');
  assert.equal(textsOf(second), 'second half.', 'the second one the rest');
  expectEnd(first, 'input-required', "the first reader's stream");
  expectEnd(second, 'input-required', "the second reader's stream");
}

async function asked(client) {
  const events = await allOf(client.sendMessageStream(say('write the file please')));
  expectEnd(events, 'input-required', 'a turn that asks');
  const calls = dataOf(events).filter((data) => data.status === 'awaiting_approval');
  assert.equal(calls.length, 1, 'one call is asked for');
  return [events[0], calls[0].request.callId];
}

async function aRefusedCall(client) {
  const [task, call] = await asked(client);
  const events = await allOf(client.sendMessageStream(answer(task, call, 'cancel')));
  assert.ok(dataOf(events).some((data) => data.status === 'cancelled'), 'the call is shown as cancelled');
  assert.ok(!existsSync(join(workspace, 'interop.txt')), 'a refused call does nothing');
}

async function anApprovedCall(client) {
  const file = join(workspace, 'interop.txt');
  const [task, call] = await asked(client);
  assert.ok(!existsSync(file), 'nothing is written before the answer');
  const events = await allOf(client.sendMessageStream(answer(task, call, 'proceed_once')));
  assert.ok(dataOf(events).some((data) => data.status === 'success'), 'the call is shown to succeed');
  assert.equal(textsOf(events), 'The file is dealt with.', 'the agent goes on');
  expectEnd(events, 'input-required', 'the approved turn');
  assert.equal(readFileSync(file, 'utf8'), 'from the script\n', 'the file is written');
  unlinkSync(file);
}

async function faults(client) {
  await assert.rejects(client.getTask({ id: 'no-such-task' }), TaskNotFoundError, 'an unknown task');
}

const STEPS = [
  theCard,
  aBlockingSend,
  aStreamAndItsTask,
  aCancelledTurn,
  aSecondReader,
  aRefusedCall,
  anApprovedCall,
  faults,
];

function within(patience, work) {
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`not done after ${patience} ms`)), patience).unref();
  });
  return Promise.race([work, late]);
}

const client = await new ClientFactory().createFromUrl(url);
let failed = 0;
for (const step of STEPS) {
  const name = step.name.replace(/[A-Z]/g, (capital) => ` ${capital.toLowerCase()}`);
  try {
    await within(PATIENCE_MS, step(client));
    console.log(`javascript 0.3: ${name}: ok`);
  } catch (error) {
    failed += 1;
    console.log(`javascript 0.3: ${name}: FAILED\n${error.stack}`);
  }
}
process.exit(failed ? 1 : 0);
