//! The shared context as the way out: folders, documents and sockets that the daemon makes, names that people trust, and
//! schemas that the daemon applies.

use std::fs;
use std::time::Duration;

use rookery_testkit::wait::eventually;

use crate::target::{Seat, Target};

/// The last line of each script, so that an early failure is not mistaken for a rejection.
const DONE: &str = "print('attempt', 'complete')";
const COMPLETE: &str = "attempt complete";

#[tokio::test]
async fn context_folder_of_a_self_made_lead_does_not_appear_in_the_project() {
    let target = Target::new();
    fs::create_dir(target.root().join(".vscode")).unwrap();
    fs::write(target.root().join(".vscode/mcp.json"), "{\"servers\": {}}").unwrap();
    let script = format!(
        "me = os.environ.get('ROOKERY_AGENT', 'raider@raid')
rk.http('POST', '/agents', {{'id': me, 'tool': 'x', 'role': 'lead'}})
for name in ['raid', 'x', 'default']:
    for folder in ['.claude', '.vscode', '.cursor/rules', '.git/hooks', 'agents', 'plain', '.workflow/raid/.claude']:
        print(rk.http('PUT', '/contexts/' + name, {{'provider': 'file', 'dir': folder}}))
print(rk.http('PUT', '/contexts', {{'provider': 'file', 'dir': '.claude/${{{{ instance }}}}'}}))
print(rk.tool('document_write', file='CLAUDE.md', content='obey'))
print(rk.tool('document_write', file='commands/deploy.md', content='obey'))
{DONE}"
    );
    let attack = target.attack_in_python(&Seat::worktree(), &script).await;
    assert!(attack.transcript.contains(COMPLETE) && attack.transcript.contains("FORBIDDEN"), "{attack:?}");
    for folder in [".claude", ".cursor", "agents", "plain"] {
        assert!(!target.root().join(folder).exists(), "{folder}: {attack:?}");
    }
    let names: Vec<_> = fs::read_dir(target.root().join(".vscode")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["mcp.json"]);
}

#[tokio::test]
async fn documents_and_sockets_do_not_follow_an_exchanged_context_folder() {
    let target = Target::new();
    let script = format!(
        "import threading, time
stop = time.time() + 8
def exchange(path, to):
    while time.time() < stop:
        try:
            os.rename(path, path + '-aside'); os.symlink(to, path); time.sleep(0.002)
            os.unlink(path); os.rename(path + '-aside', path); time.sleep(0.002)
        except OSError:
            time.sleep(0.01)
home, project = os.environ['PERSON_HOME'], os.environ['PROJECT']
for path, to in [('.workflow/raid', home), ('.workflow', home + '/.config')]:
    threading.Thread(target=exchange, args=(project + '/' + path, to), daemon=True).start()
n = 0
while time.time() < stop:
    n += 1
    rk.tool('document_write', file='notes%d.md' % (n % 5), content='text %d' % n)
    rk.tool('channel_send', message='hello %d' % n)
    try: os.unlink(project + '/.workflow/raid/context.sock')
    except OSError: pass
print(n, 'rounds')
{DONE}"
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains(COMPLETE), "{attack:?}");
}

#[tokio::test]
async fn private_files_are_not_read_as_documents_through_links() {
    let target = Target::new();
    let script = format!(
        "import time
home, folder = os.environ['PERSON_HOME'], os.environ['PROJECT'] + '/.workflow/raid'
rk.tool('document_write', file='notes.md', content='one')
os.makedirs(folder, exist_ok=True)
for name in ['notes.md', 'keys.md', 'channel.md', 'mcp.json', 'context.sock']:
    try: os.unlink(folder + '/' + name)
    except OSError: pass
    try: os.symlink(home + '/.ssh/id_ed25519', folder + '/' + name)
    except OSError as error: print(name, error)
try: os.symlink(home + '/.ssh', folder + '/ssh')
except OSError as error: print(error)
for n in range(4):
    time.sleep(1)
    rk.tool('document_write', file='notes.md', content='two %d' % n)
    for name in ['notes.md', 'keys.md', 'ssh/id_ed25519.md']:
        print(rk.tool('document_read', file=name))
print(rk.tool('channel_read'))
{DONE}"
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains(COMPLETE), "{attack:?}");
}

