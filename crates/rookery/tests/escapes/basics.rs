//! The direct ways out: the file system, other processes and the network as a program finds them.

use crate::sink::Sink;
use crate::target::{Seat, Target};

#[tokio::test]
async fn private_files_of_the_person_cannot_be_read() {
    let target = Target::new();
    let attack = target
        .attack(
            "cat $PERSON_HOME/.ssh/id_ed25519; cat $PROJECT/.rookery/person.key; cat /proc/*/environ | tr '\\0' '\\n' | grep HOME; \
             find $PERSON_HOME /tmp /run /root -name 'id_ed25519' -exec cat {} + 2>/dev/null; find $PERSON_HOME /tmp /run -name person.key -exec cp {} stolen ';' 2>/dev/null; echo done",
        )
        .await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    assert!(!target.root().join("stolen").exists());
}

#[tokio::test]
async fn private_files_are_not_reached_through_links_and_open_folders() {
    let target = Target::new();
    let attack = target
        .attack(
            "ln -s $PERSON_HOME/.ssh/id_ed25519 key; cat key; ln -s / root; cat root$PERSON_HOME/.ssh/id_ed25519; \
             for fd in /proc/self/fd/* /proc/1/fd/* /proc/1/root /proc/1/cwd; do cat $fd/.ssh/id_ed25519 $fd/../../.ssh/id_ed25519; done; \
             cat /proc/1/root$PERSON_HOME/.ssh/id_ed25519; rm key root; echo done",
        )
        .await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
}

#[tokio::test]
async fn files_outside_the_folder_cannot_be_written() {
    let target = Target::new();
    target
        .attack(
            "echo x >$TROPHY; echo x >>$PERSON_HOME/.bashrc; mkdir -p $PERSON_HOME/.config/autostart && echo x >$PERSON_HOME/.config/autostart/x; \
             echo x >$PROJECT/../escaped; cp /bin/sh $PERSON_HOME/.local/bin/git; echo x >/etc/escaped; touch /usr/bin/escaped; echo done",
        )
        .await;
    assert!(!std::path::Path::new("/etc/escaped").exists() && !std::path::Path::new("/usr/bin/escaped").exists());
}

#[tokio::test]
async fn project_is_read_only_for_worktree_agent() {
    let target = Target::new();
    let attack = target
        .attack_from(
            &Seat::worktree(),
            "echo x >$PROJECT/src/lib.rs; echo x >$PROJECT/new; mv $PROJECT/src $PROJECT/gone; rm -rf $PROJECT/src; mkdir $PROJECT/.vscode; pwd",
        )
        .await;
    assert!(attack.transcript.contains("worktrees"), "{attack:?}");
}

#[tokio::test]
async fn processes_outside_can_neither_be_seen_nor_signalled() {
    let target = Target::new();
    let daemon = target.daemon().pid().unwrap();
    let script =
        format!("kill -9 {daemon}; kill -9 $PPID; kill -9 -1; ls /proc | grep -x {daemon} && echo seen; exit 0");
    let attack = target.attack(&script).await;
    assert!(!attack.transcript.contains("seen"), "{attack:?}");
    assert_eq!(target.daemon().get("/healthz").await.unwrap().status, 200, "the daemon must survive");
}

#[tokio::test]
async fn mounts_namespaces_and_devices_cannot_be_changed() {
    let target = Target::new();
    let attack = target
        .attack(
            "mount -t tmpfs none /mnt && echo mounted; mount --bind / /mnt && echo mounted; umount $PERSON_HOME && echo unmounted; \
             mount -o remount,rw / && echo remounted; mknod disk b 254 0 && echo device; cat /dev/vda /dev/sda /dev/mem | head -c 1 && echo; \
             chroot / true && echo chrooted; nsenter -t 1 -m true && echo entered; cat /sys/kernel/debug/x; echo done",
        )
        .await;
    for word in ["mounted", "remounted", "device", "chrooted", "entered"] {
        assert!(!attack.transcript.contains(word), "{word}: {attack:?}");
    }
}

