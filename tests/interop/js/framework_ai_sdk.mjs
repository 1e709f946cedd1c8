// a2a-ai-provider: a remote agent as a language model of Vercel's AI SDK.
//
// The user chooses the context. Version 0.5.0-alpha.1 cannot name a task, and its streams have the text of a question only in the raw
// events.

import { randomUUID } from 'node:crypto';
import { a2a } from 'a2a-ai-provider';
import { generateText, streamText } from 'ai';

// The provider logs every event.
console.log = () => {};
globalThis.AI_SDK_LOG_WARNINGS = false;

export const WAYS = { streaming: { stream: true }, 'not streaming': { stream: false } };
export const CANNOT = { "a call approved with the task's id": 'version 0.5.0-alpha.1 cannot name a task' };

export function talk(url, { stream }) {
  const model = a2a(`${url}/.well-known/agent-card.json`);
  const providerOptions = { a2a: { contextId: randomUUID() } };

  return async (prompt) => {
    const request = { model, prompt, providerOptions };
    if (!stream) return (await generateText(request)).text;
    let shown = '';
    for await (const chunk of streamText({ ...request, includeRawChunks: true }).fullStream) {
      if (chunk.type === 'text-delta') shown += chunk.text;
      if (chunk.type === 'raw') shown += chunk.rawValue.status?.message?.parts[0].text ?? '';
    }
    return shown;
  };
}
