//! A build without the feature `webhooks` answers as a server with `--push off`.

use crate::drive::{Fixture, task_in};
use serde_json::json;

#[test]
fn every_call_about_webhooks_is_refused_and_the_card_says_so() {
    for args in [&[][..], &["--push", "off"]] {
        let fixture = Fixture::with(|setup| args.iter().fold(setup, |setup, arg| setup.arg(arg)));
        let task = task_in(&fixture.say("TEXT one"));
        let mut client = fixture.client();
        let card = client.get("/.well-known/agent-card.json").json();
        assert_eq!(card["capabilities"]["pushNotifications"], false);
        let set = json!({"taskId": task, "pushNotificationConfig": {"url": "https://client.example/"}});
        for (method, params) in [
            ("tasks/pushNotificationConfig/set", set),
            ("tasks/pushNotificationConfig/get", json!({ "id": task })),
            ("tasks/pushNotificationConfig/list", json!({ "id": task })),
            ("tasks/pushNotificationConfig/delete", json!({"id": task, "pushNotificationConfigId": "a"})),
        ] {
            assert_eq!(client.fault(method, params), -32003, "{method} {args:?}");
        }
    }
}
