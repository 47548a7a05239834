//! Exhaustion: more processes, memory, disk, time and files than an agent may use.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rookery_testkit::wait::eventually;

use crate::target::{Attack, Seat, Target};

/// Runs a script under one limit.
async fn exhaust(limit: &str, script: &str) -> (Target, Attack) {
    let target = Target::new();
    let seat = Seat::shared().with(format!("sandbox: {{limits: {{{limit}}}}}"));
    let attack = target.attack_from(&seat, script).await;
    (target, attack)
}

/// The number of processes with this argument.
fn count_processes(argument: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_one = |line: Vec<u8>| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes());
    processes.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(is_one)).count()
}

#[tokio::test]
async fn many_processes_end_the_turn() {
    let script = "for i in $(seq 300); do setsid env -i sleep 987651 & done; wait";
    let (_target, attack) = exhaust("processes: 64", script).await;
    let wanted = "raider started more than 64 processes (limit `sandbox.limits.processes`)";
    assert!(attack.output.contains(wanted), "{attack:?}");
    assert_eq!(count_processes("987651"), 0, "processes that left their session and environment must end too");
}

#[tokio::test]
async fn processes_that_multiply_end_the_turn() {
    let script = r#"python3 -c "
import os, time
for _ in range(9):
    os.fork()
time.sleep(600)
" rookery-fork-tree"#;
    let (_target, attack) = exhaust("processes: 64", script).await;
    assert!(attack.output.contains("limit `sandbox.limits.processes`"), "{attack:?}");
    assert_eq!(count_processes("rookery-fork-tree"), 0);
}

#[tokio::test]
async fn memory_of_all_processes_together_ends_the_turn() {
    let script = r#"for i in 1 2 3 4; do python3 -c "
import time
held = [bytearray(b'x' * (4 << 20)) for _ in range(25)]
time.sleep(600)
" & done; wait"#;
    let (_target, attack) = exhaust("memory: 256MiB", script).await;
    let wanted = "raider used more than 256MiB of memory (limit `sandbox.limits.memory`)";
    assert!(attack.output.contains(wanted), "{attack:?}");
}

#[tokio::test]
async fn temporary_folders_are_limited_in_size() {
    let script = "for folder in /tmp /var/tmp /dev/shm /run; do dd if=/dev/zero of=$folder/big bs=1M count=100 2>/dev/null; \
                  [ $(stat -c %s $folder/big) -gt 40000000 ] && echo filled $folder; rm -f $folder/big; done; \
                  echo x >/dev/new && echo wrote devices; echo x >/dev/null && echo done";
    let (_target, attack) = exhaust("memory: 64MiB", script).await;
    assert!(attack.transcript.contains("done"), "{attack:?}");
    assert!(!attack.transcript.contains("filled") && !attack.transcript.contains("wrote"), "{attack:?}");
}

#[tokio::test]
async fn full_disk_ends_the_turn() {
    for folder in [".", "$HOME"] {
        let script = format!(
            "for i in $(seq 10); do dd if=/dev/zero of={folder}/big$i bs=1M count=1 2>/dev/null; done; sleep 600"
        );
        let (_target, attack) = exhaust("disk: 4MiB", &script).await;
        let wanted = "raider wrote more than 4MiB in one turn (limit `sandbox.limits.disk`)";
        assert!(attack.output.contains(wanted), "{folder}: {attack:?}");
    }
}

#[tokio::test]
async fn endless_work_ends_the_turn() {
    for script in ["while :; do :; done", "while :; do timeout 0.2 sh -c 'while :; do :; done'; done"] {
        let (_target, attack) = exhaust("cpu_time: 1s", script).await;
        let wanted = "raider used more than 1s of CPU time (limit `sandbox.limits.cpu_time`)";
        assert!(attack.output.contains(wanted), "{script}: {attack:?}");
    }
}

