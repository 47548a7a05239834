//! Identity tricks: being another agent, a person or the system through the gate.

use reqwest::Method;
use rookery_testkit::daemon::read;
use serde_json::{Value, json};

use crate::target::{Seat, Target};

/// A target whose lead is not the attacker. The first agent of a project becomes its lead.
async fn led_by_another() -> Target {
    let target = Target::new();
    let lead = json!({"id": "boss", "name": "boss", "tool": "custom", "role": "lead"});
    assert!(target.daemon().post("/agents/announce", lead).await.unwrap().status.is_success());
    target
}

/// The log rows whose actor contains this text.
fn rows_by(target: &Target, actor: &str) -> Vec<Value> {
    let all = target.daemon().export().unwrap();
    all.into_iter().filter(|row| row["actor"].to_string().contains(actor)).collect()
}

#[tokio::test]
async fn request_in_the_name_of_another_agent_is_rejected() {
    let target = led_by_another().await;
    let before = rows_by(&target, "boss").len();
    let attack = target
        .attack_in_python(
            &Seat::shared(),
            "task = {'title': 'as the boss', 'assigned_by': 'boss'}\n\
             for headers in [{'X-Agent-Id': 'boss'}, {'x-agent-id': 'BOSS '}, {'X-Agent-Id': 'person:local'}, {'X-Agent-Id': 'system'}]:\n    \
             print('header', rk.http('POST', '/tasks', task, headers))\n\
             print('beat', rk.http('POST', '/agents/boss/heartbeat', {}, {}))\n\
             print('leave', rk.http('DELETE', '/agents/boss', None, {}))\n\
             print('announce', rk.http('POST', '/agents/announce', {'id': 'boss', 'name': 'b', 'tool': 'x', 'role': 'lead'}, {}))\n\
             print('ghost', rk.http('POST', '/agents/announce', {'id': 'ghost', 'name': 'g', 'tool': 'x', 'role': 'worker'}, {}))\n\
             note = {'v': 'clutch/0.1', 'id': 'm1', 'ts': '2026-02-01T13:20:11Z', 'thread_id': 't', 'run_id': 'r', 'task_id': 'x', \
             'from': {'agent_id': 'agent:boss'}, 'to': [{'agent_id': 'agent:orchestrator'}], 'type': 'x.note', 'payload': {}}\n\
             print('clutch', rk.http('POST', '/clutch/v0/messages', note, {}))\nprint('done')",
        )
        .await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    let answers = attack.transcript.lines().filter(|line| line.contains(" (")).filter(|line| !line.contains("done"));
    for line in answers {
        assert!(line.contains("(403,"), "{line}\n{attack:?}");
    }
    assert_eq!(rows_by(&target, "boss").len(), before, "no event may have the boss as its author");
    assert_eq!(target.daemon().get("/agents/ghost").await.unwrap().status, 404, "no unknown agent may be registered");
}

