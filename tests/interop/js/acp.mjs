// Clients of the Agent Client Protocol from the registry: two of standard input and output, and one over WebSocket.
//
//     node acp.mjs BINARY SCRIPT PLACE URL WORKSPACE
//
// Every message that the agent sends is checked against the schema of the newer client (acp_client.mjs).

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import * as sdk from '@agentclientprotocol/sdk';
import * as zed from '@zed-industries/agent-client-protocol';
import { Seen, capabilities, checkUpdate, initialize, isText, messagesChecked, newer, socket, text, watched } from './acp_client.mjs';
import { expect, same, runSteps } from './common.mjs';

const [binary, script, place, url, workspace] = process.argv.slice(2);

/** The package under its old name. */
function older(stream, seen) {
  const client = { requestPermission: async (params) => seen.permission(params), sessionUpdate: async (params) => seen.update(params) };
  const connection = new zed.ClientSideConnection(() => client, stream);
  const names = { initialize: 'initialize', 'session/new': 'newSession', 'session/load': 'loadSession', 'session/prompt': 'prompt', 'session/cancel': 'cancel', 'session/set_mode': 'setSessionMode' };
  const call = (method, params) => connection[names[method]](params);
  return { request: call, notify: call, end: () => {} };
}

const CLIENTS = { 'sdk 2.4': [sdk.ndJsonStream, newer], 'zed 0.4': [zed.ndJsonStream, older] };

