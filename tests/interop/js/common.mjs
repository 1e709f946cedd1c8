// The types that the steps use, the same for every version of the SDK.
//
// An SDK module (sdk_03.mjs, sdk_1.mjs) converts its own types into these and exports a class Sdk, one client for one binding:
//
//     card()                                          the agent card
//     send(said, {task, wait, hook})                  a prompt or an answer, without a stream
//     stream(said, task)                              the same, with a stream
//     get(id)  cancel(id)  join(id)                   the task, the cancelled task, a further stream of it
//     list({context, state, page, size, artifacts})   pages of tasks, if the version can list them
//     setHook  getHook  listHooks  deleteHook
//     delivered(body)                                 a webhook's body as an event
//
// A task is {id, context, state, texts, artifacts}: texts are all texts of its status, history and artifacts. An event is
// {about, task, context, state, said, final, chunk}: about is task, status or artifact; said is the text of the agent for the user;
// final is undefined if the version has no such mark; chunk is [id, append, last] of an artifact. A hook is a push configuration,
// {url, id, token, credentials}, its credentials for the scheme Bearer.

import assert from 'node:assert/strict';

export const BINDINGS = ['JSONRPC', 'HTTP+JSON'];

export const joined = (texts) => texts.join('');

export const expect = (holds, what) => assert.ok(holds, what);

// Compares values as JSON: members that are undefined are ignored.
export function same(found, wanted, what) {
  const plain = (value) => (value === undefined ? value : JSON.parse(JSON.stringify(value)));
  const message = `${what}: expected ${JSON.stringify(wanted)}, found ${JSON.stringify(found)}`;
  assert.deepEqual(plain(found), plain(wanted), message);
}

// Whether an error is the named fault. The clients wrap a fault that occurs in a stream in a generic error.
export function shows(error, fault) {
  const code = { InvalidRequestError: -32600 }[fault];
  return [error, error.cause].some((shown) => shown?.name === fault || (code && shown?.message?.includes(`(Code: ${code})`)));
}

export async function allOf(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

const PATIENCE_MS = 30_000;

// Some clients log to the console. Their adapters silence it after this module is loaded.
export const report = console.log;

function inTime(work) {
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`not done after ${PATIENCE_MS} ms`)), PATIENCE_MS).unref();
  });
  return Promise.race([work, late]);
}

// Runs the steps in order and prints a line for each. Returns the number of failed steps.
export async function runSteps(who, steps, fixture) {
  let failed = 0;
  for (const step of steps) {
    const name = `${who}: ${step.name.replace(/[A-Z]/g, (capital) => ` ${capital.toLowerCase()}`)}`;
    try {
      await inTime(step(fixture));
      report(`${name}: ok`);
    } catch (error) {
      failed += 1;
      report(`${name}: FAILED\n${error.stack}${error.cause ? `\ncaused by ${error.cause.stack}` : ''}`);
    }
  }
  return failed;
}