#[tokio::test]
async fn credentials_of_others_do_not_pass_the_gate() {
    let target = led_by_another().await;
    let person = target.daemon().person_key().unwrap();
    let create = target.daemon().request(Method::POST, "/admin/tokens").bearer_auth(&person);
    let token = read(create.json(&json!({"agent": "anna", "role": "person"}))).await.unwrap();
    let token = token.body["token"].as_str().unwrap().to_owned();
    let script = format!(
        "headers = {{'Authorization': 'Bearer {token}', 'Cookie': 'rookery-x=rku.61.99.00', 'X-Forwarded-User': 'person:anna'}}\n\
         print('token', rk.http('POST', '/admin/tokens', {{'agent': 'eve', 'role': 'person'}}, headers))\n\
         headers['Connection'] = 'x-rookery-session, x-agent-id'\n\
         print('tricked', rk.http('POST', '/admin/tokens', {{'agent': 'eve', 'role': 'person'}}, headers))\n\
         print('launch', rk.http('POST', '/session/sign-in-links', {{}}, headers))\n\
         print('stop', rk.http('POST', '/teams/%40raid/stop', {{}}, headers))\nprint('done')"
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    for word in ["token (", "tricked (", "launch ("] {
        let line = attack.transcript.lines().find(|line| line.contains(word)).unwrap();
        assert!(line.contains("(403,") || line.contains("(401,"), "{line}\n{attack:?}");
    }
    let list = target.daemon().request(Method::GET, "/admin/tokens").bearer_auth(&person);
    assert!(!read(list).await.unwrap().body.to_string().contains("eve"), "{attack:?}");
}

#[tokio::test]
async fn pipelined_requests_get_the_sandbox_identity_each() {
    let target = led_by_another().await;
    let attack = target
        .attack_in_python(
            &Seat::shared(),
            "import socket\ndef talk(data):\n    s = socket.socket(socket.AF_UNIX)\n    s.connect('/run/rookery/daemon.sock')\n    \
             s.settimeout(10)\n    s.sendall(data)\n    got = b''\n    try:\n        while True:\n            more = s.recv(4096)\n            \
             if not more: break\n            got += more\n            if got.count(b'HTTP/1.1 ') > 1: break\n    except OSError: pass\n    return got\n\
             body = b'{\"title\": \"t\", \"assigned_by\": \"boss\"}'\n\
             inner = b'POST /tasks HTTP/1.1\\r\\nHost: localhost\\r\\nX-Agent-Id: boss\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(body) + body\n\
             for head in [b'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n', \
             b'POST /tasks HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 0\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n', \
             b'POST /tasks HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 0\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(inner), \
             b'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nUpgrade: h2c\\r\\nConnection: Upgrade, HTTP2-Settings\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n\\r\\n']:\n    \
             print('answer', talk(head + inner)[:60])\nprint('done')",
        )
        .await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    let created = target.daemon().export().unwrap().into_iter().filter(|row| row["kind"] == "task.created").count();
    assert_eq!(created, 0, "{attack:?}");
}

#[tokio::test]
async fn sandboxed_agent_acts_without_a_session_key() {
    let target = Target::new();
    let attack = target
        .attack("echo keys=$(env | grep -c ROOKERY_SESSION); $RK context send 'hello from inside' && echo sent; ls -R $PROJECT/.rookery /run/rookery; echo done")
        .await;
    assert!(attack.transcript.contains("sent") && attack.transcript.contains("done"), "{attack:?}");
    assert!(!attack.transcript.contains("person.key"), "{attack:?}");
    let by_raider = rows_by(&target, "raider@raid");
    assert!(by_raider.iter().any(|row| row["kind"] == "message.sent"), "{by_raider:?}");
    assert!(attack.transcript.contains("keys=0"), "no session in the environment: {attack:?}");
}

#[tokio::test]
async fn session_key_ends_with_its_team() {
    let target = led_by_another().await;
    let seat = Seat::shared().with("sandbox: false");
    let script = "echo $ROOKERY_SESSION >.attack/key; $RK context send working && echo worked";
    let attack = target.attack_from(&seat, script).await;
    assert!(attack.transcript.contains("worked"), "{attack:?}");
    let key = std::fs::read_to_string(target.root().join(".attack/key")).unwrap();
    let with_key = |method, path| target.daemon().request(method, path).header("x-rookery-session", key.trim());
    let read_answer = read(with_key(Method::GET, "/status")).await.unwrap();
    assert_eq!(read_answer.status, 401, "{}", read_answer.body);
    assert!(read_answer.body["hint"].as_str().unwrap().contains("start the team again"), "{}", read_answer.body);
    let announce = json!({"id": "raider@raid", "name": "r", "tool": "x", "role": "worker"});
    let written = read(with_key(Method::POST, "/agents/announce").json(&announce)).await.unwrap();
    assert_eq!(written.status, 401, "{}", written.body);
}

#[tokio::test]
async fn rule_for_the_daemons_port_does_not_lead_around_the_gate() {
    let target = led_by_another().await;
    let port = target.daemon().url().rsplit_once(':').unwrap().1.to_owned();
    let seat = Seat::shared().with(format!("sandbox: {{network: ['localhost:{port}', '127.0.0.1:{port}']}}"));
    let script = format!(
        "import urllib.request, urllib.error\n\
         proxy = urllib.request.build_opener(urllib.request.ProxyHandler({{'http': os.environ['HTTP_PROXY']}}))\n\
         os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''\n\
         for way, opener in [('direct', rk.DIRECT), ('proxy', proxy)]:\n    for host in ['localhost', '127.0.0.1', '0x7f.1']:\n        \
         body = json.dumps({{'title': 't', 'assigned_by': 'boss'}}).encode()\n        \
         request = urllib.request.Request('http://%s:{port}/tasks' % host, body, {{'Content-Type': 'application/json', 'X-Agent-Id': 'boss'}})\n        \
         try:\n            print(way, host, opener.open(request, timeout=20).status)\n        \
         except urllib.error.HTTPError as error:\n            print(way, host, error.code, error.read())\n        \
         except OSError as error:\n            print(way, host, 'failed', error)\nprint('done')"
    );
    let attack = target.attack_in_python(&seat, &script).await;
    assert!(attack.transcript.contains("done") && attack.transcript.contains("403"), "{attack:?}");
    let created = target.daemon().export().unwrap().into_iter().filter(|row| row["kind"] == "task.created").count();
    assert_eq!(created, 0, "{attack:?}");
}

#[tokio::test]
async fn sockets_of_instances_do_not_lead_around_the_gate() {
    let target = led_by_another().await;
    let attack = target
        .attack_in_python(
            &Seat::shared(),
            "import socket, glob, time\n\
             import subprocess\nsubprocess.run([os.environ['RK'], 'context', 'send', 'hello'])\n\
             end = time.time() + 15\n\
             while not glob.glob(os.environ['PROJECT'] + '/.workflow/*/context.sock') and time.time() < end: time.sleep(0.2)\n\
             for path in glob.glob(os.environ['PROJECT'] + '/.workflow/*/context.sock'):\n    \
             s = socket.socket(socket.AF_UNIX)\n    s.settimeout(10)\n    try:\n        s.connect(path)\n        \
             s.sendall(b'GET /status HTTP/1.1\\r\\nHost: localhost\\r\\nX-Agent-Id: boss\\r\\n\\r\\n')\n        \
             print('CONTEXT', s.recv(60))\n    except OSError as error:\n        print('CONTEXT', error)\nprint('done')",
        )
        .await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    let answers: Vec<_> = attack.transcript.lines().filter(|line| line.contains("CONTEXT")).collect();
    assert!(!answers.is_empty(), "the socket of the instance must exist: {attack:?}");
    assert!(answers.iter().all(|answer| !answer.contains("HTTP/1.1")), "{answers:?}");
}
