//! One call of an agent: gets its card, sends the prompt, follows its task and, if the call is cancelled, cancels the task.
//!
//! Credentials are sent only to the origin that the agent's file names, and redirections are not followed. Private addresses are allowed only
//! for agents in the user's own files, and a card from a public host cannot lead to a private address.

use super::files::{CardLocation, FoundAgent, FoundAgents};
use super::secrets::Authorisation;
use super::{Definer, RemoteAgents};
use crate::a2a::client::card::{Interface, interface};
use crate::a2a::client::reply::{Outcome, Reply};
use crate::a2a::client::request::{Operation, Outgoing, Prompt, Refusal, refused};
use crate::base::cancel::Cancel;
use crate::base::json;
use crate::config::Variables;
use crate::config::definitions::agent::Auth;
use crate::config::proxy::Proxies;
use crate::limits::agents::{
    AGENT_ANSWER_BYTES, AGENT_CANCEL_MS, AGENT_CONNECT_MS, AGENT_ERROR_BYTES, AGENT_EVENT_BYTES, AGENT_POLL_FAILURES,
    AGENT_POLL_MOST_MS, AGENT_POLL_MS, CARD_BYTES, CARD_MS,
};
use crate::mcp::transport::url::Url;
use crate::shell::event_loop::sys;
use crate::task::definitions::agent::{AgentThread, Callee, DEPTH_HEADER};
use crate::tool::invoke_agent::{AgentAnswer, AgentCall, AgentList, Agents, WaitsFor};
use crate::tool::live::Live;
use crate::tool::public_hosts::{CheckedResolver, is_public};
use crate::wire::sse;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use ureq::http::Response;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Proxy};

/// The size of one read.
const CHUNK: usize = 16 * 1024;
/// The stack size of a thread that only waits.
const STACK: usize = 64 * 1024;

impl Agents for RemoteAgents {
    fn agents(&self, workspace: &Path) -> AgentList {
        let FoundAgents { agents, messages, .. } = self.find(workspace);
        let usable = agents.into_iter().filter(|found| found.card.is_ok()).map(|found| found.callee);
        AgentList { agents: usable.collect(), messages }
    }

    fn call(&self, call: &AgentCall<'_>, cancel: &Cancel, out: &mut dyn FnMut(String)) -> AgentAnswer {
        let mut active = ActiveCall {
            agents: self,
            call,
            cancel,
            deadline: Instant::now() + Duration::from_millis(self.limits.agent_ms),
            authorisation: None,
            reply: Reply::default(),
            is_task_known: Arc::default(),
            live: Live::new(out, &self.limits),
        };
        let end = active.run();
        cancel.clear();
        active.answer(end)
    }
}

struct ActiveCall<'a> {
    agents: &'a RemoteAgents,
    call: &'a AgentCall<'a>,
    cancel: &'a Cancel,
    deadline: Instant,
    authorisation: Option<Authorisation>,
    reply: Reply,
    /// Whether the agent has named its task. Only then can the task be cancelled.
    is_task_known: Arc<AtomicBool>,
    live: Live<'a>,
}

/// The destination of requests, and whether they are authorised.
struct Route {
    interface: Interface,
    url: Url,
    is_public_only: bool,
    is_authorised: bool,
}

/// Why a request failed: an error of the connection, or an error response of the agent.
enum Failure {
    Transport(String),
    Refused(Refusal),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Transport(why)
    }
}

impl Failure {
    fn text(self) -> String {
        match self {
            Failure::Transport(why) => why,
            Failure::Refused(refusal) => refusal.message,
        }
    }
}

