//! Health and readiness: whether requests should be sent to this server. Everything is known in memory, so the answer waits for nothing.

use crate::a2a::{self, Unready};
use crate::base::clock::Now;
use crate::base::http::Response;
use crate::core::Core;
use crate::core::requests::Caller;
use crate::core::tasks::loaded_task::LoadedTask;
use crate::task::access::Right;
use crate::task::log::brief::Brief;
use crate::task::push::WebhookCounts;

/// Which jobs take longer than they should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The disk does not answer.
    pub store: bool,
    /// Jobs of another lane wait for a thread.
    pub lanes: bool,
}

impl Core {
    /// The report for `/health`. A caller without the right to view tasks sees only whether there is a problem.
    pub(in crate::core) fn health(&self, caller: &Caller, now: Now) -> Response {
        let problem = self.audit_problem().or(self.disk.health.problem()).or(self.access.problem());
        let principal = &caller.principal;
        if !principal.rights.has(Right::View) {
            return a2a::short_health(problem);
        }
        // Tasks that the caller does not see are not counted.
        let sees = |brief: &Brief| principal.sees(&brief.owner, brief.shared);
        let is_seen = |loaded: &&LoadedTask| principal.sees(&loaded.state.created.owner, loaded.state.created.shared);
        a2a::health(&a2a::HealthReport {
            problem,
            memory: self.settings.limits.memory.map(|budget| (budget, self.used_memory())),
            uptime_ms: now.mono_ms - self.settings.started.mono_ms,
            active: self.tasks.values().filter(is_seen).filter(|loaded| loaded.is_open()).count(),
            total: self.tasks.known.iter().filter(|(_, brief)| sees(brief)).count(),
            hooks: WebhookCounts::of(self.tasks.values().filter(is_seen).flat_map(|loaded| &loaded.state.hooks)),
            refused_peers: self.connections.refused(),
            unconfined: self.settings.unconfined.as_deref(),
        })
    }

    /// Whether tasks can be stored.
    pub fn has_store(&self) -> bool {
        !self.disk.health.is_store_broken() && !self.operation.delays.store
    }

    /// Why requests should go to another server: every reason, in a fixed order.
    pub(in crate::core) fn unready(&self) -> Vec<Unready> {
        let health = &self.disk.health;
        let is_so = |why: &Unready| match why {
            Unready::Store => !self.has_store(),
            Unready::Lanes => health.lacks_threads() || self.operation.delays.lanes,
            Unready::Draining => !self.is_running(),
            Unready::Credentials => self.access.problem().is_some(),
            Unready::Audit => self.audit_problem().is_some(),
            Unready::Identity => self.access.identity.as_ref().is_some_and(|identity| identity.problem().is_some()),
        };
        Unready::ALL.into_iter().filter(is_so).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Input;
    use crate::core::connections::connection::Peer;
    use crate::core::disk::store::StoreError;
    use crate::core::test_core::TestCore;

    fn ask(test: &mut TestCore, path: &str) -> String {
        let key = test.core.opened(Peer::Stranger, test.now);
        test.core.received(key, format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.7\r\n\r\n").as_bytes(), test.now);
        test.turns();
        let answer = test.take(key);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
        format!("{} {body}", &head[9..12])
    }

    #[test]
    fn readiness_names_every_reason_until_it_is_gone() {
        let mut test = TestCore::new();
        assert_eq!(ask(&mut test, "/live"), r#"200 {"live":true}"#);
        assert_eq!(ask(&mut test, "/ready"), r#"200 {"ready":true}"#);
        test.core.input(Input::Delayed(Delays { store: true, lanes: true }), test.now);
        assert_eq!(ask(&mut test, "/ready"), r#"503 {"ready":false,"why":["store","lanes"]}"#);
        test.core.input(Input::Delayed(Delays::default()), test.now);
        test.core.input(Input::NoThreads(Some("no memory".into())), test.now);
        assert_eq!(ask(&mut test, "/ready"), r#"503 {"ready":false,"why":["lanes"]}"#);
        test.core.input(Input::NoThreads(None), test.now);
        test.core.input(Input::Probed(Err(StoreError::new("full"))), test.now);
        assert_eq!(ask(&mut test, "/ready"), r#"503 {"ready":false,"why":["store"]}"#);
        assert!(!test.core.has_store(), "the service manager gets no report that the server is ready");
        assert_eq!(ask(&mut test, "/live"), r#"200 {"live":true}"#);
        assert_eq!(
            ask(&mut test, "/health"),
            r#"403 {"error":"This server does not answer to that Host. Use localhost, or allow the name with --allowed-host."}"#
        );
        test.core.settings.host_policy.hosts = vec!["10.0.0.7".into()];
        assert_eq!(ask(&mut test, "/health"), r#"200 {"status":"degraded"}"#, "a stranger sees no more");
        test.core.input(Input::Probed(Ok(())), test.now);
        assert_eq!(ask(&mut test, "/ready"), r#"200 {"ready":true}"#);
    }
}
