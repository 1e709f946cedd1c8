//! The rows. The order is the order of `--help` and of the manual: flags first, then keys of settings files, then variables.

use super::Kind::{InFile, Length, List, Number, OnOff, OneOf, OrElse, Path, Share, Switch, Text, Texts, Time};
use super::Row;
use super::rows::{add, header, model, operator, put, workspace};
use crate::a2a::{CardDefault, PlainStream, RestStatus, WEBHOOKS};
use crate::base::level::Level;
use crate::base::log_line::LogFormat;
use crate::base::secret::Secret;
use crate::base::{address, text::size};
use crate::config::access::{network, public_url};
use crate::config::definitions::mcp::{ClientMcp, client_host};
use crate::config::listen;
use crate::config::operation::AccessLogTarget;
use crate::config::session::{GLYPHS, NOTIFY, OnHangup, OutputFormat, Responses, THEMES, THOUGHTS};
use crate::config::settings::{Settings, StoreKind};
use crate::config::trust::Trust;
use crate::limits::Limits;
use crate::task::access::AccessMode;
use crate::task::call::{Disconnect, Durability, NewTasks};
use crate::task::log::event::{Lifecycle, Profile};
use crate::task::policy::Mode;

const MODEL: &str = "the name of a model";
const LISTEN: &str = "ADDR:PORT, unix:PATH or fd";
/// The context window of every Gemini model, in tokens.
const CONTEXT_TOKENS: f64 = 1_048_576.0;
/// The highest number of attempts that settings can ask for, as in the Gemini CLI.
const MOST_ATTEMPTS: i64 = 10;

