// The session in a terminal, shared with WebSocket clients: real terminals in tmux, and a client from the registry.
//
//     node terminal.mjs BINARY SCRIPT PLACE
//
// The terminals run in a tmux server of their own. PLACE is a folder for the workspace, the state and the home directory.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Socket, asks, decision, ended, prompt, textOf, turn } from './socket.mjs';
import { expect, same, runSteps } from './common.mjs';
import { Terminal, pause, prepare, start, terminalFixture } from './tmux.mjs';

async function theUserIsAskedOnceWhetherToTrustTheFolder(fixture) {
  await start(fixture);
  await fixture.terminal.shows('Do you trust the files in');
  fixture.terminal.press('1');
  await fixture.terminal.shows('Ask anything');
  fixture.terminal.press('C-c', 'C-c');
  await fixture.terminal.isClean(fixture.modes);
}

// Success criterion 1.
async function oneCommandStartsTheTerminalAndTheServer(fixture) {
  await start(fixture, '--a2a-port', fixture.port);
  await fixture.terminal.shows(`http://localhost:${fixture.port}`);
  expect(!fixture.terminal.screen().includes('Do you trust'), 'the answer is remembered');
  fixture.ann = await Socket.open(fixture.url, { client: 'ann' });
  await fixture.terminal.shows('2 clients');
}

// Success criterion 2.
async function aClientPromptsAndIsAnswered({ ann }) {
  const [seen] = await turn(ann, [ann], 'message/stream', prompt('say hello'));
  same(textOf(seen), 'Hello from the script.', 'all text');
}

// Success criterion 3.
async function whatIsTypedReachesTheClient({ terminal, ann }) {
  const before = ann.seen.length;
  await terminal.say('say hello');
  await ann.until(({ seen }) => seen.slice(before).some(ended));
  const seen = ann.seen.slice(before);
  same(seen.find((object) => object.kind === 'USER_MESSAGE')?.content.text, 'say hello', 'the prompt of the terminal');
  same(textOf(seen), 'Hello from the script.', 'and its answer');
}

// Success criterion 4.
async function promptsOfClientsAreOnTheScreen({ terminal, ann }) {
  await turn(ann, [ann], 'message/stream', prompt('say hello'));
  await terminal.shows('[A2A] ann: say hello');
  const answers = () => terminal.all().split('\n').filter((row) => row === 'Hello from the script.').length;
  await terminal.shows(() => answers() >= 3);
  same(answers(), 3, 'each of the three answers is printed once');
}

// Success criterion 5.
async function aClientAnswersTheDialogOfTheTerminal({ terminal, ann, file }) {
  const before = ann.seen.length;
  await terminal.say('write the file please');
  const call = await ann.until(({ seen }) => seen.slice(before).find(asks));
  await terminal.dialog();
  expect(terminal.screen().includes('ann'), 'the terminal says who else is asked');
  expect(!existsSync(file), 'nothing is written before the answer');
  await turn(ann, [ann], 'message/stream', decision(call.tool_call_id, 'proceed_once'));
  await terminal.shows((screen) => screen.includes('allowed by ann') && !screen.includes('1  Yes'));
  same(readFileSync(file, 'utf8'), 'from the script\n', 'the file is written');
  unlinkSync(file);
}

async function theTerminalAnswersTheQuestionOfAClient({ terminal, ann, file }) {
  await turn(ann, [ann], 'message/stream', prompt('write the file please'));
  await terminal.dialog();
  const before = ann.seen.length;
  terminal.press('1');
  const succeeded = (object) => object.status === 'SUCCEEDED';
  await ann.until(({ seen }) => seen.slice(before).some(succeeded));
  const done = ann.seen.slice(before).find(succeeded);
  await ann.until(({ seen }) => seen.slice(seen.indexOf(done)).some(ended));
  same(done?.answered_by?.client, 'you', 'the client is told who answered');
  unlinkSync(file);
}

async function twoAttachedTerminalsAndAClientRaceForOneAnswer(fixture) {
  const { terminal, ann, file, port } = fixture;
  const others = ['left', 'right'].map((name) => new Terminal(terminal.server, name));
  for (const other of others) {
    await other.run(`"$BINARY" attach ${port} --name ${other.name}`);
    await other.shows('[A2A] ann: write the file please');
  }
  const from = ann.seen.length;
  await ann.ask('message/stream', prompt('write the file please'));
  await ann.until(({ seen }) => seen.slice(from).some(asks));
  const call = ann.seen.findLast(asks).tool_call_id;
  for (const one of [terminal, ...others]) await one.dialog();
  const before = ann.seen.length;
  terminal.press('1');
  others.forEach((other) => other.press('1'));
  await ann.ask('message/stream', decision(call, 'proceed_once'));
  const succeeded = (object) => object.tool_call_id === call && object.status === 'SUCCEEDED';
  // The event for the pause may come after the question, so the step waits for the end of the call before the end of the turn.
  await ann.until(({ seen }) => seen.slice(before).some(succeeded));
  await ann.until(({ seen }) => seen.slice(seen.findIndex(succeeded)).some(ended));
  const done = ann.seen.slice(before).filter(succeeded);
  same(done.length, 1, 'one of the four has answered');
  unlinkSync(file);
  const winner = done[0].answered_by.client;
  for (const one of [terminal, ...others]) {
    await one.shows((screen) => screen.includes('allowed by') && !screen.includes('1  Yes'));
    const name = one === terminal ? 'you' : one.name;
    const shown = winner === name ? 'allowed by you' : winner === 'you' ? 'allowed by' : `allowed by ${winner}`;
    expect(one.all().includes(shown), `${one.name} says that ${winner} has answered:\n${one.screen()}`);
  }
  for (const other of others) {
    other.press('C-c', 'C-c');
    await other.isClean(fixture.modes);
  }
  expect(terminal.screen().includes('Ask anything') || terminal.screen().includes('›'), 'the session goes on without them');
}