#[tokio::test]
async fn system_sockets_are_not_reachable() {
    let target = Target::new();
    let attack = target
        .attack_in_python(
            &Seat::shared(),
            "import socket\nfor path in ['/run/docker.sock', '/var/run/docker.sock', '/run/dbus/system_bus_socket', \
             os.environ['PROJECT'] + '/.rookery/rookery.sock', '/run/user/0/bus']:\n    \
             s = socket.socket(socket.AF_UNIX)\n    try:\n        s.connect(path)\n        print('connected', path)\n    \
             except OSError as error:\n        print('refused', error)\nprint('done')",
        )
        .await;
    assert!(attack.transcript.contains("done") && !attack.transcript.contains("connected"), "{attack:?}");
}

#[tokio::test]
async fn abstract_sockets_of_the_machine_are_not_reached() {
    use std::os::linux::net::SocketAddrExt;
    let target = Target::new();
    let name = format!("rookery-escape-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect('\\0{name}')\n    print('connected')\n\
         except OSError as error:\n    print('refused', error)"
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains("refused") && !attack.transcript.contains("connected"), "{attack:?}");
    drop(listener);
}

#[tokio::test]
async fn loopback_services_are_not_reached_directly_or_through_the_proxy() {
    let (target, sink) = (Target::new(), Sink::open().await);
    let port = sink.port();
    let script = format!(
        "import socket, urllib.request\n\
         def attempt(what, call):\n    try:\n        print(what, call())\n    except Exception as error:\n        print(what, 'failed', error)\n\
         for host in ['127.0.0.1', 'localhost', '::1', '0.0.0.0', '127.1', '2130706433', '0x7f.0.0.1', '[::ffff:127.0.0.1]']:\n    \
         attempt(host, lambda: socket.create_connection((host.strip('[]'), {port}), 5).send(b'direct'))\n    \
         attempt(host, lambda: urllib.request.urlopen('http://%s:{port}/by-proxy' % host, timeout=10).status)\n\
         proxy = os.environ.get('http_proxy') or os.environ.get('HTTP_PROXY')\nprint('proxy', proxy)\n\
         host, port = proxy.split('//')[1].strip('/').split(':')\n\
         for head in ['CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: model.invalid:443\\r\\n\\r\\n', \
         'GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: model.invalid\\r\\n\\r\\n', \
         'GET / HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n', \
         'CONNECT model.invalid@127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n', \
         'CONNECT [::1%25lo]:{port} HTTP/1.1\\r\\n\\r\\n', \
         'GET http://a@127.0.0.1:{port}/ HTTP/1.1\\r\\n\\r\\n']:\n    \
         s = socket.create_connection((host, int(port)), 5)\n    s.send(head.encode())\n    s.send(b'GET /tunnelled HTTP/1.1\\r\\n\\r\\n')\n    \
         attempt(head[:20], lambda: s.recv(200))\nprint('done')"
    );
    let attack = target.attack_in_python(&Seat::shared(), &script).await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    assert_eq!(sink.received(), "", "{attack:?}");
}

#[tokio::test]
async fn network_rule_for_one_port_opens_no_other() {
    let (target, open, closed) = (Target::new(), Sink::open().await, Sink::open().await);
    let seat = Seat::shared().with(format!("sandbox: {{network: ['localhost:{}']}}", open.port()));
    let script = format!(
        "import urllib.request\nfor port in [{}, {}]:\n    try:\n        \
         print(port, urllib.request.urlopen('http://localhost:%d/from-inside' % port, timeout=10).status)\n    \
         except Exception as error:\n        print(port, 'failed', error)",
        open.port(),
        closed.port()
    );
    let attack = target.attack_in_python(&seat, &script).await;
    assert!(open.received().contains("/from-inside"), "the rule must work: {attack:?}");
    assert_eq!(closed.received(), "", "{attack:?}");
}