pub const OPTIONS: &[Row] = &[
    operator("--prompt -p", "answer this prompt, print the answer and end; words without a flag are the prompt too")
        .takes(Texts("TEXT", |s, texts| s.session.prompt = Some(texts.concat()))),
    operator("--prompt-interactive -i", "start the terminal with this prompt")
        .takes(Texts("TEXT", |s, texts| s.session.first_prompt = Some(texts.concat()))),
    operator("--output-format -o", "what is printed without a terminal")
        .default("text")
        .takes(OneOf(&["text", "json", "stream-json"], |s, n| s.session.output = OutputFormat::ALL[n])),
    operator("--raw-output", "print control characters in answers as they are")
        .takes(Switch(|s, on| s.session.raw_output = on)),
    operator("--resume -r", "go on with a session: the latest, its number in the list, or its id").takes(OrElse(
        "WHICH",
        "latest",
        |s, which| s.session.resume = Some(which.to_owned()),
    )),
    operator("--list-sessions", "print the sessions of this workspace").takes(Switch(|s, on| s.session.list = on)),
    operator("--delete-session", "delete a session, by its number in the list or its id")
        .takes(Texts("WHICH", |s, texts| s.session.delete = Some(texts.concat()))),
    operator("--allowed-mcp-server-names", "of the MCP servers only these, separated by commas")
        .takes(Texts("NAMES", |s, names| s.mcp.allow_only(&names))),
    operator("--fake-responses", "let recorded responses answer, in their order")
        .takes(Path("FILE", |s, file| s.session.responses = Responses::Fake(file))),
    operator("--fake-responses-non-strict", "the same; each request takes the next one of its method")
        .takes(Path("FILE", |s, file| s.session.responses = Responses::FakeByMethod(file))),
    operator("--record-responses", "add the responses of the model to this file")
        .takes(Path("FILE", |s, file| s.session.responses = Responses::Record(file))),
    operator("--on-hangup", "whether the port is served on when the terminal goes away")
        .default("end")
        .takes(OneOf(&["end", "serve"], |s, n| s.session.on_hangup = OnHangup::ALL[n])),
    operator("--screen-reader ui.screenReader ui.accessibility.screenReader", "words instead of a painted terminal")
        .takes(Switch(|s, on| s.ui.screen_reader = on)),
    operator("ui.theme", "colours of the terminal").default("auto").takes(OneOf(THEMES, |s, n| s.ui.theme = THEMES[n])),
    operator("ui.glyphs", "characters of the terminal; `auto` asks the locale")
        .default("auto")
        .takes(OneOf(GLYPHS, |s, n| s.ui.glyphs = GLYPHS[n])),
    operator("ui.notify", "how the terminal tells people who look elsewhere")
        .default("auto")
        .takes(OneOf(NOTIFY, |s, n| s.ui.notify = NOTIFY[n])),
    operator("ui.thoughts", "what the terminal shows of the model's thoughts")
        .default("subject")
        .takes(OneOf(THOUGHTS, |s, n| s.ui.thoughts = THOUGHTS[n])),
    operator("--a2a-port CODER_AGENT_PORT", "port to listen on; 0 takes a free one").default("41242").takes(Text(
        "PORT",
        "a number from 0 to 65535",
        |s, port| put(&mut s.port, port.parse().ok()),
    )),
    operator("--host", "its address; any but a loopback address needs `--access token`")
        .default("127.0.0.1")
        .takes(Text("ADDR", LISTEN, |s, text| put(&mut s.host, listen::host(text)))),
    operator("--listen", "listen on ADDR:PORT, unix:PATH or the socket on standard input (`fd`) too; may be repeated")
        .takes(List("PLACE", LISTEN, |s, texts| {
            s.listen.extend(texts.iter().map(|text| listen::parse(text)).collect::<Option<Vec<_>>>()?);
            Some(())
        })),
    operator("--access", "clients prove who they are by their process (`local`, the default) or a credential")
        .takes(OneOf(&["local", "token"], |s, n| s.access.mode = Some(AccessMode::ALL[n]))),
    operator("--credentials A2A_CREDENTIALS_FILE", "the credentials of clients")
        .default("in the state directory")
        .takes(Path("FILE", |s, file| s.access.credentials = Some(file)))
        .credential(),
    operator("--identity A2A_IDENTITY_FILE", "`--access token`: whose JSON Web Tokens name the subjects of requests")
        .takes(Path("FILE", |s, file| s.access.identity = Some(file))),
    operator("--shared-session", "all credentials share one live session; otherwise each subject has its own")
        .takes(Switch(|s, on| s.access.shared_session = on)),
    operator("--public-url A2A_PUBLIC_URL", "how the world reaches the server, if it is behind a proxy").takes(Text(
        "URL",
        "an address such as https://agent.example",
        |s, text| put(&mut s.access.public_url, public_url(text)),
    )),
    operator("--trusted-proxy", "believe X-Forwarded-For of this proxy, an address or a network; may be repeated")
        .takes(List("CIDR", "an address or a network such as 10.0.0.0/8", |s, texts| {
            s.access.proxies.extend(texts.iter().map(|text| network(text)).collect::<Option<Vec<_>>>()?);
            Some(())
        })),
    operator("--workspace", "where the agent works")
        .default("the current directory")
        .takes(Path("DIR", |s, dir| s.workspace = Some(dir))),
    workspace(
        "--include-directories context.includeDirectories includeDirectories",
        "further directories that tools may use, separated by commas; may be repeated",
    )
    .takes(Texts("DIRS", |s, lists| {
        let dirs = lists.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|dir| !dir.is_empty());
        add(&mut s.context.include, dirs.map(str::to_owned).collect());
    })),
    operator("--extensions -e", "use only these extensions, separated by commas, or none; may be repeated").takes(
        Texts("NAMES", |s, lists| {
            let names = lists.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|name| !name.is_empty());
            add(s.extensions.get_or_insert_default(), names.map(str::to_owned).collect());
        }),
    ),
    operator("--allowed-root", "clients may ask for workspaces below this directory too; may be repeated")
        .takes(Texts("DIR", |s, dirs| add(&mut s.allowed_roots, dirs))),
    workspace("--model -m GEMINI_MODEL model.name model", "Gemini model").default("auto").takes(Text(
        "NAME",
        MODEL,
        |s, name| put(&mut s.model, model(name)),
    )),
    operator("--allowed-model", "clients may choose only these models; may be repeated (default: any Gemini model)")
        .takes(List("NAME", MODEL, |s, names| {
            add(&mut s.allowed_models, names.iter().map(|name| model(name)).collect::<Option<_>>()?);
            Some(())
        })),
    operator(
        "--trust-workspace --skip-trust GEMINI_CLI_TRUST_WORKSPACE",
        "use the workspace's settings, variables and GEMINI.md files",
    )
    .takes(Switch(|s, on| s.trust = Some(if on { Trust::Trusted } else { Trust::Untrusted }))),
    operator("--approval-mode", "which tool calls need approval")
        .default("default")
        .takes(OneOf(&["default", "auto_edit", "plan", "yolo"], |s, n| {
            s.mode = [Mode::Default, Mode::AutoEdit, Mode::Plan, Mode::Yolo][n]
        })),
    operator("--yolo -y", "as --approval-mode yolo")
        .takes(Switch(|s, on| s.mode = if on { Mode::Yolo } else { s.mode })),
    operator("--allow-auto-execute", "let clients ask for tools to run without approval")
        .takes(Switch(|s, on| s.auto_execute = on)),
    operator(
        "--allow-client-keys",
        "let clients give a key for the model API with a task (apiKey); it is kept in memory only",
    )
    .takes(Switch(|s, on| s.request_policy.client_keys = on)),
    operator("--store", "where tasks are: in `files`, or in a bucket; a variable that names a bucket chooses it")
        .takes(OneOf(&["files", "gcs", "s3"], |s, n| s.store.kind = Some(StoreKind::ALL[n]))),
    operator("--state-dir", "where tasks are stored")
        .default("$XDG_STATE_HOME/gemini-a2a")
        .takes(Path("DIR", |s, dir| s.state_dir = Some(dir))),
    operator("--script", "let a scripted agent answer instead of a model")
        .takes(Path("FILE", |s, file| s.script = Some(file))),
    operator("--max-attempts", "attempts of a model request that fails").default("10").takes(Number(
        1,
        "a whole number from 1 on",
        |s, tries| s.limits.model_tries = tries as u32,
    )),
    operator("--allowed-host", "accept requests for this Host too, beside localhost; may be repeated")
        .takes(Texts("NAME", |s, names| {
            add(&mut s.allowed_hosts, names.iter().map(|name| name.to_lowercase()).collect())
        })),
    operator("--allowed-origin", "accept requests from pages of this web origin; may be repeated")
        .takes(Texts("ORIGIN", |s, origins| add(&mut s.allowed_origins, origins))),
    operator("--log-level LOG_LEVEL", "the least important messages that are logged")
        .default("info")
        .takes(OneOf(&["error", "warn", "info", "debug"], |s, n| s.log_level = Level::ALL[n])),
    operator("--log-format A2A_LOG_FORMAT", "format of the log (default: text, on Cloud Run gcp)")
        .takes(OneOf(&["text", "json", "gcp"], |s, n| s.operation.log_format = Some(LogFormat::ALL[n]))),
    operator("--access-log", "a line per request into this file, `-`: into the log, or off").default("off").takes(
        Text("FILE", "the name of a file, - or off", |s, text| {
            put(&mut s.operation.access_log, AccessLogTarget::parse(text))
        }),
    ),
    operator("--drain", "time for what is under way when the server is told to end")
        .default("5s")
        .takes(Length(|s, ms| s.limits.shutdown_ms = ms)),
    operator("--drain-delay", "accept connections for this time before that, while /ready says no")
        .default("never")
        .takes(Time(|s, ms| s.limits.drain_delay_ms = ms.unwrap_or_default())),
    operator("--metrics-listen", "show metrics to everybody who can connect there").takes(Text(
        "ADDR:PORT",
        "ADDR:PORT, as 127.0.0.1:9464",
        |s, text| put(&mut s.operation.metrics_listen, text.parse().ok()),
    )),
    operator("--debug -d", "as --log-level debug, with [A2AService] before every message").takes(Switch(|s, on| {
        if on {
            (s.log_level, s.log_prefix) = (Level::Debug, "[A2AService] ");
        }
    })),
    operator("--audit", "record who did what in a chain of hashes; always on with `--access token`")
        .takes(Switch(|s, on| s.audit = on)),
    operator("--audit-prompts", "record the text of prompts too, not only their hashes; implies --audit")
        .takes(Switch(|s, on| (s.audit, s.audit_prompts) = (s.audit | on, on))),
    // From here on every flag is a setting too; `--help` says so.
    operator("--streaming a2a.streaming", "event streams; off: only single responses")
        .default("on")
        .takes(OnOff(|s, on| s.a2a.streaming = on)),
    PUSH,
    operator("--push-allow-http a2a.pushAllowHttp", "webhooks may be http too, not only https")
        .takes(Switch(|s, on| s.a2a.push_rules.allow_http = on)),
    operator(
        "--push-allow-host a2a.pushAllowHosts",
        "webhooks may be on this host, at any address and without TLS; may be repeated",
    )
    .takes(List("HOST", "names or addresses of hosts, without a port", |s, hosts| {
        let all_valid = hosts.iter().all(|host| address::host(host).is_ok());
        all_valid.then(|| add(&mut s.a2a.push_rules.allow_hosts, hosts))
    })),
    operator(
        "--push-allow-private a2a.pushAllowPrivate",
        "webhooks may be at any address, on this machine too; for tests",
    )
    .takes(Switch(|s, on| s.a2a.push_rules.allow_private = on)),
    operator("--client-mcp a2a.clientMcp", "which MCP servers clients may name for their tasks; see `help mcp`")
        .default("off")
        .takes(OneOf(&["off", "loopback", "listed"], |s, n| {
            s.mcp.clients = [ClientMcp::Off, ClientMcp::Loopback, ClientMcp::Listed][n]
        })),
    operator(
        "--client-mcp-host a2a.clientMcpHosts",
        "with `--client-mcp listed`: a host of such servers, with a port or any; may be repeated",
    )
    .takes(List("HOST[:PORT]", "hosts, each with a port or without", |s, hosts| {
        let hosts = hosts.iter().map(|text| client_host(text)).collect::<Option<Vec<_>>>()?;
        s.mcp.client_hosts.extend(hosts);
        Some(())
    })),
    operator("--card-default a2a.cardDefault", "the agent card for clients that name no version")
        .default("hybrid")
        .takes(OneOf(&["hybrid", "v1"], |s, n| s.a2a.card_default = [CardDefault::Hybrid, CardDefault::V1][n])),
    operator("--strict-version a2a.strictVersion", "a 1.0 call must name its version")
        .takes(Switch(|s, on| s.a2a.strict_version = on)),
    operator(
        "--rest-status-profile a2a.restStatusProfile",
        "the edition of A2A that defines the HTTP status of REST errors",
    )
    .default("1.0.1")
    .takes(OneOf(&["1.0.0", "1.0.1"], |s, n| s.a2a.rest_status = [RestStatus::V100, RestStatus::V101][n])),
    operator("--required-extension a2a.requiredExtensions", "an extension that clients must name; may be repeated")
        .takes(List("URI", "URIs without spaces or commas", |s, uris| {
            let is_uri = |uri: &String| !uri.is_empty() && uri.chars().all(|c| c.is_ascii_graphic() && c != ',');
            uris.iter().all(is_uri).then(|| add(&mut s.a2a.required_extensions, uris))
        })),
    operator("--extended-card a2a.extendedCard", "JSON with what the extended agent card adds to the public one")
        .takes(Path("FILE", |s, file| {
            s.a2a.extended_card = true;
            s.extended_card = Some(file);
        })),
    operator("--default-profile-03 a2a.defaultProfile03", "the profile of 0.3 clients that show no preference")
        .default("plain")
        .takes(OneOf(&["coder", "plain", "devtool"], |s, n| {
            s.a2a.default_profile_03 = [Profile::Coder, Profile::Plain, Profile::Devtool][n]
        })),
    operator("--plain-stream a2a.plainStream", "answers to plain clients are sent whole, or in pieces as they come")
        .default("whole")
        .takes(OneOf(&["whole", "pieces"], |s, n| s.a2a.plain_stream = [PlainStream::Whole, PlainStream::Pieces][n])),
    operator("--plain-lifecycle a2a.plainLifecycle", "whether the task of a plain client ends with its turn")
        .default("one-shot")
        .takes(OneOf(&["one-shot", "conversational"], |s, n| {
            s.a2a.plain_lifecycle = [Lifecycle::OneShot, Lifecycle::Conversational][n]
        })),
    operator(
        "--emit-persisted-state a2a.emitPersistedState",
        "begin coder streams with the state that the reference server shows",
    )
    .takes(Switch(|s, on| s.a2a.emit_persisted_state = on)),
    operator(
        "--coder-abort-on-disconnect a2a.coderAbortOnDisconnect",
        "stop a coder turn when its client disconnects, as the reference server does",
    )
    .takes(Switch(|s, on| s.request_policy.disconnect = if on { Disconnect::Aborts } else { Disconnect::GoesOn })),
    operator("--durability a2a.durability", "strict: prompts and approvals are acknowledged only after fsync")
        .default("normal")
        .takes(OneOf(&["normal", "strict"], |s, n| {
            s.request_policy.durability = [Durability::Normal, Durability::Strict][n]
        })),
    operator("--new-tasks a2a.newTasks", "a prompt that names no task gets a task of its own, or joins the session")
        .default("own")
        .takes(OneOf(&["own", "session"], |s, n| s.request_policy.new_tasks = [NewTasks::Own, NewTasks::Session][n])),
    operator("--blocking-timeout a2a.blockingTimeout", "a blocking call returns after this time; the turn goes on")
        .default("never")
        .takes(Time(|s, ms| s.request_policy.blocking_timeout_ms = ms)),
    operator(
        "--confirmation-timeout a2a.confirmationTimeout",
        "a tool call that nobody has answered after this time is cancelled",
    )
    .default("never")
    .takes(Time(|s, ms| s.limits.times.answer_ms = ms)),
    operator("--turn-timeout a2a.turnTimeout", "a turn that takes longer is stopped and fails")
        .default("never")
        .takes(Time(|s, ms| s.limits.times.turn_ms = ms)),
    operator("--model-timeout a2a.modelTimeout", "time for the model API to begin its response")
        .default("60s")
        .takes(Length(|s, ms| s.limits.model_head_ms = ms)),
    operator("--retry-for a2a.retryFor", "how long a model request that fails is made again")
        .default("2m")
        .takes(Time(|s, ms| s.limits.model_retry_ms = ms)),
    operator("--retry-wait a2a.retryWait", "first wait before it is made again; doubled each time, up to 30s")
        .default("5s")
        .takes(Length(|s, ms| {
            (s.limits.backoff_ms, s.limits.stream_retry_ms) = (ms, ms.min(Limits::default().stream_retry_ms))
        })),
    operator("--idle-ttl a2a.idleTtl", "a task that nobody continues for this time is completed")
        .default("never")
        .takes(Time(|s, ms| s.limits.times.idle_ms = ms)),
    operator(
        "--retention a2a.retention",
        "a task that ended this long ago is deleted, unless a later one continues it",
    )
    .default("30d")
    .takes(Time(|s, ms| s.limits.times.retention_ms = ms)),
    operator("--state-max a2a.stateMax", "bytes of tasks on disk, or never; the oldest finished ones are deleted")
        .default("10GB")
        .takes(Text("SIZE", "a number of bytes, with K, M or G for powers of 1024, or never", |s, size| {
            s.limits.state_bytes = if size == "never" { None } else { Some(size::parse(size)?) };
            Some(())
        })),
    operator("--memory a2a.memory", "memory to use, such as 64M; a lower limit of its cgroup counts")
        .default("any amount")
        .takes(Text("SIZE", "a number of bytes, with K, M or G for powers of 1024", |s, size| {
            s.limits.memory = Some(size::parse(size)?);
            Some(())
        })),
    workspace("model.maxSessionTurns maxSessionTurns", "model requests per task; -1: no limit").default("-1").takes(
        Number(-1, "a whole number, -1 for no limit", |s, turns| {
            s.limits.session_requests = turns.max(0) as u32;
        }),
    ),
    workspace("model.compressionThreshold", "share of the context window at which the conversation is summarised")
        .default("0.5")
        .takes(Share(|s, share| s.limits.compress_tokens = (share * CONTEXT_TOKENS) as u64)),
    workspace("model.disableLoopDetection", "`true` turns loop detection off")
        .takes(Switch(|s, off| s.limits.loop_repetitions = if off { 0 } else { Limits::default().loop_repetitions })),
    workspace("general.maxAttempts", "attempts of a model request that fails, at most 10").default("10").takes(Number(
        1,
        "a whole number from 1 on",
        |s, tries| {
            s.limits.model_tries = tries.min(MOST_ATTEMPTS) as u32;
        },
    )),
    workspace("general.defaultApprovalMode", "`default`, `auto_edit` or `plan`; `yolo` only as `--approval-mode yolo`")
        .takes(OneOf(&["default", "auto_edit", "plan"], |s, n| {
            s.mode = [Mode::Default, Mode::AutoEdit, Mode::Plan][n]
        })),
    workspace("tools.core coreTools", "the only tools that are offered")
        .takes(Texts("TOOL", |s, tools| s.tools.core = Some(tools))),
    workspace("tools.allowed allowedTools", "tools that need no approval, see `gemini-a2a help approvals`")
        .takes(Texts("TOOL", |s, tools| s.tools.allowed = tools)),
    workspace("tools.exclude excludeTools", "tools that are not offered")
        .takes(Texts("TOOL", |s, tools| add(&mut s.tools.exclude, tools))),
    workspace("tools.confirmationRequired", "tools that always need approval")
        .takes(Texts("TOOL", |s, tools| add(&mut s.tools.confirmation_required, tools))),
    workspace("tools.autoAccept autoAccept", "`true`: tools that only read never need approval")
        .takes(Switch(|s, on| s.tools.auto_accept = on)),
    workspace("tools.shell.inactivityTimeout", "seconds without output after which a command is ended; 0: never")
        .default("300")
        .takes(Number(0, "a whole number of seconds, 0 for never", |s, seconds| {
            s.limits.shell_silence_ms = seconds as u64 * 1_000;
        })),
    workspace(
        "tools.truncateToolOutputThreshold truncateToolOutputThreshold",
        "characters of a result that the model receives",
    )
    .default("40000")
    .takes(Number(1, "a whole number of characters from 1 on", |s, chars| {
        s.limits.result_chars = chars as usize;
    })),
    workspace("context.fileName contextFileName", "the name of memory files, or a list of names")
        .default("GEMINI.md")
        .takes(List("NAME", "a file's name, or a list of them", |s, names| {
            // These files are read in several directories, the user's own among them: a name must not lead out of one.
            let is_plain = |name: &String| !name.contains('/') && !["", ".", ".."].contains(&name.as_str());
            let valid = !names.is_empty() && names.iter().all(is_plain);
            valid.then(|| s.context.file_names = names)
        })),
    workspace("context.memoryBoundaryMarkers", "names of files that mark the root of a project")
        .default(".git")
        .takes(Texts("NAME", |s, names| s.context.boundary_markers = names)),
    workspace("context.includeDirectoryTree", "`false`: the model is not shown the directory tree")
        .takes(Switch(|s, on| s.context.directory_tree = Some(on))),
    workspace(
        "context.fileFiltering.respectGitIgnore fileFiltering.respectGitIgnore",
        "`false`: `.gitignore` is not respected",
    )
    .takes(Switch(|s, on| s.context.respect_git_ignore = Some(on))),
    workspace(
        "context.fileFiltering.respectGeminiIgnore fileFiltering.respectGeminiIgnore",
        "`false`: `.geminiignore` is not respected",
    )
    .takes(Switch(|s, on| s.context.respect_gemini_ignore = Some(on))),
    workspace(
        "context.fileFiltering.customIgnoreFilePaths fileFiltering.customIgnoreFilePaths",
        "further ignore files",
    )
    .takes(Texts("FILE", |s, files| add(&mut s.context.ignore_files, files))),
    workspace("extensions.disabled", "extensions that are not used")
        .takes(Texts("NAME", |s, names| add(&mut s.disabled_extensions, names))),
    workspace("skills.enabled", "`false`: no skills are used").takes(Switch(|s, on| s.skills.enabled = Some(on))),
    workspace("skills.disabled", "skills that are not used")
        .takes(Texts("NAME", |s, names| add(&mut s.skills.disabled, names))),
    workspace("hooks", "commands that run at points of a task, see `gemini-a2a help hooks`")
        .takes(InFile("an object with points and lists of hooks", Settings::add_hooks)),
    operator("hooksConfig.enabled", "`false`: no hooks run").takes(Switch(|s, on| s.hooks.enabled = Some(on))),
    operator("hooksConfig.disabled", "names or commands of hooks that do not run")
        .takes(Texts("NAME", |s, names| add(&mut s.hooks.disabled, names))),
    operator("security.folderTrust.enabled folderTrust", "`false`: every workspace is trusted")
        .takes(Switch(|s, on| s.security.folder_trust = Some(on))),
    workspace("security.disableYoloMode disableYoloMode", "`true` forbids the approval mode `yolo`")
        .takes(Switch(|s, on| s.security.disable_yolo |= on)),
    workspace("security.disableAlwaysAllow", "`true` forbids saving approvals")
        .takes(Switch(|s, on| s.security.disable_always_allow |= on)),
    operator("security.enablePermanentToolApproval", "`true` offers `proceed_always_and_save`")
        .takes(Switch(|s, on| s.security.permanent_approval = on)),
    operator("general.checkpointing.enabled checkpointing.enabled", "store edited files, for `/undo`")
        .default("true")
        .takes(Switch(|s, on| s.checkpointing = Some(on))),
    workspace("advanced.excludedEnvVars excludedProjectEnvVars", "variables that a workspace's `.env` may not set")
        .takes(Texts("NAME", |s, names| add(&mut s.excluded_variables, names))),
    workspace("policy.rules policies", "rules, see `gemini-a2a help approvals`")
        .takes(InFile("a list of rules", Settings::add_rules)),
    workspace("mcpServers", "MCP servers by name")
        .takes(InFile("a map of servers", |s, node, layer| s.mcp.add_servers(node, layer))),
    workspace(
        "mcp.allowed allowMCPServers",
        "the only MCP servers that are used; a workspace can only narrow the list",
    )
    .takes(InFile("a list of names", |s, node, layer| s.mcp.add_list("allowed", node, layer))),
    workspace("mcp.excluded excludeMCPServers", "MCP servers that are not used")
        .takes(InFile("a list of names", |s, node, layer| s.mcp.add_list("excluded", node, layer))),
    operator("policyPaths adminPolicyPaths", "where to look for policies in TOML, to report that they are not read")
        .takes(Texts("PATH", |s, paths| add(&mut s.policy_paths, paths))),
    operator("billing.vertexAi.requestType", "the kind of capacity of Vertex AI to use").takes(Text(
        "NAME",
        "a text",
        |s, text| header(s, "X-Vertex-AI-LLM-Request-Type", text),
    )),
    operator("billing.vertexAi.sharedRequestType", "the same for shared capacity").takes(Text(
        "NAME",
        "a text",
        |s, text| header(s, "X-Vertex-AI-LLM-Shared-Request-Type", text),
    )),
    operator("A2A_TOKEN", "`--access token`: a credential of the operator with all rights, of 32 characters or more")
        .takes(Texts("TOKEN", |s, texts| s.access.token = Some(Secret::new(texts.concat()))))
        .credential(),
    operator(
        "A2A_LISTEN",
        "as `--listen`, if neither that nor `--host` is given; `CODER_AGENT_PORT` replaces its port",
    )
    .takes(Text("PLACE", LISTEN, |s, text| put(&mut s.listen_variable, listen::parse(text)))),
    operator("K_SERVICE", "set by Cloud Run; then `--access token` and the address 0.0.0.0 are the defaults")
        .takes(Texts("NAME", |s, texts| s.access.platform = Some(texts.concat()))),
    operator("PORT", "with `K_SERVICE`: as `CODER_AGENT_PORT`, if that is not set")
        .takes(Texts("PORT", |s, texts| s.platform_port = Some(texts.concat()))),
    operator("GEMINI_API_KEY", "key of the Gemini API; without one (and without a base URL) the demo answers")
        .credential(),
    operator("GEMINI_API_KEY_AUTH_MECHANISM", "`bearer`: send the key as a bearer token too"),
    operator("GOOGLE_GEMINI_BASE_URL", "another address of the Gemini API; the key may then be missing"),
    operator(
        "GOOGLE_GENAI_USE_VERTEXAI",
        "`true`: use Vertex AI, with a key, or with a project, a location and a token",
    ),
    operator("GOOGLE_API_KEY", "Vertex AI: the key").credential(),
    operator("GOOGLE_CLOUD_PROJECT", "Vertex AI: the project"),
    operator("GOOGLE_CLOUD_LOCATION", "Vertex AI: the location"),
    operator("GOOGLE_CLOUD_ACCESS_TOKEN", "Vertex AI: an OAuth token").credential(),
    operator("GOOGLE_CLOUD_ACCESS_TOKEN_FILE", "Vertex AI: a file with the token, read before each request")
        .credential(),
    operator("GOOGLE_APPLICATION_CREDENTIALS", "a file with Google credentials; without it the machine's are used")
        .credential(),
    operator("GCE_METADATA_HOST", "another address of the server that gives the machine's Google credentials"),
    operator("A2A_GCS_BUCKET", "tasks are in this bucket of Google Cloud Storage, which several servers may share"),
    operator("GCS_BUCKET_NAME", "as `A2A_GCS_BUCKET`, if that is not set"),
    operator("STORAGE_EMULATOR_HOST", "another address of Google Cloud Storage, without credentials, for tests"),
    operator("A2A_S3_BUCKET", "tasks are in this bucket of S3 or of a store that speaks its protocol"),
    operator("AWS_REGION", "S3: the region"),
    operator("AWS_ENDPOINT_URL", "S3: the address of another store"),
    operator("AWS_ACCESS_KEY_ID", "S3: the key's id").credential(),
    operator("AWS_SECRET_ACCESS_KEY", "S3: the key").credential(),
    operator("AWS_SESSION_TOKEN", "S3: the token of a temporary key").credential(),
    operator("GOOGLE_VERTEX_BASE_URL", "another address of Vertex AI"),
    operator("GOOGLE_GENAI_API_VERSION", "another API version (default: v1beta, for Vertex AI v1beta1)"),
    operator("GEMINI_CLI_CUSTOM_HEADERS", "further request headers: `Name: value, Name: value`").credential(),
    operator("HTTPS_PROXY", "proxy for https; HTTP_PROXY, ALL_PROXY and NO_PROXY are used too"),
    operator("SSL_CERT_FILE", "a PEM file of further certificates to trust")
        .takes(Path("FILE", |s, file| s.ca_file = Some(file))),
    operator("CODER_AGENT_WORKSPACE_PATH", "overrides `--workspace`, and clients cannot choose another")
        .takes(Path("DIR", |s, dir| s.pinned_workspace = Some(dir))),
    operator("GEMINI_YOLO_MODE", "`true` is `--approval-mode yolo`")
        .takes(OneOf(&["true", "false"], |s, n| s.mode = [Mode::Yolo, s.mode][n])),
    operator("CUSTOM_IGNORE_FILE_PATHS", "further ignore files, separated by colons").takes(Texts(
        "FILES",
        |s, lists| {
            let files = lists.iter().flat_map(|list| list.split(':')).filter(|file| !file.is_empty());
            add(&mut s.context.ignore_files, files.map(str::to_owned).collect());
        },
    )),
    operator("GEMINI_CLI_HOME", "replaces the home directory when settings are looked for"),
    operator("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "another file in place of `/etc/gemini-cli/system-defaults.json`"),
    operator("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "another file in place of `/etc/gemini-cli/settings.json`"),
    operator("GEMINI_CLI_TRUSTED_FOLDERS_PATH", "another file in place of `~/.gemini/trustedFolders.json`"),
];

/// Flags for tests. No help names them.
pub const HIDDEN: &[Row] = &[operator("--store-times", "divide the times of a store in a bucket by this").takes(Text(
    "N",
    "a number from 1 to 1000",
    |s, text| put(&mut s.store.divisor, text.parse().ok().filter(|n| (1..=1_000).contains(n))),
))];

const PUSH: Row = match WEBHOOKS {
    true => operator("--push a2a.push", "webhooks").default("on").takes(OnOff(|s, on| s.a2a.push = on)),
    false => {
        operator("--push a2a.push", "webhooks; this build has none").takes(OneOf(&["off"], |s, _| s.a2a.push = false))
    }
};
