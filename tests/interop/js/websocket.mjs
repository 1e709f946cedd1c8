// The live session at /ws, seen by a WebSocket client from the registry.
//
//     node websocket.mjs URL WORKSPACE
//
// Two people, ann and ben, watch one session: both see the prompts and answers of either, in the same order. Then the sub-protocols of
// A2A and of our own dialect.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, unlinkSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { StreamResponse } from '@a2a-js/sdk';
import { Socket, asks, decision, ended, prompt, textOf, turn } from './socket.mjs';
import { expect, joined, same, runSteps } from './common.mjs';

async function withoutAnUpgrade({ url }) {
  const [response] = await once(get(new URL('/ws', url)), 'response');
  response.resume();
  same(response.statusCode, 426, 'a plain request is told to upgrade');
}

async function aPromptIsSeenByAll({ ann, ben }) {
  const [toAnn, toBen] = await turn(ann, [ann, ben], 'message/stream', prompt('say hello'));
  same(toBen, toAnn, 'both see the same, in the same order');
  same(textOf(toBen), 'Hello from the script.', 'all text');
  const seqs = toBen.map((object) => object.seq);
  same(seqs, [...new Set(seqs)].sort((one, other) => one - other), 'sequence numbers rise');
  const echo = toBen.find((object) => object.kind === 'USER_MESSAGE');
  same(echo?.content.text, 'say hello', "ann's prompt is shown to ben");
}

async function theOtherOneApproves(fixture) {
  const { ann, ben, file } = fixture;
  const [, question] = await turn(ann, [ann, ben], 'message/stream', prompt('write the file please'));
  const call = question.find(asks);
  expect(call, `ben is asked: ${JSON.stringify(question)}`);
  const options = call.confirmation_request.options.map((option) => option.id);
  expect(options.includes('proceed_once') && options.includes('cancel'), `what he may answer: ${options}`);
  expect(!existsSync(file), 'nothing is written before the answer');

  const answer = decision(call.tool_call_id, 'proceed_once');
  const [toAnn, toBen] = await turn(ben, [ann, ben], 'message/stream', answer);
  same(toBen, toAnn, 'both see the same, in the same order');
  const done = toAnn.find((object) => object.tool_call_id === call.tool_call_id && object.status === 'SUCCEEDED');
  same(done?.answered_by?.client, 'ben', 'ann is told who answered');
  same(readFileSync(file, 'utf8'), 'from the script\n', 'the file is written');
  unlinkSync(file);

  const late = await ann.ask('message/stream', decision(call.tool_call_id, 'cancel'));
  same(late.error?.code, -32602, `one who answers too late is told: ${JSON.stringify(late)}`);
}

async function theFirstAnswerWins(fixture) {
  const { ann, ben, file } = fixture;
  const [, question] = await turn(ann, [ann, ben], 'message/stream', prompt('write the file please'));
  const call = question.find(asks).tool_call_id;
  const from = [ann.seen.length, ben.seen.length];
  const [refused, approved] = await Promise.all([
    ann.ask('message/stream', decision(call, 'cancel')),
    ben.ask('message/stream', decision(call, 'proceed_once')),
  ]);
  await ann.until(({ seen }) => seen.slice(from[0]).some(ended));
  await ben.until(({ seen }) => seen.slice(from[1]).some(ended));

  const replies = JSON.stringify([refused, approved]);
  same([refused, approved].filter((reply) => reply.result?.accepted).length, 1, `one of them wins: ${replies}`);
  same([refused, approved].filter((reply) => reply.error?.code === -32602).length, 1, `the other is told: ${replies}`);
  same(ben.seen.slice(from[1]), ann.seen.slice(from[0]), 'both see the same outcome');
  same(existsSync(file), Boolean(approved.result), 'the outcome is that of the winner');
  if (existsSync(file)) unlinkSync(file);
}

async function oneContinuesWhereOneWas({ url, ann }) {
  const half = ann.seen[Math.floor(ann.seen.length / 2)];
  const rest = ann.seen.filter((object) => object.seq > half.seq);
  const cleo = await Socket.open(url, { client: 'cleo', after: half.seq });
  await cleo.until(({ seen }) => seen.length >= rest.length);
  same(cleo.seen, rest, 'exactly what came after');
  await cleo.close();
}

