"""Adapts the Python A2A SDK, version 1, to the types of common.py."""

import uuid

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf.json_format import ParseDict

import common
from common import Card, Event, Hook


class Sdk:
    streams_start_with_task = True
    has_list = True
    has_all_hook_calls = True
    push_media_type = "application/a2a+json"
    push_is_whole_task = False
    terminal_task_fault = common.UNSUPPORTED_OPERATION
    cancels_twice = True

    async def connect(self, http, url, binding):
        self._base = {"httpx_client": http, "supported_protocol_bindings": [binding]}
        self._resolver = A2ACardResolver(http, url)
        self._card = await self._resolver.get_agent_card()
        self._streaming = self._client()
        return self

    def _client(self, **config):
        return ClientFactory(ClientConfig(**self._base, **config)).create(self._card)

    async def card(self):
        # The first request for the card named no version; since the client was created, the HTTP client names it.
        card = await self._resolver.get_agent_card()
        common.same(card, self._card, "the card for all versions says the same")
        offered = {offer.protocol_binding for offer in card.supported_interfaces if offer.protocol_version == "1.0"}
        capabilities = card.capabilities
        skills = [skill.id for skill in card.skills]
        return Card(card.name, capabilities.streaming, capabilities.push_notifications, skills, offered)

    async def send(self, said, task=None, wait=True, hook=None):
        config = _config("", hook) if hook else None
        client = self._client(streaming=False, polling=not wait, push_notification_config=config)
        [found] = [event async for event in client.send_message(_request(said, task))]
        return _task(found.task)

    async def stream(self, said, task=None):
        async for event in self._streaming.send_message(_request(said, task)):
            yield _event(event)

    async def get(self, id):
        return _task(await self._streaming.get_task(GetTaskRequest(id=id)))

    async def cancel(self, id):
        return _task(await self._streaming.cancel_task(CancelTaskRequest(id=id)))

    async def join(self, id):
        async for event in self._streaming.subscribe(SubscribeToTaskRequest(id=id)):
            yield _event(event)

    async def list(self, context, state=None, page=None, size=None, artifacts=None):
        wanted = ListTasksRequest(context_id=context, page_size=size, page_token=page, include_artifacts=artifacts)
        if state:
            wanted.status = TaskState.Value(_name(state))
        found = await self._streaming.list_tasks(wanted)
        return [_task(task) for task in found.tasks], found.next_page_token, found.total_size

    async def set_hook(self, task, hook):
        return _hook(task, await self._streaming.create_task_push_notification_config(_config(task, hook)))

    async def get_hook(self, task, id):
        wanted = GetTaskPushNotificationConfigRequest(task_id=task, id=id)
        return _hook(task, await self._streaming.get_task_push_notification_config(wanted))

    async def list_hooks(self, task):
        wanted = ListTaskPushNotificationConfigsRequest(task_id=task)
        found = await self._streaming.list_task_push_notification_configs(wanted)
        return [_hook(task, config) for config in found.configs]

    async def delete_hook(self, task, id):
        wanted = DeleteTaskPushNotificationConfigRequest(task_id=task, id=id)
        await self._streaming.delete_task_push_notification_config(wanted)

    def delivered(self, body):
        """Parses strictly, unlike the client: a member that the protocol does not define is an error."""
        return _event(ParseDict(body, StreamResponse()))

    def shows(self, error, fault):
        return type(error).__name__ == fault.name


def _request(said, task):
    message = Message(role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text=said)])
    if task:
        message.context_id = task.context
        # The end of a turn completes its task: the conversation continues in its context.
        if task.state != "completed":
            message.task_id = task.id
    return SendMessageRequest(message=message)


def _name(state):
    return "TASK_STATE_" + state.upper().replace("-", "_")


def _state(value):
    return TaskState.Name(value).removeprefix("TASK_STATE_").lower().replace("_", "-")


def _texts(owner):
    return [part.text for part in owner.parts if part.HasField("text")]


def _task(task):
    owners = [task.status.message, *task.history, *task.artifacts]
    texts = [text for owner in owners for text in _texts(owner)]
    return common.Task(task.id, task.context_id, _state(task.status.state), texts, len(task.artifacts))


def _event(event):
    about = event.WhichOneof("payload")
    change = getattr(event, about)
    if about == "task":
        return Event("task", change.id, change.context_id, _state(change.status.state))
    if about == "artifact_update":
        artifact = change.artifact
        chunk = (artifact.artifact_id, change.append, change.last_chunk)
        return Event("artifact", change.task_id, change.context_id, said="".join(_texts(artifact)), chunk=chunk)
    common.same(about, "status_update", "an event of the stream")
    said = "".join(_texts(change.status.message))
    return Event("status", change.task_id, change.context_id, _state(change.status.state), said=said)


def _config(task, hook):
    config = TaskPushNotificationConfig(task_id=task, url=hook.url, id=hook.id, token=hook.token)
    if hook.credentials:
        config.authentication.CopyFrom(AuthenticationInfo(scheme="Bearer", credentials=hook.credentials))
    return config


def _hook(task, config):
    common.same(config.task_id, task, "the configuration names its task")
    auth = config.authentication if config.HasField("authentication") else None
    if auth:
        common.same(auth.scheme, "Bearer", "the configuration keeps its scheme")
    return Hook(config.url, config.id, config.token or None, auth.credentials if auth else None)
