// Adapts the JavaScript A2A SDK, version 1, to the types of common.mjs.

import { randomUUID } from 'node:crypto';
import { Role, StreamResponse, TaskState } from '@a2a-js/sdk';
import { Kit } from './sdk.mjs';
import { joined, same } from './common.mjs';

export class Sdk extends Kit {
  streamsStartWithTask = true;
  hasList = true;
  pushMediaType = 'application/a2a+json';
  pushIsWholeTask = false;
  terminalTaskFault = 'UnsupportedOperationError';
  cancelsTwice = true;

  messageOf = messageOf;
  taskOf = taskOf;
  eventOf = eventOf;

  async card() {
    const card = await this.client.getAgentCard();
    const offers = card.supportedInterfaces.filter((offer) => offer.protocolVersion === '1.0');
    return {
      name: card.name,
      streaming: card.capabilities.streaming,
      push: card.capabilities.pushNotifications,
      skills: card.skills.map((skill) => skill.id),
      bindings: offers.map((offer) => offer.protocolBinding),
    };
  }

  async send(said, { task, wait = true, hook } = {}) {
    const configuration = { returnImmediately: !wait, ...(hook && { taskPushNotificationConfig: configOf('', hook) }) };
    const found = await this.client.sendMessage({ ...messageOf(said, task), configuration });
    return taskOf(found);
  }

  async list({ context, state, page, size, artifacts }) {
    const status = state ? TaskState[nameOf(state)] : TaskState.TASK_STATE_UNSPECIFIED;
    const wanted = { contextId: context, status, pageToken: page, pageSize: size, includeArtifacts: artifacts };
    const found = await this.client.listTasks(wanted);
    return { tasks: found.tasks.map(taskOf), rest: found.nextPageToken, total: found.totalSize };
  }

  async setHook(task, hook) {
    return hookOf(task, await this.client.createTaskPushNotificationConfig(configOf(task, hook)));
  }

  async getHook(task, id) {
    return hookOf(task, await this.client.getTaskPushNotificationConfig({ taskId: task, id }));
  }

  async listHooks(task) {
    const found = await this.client.listTaskPushNotificationConfig({ taskId: task });
    return found.configs.map((config) => hookOf(task, config));
  }

  async deleteHook(task, id) {
    await this.client.deleteTaskPushNotificationConfig({ taskId: task, id });
  }

  delivered(body) {
    same(Object.keys(body).length, 1, 'a webhook of 1.0 gets one change');
    return eventOf(StreamResponse.fromJSON(body));
  }
}

function messageOf(said, task) {
  return {
    message: {
      role: Role.ROLE_USER,
      messageId: randomUUID(),
      parts: [{ content: { $case: 'text', value: said } }],
      contextId: task?.context,
      // The end of a turn completes its task: the conversation continues in its context.
      taskId: task?.state === 'completed' ? undefined : task?.id,
    },
  };
}

const nameOf = (state) => `TASK_STATE_${state.toUpperCase().replaceAll('-', '_')}`;
const stateOf = (value) => TaskState[value].replace('TASK_STATE_', '').toLowerCase().replaceAll('_', '-');
const contentsOf = (owner, kind) =>
  (owner?.parts ?? []).filter((part) => part.content.$case === kind).map((part) => part.content.value);

function taskOf(task) {
  return {
    id: task.id,
    context: task.contextId,
    state: stateOf(task.status.state),
    texts: [task.status.message, ...task.history, ...task.artifacts].flatMap((owner) => contentsOf(owner, 'text')),
    artifacts: task.artifacts.length,
  };
}

function eventOf({ payload: { $case, value } }) {
  switch ($case) {
    case 'task':
      return { about: 'task', task: value.id, context: value.contextId, state: stateOf(value.status.state) };
    case 'statusUpdate':
      return {
        about: 'status',
        task: value.taskId,
        context: value.contextId,
        state: stateOf(value.status.state),
        said: joined(contentsOf(value.status.message, 'text')),
      };
    case 'artifactUpdate':
      return {
        about: 'artifact',
        task: value.taskId,
        context: value.contextId,
        said: joined(contentsOf(value.artifact, 'text')),
        chunk: [value.artifact.artifactId, value.append, value.lastChunk],
      };
    default:
      throw new Error(`an event with ${$case}`);
  }
}

const configOf = (task, { url, id, token, credentials }) => ({
  taskId: task,
  url,
  id,
  token: token ?? '',
  authentication: credentials && { scheme: 'Bearer', credentials },
});

function hookOf(task, { taskId, url, id, token, authentication }) {
  same(taskId, task, 'the configuration names its task');
  if (authentication) same(authentication.scheme, 'Bearer', 'the configuration keeps its scheme');
  return { url, id, token: token || undefined, credentials: authentication?.credentials };
}
