"""The types that the steps use, the same for every version of the SDK.

An SDK module (`sdk_03`, `sdk_1`) converts its own types into these and offers a class `Sdk`: one client for one binding, with the
conventions of its version as attributes, and

    card()                            the agent card
    send(said, task, wait, hook)      a prompt or an answer, without a stream
    stream(said, task)                the same, with a stream
    get(id) cancel(id) join(id)       the task, the cancelled task, a further stream of it
    list(...)                         pages of tasks, if the version can list them
    set_hook get_hook list_hooks delete_hook
    delivered(body)                   a webhook's body as an event
    shows(error, fault)               whether an exception is that fault, as far as this client can tell
"""

from dataclasses import dataclass

JSON_RPC = "JSONRPC"
REST = "HTTP+JSON"
BINDINGS = [JSON_RPC, REST]


@dataclass
class Card:
    name: str
    streaming: bool
    push: bool
    skills: list
    bindings: set


@dataclass
class Task:
    id: str
    context: str
    state: str
    texts: list
    """All texts of its status, its history and its artifacts."""
    artifacts: int = 0


@dataclass
class Event:
    about: str
    """`task`, `status` or `artifact`"""
    task: str
    context: str
    state: str | None = None
    said: str = ""
    """The text of the agent for the user in this event, if any."""
    final: bool | None = None
    """Whether the event is marked as the last one of the stream; None if the version has no such mark."""
    chunk: tuple | None = None
    """For artifacts: their id, whether to append, whether it is the last chunk."""


@dataclass
class Hook:
    """A push configuration."""

    url: str
    id: str | None = None
    token: str | None = None
    credentials: str | None = None
    """For the scheme Bearer."""


@dataclass(frozen=True)
class Fault:
    """An error as each client may show it: by the name of its class, by code, by HTTP status."""

    name: str
    code: int
    status: int


TASK_NOT_FOUND = Fault("TaskNotFoundError", -32001, 404)
TASK_NOT_CANCELABLE = Fault("TaskNotCancelableError", -32002, 400)
UNSUPPORTED_OPERATION = Fault("UnsupportedOperationError", -32004, 400)
INVALID_REQUEST = Fault("InvalidRequestError", -32600, 400)
INVALID_PARAMS = Fault("InvalidParamsError", -32602, 400)


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def same(found, wanted, what):
    expect(found == wanted, f"{what}: expected {wanted!r}, found {found!r}")