async function controlCTwiceEndsIt(fixture) {
  fixture.terminal.press('C-c', 'C-c');
  await fixture.terminal.isClean(fixture.modes);
}

async function theSessionGoesOnAfterResume(fixture) {
  const before = fixture.terminal.all();
  expect(!before.includes('[A2A] ann'), 'the screen was cleared');
  await start(fixture, '--resume');
  await fixture.terminal.shows('[A2A] ann: write the file please');
  await fixture.terminal.say('/quit');
  await fixture.terminal.isClean(fixture.modes);
}

async function terminateEndsIt(fixture) {
  await start(fixture);
  await fixture.terminal.shows('Ask anything');
  execFileSync('pkill', ['-TERM', '-f', `${process.env.BINARY} --workspace ${process.env.PLACE}`]);
  await fixture.terminal.isClean(fixture.modes);
}

async function controlZSuspendsIt(fixture) {
  await start(fixture);
  await fixture.terminal.shows('Ask anything');
  fixture.terminal.type('half a prompt');
  await fixture.terminal.shows('half a prompt');
  fixture.terminal.press('C-z');
  await fixture.terminal.shows('Stopped');
  await fixture.terminal.isClean(fixture.modes);
  await fixture.terminal.run('fg');
  await fixture.terminal.shows((screen) => screen.split('\n').some((row) => row.startsWith('› half a prompt')));
  fixture.terminal.press('C-c', 'C-c', 'C-c');
  await fixture.terminal.isClean(fixture.modes);
}

async function itEndsWithItsTerminal(fixture) {
  const lost = new Terminal(fixture.terminal.server, 'lost');
  await lost.run('"$BINARY" --workspace "$PLACE/workspace" --state-dir "$PLACE/lost" --script "$SCRIPT"');
  await lost.shows('Ask anything');
  const running = () => {
    try {
      return execFileSync('pgrep', ['-f', `${process.env.PLACE}/lost`], { encoding: 'utf8' }).trim();
    } catch {
      return '';
    }
  };
  expect(running(), 'it runs');
  lost.tmux('kill-session', '-t', 'lost');
  for (let tries = 0; running() && tries < 200; tries += 1) await pause(50);
  same(running(), '', 'it has ended');
}

/** A random number generator with a seed. */
function random(seed) {
  let state = BigInt(seed);
  return (below) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) % (1n << 64n);
    return Number((state >> 33n) % BigInt(below));
  };
}

// While an answer of 150 lines comes, the window is resized 25 times.
async function resizingLosesAndDoublesNothing(fixture) {
  const lines = Array.from({ length: 150 }, (_, at) => `line ${String(at + 1).padStart(3, '0')}`);
  const steps = [];
  for (let at = 0; at < lines.length; at += 5) steps.push({ text: lines.slice(at, at + 5).map((line) => `- ${line}\n`).join('') }, { wait_ms: 60 });
  const script = join(process.env.PLACE, 'resized.json');
  writeFileSync(script, JSON.stringify({ rules: [], default: [...steps, { text: '\nAll of them.' }] }));
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
  const below = random(seed);
  const resized = new Terminal(fixture.terminal.server, 'resized');
  await resized.run(`"$BINARY" --workspace "$PLACE/workspace" --state-dir "$PLACE/resized" --script ${script}`);
  await resized.shows('Ask anything');
  await resized.say('count');
  for (let number = 0; number < 25; number += 1) {
    resized.tmux('resize-window', '-t', 'resized', '-x', String(40 + below(80)), '-y', String(12 + below(28)));
    await pause(20 + below(80));
  }
  resized.tmux('resize-window', '-t', 'resized', '-x', '80', '-y', '24');
  await resized.shows('All of them.');
  await pause(300);
  const rows = resized.all().split('\n').map((row) => row.trimEnd());
  const counts = lines.map((line) => [line, rows.filter((row) => row === `- ${line}`).length]);
  same(counts.filter(([, count]) => count !== 1), [], `each line is there once (SEED=${seed})`);
  same(rows.filter((row) => row.startsWith('›')), ['› count', '›'], `one prompt and one composer (SEED=${seed})`);
  same(rows.filter((row) => row.endsWith('· asks')).length, 1, `one footer (SEED=${seed})`);
  resized.press('C-c', 'C-c');
  await resized.isClean(fixture.modes);
}

const STEPS = [
  theUserIsAskedOnceWhetherToTrustTheFolder,
  oneCommandStartsTheTerminalAndTheServer,
  aClientPromptsAndIsAnswered,
  whatIsTypedReachesTheClient,
  promptsOfClientsAreOnTheScreen,
  aClientAnswersTheDialogOfTheTerminal,
  theTerminalAnswersTheQuestionOfAClient,
  twoAttachedTerminalsAndAClientRaceForOneAnswer,
  controlCTwiceEndsIt,
  theSessionGoesOnAfterResume,
  terminateEndsIt,
  controlZSuspendsIt,
  itEndsWithItsTerminal,
  resizingLosesAndDoublesNothing,
];

const fixture = await terminalFixture(prepare(process.argv.slice(2)));
const failed = await runSteps('terminal', STEPS, fixture);
if (failed) console.log(`--- the terminal:\n${fixture.terminal.all()}`);
fixture.terminal.tmux('kill-server');
process.exit(failed ? 1 : 0);
