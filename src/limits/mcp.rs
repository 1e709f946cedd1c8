//! The limits of MCP servers: their number, what they may send, how long things may take.

use super::{KIB, MIB};

/// Servers that the settings of one workspace may name, connections of all workspaces, and processes among them: each connection has a
/// thread, each process some tens of megabytes. Further servers are not started and say so.
pub const WORKSPACE_SERVERS: usize = 32;
pub const CONNECTIONS: usize = 64;
pub const PROCESSES: usize = 32;
/// Connections to servers that clients named. The rest of [`CONNECTIONS`] stays reserved for the operator's servers.
pub const CLIENT_CONNECTIONS: usize = CONNECTIONS / 2;
/// Servers that one client may name for a task. More are refused with the request.
pub const CLIENT_SERVERS: usize = 8;
/// Bytes of header fields of one such server, which are kept in memory as long as the task. More are refused.
pub const CLIENT_HEADER_BYTES: usize = 8 * KIB;
/// Characters of a server's name, which is a part of the names of its tools.
pub const SERVER_NAME_CHARS: usize = 64;

/// One message from a server, as a line or as the data of an event: large results have images in base64. A longer one ends the
/// connection.
pub const MESSAGE_BYTES: usize = 16 * MIB;
/// One message to a server. A call with longer arguments fails.
pub const MESSAGE_OUT_BYTES: usize = 4 * MIB;
/// Lists and objects in one message: as many as a list of two thousand tools has. A message with more is not read.
pub const MESSAGE_CONTAINERS: usize = 200_000;
/// All messages that come with the answer to one call, progress included. More is an error of the connection.
pub const ANSWER_BYTES: usize = 64 * MIB;
/// Bytes read of the body of a response with an error status. The rest does not help to understand the error.
pub const ERROR_BODY_BYTES: usize = 64 * KIB;
/// Bytes shown of such a body, and of one with a wrong content type. The rest is cut.
pub const BODY_SHOWN_BYTES: usize = 200;
/// Lines of standard output that are not messages, such as banners of start scripts: those that are logged, and those that are skipped
/// before `initialize` is answered. A program that prints more is not an MCP server, and its start fails.
pub const JUNK_LOGGED: usize = 5;
pub const JUNK_LINES: usize = 1_000;
/// Bytes kept of the end of a server's standard error, and bytes of it that the message about a failure shows.
pub const STDERR_BYTES: usize = 64 * KIB;
pub const STDERR_SHOWN_BYTES: usize = 2 * KIB;

/// Items of a list. Further ones are not read, which is reported.
pub const LIST_TOOLS: usize = 2_000;
pub const LIST_PROMPTS: usize = 500;
pub const LIST_RESOURCES: usize = 5_000;
/// Pages of a list, because a faulty server's cursor may never end. Further pages are not read.
pub const LIST_PAGES: usize = 100;
/// How often a list is requested again after the transport failed. Repeating the request is harmless.
pub const LIST_TRIES: u32 = 3;
/// The shortest time between two refreshes of a list: servers announce changes in bursts.
pub const REFRESH_MS: u64 = 300;

/// Calls that wait for their turn at one server. Further ones fail.
pub const CALLS_WAITING: usize = 64;
/// Calls that run at once if they only read, or if the settings allow it.
pub const CALLS_PARALLEL: usize = 4;
/// Requests of one server that wait for a person's answer. Further ones are refused.
pub const SERVER_REQUESTS: usize = 32;
/// Notifications of a server per second, and requests. More end the connection, because reading them delays the answers.
pub const NOTIFICATIONS_PER_SECOND: u32 = 1_000;
pub const REQUESTS_PER_SECOND: u32 = 1_000;
/// Bytes of messages that are queued for one server: as many calls as run at once, with the longest arguments, and again as much for
/// everything else. More ends the connection.
pub const UNSENT_BYTES: usize = 2 * CALLS_PARALLEL * MESSAGE_OUT_BYTES;
/// Bytes that a queued message is counted for in addition to its text.
pub const UNSENT_EACH_BYTES: usize = 128;
/// Log messages of a server per second. The rest is counted.
pub const LOGS_PER_SECOND: u32 = 100;
/// Bytes of one log message. The rest is cut.
pub const LOG_BYTES: usize = 4 * KIB;

