//! Address tricks: making the daemon or the proxy send requests to hosts that the agent cannot reach.

use rookery_testkit::wait::eventually;

use crate::sink::Sink;
use crate::target::{Seat, Target};

/// Python helpers that build cards with endpoints and messages to them.
const CARDS: &str = "
import time
own = os.environ['ROOKERY_AGENT_ID']
def card(name, url, protocol='clutch'):
    return {'v': 'clutch/0.1', 'agent_id': 'agent:' + name, 'endpoints': {protocol: {'url': url}}}
def message(number, kind, payload, to='agent:orchestrator'):
    return {'v': 'clutch/0.1', 'id': 'm-%s' % number, 'ts': '2026-02-01T13:20:11Z', 'thread_id': 't', 'run_id': 'r', 'task_id': 'x',
            'from': {'agent_id': 'agent:' + own}, 'to': [{'agent_id': to}], 'type': kind, 'payload': payload}
def attempt(what, answer):
    print('ATTEMPT', what, answer[0] if isinstance(answer, tuple) else answer)
";

#[tokio::test]
async fn card_from_a_sandbox_does_not_make_the_daemon_post() {
    let (target, sink) = (Target::new(), Sink::open().await);
    let script = format!(
        "{CARDS}\nnumber = 0\n\
         for host in ['127.0.0.1', 'localhost', '0x7f.1', '2130706433', '[::ffff:127.0.0.1]', '127.0.0.1.']:\n    \
         url = 'http://%s:{port}/stolen' % host\n    number += 1\n    \
         attempt('put', rk.http('PUT', '/clutch/v0/agents/' + own, card(own, url), {{}}))\n    \
         attempt('allow', rk.http('PUT', '/clutch/v0/agents/' + own + '?allow_endpoint=true', card(own, url), {{}}))\n    \
         attempt('made-up', rk.http('PUT', '/clutch/v0/agents/ghost%d' % number, card('ghost%d' % number, url), {{}}))\n    \
         attempt('register', rk.http('POST', '/clutch/v0/messages', message('r%d' % number, 'agent.register', card(own, url)), {{}}))\n    \
         attempt('update', rk.http('POST', '/clutch/v0/messages', message('u%d' % number, 'agent.update', {{'endpoints': {{'clutch': {{'url': url}}}}}}), {{}}))\n    \
         attempt('tool', str(rk.tool('agent_register', name='x', runtime='custom', metadata={{'endpoints': {{'clutch': {{'url': url}}}}}}))[:80])\n\
         attempt('announce', rk.http('POST', '/agents/announce', {{'id': own, 'name': 'r', 'tool': 'x', 'role': 'worker', 'endpoints': {{'clutch': {{'url': 'http://127.0.0.1:{port}/'}}}}}}, {{}}))\n\
         for to in [own, 'ghost1']:\n    print(rk.http('POST', '/clutch/v0/messages', message('n-' + to, 'x.note', {{'secret': 1}}, 'agent:' + to), {{}}))\n\
         time.sleep(3)\nprint('done')",
        port = sink.port(),
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    for what in ["put", "allow", "made-up", "register", "update"] {
        let line = format!("ATTEMPT {what} ");
        let answers: Vec<_> = attack.transcript.lines().filter(|text| text.contains(&line)).collect();
        assert_eq!(answers.len(), 6, "{attack:?}");
        assert!(answers.iter().all(|answer| answer.ends_with("403")), "{answers:?}");
    }
    assert_eq!(sink.received(), "", "{attack:?}");
}

#[tokio::test]
async fn card_may_name_a_host_that_the_sandbox_may_reach() {
    let (target, sink) = (Target::new(), Sink::open().await);
    let seat = Seat::shared().with(format!("sandbox: {{network: ['localhost:{}', '*.sink.invalid']}}", sink.port()));
    let script = format!(
        "{CARDS}\n\
         attempt('wildcard', rk.http('PUT', '/clutch/v0/agents/' + own, card(own, 'http://a.sink.invalid/'), {{}}))\n\
         attempt('other-port', rk.http('PUT', '/clutch/v0/agents/' + own, card(own, 'http://localhost:1/'), {{}}))\n\
         attempt('exact', rk.http('PUT', '/clutch/v0/agents/' + own, card(own, 'http://localhost:{}/in'), {{}}))\n\
         print(rk.http('POST', '/clutch/v0/messages', message('n', 'x.note', {{}}, 'agent:' + own), {{}}))\n\
         time.sleep(3)",
        sink.port(),
    );
    let attack = target.attack_in_python(&seat, &script).await;
    for (what, status) in [("wildcard", "403"), ("other-port", "403"), ("exact", "200")] {
        assert!(attack.transcript.contains(&format!("ATTEMPT {what} {status}")), "{what}: {attack:?}");
    }
    let posted = || async { Ok(Some(sink.received()).filter(|text| text.contains("POST /in"))) };
    eventually("the message to be posted", posted).await.unwrap();
}

#[tokio::test]
async fn proxy_rejects_heads_that_could_be_read_in_two_ways() {
    let (target, open, closed) = (Target::new(), Sink::open().await, Sink::open().await);
    let seat = Seat::shared().with(format!("sandbox: {{network: ['localhost:{}']}}", open.port()));
    let script = format!(
        "import socket\nproxy = os.environ['HTTP_PROXY'].split('//')[1].strip('/').split(':')\n\
         good, bad = 'localhost:{good}', 'localhost:{bad}'\n\
         for head in ['GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (good, bad), \
         'GET http://%s/ HTTP/1.1\\r\\nHost: %s\\r\\nHost: %s\\r\\n\\r\\n' % (good, good, bad), \
         'GET http://%s#@%s/ HTTP/1.1\\r\\n\\r\\n' % (good, bad), 'GET http://%s\\\\@%s/ HTTP/1.1\\r\\n\\r\\n' % (good, bad), \
         'GET http://%s@%s/ HTTP/1.1\\r\\n\\r\\n' % (good, bad), 'CONNECT %s/../%s HTTP/1.1\\r\\n\\r\\n' % (good, bad), \
         'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (good, bad), 'GET http://%s/ HTTP/1.1\\r\\nX: y\\r\\n Host: %s\\r\\n\\r\\n' % (good, bad), \
         'GET http://%s/ HTTP/1.1\\nHost: %s\\r\\n\\r\\n' % (good, bad), 'CONNECT %s\\0.%s HTTP/1.1\\r\\n\\r\\n' % (bad, good), \
         'POST http://%s/ HTTP/1.1\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' % good]:\n    \
         s = socket.create_connection((proxy[0], int(proxy[1])), 5)\n    s.settimeout(10)\n    s.sendall(head.encode())\n    \
         print('ANSWER', s.recv(40))\nprint('done')",
        good = open.port(),
        bad = closed.port(),
    );
    let attack = target.attack_in_python(&seat, &script).await;
    let answers: Vec<_> = attack.transcript.lines().filter(|line| line.contains("ANSWER")).collect();
    assert_eq!(answers.len(), 11, "{attack:?}");
    assert!(answers.iter().all(|answer| answer.contains("HTTP/1.1 400")), "{answers:?}");
    assert_eq!((open.received().as_str(), closed.received().as_str()), ("", ""), "{attack:?}");
}