/** Starts the program for a client. */
async function start(name, home, flags = [], clientCapabilities = {}) {
  for (const folder of ['workspace', 'home']) mkdirSync(join(home, folder), { recursive: true });
  const args = ['acp', '--workspace', join(home, 'workspace'), '--state-dir', join(home, 'state'), '--script', script, ...flags];
  const child = spawn(binary, args, { env: { PATH: process.env.PATH, HOME: join(home, 'home') }, stdio: ['pipe', 'pipe', 'pipe'] });
  const said = [];
  child.stderr.on('data', (data) => said.push(String(data)));
  const [frame, connect] = CLIENTS[name];
  const seen = new Seen();
  const { stream, failures } = watched(frame(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
  const agent = await connect(stream, seen);
  same((await agent.request('initialize', { ...initialize, clientCapabilities })).protocolVersion, 1, 'the version');
  const over = new Promise((done) => child.once('exit', done));
  return { agent, seen, child, said, failures, over, workspace: join(home, 'workspace') };
}

async function end({ agent, child, failures, over }) {
  agent.end();
  child.stdin.destroy();
  same(await over, 0, 'the end of standard input is an orderly end');
  if (failures.length) throw failures[0];
}

/** A prompt, permissions and cancellations; then the session is loaded and gives the same updates. */
async function sessionSteps(name) {
  const home = join(place, name.replace(' ', '-'));
  const one = await start(name, home);
  const { agent, seen } = one;
  const { sessionId } = await agent.request('session/new', { cwd: one.workspace, mcpServers: [] });
  const say = (words) => agent.request('session/prompt', { sessionId, prompt: text(words) });
  await seen.until((update) => update.sessionUpdate === 'available_commands_update');
  seen.take();
  same((await say('say hello')).stopReason, 'end_turn', 'an answer');
  same(seen.updates.filter(isText).map((update) => update.content.text).join(''), 'Hello from the script.', 'its text');
  // A call that is allowed, one that is refused, and one whose turn is cancelled while the permission is asked for.
  const file = join(one.workspace, 'interop.txt');
  seen.answer = ({ toolCall, options }) => {
    same(toolCall.content[0].type, 'diff', 'an edit is shown');
    expect(!existsSync(file), 'nothing is written before the answer');
    return options.find((option) => option.kind === 'allow_once').optionId;
  };
  same((await say('write it please')).stopReason, 'end_turn', 'an allowed edit');
  expect(existsSync(file), 'it is written');
  rmSync(file);
  seen.answer = ({ options }) => options.find((option) => option.kind === 'reject_once').optionId;
  same((await say('write it please')).stopReason, 'end_turn', 'a refused edit');
  seen.answer = () => {
    agent.notify('session/cancel', { sessionId });
    return null;
  };
  same((await say('write it please')).stopReason, 'cancelled', 'cancelled while it is asked about');
  expect(!existsSync(file), 'nothing is written');
  const forever = say('take for ever');
  await seen.until((update) => isText(update) && update.content.text === 'Starting.');
  await agent.notify('session/cancel', { sessionId });
  same((await forever).stopReason, 'cancelled', 'cancelled while the agent answers');
  await agent.request('session/set_mode', { sessionId, modeId: 'plan' });
  const live = seen.take();
  const others = (updates) => updates.filter((update) => !['user_message_chunk', 'available_commands_update'].includes(update.sessionUpdate));
  await agent.request('session/load', { sessionId, cwd: one.workspace, mcpServers: [] });
  same(others(seen.take()), others(live), 'a loaded session is what was seen');
  await end(one);
  const two = await start(name, home);
  await two.agent.request('session/load', { sessionId, cwd: two.workspace, mcpServers: [] });
  same(others(two.seen.take()), others(live), 'also in another process');
  await end(two);
}

// One red pixel.
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

/** A client with all capabilities gets forms, plans, thoughts, notices, live output and images. */
async function everythingThatCanBeShown() {
  const editor = await start('sdk 2.4', join(place, 'everything'), ['--yolo', '--retry-wait', '10ms'], capabilities);
  const { agent, seen } = editor;
  const { sessionId } = await agent.request('session/new', { cwd: editor.workspace, mcpServers: [] });
  const prompt = (blocks) => agent.request('session/prompt', { sessionId, prompt: blocks });
  const say = (words) => prompt(text(words));
  const kinds = (kind) => seen.updates.filter((update) => update.sessionUpdate === kind);

  same((await say('plan the work')).stopReason, 'end_turn', 'a plan');
  same(kinds('agent_thought_chunk').map((update) => update.content.text), ['**Planning** Two steps will do.'], 'a thought');
  same(kinds('plan').at(-1).entries.map(({ content, status }) => [content, status]), [['Look', 'completed'], ['Change', 'in_progress'], ['Test', 'pending']], 'the plan without what was given up');

  same((await say('print for a while')).stopReason, 'end_turn', 'a command');
  const outputs = kinds('tool_call_update').filter((update) => !update.status && update.content?.[0]?.content?.text?.includes('line 1'));
  expect(outputs.length > 0, 'its output is shown while it runs');

  let form;
  seen.fillIn = (params) => {
    form = params.requestedSchema;
    return { action: 'accept', content: { 0: 'enum', 1: ['linux', 'mac'], 2: 'ann', 3: true } };
  };
  same((await say('ask with a form')).stopReason, 'end_turn', 'a form');
  same(Object.values(form.properties).map((field) => field.type), ['string', 'array', 'string', 'boolean'], 'its fields');
  seen.fillIn = () => ({ action: 'decline' });
  await say('ask with a form');

  same((await say('stumble once')).stopReason, 'end_turn', 'a request that fails once');
  expect(kinds('notice').length > 0, 'a notice says so');

  const image = { type: 'image', mimeType: 'image/png', data: PIXEL };
  const resource = { type: 'resource', resource: { uri: 'file:///notes.txt', mimeType: 'text/plain', text: 'some notes' } };
  const link = { type: 'resource_link', name: 'readme', uri: `file://${editor.workspace}/README.md` };
  same((await prompt([...text('say hello'), image, resource, link])).stopReason, 'end_turn', 'an image');
  seen.take();
  await agent.request('session/load', { sessionId, cwd: editor.workspace, mcpServers: [] });
  expect(kinds('plan').length > 0 && kinds('user_message_chunk').length > 0, 'a loaded session shows it again');

  same((await say('/compress')).stopReason, 'end_turn', 'a summary');
  expect(kinds('compaction_update').length > 0, 'the summary is shown');
  await end(editor);
}

/** An editor, and a client over WebSocket, in one session. */
async function shared() {
  const editor = await start('sdk 2.4', join(place, 'shared'), ['--a2a-port', '0']);
  const { sessionId } = await editor.agent.request('session/new', { cwd: editor.workspace, mcpServers: [] });
  let address;
  while (!(address = editor.said.join('').match(/http:\/\/localhost:\d+/)?.[0])) await new Promise((done) => editor.child.stderr.once('data', done));
  const other = await socket(`${address.replace('http', 'ws')}/ws`);
  same((await other.agent.request('session/new', { cwd: '/', mcpServers: [] })).sessionId, sessionId, 'the session of the editor');
  editor.seen.answer = () => new Promise(() => {});
  const asked = new Promise((done) => (other.seen.answer = (params) => (done(params), 'proceed_once')));
  same((await editor.agent.request('session/prompt', { sessionId, prompt: text('write it please') })).stopReason, 'end_turn', 'the other one allows it');
  await asked;
  expect(existsSync(join(editor.workspace, 'interop.txt')), 'it is written');
  const prompt = await other.seen.until((update) => update.sessionUpdate === 'user_message_chunk');
  same(prompt.content.text, 'write it please', 'the prompt of the editor is seen');
  other.agent.end();
  if (other.failures.length) throw other.failures[0];
  await end(editor);
}

/** Every endpoint of a server. */
async function sockets() {
  const base = url.replace('http', 'ws');
  const live = [];
  for (const path of ['/ws', '/ws/acp', '/acp']) {
    const { agent, seen, failures } = await socket(base + path);
    const { sessionId } = await agent.request('session/new', { cwd: workspace, mcpServers: [] });
    if (path !== '/acp') live.push(sessionId);
    same((await agent.request('session/prompt', { sessionId, prompt: text('say hello') })).stopReason, 'end_turn', path);
    same(seen.updates.filter(isText).map((update) => update.content.text).join(''), 'Hello from the script.', path);
    const { sessions } = await agent.request('session/list', {});
    same(sessions[0].sessionId, live[0], 'the live session comes first');
    expect(path === '/acp' || sessionId === live[0], 'one session for all');
    agent.end();
    if (failures.length) throw failures[0];
  }
}

async function theNewerClient() {
  await sessionSteps('sdk 2.4');
}

async function theOlderClient() {
  await sessionSteps('zed 0.4');
}

/** Updates that no scripted agent causes: those of the golden file, and the use of the context window. */
async function updatesOfTheGoldenFile() {
  const golden = readFileSync(join(dirname(script), '../golden/acp.txt'), 'utf8');
  const updates = golden.split('\n').map((line) => /^\d+\t(\{"sessionUpdate".*)$/.exec(line)?.[1]).filter(Boolean);
  expect(updates.length > 10, `${updates.length} updates`);
  for (const update of updates) checkUpdate(JSON.parse(update));
  checkUpdate({ sessionUpdate: 'usage_update', used: 10, size: 1000 });
}

async function everyMessageIsAsTheSchemaSays() {
  expect(messagesChecked() > 100, `${messagesChecked()} messages`);
}

// The older client prints updates that it does not know, and continues.
console.error = () => {};
const steps = [theNewerClient, theOlderClient, everythingThatCanBeShown, shared, sockets, updatesOfTheGoldenFile, everyMessageIsAsTheSchemaSays];
process.exit((await runSteps('acp', steps)) === 0 ? 0 : 1);