#[tokio::test]
async fn open_files_and_file_sizes_are_bounded() {
    let script = r#"ulimit -n 100000; ulimit -n; ulimit -c; python3 -c "
import os
held = []
try:
    while len(held) < 5000: held.append(open('/dev/null'))
except OSError as error: print('opened', len(held), error.strerror)
held.clear()
try:
    with open('big', 'wb') as file: file.write(b'x' * (4 << 20))
except OSError as error: print('wrote', os.path.getsize('big'), error.strerror)
""#;
    let (_target, attack) = exhaust("open_files: 100, file_size: 1MiB", script).await;
    assert!(attack.transcript.contains("Too many open files"), "{attack:?}");
    assert!(attack.transcript.contains("wrote 1048576 File too large"), "{attack:?}");
    let (_target, attack) = exhaust("file_size: 1MiB", "exec dd if=/dev/zero of=big bs=1M count=4").await;
    assert!(attack.output.contains("raider wrote a file of more than 1MiB"), "{attack:?}");
}

#[tokio::test]
async fn nested_user_namespaces_are_rejected() {
    let target = Target::new();
    let attack = target
        .attack("unshare -U true && echo nested; unshare -Ur mount -t tmpfs x /mnt && echo mounted; echo done")
        .await;
    assert!(attack.transcript.contains("done") && !attack.transcript.contains("nested"), "{attack:?}");
}

/// A control group of this machine that is marked as systemd marks those that it delegates.
struct Delegated(PathBuf);

impl Delegated {
    /// `None` if this user cannot make a control group.
    fn make() -> Option<Delegated> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let is_group = |line: &&str| line.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("cgroup2 "));
        let mount = mounts.lines().find(is_group)?.split(' ').nth(4)?;
        let folder = Path::new(mount).join(format!("rookery-test-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let made = Delegated(folder);
        rustix::fs::setxattr(&made.0, "user.delegate", b"1", rustix::fs::XattrFlags::empty()).ok()?;
        Some(made)
    }

    fn groups_inside(&self) -> Vec<String> {
        let folders = fs::read_dir(&self.0).unwrap().flatten().filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn controllers(&self) -> String {
        fs::read_to_string(self.0.join("cgroup.controllers")).unwrap()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        drop(fs::write(self.0.join("cgroup.kill"), "1"));
        // A group can be removed only after its processes have ended.
        for _ in 0..100 {
            self.groups_inside().iter().for_each(|name| drop(fs::remove_dir(self.0.join(name))));
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Prints the attack's own group and its limits, and tries to leave the group.
const LEAVE_GROUP: &str = r#"mount=$(sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - cgroup2 .*$/\1/p' /proc/self/mountinfo | head -1)
group=$(dirname $(find $mount -name cgroup.procs -exec grep -lx $$ {} +))
echo in $group
for file in memory.max pids.max; do [ -e $group/$file ] && echo $file $(cat $group/$file); done
for file in $mount/cgroup.procs $group/../cgroup.procs $group/memory.max $group/pids.max; do
  sh -c "echo 0 >$file" 2>/dev/null && echo left by $file
done
mkdir $group/inner 2>/dev/null && echo made a group
setsid sleep 987652 & echo done"#;

#[tokio::test]
async fn delegated_control_group_holds_the_sandbox() {
    let Some(group) = Delegated::make() else {
        assert_eq!(rookery_runner::process::kernel_bounds(), Vec::<&str>::new());
        return;
    };
    let target = Target::new().in_control_group(&group.0);
    let seat = Seat::shared().with("sandbox: {limits: {memory: 64MiB, processes: 64}}");
    let attack = target.attack_from(&seat, LEAVE_GROUP).await;
    assert!(attack.transcript.contains("/rookery-sandbox-") && attack.transcript.contains("done"), "{attack:?}");
    assert!(!attack.transcript.contains("left by") && !attack.transcript.contains("made a group"), "{attack:?}");
    for (controller, limit) in [("memory", "memory.max 67108864"), ("pids", "pids.max 1024")] {
        let is_there = group.controllers().split_ascii_whitespace().any(|word| word == controller);
        assert_eq!(attack.transcript.contains(limit), is_there, "{controller}: {attack:?}");
    }
    assert_eq!(count_processes("987652"), 0);
    // Killed processes keep their group until the kernel has ended them: a later team removes one that is empty.
    eventually("no process in the group of the sandbox", async || {
        let left = group.groups_inside().into_iter().filter(|name| name != "rookery-supervisors");
        let processes = |name: String| fs::read_to_string(group.0.join(name).join("cgroup.procs")).unwrap_or_default();
        Ok(left.map(processes).all(|processes| processes.is_empty()).then_some(()))
    })
    .await
    .unwrap();
}
