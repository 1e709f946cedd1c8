// What a JavaScript client of A2A can do with our agent: the same story as in Python, where the conventions in which the versions
// differ are explained (../python/story.py).
//
//     node story.mjs VERSION URL WORKSPACE

import { existsSync, readFileSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { BINDINGS, allOf, expect, joined, same, shows, tell } from './terms.mjs';
import { receiver } from './webhook.mjs';

const said = (events) => joined(events.map((event) => event.said ?? ''));

// The rules of a stream in reply to a message about a task, or about none yet.
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

async function aSendThatWaits(scene) {
  const task = await scene.sdk.send('say hello');
  same(task.state, 'completed', 'the turn is over');
  expect(task.texts.includes('Hello from the script.'), `the whole answer is in ${task.texts}`);
}

async function aSendThatDoesNotWait({ sdk }) {
  const task = await sdk.send('take for ever', { wait: false });
  expect(['submitted', 'working'].includes(task.state), `the turn goes on, it is not ${task.state}`);
  same((await sdk.get(task.id)).id, task.id, 'the task can be asked for');
  same((await sdk.cancel(task.id)).state, 'canceled', 'and cancelled');
}

async function aStreamAndItsTask(scene) {
  const { sdk } = scene;
  const events = await allOf(sdk.stream('say hello'));
  expectStream(scene, events, undefined, 'completed', 'a turn');
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

async function aCancelledTurn(scene) {
  const { sdk } = scene;
  const events = [];
  for await (const event of sdk.stream('take for ever')) {
    if (event.state === 'working') same((await sdk.cancel(event.task)).state, 'canceled', 'the answer to a cancel');
    events.push(event);
  }
  expectStream(scene, events, undefined, 'canceled', 'a cancelled turn');
  const again = sdk.cancel(events[0].task);
  if (sdk.cancelsTwice) same((await again).state, 'canceled', 'the answer to a second cancel');
  else await expectFault('TaskNotCancelableError', again, 'cancelling what is cancelled');
}

// One that joins while the agent works sees the task as it is, and then what the first one sees.
async function aSecondReader(scene) {
  const { sdk } = scene;
  const first = [];
  let joining;
  for await (const event of sdk.stream('pause in the middle')) {
    first.push(event);
    if (event.state === 'working') joining ??= allOf(sdk.join(event.task));
  }
  const second = await joining;
  expectStream(scene, first, undefined, 'completed', "the first reader's stream");
  expectStream(scene, second, undefined, 'completed', "the second reader's stream");
  same(second[0].task, first[0].task, 'it is the same task');
  same([said(first), said(second)], Array(2).fill('First half, second half.'), 'both have all');
}

// Has the agent ask for a file to be written; gives the waiting task.
async function asked(scene) {
  const { sdk } = scene;
  const events = await allOf(sdk.stream('write the file please'));
  expectStream(scene, events, undefined, 'input-required', 'a turn that asks');
  expect(events.at(-1).said.includes('Reply with yes, no'), `it says how to answer: ${events.at(-1).said}`);
  return sdk.get(events[0].task);
}

async function aRefusedCall(scene) {
  const { sdk, file } = scene;
  const task = await asked(scene);
  const events = await allOf(sdk.stream('no', task));
  expectStream(scene, events, task, 'completed', 'a refused turn');
  expect(!existsSync(file), 'a refused call does nothing');
}

async function anApprovedCall(scene) {
  const { sdk, file } = scene;
  const task = await asked(scene);
  expect(!existsSync(file), 'nothing is written before the answer');
  const events = await allOf(sdk.stream('yes', task));
  expectStream(scene, events, task, 'completed', 'the approved turn');
  same(said(events), 'The file is dealt with.', 'the agent goes on');
  same(readFileSync(file, 'utf8'), 'from the script\n', 'the file is written');
  unlinkSync(file);
}

// Three tasks of one context, found by pages, newest first, and by state.
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

// Configurations can be set, read, listed and deleted; what is left of them is told how the task goes on.
async function theHooksOfATask(scene) {
  const { sdk, webhooks } = scene;
  const task = await asked(scene);
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
  await expectTold(scene, kept, task);
  same(webhooks.at(dropped.url), [], 'a deleted one is told nothing');
}

// A configuration that comes with the prompt misses nothing of its turn.
async function aHookInTheRequest(scene) {
  const { sdk, webhooks } = scene;
  const hook = { url: webhooks.url(), id: 'inline', token: 'another token', credentials: 'another secret' };
  const task = await sdk.send('say hello', { hook });
  const events = await expectTold(scene, hook, task);
  if (!sdk.pushIsWholeTask) {
    expect(events.some((event) => event.state === 'working'), 'the start is told');
    same(said(events), 'Hello from the script.', 'the answer is told, whole');
  }
}

// Waits until a webhook was told that the turn ended, and checks all that it was told.
async function expectTold(scene, hook, task) {
  const { sdk, webhooks } = scene;
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
  const scene = { sdk, binding, webhooks, file: join(workspace, 'interop.txt') };
  const steps = STEPS.filter((step) => step !== theList || sdk.hasList);
  failed += await tell(`javascript ${version} ${binding}`, steps, scene);
  webhooks.close();
}
process.exit(failed ? 1 : 0);