async function a2a03(fixture) {
  const socket = await Socket.open(fixture.url, { client: 'dora' }, ['a2a.v0.3']);
  const message = { kind: 'message', role: 'user', messageId: randomUUID(), parts: [{ kind: 'text', text: 'say hello' }] };
  const events = await socket.stream('message/stream', { message }, (result) => result.final);
  same(events[0].kind, 'task', 'the first reply is the task');
  const parts = events.flatMap((event) => event.artifact?.parts ?? []);
  same(joined(parts.map((part) => part.text ?? '')), 'Hello from the script.', 'all text');
  same(events.at(-1).status.state, 'completed', 'the end of the turn');
  const { result: task } = await socket.ask('tasks/get', { id: events[0].id });
  same([task.id, task.status.state], [events[0].id, 'completed'], 'the task is found again');
  const { error } = await socket.ask('tasks/get', { id: 'no-such-task' });
  same(error.code, -32001, 'an unknown task');
  await expectQuiet(fixture, socket);
}

async function a2a10(fixture) {
  const socket = await Socket.open(fixture.url, { client: 'emil' }, ['a2a.v1.0']);
  const message = { role: 'ROLE_USER', messageId: randomUUID(), parts: [{ text: 'say hello' }] };
  const isLast = (result) => result.statusUpdate?.status.state === 'TASK_STATE_COMPLETED';
  const results = await socket.stream('SendStreamingMessage', { message }, isLast);
  const events = results.map((result) => StreamResponse.fromJSON(result).payload);
  same(events[0].$case, 'task', 'the first reply is the task');
  const chunks = events.filter((event) => event.$case === 'artifactUpdate');
  const said = chunks.flatMap((chunk) => chunk.value.artifact.parts).map((part) => part.content.value);
  same(joined(said), 'Hello from the script.', 'all text');
  const { result: task } = await socket.ask('GetTask', { id: events[0].value.id });
  same(task.status.state, 'TASK_STATE_COMPLETED', 'the task is found again');
  const { error } = await socket.ask('GetTask', { id: 'no-such-task' });
  same(error.code, -32001, 'an unknown task');
  await expectQuiet(fixture, socket);
}

// A socket of A2A gets only the events that it has requested, whatever happens in the session.
async function expectQuiet({ ann }, socket) {
  const heard = socket.replies.length;
  await turn(ann, [ann], 'message/stream', prompt('say hello'));
  const method = socket.ws.protocol === 'a2a.v0.3' ? 'tasks/get' : 'GetTask';
  await socket.ask(method, { id: 'no-such-task' });
  same([socket.seen, socket.replies.length], [[], heard + 1], 'nothing but the reply was heard');
  await socket.close();
}

// Our own dialect sends the journal from its beginning, and takes part in the session.
async function ourOwnDialect({ url, ann }) {
  const fritz = await Socket.open(url, { client: 'fritz' }, ['gemini-a2a.v1']);
  const { ok: session } = await fritz.call({ session: {} });
  same(session, ann.seen[0].taskId, 'the session everybody shares');

  const before = ann.seen.length;
  const { ok } = await fritz.call({ say: { task: session, text: 'say hello' } });
  same(ok, { taskId: session, accepted: true }, 'what he says is accepted');
  await ann.until(({ seen }) => seen.slice(before).some(ended));
  same(textOf(ann.seen.slice(before)), 'Hello from the script.', 'and answered before all');

  const { seq: last } = ann.seen.at(-1);
  await fritz.until(({ seen }) => seen.at(-1)?.seq >= last);
  same(fritz.seen.map(({ seq }) => seq), fritz.seen.map((_, at) => at + 1), 'the journal has no gap');
  const texts = fritz.seen.filter(({ seq, event }) => event.text && seq >= ann.seen[before].seq);
  same(joined(texts.map(({ event }) => event.text.text)), 'Hello from the script.', 'the same text is in its records');

  const { error } = await fritz.call({ get: { task: 'no-such-task' } });
  same(error.reason, 'TASK_NOT_FOUND', 'an unknown task');
  await fritz.close();
}

const STEPS = [
  withoutAnUpgrade,
  aPromptIsSeenByAll,
  theOtherOneApproves,
  theFirstAnswerWins,
  oneContinuesWhereOneWas,
  a2a03,
  a2a10,
  ourOwnDialect,
];

const [url, workspace] = process.argv.slice(2);
const ann = await Socket.open(url, { client: 'ann' });
const ben = await Socket.open(url, { client: 'ben' });
const fixture = { url, ann, ben, file: join(workspace, 'interop.txt') };
const failed = await runSteps('websocket', STEPS, fixture);
if (failed) {
  const lines = (values) => values.map((value) => JSON.stringify(value)).join('\n');
  console.log(`--- ann has seen:\n${lines(ann.seen)}\n--- ben has seen:\n${lines(ben.seen)}`);
}
process.exit(failed ? 1 : 0);
