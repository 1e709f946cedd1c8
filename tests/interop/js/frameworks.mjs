// Holds the conversations of conversations.json with our agent through a JavaScript framework, as ../python/frameworks.py does through
// Python ones.
//
//     node frameworks.mjs FRAMEWORK URL WORKSPACE
//
// The module framework_FRAMEWORK.mjs adapts the framework. It exports
//
//     WAYS         the names of the ways to hold a conversation, each with the options that talk gets for it
//     CANNOT       which conversations the framework cannot hold, and why
//     talk         begins a conversation: given the URL and the options, it returns say(text, to)
//
// frameworks.py describes the result of say, the meaning of `to` and the further checks.

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, report, same, runSteps } from './common.mjs';

const [name, url, workspace] = process.argv.slice(2);
const file = join(workspace, 'interop.txt');
const record = join(workspace, '../sent');
const table = JSON.parse(readFileSync(new URL('conversations.json', import.meta.url)));
const questions = { WRITE: table.write.replace('WORKSPACE', workspace) };

// All tasks of the server, as A2A 1.0 lists them.
async function tasks() {
  const response = await fetch(`${url}/tasks?pageSize=100`, { headers: { 'A2A-Version': '1.0' } });
  return (await response.json()).tasks;
}

// Holds a conversation and returns its recorded requests.
async function hold({ turns, tasks: count }, say) {
  rmSync(file, { force: true });
  const before = (await tasks()).map((task) => task.id);
  const written = readFileSync(record, 'utf8').length;
  for (const turn of turns) {
    expect(!existsSync(file), 'nothing is written before the answer');
    same(await say(turn.say, turn.to), questions[turn.shown] ?? turn.shown, `the reply to "${turn.say}"`);
  }
  if (turns[0].shown in questions) same(readFileSync(file, 'utf8'), 'from the script\n', 'the file is written');
  const made = (await tasks()).filter((task) => !before.includes(task.id));
  same(made.map((task) => task.status.state), Array(count).fill('TASK_STATE_COMPLETED'), 'the tasks');
  same(new Set(made.map((task) => task.contextId)).size, 1, 'their contexts');
  const lines = readFileSync(record, 'utf8').slice(written).trim().split('\n');
  return lines.map((line) => JSON.parse(line));
}

function checkSent(turns, sent, streaming) {
  same(sent.map((message) => message.stream), turns.map(() => streaming), 'whether replies were streamed');
  const later = sent.slice(1).map((message) => message.context);
  same(later, later.map(() => true), 'whether later messages named the context');
  turns.forEach(({ say, to }, at) => {
    if (to !== 'open question') same(sent[at].task, to === 'task', `whether "${say}" named the task`);
  });
}

const { WAYS, CANNOT, talk } = await import(`./framework_${name.replaceAll('-', '_')}.mjs`);
let failed = 0;
for (const [way, options] of Object.entries(WAYS)) {
  const steps = [];
  for (const [title, conversation] of Object.entries(table.conversations)) {
    const step = async () => {
      const sent = await hold(conversation, await talk(url, options));
      checkSent(conversation.turns, sent, !way.endsWith('not streaming'));
    };
    if (title in CANNOT) report(`${name}, ${way}: ${title}: left out, ${CANNOT[title]}`);
    else steps.push(Object.defineProperty(step, 'name', { value: title }));
  }
  failed += await runSteps(`${name}, ${way}`, steps);
}
process.exit(failed ? 1 : 0);
