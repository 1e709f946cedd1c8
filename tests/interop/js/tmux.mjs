// Real terminals: windows of a tmux server, with a shell in each.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { same } from './common.mjs';

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A window of a tmux server, with a shell in it.
export class Terminal {
  constructor(server, name, { columns = 100, rows = 30 } = {}) {
    Object.assign(this, { server, name });
    const size = ['-x', String(columns), '-y', String(rows)];
    this.tmux('-f', '/dev/null', 'new-session', '-d', '-s', name, ...size, 'env', 'PS1=ready$ ', 'bash', '--norc', '--noprofile');
  }

  tmux(...words) {
    return execFileSync('tmux', ['-L', this.server, ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  }

  // Types a text.
  type(text) {
    this.tmux('send-keys', '-t', this.name, '-l', text);
  }

  press(...keys) {
    this.tmux('send-keys', '-t', this.name, ...keys);
  }

  screen() {
    return this.tmux('capture-pane', '-p', '-t', this.name);
  }

  // The screen and the scrollback.
  all() {
    return this.tmux('capture-pane', '-p', '-S', '-', '-t', this.name);
  }

  // Waits until the screen shows a text or satisfies a condition. The caller limits the time.
  async shows(wanted) {
    const holds = typeof wanted === 'string' ? (screen) => screen.includes(wanted) : wanted;
    for (let tries = 0; tries < 200; tries += 1) {
      if (holds(this.screen())) return;
      await pause(50);
    }
    throw new Error(`the screen does not show ${wanted}:\n${this.screen()}`);
  }

  async run(line) {
    this.type(line);
    this.press('Enter');
  }

  // Types a prompt. Enter comes a moment later: within a burst of keys, which may be a paste, it is a line break.
  async say(text) {
    this.type(text);
    await this.shows(text);
    await pause(100);
    this.press('Enter');
  }

  // Opens the dialog of a question. One that comes while the user types waits for the tab key, and a dialog ignores keys at first.
  async dialog() {
    await this.shows((screen) => screen.includes('1  Yes') || screen.includes('tab answers'));
    if (!this.screen().includes('1  Yes')) this.press('Tab');
    await this.shows('1  Yes');
    await pause(500);
  }

  // Waits until the shell has the terminal back, with its former modes.
  async isClean(modes) {
    // Keys that are typed before the shell reads would be lost.
    await this.shows((screen) => screen.trimEnd().endsWith('ready$'));
    await this.run('stty -g > "$PLACE/modes"; echo shell is back');
    await this.shows((screen) => screen.split('\n').some((row) => row.trim() === 'shell is back'));
    same(readFileSync(join(process.env.PLACE, 'modes'), 'utf8'), modes, 'the modes of the terminal');
    const flags = this.tmux('display-message', '-p', '-t', this.name, '#{cursor_flag}#{alternate_on}#{mouse_any_flag}');
    same(flags.trim(), '100', 'the cursor is visible, and nothing else is switched on');
    this.tmux('send-keys', '-R', '-t', this.name);
    this.tmux('clear-history', '-t', this.name);
    this.press('C-l');
  }
}

/** The modes of a terminal, as stty prints them. */
export const modesOf = async (terminal) => {
  const file = join(process.env.PLACE, 'modes');
  await terminal.run('stty -g > "$PLACE/modes"; echo $((40 + 2))');
  await terminal.shows('42');
  return readFileSync(file, 'utf8');
};

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The folders of PLACE, and the environment that the shells in tmux have: BINARY, SCRIPT and PLACE among the rest. */
export function prepare(words) {
  const [binary, script, place] = words.map((path) => realpathSync(path));
  for (const name of ['workspace', 'home', 'tmux']) mkdirSync(join(place, name), { recursive: true });
  for (const name of ['TMUX', 'TMUX_PANE', 'CI', 'GEMINI_API_KEY', 'CODER_AGENT_PORT', 'XDG_STATE_HOME', 'XDG_RUNTIME_DIR']) delete process.env[name];
  const home = join(place, 'home');
  Object.assign(process.env, { BINARY: binary, SCRIPT: script, PLACE: place, HOME: home, LANG: 'C.UTF-8', TMUX_TMPDIR: join(place, 'tmux') });
  return place;
}

/** Starts the session in a terminal. */
export const start = (fixture, ...flags) =>
  fixture.terminal.run(`"$BINARY" --workspace "$PLACE/workspace" --state-dir "$PLACE/state" --script "$SCRIPT" ${flags.join(' ')}`);

/** What the steps use: a terminal with its shell, a free port, the file that the scripted agent writes. */
export async function terminalFixture(place) {
  const terminal = new Terminal('gemini-a2a', 'main');
  const port = await freePort();
  const fixture = { terminal, port, url: `http://localhost:${port}`, file: join(place, 'workspace', 'interop.txt') };
  await terminal.shows('ready$');
  fixture.modes = await modesOf(terminal);
  return fixture;
}
