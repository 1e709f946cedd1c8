// The words the story is told in, the same for every version of the SDK.
//
// An SDK module (sdk_03.mjs, sdk_1.mjs) turns its own types into these and exports a class Sdk, one client for one binding:
//
//     card()                                          what the agent says about itself
//     send(said, {task, wait, hook})                  a prompt or an answer, without a stream
//     stream(said, task)                              the same with one
//     get(id)  cancel(id)  join(id)                   the task, the cancelled task, a further stream of it
//     list({context, state, page, size, artifacts})   pages of tasks, where the version has it
//     setHook  getHook  listHooks  deleteHook
//     delivered(body)                                 a webhook's body as an event
//
// A task is {id, context, state, texts, artifacts}: texts is everything said in its status, history and artifacts. An event is
// {about, task, context, state, said, final, chunk}: about is task, status or artifact; said is what the agent said to the user;
// final is undefined if the version has no such mark; chunk is [id, append, last] of an artifact. A hook is a push configuration,
// {url, id, token, credentials}, its credentials for the scheme Bearer.

import assert from 'node:assert/strict';

export const BINDINGS = ['JSONRPC', 'HTTP+JSON'];

export const joined = (texts) => texts.join('');

export const expect = (holds, what) => assert.ok(holds, what);

// Compares as JSON would: members without a value do not count.
export function same(found, wanted, what) {
  const plain = (value) => (value === undefined ? value : JSON.parse(JSON.stringify(value)));
  const message = `${what}: expected ${JSON.stringify(wanted)}, found ${JSON.stringify(found)}`;
  assert.deepEqual(plain(found), plain(wanted), message);
}

// Tells whether an error is the named fault. The clients hide a fault that is found in a stream behind a plain error.
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

// Runs the steps in order, prints a line for each, and gives the number of those that failed.
export async function tell(who, steps, scene) {
  let failed = 0;
  for (const step of steps) {
    const name = `${who}: ${step.name.replace(/[A-Z]/g, (capital) => ` ${capital.toLowerCase()}`)}`;
    try {
      await inTime(step(scene));
      report(`${name}: ok`);
    } catch (error) {
      failed += 1;
      report(`${name}: FAILED\n${error.stack}${error.cause ? `\ncaused by ${error.cause.stack}` : ''}`);
    }
  }
  return failed;
}
