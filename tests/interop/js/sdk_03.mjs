// Adapts the JavaScript A2A SDK, version 0.3, to the types of common.mjs.

import { randomUUID } from 'node:crypto';
import { Kit } from './sdk.mjs';
import { expect, joined, same } from './common.mjs';

export class Sdk extends Kit {
  streamsStartWithTask = false;
  hasList = false;
  pushMediaType = 'application/json';
  pushIsWholeTask = true;
  terminalTaskFault = 'InvalidRequestError';
  cancelsTwice = false;

  messageOf = messageOf;
  taskOf = taskOf;
  eventOf = eventOf;

  async card() {
    const card = await this.client.getAgentCard();
    expect(card.protocolVersion.startsWith('0.3'), `protocol 0.3, not ${card.protocolVersion}`);
    return {
      name: card.name,
      streaming: card.capabilities.streaming,
      push: card.capabilities.pushNotifications,
      skills: card.skills.map((skill) => skill.id),
      bindings: [card.preferredTransport, ...card.additionalInterfaces.map((other) => other.transport)],
    };
  }

  async send(said, { task, wait = true, hook } = {}) {
    const configuration = { blocking: wait, ...(hook && { pushNotificationConfig: configOf(hook) }) };
    const found = await this.client.sendMessage({ ...messageOf(said, task), configuration });
    same(found.kind, 'task', 'the answer is a task');
    return taskOf(found);
  }

  async setHook(task, hook) {
    const config = { taskId: task, pushNotificationConfig: configOf(hook) };
    return hookOf(task, await this.client.setTaskPushNotificationConfig(config));
  }

  async getHook(task, id) {
    return hookOf(task, await this.client.getTaskPushNotificationConfig({ id: task, pushNotificationConfigId: id }));
  }

  async listHooks(task) {
    return (await this.client.listTaskPushNotificationConfig({ id: task })).map((config) => hookOf(task, config));
  }

  async deleteHook(task, id) {
    await this.client.deleteTaskPushNotificationConfig({ id: task, pushNotificationConfigId: id });
  }

  delivered(body) {
    same(body.kind, 'task', 'a webhook of 0.3 gets the task');
    return eventOf(body);
  }
}

function messageOf(said, task) {
  return {
    message: {
      kind: 'message',
      role: 'user',
      messageId: randomUUID(),
      parts: [{ kind: 'text', text: said }],
      ...(task && { contextId: task.context }),
      // The end of a turn completes its task: the conversation continues in its context.
      ...(task && task.state !== 'completed' && { taskId: task.id }),
    },
  };
}

const textsOf = (owner) => owner.parts.filter((part) => part.kind === 'text').map((part) => part.text);

function taskOf(task) {
  const owners = [task.status.message, ...(task.history ?? []), ...(task.artifacts ?? [])].filter(Boolean);
  return {
    id: task.id,
    context: task.contextId,
    state: task.status.state,
    texts: owners.flatMap(textsOf),
    artifacts: task.artifacts?.length ?? 0,
  };
}

function eventOf(event) {
  switch (event.kind) {
    case 'task':
      return { about: 'task', task: event.id, context: event.contextId, state: event.status.state };
    case 'artifact-update':
      return {
        about: 'artifact',
        task: event.taskId,
        context: event.contextId,
        said: joined(textsOf(event.artifact)),
        chunk: [event.artifact.artifactId, Boolean(event.append), event.lastChunk],
      };
    case 'status-update':
      return {
        about: 'status',
        task: event.taskId,
        context: event.contextId,
        state: event.status.state,
        said: joined(textsOf(event.status.message ?? { parts: [] })),
        final: event.final,
      };
    default:
      throw new Error(`an event of kind ${event.kind}`);
  }
}

const configOf = ({ url, id, token, credentials }) => ({
  url,
  id,
  ...(token && { token }),
  ...(credentials && { authentication: { schemes: ['Bearer'], credentials } }),
});

function hookOf(task, { taskId, pushNotificationConfig: { url, id, token, authentication } }) {
  same(taskId, task, 'the configuration names its task');
  if (authentication) same(authentication.schemes, ['Bearer'], 'the configuration keeps its scheme');
  return { url, id, token, credentials: authentication?.credentials };
}
