// @google/gemini-cli-core: a remote agent, called as the tool that it is for the Gemini CLI's model.
//
// Version 0.61 keeps the ids of a conversation by the name of the agent, and puts a line with the name of the artifact in front of an
// artifact. It streams if the card says that the agent can, and the card may be given as text.

import { randomUUID } from 'node:crypto';
import { A2AClientManager } from '@google/gemini-cli-core/dist/src/agents/a2a-client-manager.js';
import { RemoteAgentInvocation } from '@google/gemini-cli-core/dist/src/agents/remote-invocation.js';
import { RemoteSessionInvocation } from '@google/gemini-cli-core/dist/src/agents/remote-session-invocation.js';

// It logs every reply.
console.debug = () => {};

export const WAYS = {
  streaming: { Invocation: RemoteAgentInvocation, streaming: true },
  'not streaming': { Invocation: RemoteAgentInvocation, streaming: false },
  'a session, streaming': { Invocation: RemoteSessionInvocation, streaming: true },
  'a session, not streaming': { Invocation: RemoteSessionInvocation, streaming: false },
};
export const CANNOT = {};

export async function talk(url, { Invocation, streaming }) {
  const agentCardUrl = `${url}/.well-known/agent-card.json`;
  const card = await (await fetch(agentCardUrl)).json();
  card.capabilities.streaming = streaming;
  const place = streaming ? { agentCardUrl } : { agentCardJson: JSON.stringify(card) };
  const manager = new A2AClientManager({ getProxy: () => undefined });
  const context = { config: { getA2AClientManager: () => manager } };
  const agent = { kind: 'remote', name: randomUUID(), ...place };

  return async (query, to) => {
    if (to === 'context') Invocation.sessionState.forEach((ids) => delete ids.taskId);
    const invocation = new Invocation(agent, context, { query }, {});
    const { llmContent } = await invocation.execute({ abortSignal: new AbortController().signal });
    return llmContent[0].text.replace(/^Artifact \(answer\):\n/, '');
  };
}
