// @mastra/core: A2AAgent, which has a client of its own for both versions.
//
// Version 1.71 gives each prompt a context of its own: only answers to a question name a context, and they name the task too. A stream
// has the text of a question in its payload for resuming.

import { A2AAgent } from '@mastra/core/a2a';

const alone = 'version 1.71 names no context but in an answer, and there the task too';
export const WAYS = {
  '0.3, streaming': { protocolVersion: '0.3', stream: true },
  '0.3, not streaming': { protocolVersion: '0.3', stream: false },
  '1.0, streaming': { protocolVersion: '1.0', stream: true },
  '1.0, not streaming': { protocolVersion: '1.0', stream: false },
};
export const CANNOT = {
  'two turns': alone,
  'a question in the second turn': alone,
  "a call approved with the context's id alone": alone,
};

export function talk(url, { protocolVersion, stream }) {
  const agent = new A2AAgent({ url, protocolVersion });
  const options = { runId: 'one' };

  return async (text, to) => {
    if (!stream) return (await (to ? agent.resumeGenerate(text, options) : agent.generate(text, options))).text;
    const { fullStream, suspendPayload } = await (to ? agent.resumeStream(text, options) : agent.stream(text, options));
    let shown = '';
    for await (const chunk of fullStream) if (chunk.type === 'text-delta') shown += chunk.payload.text;
    const asked = (await suspendPayload)?.task.status.message.parts ?? [];
    return shown + asked.map((part) => part.text).join('');
  };
}
