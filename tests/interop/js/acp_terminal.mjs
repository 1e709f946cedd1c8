// The session in a terminal, shared with a client of the Agent Client Protocol over WebSocket: a real terminal in tmux, and the
// WebSocket client of the protocol's SDK at ws://localhost:PORT/ws.
//
//     node acp_terminal.mjs BINARY SCRIPT PLACE
//
// PLACE is a folder for the workspace, the state and the home directory.

import { existsSync, readFileSync, unlinkSync } from 'node:fs';
import { isText, messagesChecked, socket, text } from './acp_client.mjs';
import { expect, same, runSteps } from './common.mjs';
import { pause, prepare, start, terminalFixture } from './tmux.mjs';

const open = { cwd: '/', mcpServers: [] };
const isPrompt = (update) => update.sessionUpdate === 'user_message_chunk';
const textOf = (updates) => updates.filter(isText).map((update) => update.content.text).join('');
const isAnswer = (update) => isText(update) && update.content.text.endsWith('script.');

const connect = (fixture, name) => socket(`ws://localhost:${fixture.port}/ws`, { name, version: '1' });
const say = ({ agent, sessionId }, words) => agent.request('session/prompt', { sessionId, prompt: text(words) });

/** Waits for a condition that the screen does not show. The step has a time limit. */
async function until(holds) {
  for (;;) {
    const found = holds();
    if (found) return found;
    await pause(20);
  }
}

/** Makes the client collect questions. Returns them and a function that answers all of them. */
function holdQuestions({ seen }) {
  const asked = [];
  let choose;
  const choice = new Promise((done) => (choose = done));
  seen.answer = (params) => {
    asked.push(params);
    return choice;
  };
  return { asked, choose };
}

/** Waits until the dialog of the terminal is answered, and checks who did it. */
async function answeredBy(fixture, who) {
  const { terminal } = fixture;
  const allowed = () => terminal.all().split('\n').filter((row) => row.includes('allowed by'));
  await terminal.shows((screen) => allowed().length > fixture.answers && !screen.includes('1  Yes'));
  expect(allowed().at(-1).includes(`allowed by ${who}`), `${who} has answered:\n${terminal.screen()}`);
  fixture.answers = allowed().length;
}

function isWritten(file) {
  same(readFileSync(file, 'utf8'), 'from the script\n', 'the file is written');
  unlinkSync(file);
}

// Success criterion 1.
async function oneCommandStartsTheTerminalAndAnAgentForEditors(fixture) {
  await start(fixture, '--a2a-port', fixture.port);
  await fixture.terminal.shows('Do you trust the files in');
  fixture.terminal.press('1');
  await fixture.terminal.shows(`http://localhost:${fixture.port}`);
  fixture.zed = await connect(fixture, 'zed');
  const { sessionId, _meta } = await fixture.zed.agent.request('session/new', open);
  expect(_meta.workspace.endsWith('/workspace'), `the workspace is that of the terminal, not ${_meta.workspace}`);
  fixture.zed.sessionId = fixture.sessionId = sessionId;
  await fixture.terminal.shows('2 clients');
}

// Success criterion 2.
async function anEditorPromptsAndIsAnswered({ zed }) {
  same((await say(zed, 'say hello')).stopReason, 'end_turn', 'the end of the turn');
  same(textOf(zed.seen.take()), 'Hello from the script.', 'all text');
}

// Success criterion 3.
async function whatIsTypedReachesTheEditor({ terminal, zed }) {
  await terminal.say('say hello');
  await zed.seen.until(isAnswer);
  const seen = zed.seen.take();
  same(seen.filter(isPrompt).map((update) => update.content.text), ['[terminal] say hello'], 'the prompt of the terminal');
  same(textOf(seen), 'Hello from the script.', 'and its answer');
}

// Success criterion 4.
async function promptsOfTheEditorAreOnTheScreen({ terminal, zed }) {
  await say(zed, 'say hello');
  await terminal.shows('[A2A] zed: say hello');
  const answers = () => terminal.all().split('\n').filter((row) => row === 'Hello from the script.').length;
  await terminal.shows(() => answers() >= 3);
  same(answers(), 3, 'each of the three answers is printed once');
}

// Success criterion 5.
async function theEditorAnswersTheDialogOfTheTerminal(fixture) {
  const { terminal, zed, file } = fixture;
  const { asked, choose } = holdQuestions(zed);
  await terminal.say('write the file please');
  await terminal.dialog();
  const { toolCall, options } = await until(() => asked[0]);
  same(toolCall.content[0].type, 'diff', 'the editor is shown the change');
  await terminal.shows('also asked: zed');
  expect(!existsSync(file), 'nothing is written before the answer');
  choose(options.find((option) => option.kind === 'allow_once').optionId);
  await answeredBy(fixture, 'zed');
  isWritten(file);
}

