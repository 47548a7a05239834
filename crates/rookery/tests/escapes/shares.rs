//! Exhausting streams, connections or downloads, so that others get none.

use reqwest::Method;
use rookery_testkit::wait::eventually;

use crate::target::{Attack, Seat, Target};

/// Runs an attack that takes as much as it can, writes the file `taken`, and holds everything until the file `release`
/// exists. Awaits `meanwhile`, the person's actions, while the attack holds everything.
async fn hold(target: &Target, script: &str, meanwhile: impl Future<Output = ()>) -> Attack {
    let script = format!(
        "import socket, time\n\
         host, port = rk.URL.split('//')[1].strip('/').split(':')\n\
         def begin(head):\n    s = socket.create_connection((host, int(port)), 10)\n    s.settimeout(10)\n    s.send(head.encode())\n    return s\n\
         def get(path):\n    key = os.environ.get('ROOKERY_SESSION', '')\n    \
         return begin('GET %s HTTP/1.1\\r\\nHost: localhost\\r\\nX-Rookery-Session: %s\\r\\n\\r\\n' % (path, key))\n\
         def status(s):\n    try:\n        return s.recv(12).decode().split(' ')[1]\n    except (OSError, IndexError):\n        return 'none'\n\
         def count(all):\n    found = [status(s) for s in all]\n    print(*['%s:%d' % (code, found.count(code)) for code in sorted(set(found))])\n\
         kept = []\n\
         {script}\n\
         open('taken', 'w').close()\n\
         for _ in range(600):\n    if os.path.exists('release'):\n        break\n    time.sleep(0.1)\n\
         print('done')"
    );
    let (taken, release) = (target.root().join("taken"), target.root().join("release"));
    let person = async {
        eventually("the agent to take as much as it can", || async { Ok(taken.exists().then_some(())) }).await.unwrap();
        meanwhile.await;
        std::fs::write(release, "").unwrap();
    };
    let seat = Seat::shared();
    let (attack, ()) = tokio::join!(target.attack_in_python(&seat, &script), person);
    assert!(attack.transcript.contains("done"), "{attack:?}");
    attack
}

#[tokio::test]
async fn streams_of_a_sandbox_leave_room_for_the_person() {
    let target = Target::with(|setup| setup.env("ROOKERY_MAX_SUBSCRIPTIONS", "64"));
    let key = format!("Bearer {}", target.daemon().person_key().unwrap());
    let meanwhile = async {
        let request = target.daemon().request(Method::GET, "/events/stream").header("authorization", key);
        assert_eq!(request.send().await.unwrap().status(), 200, "the person must get a stream");
    };
    let attack = hold(&target, "kept = [get('/events/stream') for _ in range(60)]\ncount(kept)", meanwhile).await;
    assert!(!attack.transcript.contains("200:60"), "{attack:?}");
}

#[tokio::test]
async fn connections_of_a_sandbox_leave_room_for_the_command_line() {
    let target = Target::with(|setup| setup.env("ROOKERY_MAX_CONNECTIONS", "128"));
    let meanwhile = async {
        let status = target.run(&["status"]).await;
        assert!(status.status.success(), "{status:?}");
    };
    let script =
        "kept = [begin('GET /status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n') for _ in range(60)]\ncount(kept)";
    hold(&target, script, meanwhile).await;
}

#[tokio::test]
async fn stalled_downloads_of_a_sandbox_are_bounded() {
    let target = Target::with(|setup| setup);
    let upload = target.daemon().request(Method::POST, "/clutch/v0/artifacts").body(vec![7_u8; 16 << 20]);
    let reply = rookery_testkit::daemon::read(upload.header("content-type", "application/octet-stream")).await.unwrap();
    let path = format!("/clutch/v0/artifacts/sha256-{}", reply.body["sha256"].as_str().unwrap());
    let meanwhile = async {
        let key = format!("Bearer {}", target.daemon().person_key().unwrap());
        let request = target.daemon().request(Method::GET, &path).header("authorization", key);
        assert_eq!(request.send().await.unwrap().bytes().await.unwrap().len(), 16 << 20);
    };
    let script = format!("kept = [get('{path}') for _ in range(40)]\ncount(kept)");
    let attack = hold(&target, &script, meanwhile).await;
    assert!(attack.transcript.contains("200:16") && attack.transcript.contains("429:24"), "{attack:?}");
}
