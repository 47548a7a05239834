//! The machine on which the figures were measured.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MachineInfo {
    pub(crate) date: String,
    pub(crate) commit: String,
    profile: &'static str,
    cpu: String,
    cores: usize,
    memory_mib: u64,
    kernel: String,
    file_system: String,
    sqlite: &'static str,
    /// The load average over a minute at the end of the run, which shows other use of the machine.
    load: String,
}

/// Describes the machine. `folder` is on the measured disk.
pub(crate) fn read_info(folder: &Path) -> anyhow::Result<MachineInfo> {
    let uname = rustix::system::uname();
    let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    Ok(MachineInfo {
        date: today(),
        commit: output("git", &["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned()),
        profile: if cfg!(debug_assertions) { "debug" } else { "optimised" },
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_mib: memory.unwrap_or_default() / 1024,
        kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
        file_system: output("stat", &["-f", "-c", "%T", &folder.to_string_lossy()])
            .unwrap_or_else(|| "unknown".to_owned()),
        sqlite: rusqlite::version(),
        load: std::fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| Some(text.split(' ').next()?.to_owned()))
            .unwrap_or_default(),
    })
}

fn today() -> String {
    use rookery_store::Clock;
    let now = rookery_engine::SystemClock::default().now();
    jiff::Timestamp::from_millisecond(now.0)
        .map(|now| now.strftime("%Y-%m-%dT%H:%M:%S").to_string())
        .unwrap_or_default()
}

/// The value of `name: value` in a file of the kernel.
pub(crate) fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|found| found.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[expect(clippy::disallowed_methods, reason = "asks the machine about itself")]
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
