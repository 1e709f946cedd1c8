//! Requests about webhooks, and prompts that set one.

use super::*;

#[test]
#[cfg_attr(not(feature = "webhooks"), ignore = "this build has no webhooks")]
fn webhooks_by_the_methods_of_either_version() {
    let wish = |id: Option<&str>| Wish {
        id: id.map(Into::into),
        url: "https://x.test/".into(),
        token: None,
        schemes: Vec::new(),
        credentials: None,
    };
    let url = "https://x.test/";
    for (old, old_params, new, new_params, asked) in [
        (
            "set",
            json!({"taskId": "t", "pushNotificationConfig": {"id": "h", "url": url}}),
            "CreateTaskPushNotificationConfig",
            json!({"taskId": "t", "id": "h", "url": url}),
            Push::Set(wish(Some("h"))),
        ),
        (
            "get",
            json!({"id": "t", "pushNotificationConfigId": "h"}),
            "GetTaskPushNotificationConfig",
            json!({"taskId": "t", "id": "h"}),
            Push::Get(Some("h".into())),
        ),
        (
            "list",
            json!({"id": "t"}),
            "ListTaskPushNotificationConfigs",
            json!({"taskId": "t", "pageSize": 100, "pageToken": ""}),
            Push::List,
        ),
        (
            "delete",
            json!({"id": "t", "pushNotificationConfigId": "h"}),
            "DeleteTaskPushNotificationConfig",
            json!({"name": "tasks/t/pushNotificationConfigs/h"}),
            Push::Delete("h".into()),
        ),
    ] {
        let old = format!("tasks/pushNotificationConfig/{old}");
        for (method, params) in [(old.as_str(), old_params), (new, new_params)] {
            let request = rpc(method, params);
            let (call, _) = decode(&request).unwrap();
            let expected = Call::Push { task: "t".into(), ask: asked.clone() };
            assert_eq!(call, expected, "{method}");
            let off = Switches { push: false, ..Switches::default() };
            let (fault, _) = route::decode(&request, &off).unwrap_err();
            assert_eq!(fault.kind, FaultKind::PushNotSupported, "{method}");
        }
    }
    let (call, _) = decode(&rpc("tasks/pushNotificationConfig/get", json!({"id": "t"}))).unwrap();
    let expected = Call::Push { task: "t".into(), ask: Push::Get(None) };
    assert_eq!(call, expected);
}

#[test]
#[cfg_attr(not(feature = "webhooks"), ignore = "this build has no webhooks")]
fn invalid_webhook_params_are_refused_with_the_name_of_the_field() {
    let url = "https://x.test/";
    for (method, params, field) in [
        ("tasks/pushNotificationConfig/get", json!({}), "id"),
        ("tasks/pushNotificationConfig/set", json!({"pushNotificationConfig": {"url": url}}), "taskId"),
        (
            "tasks/pushNotificationConfig/set",
            json!({"taskId": "t", "pushNotificationConfig": {"url": "http://x.test/"}}),
            "url",
        ),
        ("tasks/pushNotificationConfig/delete", json!({"id": "t"}), "pushNotificationConfigId"),
        ("GetTaskPushNotificationConfig", json!({"taskId": "t"}), "id"),
        ("GetTaskPushNotificationConfig", json!({"id": "h"}), "taskId"),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "t", "pageSize": 101}), "pageSize"),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "t", "pageToken": "x"}), "pageToken"),
    ] {
        let (fault, _) = decode(&rpc(method, params)).unwrap_err();
        let expected = (FaultKind::InvalidParams, Some(field));
        assert_eq!((fault.kind, fault.field.as_deref()), expected, "{method}");
    }
}

#[test]
#[cfg_attr(not(feature = "webhooks"), ignore = "this build has no webhooks")]
fn prompts_bring_their_webhook() {
    for (method, configuration) in [
        ("message/send", json!({"pushNotificationConfig": {"url": "https://x.test/"}})),
        ("SendMessage", json!({"taskPushNotificationConfig": {"taskId": "", "url": "https://x.test/"}})),
        ("SendStreamingMessage", json!({"pushNotificationConfig": {"url": "https://x.test/"}})),
    ] {
        let params = json!({"message": message(), "configuration": configuration});
        let (call, _) = decode(&rpc(method, params)).unwrap();
        let Call::Say(say) = call else { panic!("{call:?}") };
        assert_eq!(say.push.map(|wish| wish.url).as_deref(), Some("https://x.test/"));
    }
}