impl ActiveCall<'_> {
    fn run(&mut self) -> Result<Outcome, String> {
        let FoundAgents { agents, variables, .. } = self.agents.find(self.call.workspace);
        let Callee { name, fingerprint, .. } = self.call.agent;
        let is_called = |found: &&FoundAgent| found.callee.name == *name && found.callee.fingerprint == *fingerprint;
        let found = agents.iter().find(is_called).ok_or("its file has changed; call it again")?;
        let location = found.card.as_ref().map_err(Clone::clone)?;
        let route = self.route(found, location, &variables)?;
        let end = self.converse(&route);
        if self.reply.outcome().is_none()
            && (self.cancel.is_set() || end.is_err())
            && let Some(task) = self.reply.task.clone()
        {
            self.cancel_task(&route, &task);
        }
        end
    }

    /// The result of the call for the tool.
    fn answer(mut self, end: Result<Outcome, String>) -> AgentAnswer {
        self.live.flush();
        let Callee { name, fingerprint, .. } = self.call.agent;
        let is_over = !matches!(end, Ok(Outcome::InputRequired | Outcome::AuthRequired));
        let (context, task) = (self.reply.context.clone(), self.reply.task.clone().filter(|_| !is_over));
        let thread = AgentThread { agent: name.clone(), fingerprint: fingerprint.clone(), context, task };
        let thread = (thread.context.is_some() || thread.task.is_some()).then_some(thread);
        let text_so_far = self.reply.text();
        let failed = |what: &str| Err(if text_so_far.is_empty() { what.to_owned() } else { text_so_far.clone() });
        let (text, waits_for) = match end {
            Ok(Outcome::Answered) => (Ok(text_so_far), WaitsFor::Nothing),
            Ok(Outcome::InputRequired) => (Ok(text_so_far), WaitsFor::Answer),
            Ok(Outcome::AuthRequired) => (Ok(text_so_far), WaitsFor::Authorisation),
            Ok(Outcome::Failed) => (failed("it failed and did not say why"), WaitsFor::Nothing),
            Ok(Outcome::Rejected) => (failed("it rejected the work and did not say why"), WaitsFor::Nothing),
            Ok(Outcome::Canceled) => (failed("its task was canceled"), WaitsFor::Nothing),
            Err(why) => (Err(why), WaitsFor::Nothing),
        };
        let text = text.map(|text| self.without_secrets(&text)).map_err(|why| self.without_secrets(&why));
        AgentAnswer { thread, text, waits_for }
    }

    fn without_secrets(&self, text: &str) -> String {
        let secrets = self.authorisation.iter().flat_map(|authorisation| &authorisation.secrets);
        secrets.fold(text.to_owned(), |text, secret| secret.hide_in(&text))
    }

    /// Gets the card and selects one of its interfaces.
    fn route(&mut self, found: &FoundAgent, location: &CardLocation, variables: &Variables) -> Result<Route, String> {
        let is_users = matches!(found.definer, Definer::User);
        let home = location.url();
        let card = match location {
            CardLocation::Inline(card, _) => card.clone(),
            CardLocation::Url(url) => self.card(found, url, variables)?,
        };
        let interface = interface(&card)?;
        let url = Url::parse(&interface.url).map_err(|why| format!("the URL in its card {why}"))?;
        if url.has_user() {
            return Err("the URL in its card contains a user name".into());
        }
        let is_home = url.has_origin_of(home);
        if is_home {
            self.authorise(found, variables)?;
        } else if !matches!(found.auth, Auth::None) {
            let (site, home) = (url.site(), home.site());
            self.live.push(&format!("[The card leads to {site}, which is not {home}: it is sent no credentials.]\n"));
        }
        let may_be_private = is_users && (is_home || home.is_private());
        Ok(Route { interface, url, is_public_only: !may_be_private, is_authorised: is_home })
    }

    fn card(&mut self, found: &FoundAgent, url: &Url, variables: &Variables) -> Result<Value, String> {
        let is_public_only = !matches!(found.definer, Definer::User);
        let outgoing = Outgoing {
            url: url.whole().reveal().to_owned(),
            headers: vec![("Accept", "application/json")],
            body: None,
        };
        let time = Duration::from_millis(CARD_MS).min(self.time_left());
        let agent = self.agent(url, is_public_only)?;
        let mut response = self.send(&agent, &outgoing, None, time)?;
        if matches!(response.status().as_u16(), 401 | 403) && !matches!(found.auth, Auth::None) {
            self.authorise(found, variables)?;
            response = self.send(&agent, &outgoing, self.authorisation.as_ref(), time)?;
        }
        let bytes = match response.status().as_u16() {
            200..=299 => read(response.into_body(), CARD_BYTES)?,
            status => return Err(format!("its card cannot be read: {}", self.status_failure(status, response).text())),
        };
        json::read(&bytes).map_err(|error| format!("its card is not JSON: {error}"))
    }

    fn authorise(&mut self, found: &FoundAgent, variables: &Variables) -> Result<(), String> {
        if self.authorisation.is_none() {
            self.authorisation = self.agents.authorisation(found, variables, self.cancel)?;
        }
        Ok(())
    }

    /// Sends the prompt and follows the task until the agent waits or is done.
    fn converse(&mut self, route: &Route) -> Result<Outcome, String> {
        let thread = self.call.thread;
        let mut sent = self.prompt(route, thread.and_then(|thread| thread.task.as_deref()));
        if let Err(Failure::Refused(Refusal { is_about_task: true, .. })) = &sent
            && thread.is_some_and(|thread| thread.task.is_some())
        {
            // The task that waited for input does not exist any more.
            sent = self.prompt(route, None);
        }
        match sent {
            Ok(()) => {}
            // After an interrupted response, the task can be polled.
            Err(Failure::Transport(_)) if self.reply.task.is_some() && !self.is_out_of_time() => {}
            Err(failure) => return Err(self.timeout_or(failure.text())),
        }
        self.poll(route)
    }

    fn prompt(&mut self, route: &Route, task: Option<&str>) -> Result<(), Failure> {
        let message_id = sys::entropy().uuid();
        let context = self.call.thread.and_then(|thread| thread.context.as_deref());
        let prompt = Prompt { message_id: &message_id, text: self.call.prompt, context, task };
        let operation = match route.interface.streams {
            true => Operation::Stream(&prompt),
            false => Operation::Send(&prompt),
        };
        let agent = self.agent(&route.url, route.is_public_only)?;
        let response = self.request(&agent, route, operation, self.time_left())?;
        let is_stream = response.body().mime_type().is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"));
        match is_stream {
            true => self.follow(route, response.into_body()),
            false => self.apply(route, &read(response.into_body(), AGENT_EVENT_BYTES)?),
        }
    }

    /// Reads events until the agent waits or is done.
    fn follow(&mut self, route: &Route, body: Body) -> Result<(), Failure> {
        let mut events = sse::Decoder::new(AGENT_EVENT_BYTES);
        let mut stream = body.into_reader();
        let (mut bytes, mut total) = (vec![0; CHUNK], 0);
        while self.reply.outcome().is_none() && !(self.cancel.is_set() && self.reply.task.is_some()) {
            let count = stream
                .read(&mut bytes)
                .map_err(|error| format!("its stream broke off: {}", error_text(&error.into())))?;
            if count == 0 {
                return Ok(());
            }
            total += count;
            if total > AGENT_ANSWER_BYTES {
                return Err(Failure::Refused(too_long()));
            }
            events.feed(&bytes[..count]);
            for event in events.by_ref() {
                let event = event.map_err(|sse::TooLarge| Failure::Refused(too_long()))?;
                self.apply(route, &event.data)?;
            }
        }
        Ok(())
    }

    /// Applies a response or an event.
    fn apply(&mut self, route: &Route, bytes: &[u8]) -> Result<(), Failure> {
        let body = json::read(bytes).map_err(|error| format!("its answer cannot be read: {error}"))?;
        let event = route.interface.open(body).map_err(Failure::Refused)?;
        let text = self.reply.take(&event);
        self.is_task_known.store(self.reply.task.is_some(), Ordering::Release);
        self.live.push(&self.without_secrets(&text));
        Ok(())
    }

    /// Polls the task until the agent waits or is done.
    fn poll(&mut self, route: &Route) -> Result<Outcome, String> {
        let (mut wait, mut failures) = (AGENT_POLL_MS, 0);
        loop {
            if let Some(outcome) = self.reply.outcome() {
                return Ok(outcome);
            }
            let task = self.reply.task.clone().ok_or("its answer has neither a message nor a task")?;
            self.live.flush();
            self.cancel.wait(Duration::from_millis(wait).min(self.time_left()));
            if self.is_out_of_time() {
                return Err(self.timeout_or(String::new()));
            }
            wait = (wait * 2).min(AGENT_POLL_MOST_MS);
            let result = self.get_task(route, &task);
            match result {
                Ok(()) => failures = 0,
                Err(Failure::Refused(refusal)) => return Err(refusal.message),
                Err(Failure::Transport(_)) if failures < AGENT_POLL_FAILURES => failures += 1,
                Err(Failure::Transport(why)) => return Err(self.timeout_or(why)),
            }
        }
    }

    fn get_task(&mut self, route: &Route, task: &str) -> Result<(), Failure> {
        let agent = self.agent(&route.url, route.is_public_only)?;
        let response = self.request(&agent, route, Operation::Get { task }, self.time_left())?;
        self.apply(route, &read(response.into_body(), AGENT_EVENT_BYTES)?)
    }

    /// Cancels the agent's task. Errors are ignored, because the agent may not be running any more.
    fn cancel_task(&self, route: &Route, task: &str) {
        let time = Duration::from_millis(AGENT_CANCEL_MS);
        if let Ok(agent) = self.plain_agent(&route.url, route.is_public_only) {
            let outgoing = route.interface.request(Operation::Cancel { task });
            let _ = self.send(&agent, &outgoing, self.authorisation_for(route), time);
        }
    }

    fn authorisation_for(&self, route: &Route) -> Option<&Authorisation> {
        self.authorisation.as_ref().filter(|_| route.is_authorised)
    }

    fn request(
        &self,
        agent: &Agent,
        route: &Route,
        what: Operation<'_>,
        time: Duration,
    ) -> Result<Response<Body>, Failure> {
        let response = self.send(agent, &route.interface.request(what), self.authorisation_for(route), time)?;
        match response.status().as_u16() {
            200..=299 => Ok(response),
            status => Err(self.status_failure(status, response)),
        }
    }

    fn status_failure(&self, status: u16, response: Response<Body>) -> Failure {
        if (300..400).contains(&status) {
            let to = response.headers().get("location").and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| Some(Url::parse(to).ok()?.shown()));
            let to = to.unwrap_or_else(|| "another address".into());
            return Failure::Transport(format!(
                "it redirects to {to}, which is not followed; write the right address into its file"
            ));
        }
        Failure::Refused(refused(status, &read(response.into_body(), AGENT_ERROR_BYTES).unwrap_or_default()))
    }

    fn send(
        &self,
        agent: &Agent,
        outgoing: &Outgoing,
        authorisation: Option<&Authorisation>,
        time: Duration,
    ) -> Result<Response<Body>, String> {
        let depth = self.call.depth.to_string();
        let given = authorisation.map(|given| (given.name.as_str(), given.value.reveal()));
        let headers = outgoing.headers.iter().copied().chain([(DEPTH_HEADER, depth.as_str())]).chain(given);
        let sent = match &outgoing.body {
            Some(body) => {
                let request =
                    headers.fold(agent.post(&outgoing.url), |request, (name, value)| request.header(name, value));
                request.config().timeout_global(Some(time)).build().send(&body[..])
            }
            None => {
                let request =
                    headers.fold(agent.get(&outgoing.url), |request, (name, value)| request.header(name, value));
                request.config().timeout_global(Some(time)).build().call()
            }
        };
        sent.map_err(|error| format!("{} cannot be reached: {}", self.call.agent.origin, error_text(&error)))
    }

    /// An agent of the HTTP library that is shut down when the call is cancelled: at once if the task is known, otherwise after a while in
    /// which the agent may still name it.
    fn agent(&self, url: &Url, is_public_only: bool) -> Result<Agent, String> {
        let agent = self.plain_agent(url, is_public_only)?;
        let (cancelled_agent, is_task_known) = (agent.clone(), self.is_task_known.clone());
        self.cancel.on_set(move || {
            if is_task_known.load(Ordering::Acquire) {
                return cancelled_agent.shutdown();
            }
            let delayed = cancelled_agent.clone();
            let end = move || {
                thread::sleep(Duration::from_millis(AGENT_CANCEL_MS));
                delayed.shutdown();
            };
            if thread::Builder::new().stack_size(STACK).spawn(end).is_err() {
                cancelled_agent.shutdown();
            }
        });
        Ok(agent)
    }

    fn plain_agent(&self, url: &Url, is_public_only: bool) -> Result<Agent, String> {
        let none = Variables::default();
        let proxies = Proxies::new(&|name| self.agents.reader.variable(&none, name));
        // A proxy is used only if any address is allowed, because the address to which it connects cannot be checked.
        let proxy = proxies.to(url.whole().reveal()).filter(|_| !is_public_only).map(Proxy::new).transpose();
        let config = Agent::config_builder()
            .tls_config(self.agents.tls.clone())
            .proxy(proxy.map_err(|error| format!("the proxy cannot be used: {error}"))?)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_millis(AGENT_CONNECT_MS)))
            .max_response_header_size(self.agents.limits.model_buffer_bytes)
            .user_agent(concat!("gemini-a2a/", env!("CARGO_PKG_VERSION")))
            .build();
        let judged = if is_public_only { CheckedResolver::new(is_public) } else { CheckedResolver::new(|_| true) };
        Ok(Agent::with_parts(config, DefaultConnector::default(), judged))
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn is_out_of_time(&self) -> bool {
        self.cancel.is_set() || self.time_left().is_zero()
    }

    /// The reason of a failure: a timeout if the time is over, otherwise `why`.
    fn timeout_or(&self, why: String) -> String {
        match self.time_left().is_zero() {
            true => format!("it took longer than {} s", self.agents.limits.agent_ms / 1_000),
            false => why,
        }
    }
}