/// Time from the start of a server to its first list of tools: a package manager may have to download the server. After that the start has
/// failed.
pub const START_MS: u64 = 60_000;
/// How long the first request to the model waits for servers that are still starting. Their tools join the next one.
pub const FIRST_WAIT_MS: u64 = 5_000;
/// How long `doctor` waits for all servers together, because somebody waits for its output. A server that is still starting is reported
/// as such.
pub const TRIAL_MS: u64 = 10_000;
/// Time for a request for a list, for a prompt or a resource, and for a ping. Then the request has failed.
pub const LIST_MS: u64 = 30_000;
pub const READ_MS: u64 = 60_000;
pub const PING_MS: u64 = 2_000;
/// A call whose server is silent for this time is cancelled; settings may change it. Progress restarts the time.
pub const CALL_SILENCE_MS: u64 = 600_000;
/// A call is cancelled after this time, even if it reports progress. Time in which its server waits for a person's answer is not counted.
pub const CALL_MS: u64 = 3_600_000;
/// How long a server may take to accept a message, and to end after its standard input was closed.
pub const WRITE_MS: u64 = 10_000;
pub const STOP_MS: u64 = 2_000;
/// A connection that no task uses is closed after this time, unless the settings name another one.
pub const IDLE_MS: u64 = 600_000;
/// The waits before the restarts of a server that has ended. After the fifth start within `RESTARTS_WITHIN_MS` it is started again only
/// when somebody asks for it.
pub const RESTART_MS: [u64; 4] = [1_000, 2_000, 4_000, 8_000];
pub const RESTARTS_WITHIN_MS: u64 = 600_000;
/// A server in the network that could not be reached in all these attempts is tried again after this time, if a task needs it: an attempt
/// delays the task by up to [`FIRST_WAIT_MS`].
pub const UNREACHED_MS: u64 = 60_000;
/// Different failure messages of one connection that are remembered, so that each is reported once. At the limit all are forgotten.
pub const FAILURES_REPORTED: usize = 100;
/// How often an event stream is resumed for one answer, and the wait before it. The server may name another wait within the range.
pub const RESUME_TRIES: u32 = 10;
pub const RESUME_MS: u64 = 1_000;
pub const RETRY_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// MCP tools, and bytes of their declarations, in one request to the model: each costs tokens in every request. The rest is not declared,
/// which is reported.
pub const DECLARED_TOOLS: usize = 256;
pub const DECLARED_BYTES: usize = 96 * KIB;
/// Characters of the declared name of a tool, as the model API limits them. A longer name is shortened.
pub const DECLARED_NAME_CHARS: usize = 63;
/// Bytes of the schema of one tool after its conversion for the model API. A tool with a longer schema is hidden.
pub const SCHEMA_BYTES: usize = 64 * KIB;
/// Nested references in the schema of one tool, and all its subschemas. Those beyond the limits become plain objects.
pub const SCHEMA_DEPTH: usize = 8;
pub const SCHEMA_NODES: usize = 2_000;
/// Levels of nested schemas, without counting references. The model API refuses deeper ones.
pub const SCHEMA_LEVELS: usize = 32;
/// Bytes of the description of a tool, and of one of its parameters. The rest is cut.
pub const TOOL_TEXT_BYTES: usize = 8 * KIB;
pub const PROPERTY_TEXT_BYTES: usize = KIB;
/// Characters of the text that describes a constraint which the model API does not support. The rest is cut.
pub const CONSTRAINT_CHARS: usize = 80;
/// Bytes of the instructions of one server, and of all servers of a task. The rest is cut.
pub const INSTRUCTIONS_BYTES: usize = 4 * KIB;
pub const ALL_INSTRUCTIONS_BYTES: usize = 16 * KIB;

/// Media of one result: their number, the bytes of each, and of all together, as the model API accepts them. In place of the others the
/// model gets a note.
pub const RESULT_MEDIA: usize = 8;
pub const MEDIA_BYTES: usize = 7 * MIB;
pub const RESULT_MEDIA_BYTES: usize = 20 * MIB;
/// Bytes of the message of an error of a server. The rest is cut.
pub const ERROR_BYTES: usize = 4 * KIB;

/// Fields of a form that a server shows, and options of one field. A form with more is declined.
pub const FORM_FIELDS: usize = 20;
pub const FORM_OPTIONS: usize = 50;
/// Bytes of the text above a form. The rest is cut.
pub const FORM_TEXT_BYTES: usize = 2 * KIB;

/// Bytes of the body of an authorization server's response, and the time for it. A longer body is cut and cannot be parsed then.
pub const OAUTH_BODY_BYTES: u64 = 64 * KIB as u64;
pub const OAUTH_MS: u64 = 10_000;
/// A token that ends within this time is refreshed before it is used.
pub const TOKEN_EARLY_MS: u64 = 60_000;
/// Time for a user to log in. Then the login fails.
pub const LOGIN_MS: u64 = 300_000;

/// Known secrets of at least this many characters are removed from texts of a server. Shorter ones occur by chance.
pub const SECRET_CHARS: usize = 8;
/// Bytes of the name, and of the description, of a server's prompt in the list of commands. The rest is cut.
pub const COMMAND_TEXT_BYTES: usize = 200;
/// Resources named by results in a task that its model may read: more than any conversation uses. Further ones cannot be read.
pub const TASK_LINKS: usize = 1_000;
/// Bytes of a server's description of one of its resources: one line of a list. The rest is cut.
pub const RESOURCE_TEXT_BYTES: usize = 300;