async function theTerminalAnswersTheQuestionOfTheEditor(fixture) {
  const { terminal, zed, file } = fixture;
  const { asked, choose } = holdQuestions(zed);
  const turn = say(zed, 'write the file please');
  await terminal.dialog();
  await until(() => asked[0]);
  terminal.press('1');
  same((await turn).stopReason, 'end_turn', 'the turn goes on');
  isWritten(file);
  const question = zed.messages.findLast((message) => message.method === 'session/request_permission');
  const isWithdrawn = (message) => message.method === '$/cancel_request' && message.params.requestId === question.id;
  await until(() => zed.messages.some(isWithdrawn));
  // A late answer has no effect.
  choose('cancel');
  await answeredBy(fixture, 'you');
}

async function aConnectionThatIsCutInAQuestionIsResumed(fixture) {
  const { terminal, zed, file, sessionId } = fixture;
  const { asked } = holdQuestions(zed);
  const lost = say(zed, 'write the file please').then(() => 'answered', () => 'lost');
  await until(() => asked[0]);
  await terminal.dialog();
  await terminal.shows('also asked: zed');
  zed.cut();
  same(await lost, 'lost', 'the prompt has no answer');
  await terminal.shows((screen) => !screen.includes('also asked'));
  expect(terminal.screen().includes('1  Yes'), `the terminal asks on:\n${terminal.screen()}`);
  const again = await connect(fixture, 'zed');
  const held = holdQuestions(again);
  await again.agent.request('session/resume', { ...open, sessionId });
  const { toolCall } = await until(() => held.asked[0]);
  same(toolCall.toolCallId, asked[0].toolCall.toolCallId, 'the same question');
  expect(!again.seen.updates.some(isPrompt), 'a resumed session is not replayed');
  held.choose('proceed_once');
  await answeredBy(fixture, 'zed');
  isWritten(file);
  await again.seen.until((update) => isText(update) && update.content.text.includes('dealt with'));
  fixture.zed = Object.assign(again, { sessionId });
}

async function aLoadedSessionIsAskedTheOpenQuestionToo(fixture) {
  const { terminal, zed, file, sessionId } = fixture;
  holdQuestions(zed);
  await terminal.say('write the file please');
  await terminal.dialog();
  const late = await connect(fixture, 'vim');
  const held = holdQuestions(late);
  await late.agent.request('session/load', { ...open, sessionId });
  const prompts = late.seen.updates.filter(isPrompt).map((update) => update.content.text);
  same(prompts.slice(0, 2), ['say hello', '[terminal] say hello'], 'it is shown what an editor and the terminal said');
  await until(() => held.asked[0]);
  held.choose('proceed_once');
  await answeredBy(fixture, 'vim');
  isWritten(file);
  fixture.vim = Object.assign(late, { sessionId });
}

async function anEditorThatClosesOrDeletesTheSessionEndsNothing(fixture) {
  const { terminal, zed, vim, file, sessionId } = fixture;
  holdQuestions(zed);
  holdQuestions(vim);
  await terminal.say('write the file please');
  await terminal.dialog();
  const refused = await vim.agent.request('session/delete', { sessionId }).then(() => null, (error) => error);
  same(refused?.code, -32602, 'the live session cannot be deleted');
  await vim.agent.request('session/close', { sessionId });
  vim.seen.take();
  expect(terminal.screen().includes('1  Yes'), `the terminal asks on:\n${terminal.screen()}`);
  zed.seen.take();
  terminal.press('1');
  await zed.seen.until((update) => isText(update) && update.content.text.includes('dealt with'));
  await answeredBy(fixture, 'you');
  isWritten(file);
  await terminal.say('say hello');
  await zed.seen.until(isAnswer);
  // A response on the connection means that all earlier messages have arrived.
  const { sessions } = await vim.agent.request('session/list', {});
  same(sessions[0].sessionId, sessionId, 'the live session is still the first');
  same(vim.seen.updates, [], 'who has closed the session is told nothing more of it');
  same((await vim.agent.request('session/new', open)).sessionId, sessionId, 'and can join it again');
}

async function everyMessageIsAsTheSchemaSays(fixture) {
  for (const { failures } of [fixture.zed, fixture.vim]) if (failures.length) throw failures[0];
  expect(messagesChecked() > 50, `${messagesChecked()} messages`);
}

async function theTerminalEnds(fixture) {
  fixture.terminal.press('C-c', 'C-c');
  await fixture.terminal.isClean(fixture.modes);
}

const STEPS = [
  oneCommandStartsTheTerminalAndAnAgentForEditors,
  anEditorPromptsAndIsAnswered,
  whatIsTypedReachesTheEditor,
  promptsOfTheEditorAreOnTheScreen,
  theEditorAnswersTheDialogOfTheTerminal,
  theTerminalAnswersTheQuestionOfTheEditor,
  aConnectionThatIsCutInAQuestionIsResumed,
  aLoadedSessionIsAskedTheOpenQuestionToo,
  anEditorThatClosesOrDeletesTheSessionEndsNothing,
  everyMessageIsAsTheSchemaSays,
  theTerminalEnds,
];

const fixture = { ...(await terminalFixture(prepare(process.argv.slice(2)))), answers: 0 };
const failed = await runSteps('acp-terminal', STEPS, fixture);
if (failed) console.log(`--- the terminal:\n${fixture.terminal.all()}`);
fixture.terminal.tmux('kill-server');
process.exit(failed ? 1 : 0);