fn too_long() -> Refusal {
    Refusal { message: "its answer is too long".into(), is_about_task: false }
}

fn error_text(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "it was too slow".into(),
        ureq::Error::HostNotFound => "the host was not found".into(),
        error => error.to_string(),
    }
}

fn read(body: Body, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = body.into_reader().take(max_bytes as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("its answer broke off: {}", error_text(&error.into())))?;
    match bytes.len() > max_bytes {
        true => Err(format!("it answers with more than {max_bytes} bytes")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::agents;
    use super::*;
    use crate::limits::Limits;
    use crate::tool::tests::Scratch;
    use std::net::TcpListener;

    #[test]
    fn the_time_of_a_call_is_limited() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", silent.local_addr().expect("bound"));
        let scratch = Scratch::new();
        let text = format!("---\nname: a\nagent_card_json: '{{\"url\": \"{url}\"}}'\n---\n");
        scratch.put("h/.gemini/agents/a.md", text);
        let agents = agents(&scratch);
        let agents = RemoteAgents { limits: Limits { agent_ms: 50, ..Limits::default() }, ..agents };
        let workspace = scratch.path().join("w");
        let agent = &agents.agents(&workspace).agents[0];
        let call = AgentCall { workspace: &workspace, agent, prompt: "p", thread: None, depth: 1 };
        let answer = agents.call(&call, &Cancel::default(), &mut |_| {});
        assert_eq!(answer.text, Err("it took longer than 0 s".into()));
        assert_eq!((answer.thread, answer.waits_for), (None, WaitsFor::Nothing));
    }
}
