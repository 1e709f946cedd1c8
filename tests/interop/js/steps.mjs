// What a JavaScript client of A2A can do with our agent: the same steps as in Python. ../python/steps.py explains where the versions
// differ.
//
//     node steps.mjs VERSION URL WORKSPACE

import { existsSync, readFileSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { BINDINGS, allOf, expect, joined, same, shows, runSteps } from './common.mjs';
import { receiver } from './webhook.mjs';

const said = (events) => joined(events.map((event) => event.said ?? ''));

// Checks the stream of a message to a task, or of one that creates a task.
function expectStream({ sdk }, events, task, state, what) {
  const [first] = events;
  const last = events.at(-1);
  same(first.about === 'task', !task || sdk.streamsStartWithTask, `${what}: starts with the task`);
  same(events.slice(1).filter((event) => event.about === 'task'), [], `${what}: and has it nowhere else`);
  const about = new Set(events.map((event) => `${event.task} ${event.context}`));
  same([...about], [`${first.task} ${first.context}`], `${what}: one task`);
  same([last.about, last.state], ['status', state], `${what}: its end`);
  if (last.final !== undefined) {
    const marks = events.filter((event) => event.about === 'status').map((event) => event.final);
    same(marks, marks.map((_, at) => at === marks.length - 1), `${what}: only the last event is final`);
  }
}

async function expectFault(fault, call, what) {
  const found = await call.then(
    (value) => ({ value }),
    (error) => ({ error }),
  );
  expect(found.error, `${what}: should fail with ${fault}, but gave ${JSON.stringify(found.value)}`);
  if (!shows(found.error, fault)) throw new Error(`${what}: should fail with ${fault}`, { cause: found.error });
}

async function theCard({ sdk, binding }) {
  const card = await sdk.card();
  expect(card.name, 'the card has a name');
  expect(card.streaming, 'the card offers streaming');
  expect(card.push, 'the card offers push notifications');
  expect(card.skills.length, 'the card names a skill');
  expect(card.bindings.includes(binding), `${binding} is among ${card.bindings}`);
}

async function aSendThatWaits(fixture) {
  const task = await fixture.sdk.send('say hello');
  same(task.state, 'completed', 'the turn is over');
  expect(task.texts.includes('Hello from the script.'), `the whole answer is in ${task.texts}`);
}

async function aSendThatDoesNotWait({ sdk }) {
  const task = await sdk.send('take for ever', { wait: false });
  expect(['submitted', 'working'].includes(task.state), `the turn goes on, it is not ${task.state}`);
  same((await sdk.get(task.id)).id, task.id, 'the task can be asked for');
  same((await sdk.cancel(task.id)).state, 'canceled', 'and cancelled');
}

async function aStreamAndItsTask(fixture) {
  const { sdk } = fixture;
  const events = await allOf(sdk.stream('say hello'));
  expectStream(fixture, events, undefined, 'completed', 'a turn');
  same(said(events), 'Hello from the script.', 'all text, in order');
  const chunks = events.map((event) => event.chunk).filter(Boolean);
  same(chunks, [['answer-1', false, true]], 'the answer is one artifact, whole');

  const task = await sdk.get(events[0].task);
  same([task.id, task.context], [events[0].task, events[0].context], 'the same task is found again');
  same(task.state, 'completed', 'its state is the last one');
  for (const text of ['say hello', 'Hello from the script.']) {
    expect(task.texts.includes(text), `"${text}" is in ${task.texts}`);
  }

  const again = await allOf(sdk.stream('say hello', task));
  same(said(again), 'Hello from the script.', 'the conversation goes on');
  same(again[0].context, task.context, 'in its context');
  expect(again[0].task !== task.id, 'a second turn is another task');
}

async function aCancelledTurn(fixture) {
  const { sdk } = fixture;
  const events = [];
  for await (const event of sdk.stream('take for ever')) {
    if (event.state === 'working') same((await sdk.cancel(event.task)).state, 'canceled', 'the answer to a cancel');
    events.push(event);
  }
  expectStream(fixture, events, undefined, 'canceled', 'a cancelled turn');
  const again = sdk.cancel(events[0].task);
  if (sdk.cancelsTwice) same((await again).state, 'canceled', 'the answer to a second cancel');
  else await expectFault('TaskNotCancelableError', again, 'cancelling what is cancelled');
}

// A client that subscribes during a turn gets the task, and then the same events as the first client.
async function aSecondReader(fixture) {
  const { sdk } = fixture;
  const first = [];
  let joining;
  for await (const event of sdk.stream('pause in the middle')) {
    first.push(event);
    if (event.state === 'working') joining ??= allOf(sdk.join(event.task));
  }
  const second = await joining;
  expectStream(fixture, first, undefined, 'completed', "the first reader's stream");
  expectStream(fixture, second, undefined, 'completed', "the second reader's stream");
  same(second[0].task, first[0].task, 'it is the same task');
  same([said(first), said(second)], Array(2).fill('First half, second half.'), 'both have all');
}

// A turn that asks for approval to write a file. Returns the task.
async function asked(fixture) {
  const { sdk } = fixture;
  const events = await allOf(sdk.stream('write the file please'));
  expectStream(fixture, events, undefined, 'input-required', 'a turn that asks');
  expect(events.at(-1).said.includes('Reply with yes, no'), `it says how to answer: ${events.at(-1).said}`);
  return sdk.get(events[0].task);
}

async function aRefusedCall(fixture) {
  const { sdk, file } = fixture;
  const task = await asked(fixture);
  const events = await allOf(sdk.stream('no', task));
  expectStream(fixture, events, task, 'completed', 'a refused turn');
  expect(!existsSync(file), 'a refused call does nothing');
}

async function anApprovedCall(fixture) {
  const { sdk, file } = fixture;
  const task = await asked(fixture);
  expect(!existsSync(file), 'nothing is written before the answer');
  const events = await allOf(sdk.stream('yes', task));
  expectStream(fixture, events, task, 'completed', 'the approved turn');
  same(said(events), 'The file is dealt with.', 'the agent goes on');
  same(readFileSync(file, 'utf8'), 'from the script\n', 'the file is written');
  unlinkSync(file);
}

// Three tasks of one context, listed in pages, newest first, and by state.
async function theList({ sdk }) {
  const first = await sdk.send('say hello');
  const second = await sdk.send('say hello', { task: first });
  const third = await sdk.send('write the file please', { task: second });
  const { context } = first;
  const ids = ({ tasks }) => tasks.map((task) => task.id);
  const idsAndArtifacts = ({ tasks }) => tasks.map((task) => [task.id, task.artifacts]);

  const start = await sdk.list({ context, size: 2 });
  same([ids(start), start.total], [[third.id, second.id], 3], 'the first page');
  expect(start.rest, 'there is a second page');
  const end = await sdk.list({ context, size: 2, page: start.rest });
  same([ids(end), end.rest, end.total], [[first.id], '', 3], 'the last page');

  const completed = await sdk.list({ context, state: 'completed', artifacts: true });
  same(idsAndArtifacts(completed), [[second.id, 1], [first.id, 1]], 'completed, with artifacts');
  const waiting = await sdk.list({ context, state: 'input-required' });
  same(idsAndArtifacts(waiting), [[third.id, 0]], 'waiting, without artifacts');
  await sdk.cancel(third.id);
}

// Webhook configurations can be set, read, listed and deleted; the remaining one gets the further updates of the task.
async function theHooksOfATask(fixture) {
  const { sdk, webhooks } = fixture;
  const task = await asked(fixture);
  const kept = { url: webhooks.url(), id: 'kept', token: 'a token', credentials: 'secret' };
  const dropped = { url: webhooks.url(), id: 'dropped' };
  same(await sdk.setHook(task.id, kept), kept, 'what was set');
  same(await sdk.setHook(task.id, dropped), dropped, 'a second one');
  same(await sdk.getHook(task.id, 'kept'), kept, 'what is read');
  const byId = (one, other) => one.id.localeCompare(other.id);
  same((await sdk.listHooks(task.id)).sort(byId), [dropped, kept], 'all that were set');
  await sdk.deleteHook(task.id, 'dropped');
  same(await sdk.listHooks(task.id), [kept], 'what is left');
  await expectFault('TaskNotFoundError', sdk.getHook(task.id, 'dropped'), 'reading a deleted one');

  await allOf(sdk.stream('no', task));
  await expectTold(fixture, kept, task);
  same(webhooks.at(dropped.url), [], 'a deleted one is told nothing');
}

// A webhook that is set with the prompt gets all updates of its turn.
async function aHookInTheRequest(fixture) {
  const { sdk, webhooks } = fixture;
  const hook = { url: webhooks.url(), id: 'inline', token: 'another token', credentials: 'another secret' };
  const task = await sdk.send('say hello', { hook });
  const events = await expectTold(fixture, hook, task);
  if (!sdk.pushIsWholeTask) {
    expect(events.some((event) => event.state === 'working'), 'the start is told');
    same(said(events), 'Hello from the script.', 'the answer is told, whole');
  }
}

// Waits until a webhook got the end of the turn, and checks all its deliveries.
async function expectTold(fixture, hook, task) {
  const { sdk, webhooks } = fixture;
  const ended = (deliveries) => deliveries.length > 0 && sdk.delivered(deliveries.at(-1).body).state === 'completed';
  const deliveries = await webhooks.until(hook.url, ended);
  const seqs = deliveries.map(({ headers }) => {
    same(headers['x-a2a-notification-token'], hook.token, 'the token');
    same(headers.authorization, `Bearer ${hook.credentials}`, 'the credentials');
    same(headers['content-type'], sdk.pushMediaType, 'the type of the body');
    const [, about, seq] = /^(.*):(\d+)$/.exec(headers['x-a2a-event-id']);
    same(about, task.id, "the event's id names the task");
    return Number(seq);
  });
  same(seqs, [...new Set(seqs)].sort((one, other) => one - other), "the events' ids rise");
  const events = deliveries.map(({ body }) => sdk.delivered(body));
  for (const event of events) same([event.task, event.context], [task.id, task.context], 'all is about the task');
  return events;
}

async function faults({ sdk, webhooks }) {
  const unknown = 'no-such-task';
  await expectFault('TaskNotFoundError', sdk.get(unknown), 'an unknown task');
  await expectFault('TaskNotFoundError', sdk.cancel(unknown), 'cancelling an unknown task');
  await expectFault('TaskNotFoundError', allOf(sdk.join(unknown)), 'joining an unknown task');
  const hook = { url: webhooks.url(), id: 'hook' };
  await expectFault('TaskNotFoundError', sdk.setHook(unknown, hook), 'a hook of an unknown task');
  const over = await sdk.cancel((await sdk.send('take for ever', { wait: false })).id);
  await expectFault(sdk.terminalTaskFault, sdk.send('say hello', { task: over }), 'a prompt to a task that is over');
  await expectFault(sdk.terminalTaskFault, allOf(sdk.stream('say hello', over)), 'the same as a stream');
}

const STEPS = [
  theCard,
  aSendThatWaits,
  aSendThatDoesNotWait,
  aStreamAndItsTask,
  aCancelledTurn,
  aSecondReader,
  aRefusedCall,
  anApprovedCall,
  theList,
  theHooksOfATask,
  aHookInTheRequest,
  faults,
];

const [version, url, workspace] = process.argv.slice(2);
const { Sdk } = await import({ 0.3: './sdk_03.mjs', 1: './sdk_1.mjs' }[version]);
let failed = 0;
for (const binding of BINDINGS) {
  const sdk = await Sdk.connect(url, binding);
  const webhooks = await receiver();
  const fixture = { sdk, binding, webhooks, file: join(workspace, 'interop.txt') };
  const steps = STEPS.filter((step) => step !== theList || sdk.hasList);
  failed += await runSteps(`javascript ${version} ${binding}`, steps, fixture);
  webhooks.close();
}
process.exit(failed ? 1 : 0);
