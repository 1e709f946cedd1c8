"""Adapts the Python A2A SDK, version 0.3, to the types of common.py."""

import uuid

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)
from a2a.types import Task as SdkTask

import common
from common import Card, Event, Hook


class Sdk:
    streams_start_with_task = False
    has_list = False
    has_all_hook_calls = False
    push_media_type = "application/json"
    push_is_whole_task = True
    terminal_task_fault = common.INVALID_REQUEST
    cancels_twice = False

    async def connect(self, http, url, binding):
        self._card = await A2ACardResolver(http, url).get_agent_card()
        self._base = {"httpx_client": http, "supported_transports": [binding]}
        self._streaming = self._client()
        return self

    def _client(self, **config):
        return ClientFactory(ClientConfig(**self._base, **config)).create(self._card)

    async def card(self):
        card = self._card
        offered = {card.preferred_transport, *(other.transport for other in card.additional_interfaces or [])}
        common.expect(card.protocol_version.startswith("0.3"), f"protocol 0.3, not {card.protocol_version}")
        capabilities = card.capabilities
        skills = [skill.id for skill in card.skills]
        return Card(card.name, capabilities.streaming, capabilities.push_notifications, skills, offered)

    async def send(self, said, task=None, wait=True, hook=None):
        hooks = [_config(hook)] if hook else []
        client = self._client(streaming=False, polling=not wait, push_notification_configs=hooks)
        [(found, _)] = [event async for event in client.send_message(_message(said, task))]
        return _task(found)

    async def stream(self, said, task=None):
        async for event in self._streaming.send_message(_message(said, task)):
            yield _event(*event)

    async def get(self, id):
        return _task(await self._streaming.get_task(TaskQueryParams(id=id)))

    async def cancel(self, id):
        return _task(await self._streaming.cancel_task(TaskIdParams(id=id)))

    async def join(self, id):
        async for event in self._streaming.resubscribe(TaskIdParams(id=id)):
            yield _event(*event)

    async def set_hook(self, task, hook):
        config = TaskPushNotificationConfig(task_id=task, push_notification_config=_config(hook))
        return _hook(task, await self._streaming.set_task_callback(config))

    async def get_hook(self, task, id):
        wanted = GetTaskPushNotificationConfigParams(id=task, push_notification_config_id=id)
        return _hook(task, await self._streaming.get_task_callback(wanted))

    def delivered(self, body):
        common.same(body["kind"], "task", "a webhook of 0.3 gets the task")
        task = SdkTask.model_validate(body)
        return Event("task", task.id, task.context_id, task.status.state.value)

    def shows(self, error, fault):
        """Over REST this client only reports the HTTP status of an error."""
        match error:
            case A2AClientJSONRPCError():
                return error.error.code == fault.code
            case A2AClientHTTPError():
                return error.status_code == fault.status
        return False


def _message(said, task):
    return Message(
        role=Role.user,
        message_id=str(uuid.uuid4()),
        parts=[Part(root=TextPart(text=said))],
        # The end of a turn completes its task: the conversation continues in its context.
        task_id=task.id if task and task.state != "completed" else None,
        context_id=task and task.context,
    )


def _task(task):
    status = [task.status.message] if task.status.message else []
    owners = [*status, *(task.history or []), *(task.artifacts or [])]
    texts = [part.root.text for owner in owners for part in owner.parts if part.root.kind == "text"]
    return common.Task(task.id, task.context_id, task.status.state.value, texts, len(task.artifacts or []))


def _event(task, update):
    """The SDK returns the current task and the update that changed it; without an update the task is the snapshot of the server."""
    if update is None:
        return Event("task", task.id, task.context_id, task.status.state.value)
    if update.kind == "artifact-update":
        chunk = (update.artifact.artifact_id, update.append, update.last_chunk)
        return Event("artifact", update.task_id, update.context_id, said=_text(update.artifact), chunk=chunk)
    said = _text(update.status.message) if update.status.message else ""
    state = update.status.state.value
    return Event("status", update.task_id, update.context_id, state, said=said, final=update.final)


def _text(owner):
    return "".join(part.root.text for part in owner.parts)


def _config(hook):
    bearer = PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials=hook.credentials)
    return PushNotificationConfig(
        id=hook.id, url=hook.url, token=hook.token, authentication=bearer if hook.credentials else None
    )


def _hook(task, kept):
    common.same(kept.task_id, task, "the configuration names its task")
    config = kept.push_notification_config
    auth = config.authentication
    if auth:
        common.same(auth.schemes, ["Bearer"], "the configuration keeps its scheme")
    return Hook(config.url, config.id, config.token or None, auth.credentials if auth else None)
