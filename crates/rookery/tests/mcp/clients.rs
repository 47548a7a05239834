//! The SDK's client by every transport: the tools it is offered, and calls to them.

use serde_json::{Value, json};

use crate::support::{TRANSPORTS, Transport, connect, connect_to, create_task, setup, text};

#[tokio::test]
async fn every_transport_lists_and_calls_tools() {
    let daemon = setup().start().unwrap();
    for transport in TRANSPORTS {
        let client = connect(&daemon, transport, None).await;
        let tools = client.service.list_all_tools().await.unwrap();
        let claim = tools.iter().find(|tool| tool.name == "task_claim").unwrap();
        assert!(claim.output_schema.is_some() && claim.annotations.is_some(), "{transport:?}: {claim:?}");
        let get = tools.iter().find(|tool| tool.name == "agent_get").unwrap();
        assert_eq!(get.annotations.as_ref().unwrap().read_only_hint, Some(true));

        let id = client.register(&format!("{transport:?}")).await;
        assert!(id.starts_with("ag_") && id.len() == 15, "{id}");
        let beat = client.call("agent_heartbeat", json!({"agent_id": id, "status": "busy"})).await;
        assert_eq!(beat, json!({"success": true, "next_heartbeat_ms": 30_000}));
        let agent = client.call("agent_get", json!({"id": id})).await;
        assert_eq!((&agent["status"], &agent["runtime"]), (&json!("busy"), &json!("custom")));
        let known = daemon.get(&format!("/agents/{id}")).await.unwrap().body;
        assert_eq!((&known["name"], &known["status"]), (&json!(format!("{transport:?}")), &json!("working")));

        let task = create_task(&daemon, None).await;
        let claimed = client.call("task_claim", json!({"task_id": task, "agent_id": id})).await;
        assert_eq!(claimed["success"], true, "{transport:?}");
        let left = client.call("agent_unregister", json!({"id": id})).await;
        assert_eq!(left, json!({"success": true, "tasks_released": 1}), "{transport:?}");
    }
}

#[tokio::test]
async fn each_address_offers_its_own_toolset() {
    let daemon = setup().start().unwrap();
    for transport in [Transport::Session, Transport::Stateless, Transport::Bridge] {
        for (set, has, lacks) in [
            ("workflow", "task_claim", "coord_get_presence"),
            ("coord", "coord_get_presence", "task_claim"),
            ("team", "task_load_context", "agent_heartbeat"),
        ] {
            let client = connect_to(&daemon, transport, set, None).await;
            let tools = client.service.list_all_tools().await.unwrap();
            let named = |name: &str| tools.iter().any(|tool| tool.name == name);
            assert!(named(has) && !named(lacks), "{transport:?} {set}");
            let other = rmcp::model::CallToolRequestParams::new(lacks);
            assert!(client.service.call_tool(other).await.is_err(), "{transport:?} {set}");
        }
    }
    let team = connect_to(&daemon, Transport::Session, "team", None).await;
    let tools = team.service.list_all_tools().await.unwrap();
    assert!(tools.iter().all(|tool| tool.output_schema.is_none()));
    let context = connect_to(&daemon, Transport::Session, "context", None).await;
    let info = context.service.peer_info().unwrap().server_info.clone();
    assert_eq!(info.unwrap().name, "workflow-context");
}

#[tokio::test]
async fn registered_agent_is_known_in_its_session() {
    let daemon = setup().start().unwrap();
    for transport in [Transport::Session, Transport::Bridge, Transport::StatelessBridge] {
        let client = connect(&daemon, transport, None).await;
        let id = client.register("one").await;
        let task = create_task(&daemon, None).await;
        assert_eq!(client.call("task_claim", json!({"task_id": task})).await["success"], true, "{transport:?}");
        // After the client lost its context it registers again, and is still the same agent.
        assert_eq!(client.register("one").await, id, "{transport:?}");
        let held = client.call("task_get", json!({"id": task})).await;
        assert_eq!(text(&held["assigned_agent_id"]), id);
    }
}

#[tokio::test]
async fn one_connection_carries_several_agents() {
    let daemon = setup().start().unwrap();
    let client = connect(&daemon, Transport::Session, None).await;
    let (one, other) = (client.register("one").await, client.register("other").await);
    assert_ne!(one, other);
    let (first, second) = (create_task(&daemon, None).await, create_task(&daemon, None).await);
    for (task, agent) in [(&first, &one), (&second, &other)] {
        client.call("task_claim", json!({"task_id": task, "agent_id": agent})).await;
        assert_eq!(
            client.call("task_get", json!({"id": task})).await["assigned_agent_id"],
            Value::from(agent.as_str())
        );
    }
}