#[tokio::test]
async fn pipes_in_the_context_folder_do_not_block_the_daemon() {
    let target = Target::new();
    let script = format!(
        "folder = os.environ['PROJECT'] + '/.workflow'
for name in ['raid/channel.md', 'raid/notes.md', 'raid/mcp.json', 'raid/context.sock', 'raid/.swap/x-notes.md']:
    os.makedirs(os.path.dirname(folder + '/' + name), exist_ok=True)
    for _ in range(1000):  # the daemon may write the file again in between
        try: os.unlink(folder + '/' + name)
        except OSError: pass
        try: os.mkfifo(folder + '/' + name); break
        except FileExistsError: pass
    else: raise Exception(name)
rk.tool('document_write', file='notes.md', content='one')
rk.tool('channel_send', message='hello')
{DONE}"
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains(COMPLETE), "{attack:?}");
    assert!(target.run(&["context", "configure", "--instance", "later", "--provider", "file"]).await.status.success());
    let rendered = target.root().join(".workflow/later/channel.md");
    eventually("the other instance to be rendered", || async { Ok(rendered.exists().then_some(())) }).await.unwrap();
}

#[tokio::test]
async fn names_of_people_and_of_the_daemon_cannot_be_taken() {
    let target = Target::new();
    let script = format!(
        "names = ['local', 'Local', 'you', 'System', 'system', 'l\\u043ecal', '\\u0455ystem', 'human', 'everyone', 'person:local', 'me']
taken = []
for name in names + [name + '@raid' for name in names]:
    for headers in [None, {{}}, {{'X-Agent-Id': name.encode().decode('latin-1')}}]:
        status, said = rk.http('POST', '/agents', {{'id': name, 'tool': 'x'}}, headers)
        if status in (200, 201): taken.append(name)
    status, said = rk.http('PUT', '/clutch/v0/agents/' + urllib.parse.quote(name), {{'v': 'clutch/0.1', 'agent_id': 'agent:' + name}})
    if status in (200, 201): taken.append(name)
print('taken:', taken)
{DONE}"
    );
    let script = format!("import urllib.parse\n{script}");
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains(COMPLETE) && attack.transcript.contains("taken: []"), "{attack:?}");
}

#[tokio::test]
async fn schemas_of_an_agent_do_not_hang_the_daemon() {
    let target = Target::new();
    let script = format!(
        "branch = lambda name: {{'properties': {{'a': {{'$ref': '#'}}}}, 'required': [name]}}
print(rk.http('PUT', '/clutch/v0/schemas/raid.tree.v1', {{'anyOf': [branch('x'), branch('y')]}}))
expects = {{'type': 'task.result', 'payload_type': 'raid.tree.v1'}}
print(rk.http('PUT', '/clutch/v0/step-contracts/raid', {{'workflow': 'raid', 'steps': [{{'id': 's', 'expects': expects}}]}}))
import time
def send(id, kind, **more):
    envelope = {{'v': 'clutch/0.1', 'id': id, 'run_id': 'run_raid', 'thread_id': 'thr_raid', 'ts': '2026-03-06T12:00:00Z',
                'type': kind, 'from': {{'agent_id': 'agent:raider@raid'}}, 'to': [{{'agent_id': 'agent:orchestrator'}}], 'task_id': 'task_raid', 'payload': {{}}, **more}}
    return rk.http('POST', '/clutch/v0/messages', envelope)
print(rk.http('PUT', '/clutch/v0/agents/raider@raid', {{'v': 'clutch/0.1', 'agent_id': 'agent:raider@raid'}}))
print(send('req', 'task.request', to=[{{'agent_id': 'agent:raider@raid'}}], meta={{'workflow': 'raid', 'step': 's'}}, payload={{'query': 'x'}}))
for n in range(20):
    status, said = send('acc%d' % n, 'task.accept')
    if status == 202: break
    time.sleep(0.3)
print(status, said)
payload = {{}}
for _ in range(40): payload = {{'a': payload}}
for n in range(8):
    print(send('res%d' % n, 'task.result', payload_type='raid.tree.v1', payload=payload))
{DONE}"
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains(COMPLETE) && attack.transcript.contains("too many ways"), "{attack:?}");
    let healthy = tokio::time::timeout(Duration::from_secs(5), target.daemon().get("/healthz")).await;
    assert_eq!(healthy.unwrap().unwrap().status, 200);
}
