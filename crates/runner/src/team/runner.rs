//! Which process this is, so that nobody takes another one for it: a pid means something only with the boot of its machine
//! and the time when it was started.

use rookery_client::teams::Runner;

/// What identifies this process. `host` and `site` are where it runs.
pub(super) fn this(host: &str, site: Option<&str>) -> Runner {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    Runner {
        host: host.to_owned(),
        boot_id: named(read("/proc/sys/kernel/random/boot_id").trim()),
        pid: std::process::id(),
        started_at: start_time(&read("/proc/self/stat")),
        site: site.map(str::to_owned),
    }
}

/// Where there is no `/proc`, the rest has to do.
fn named(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

/// When the process began, in ticks since its machine was booted: the 22nd field. The second is the name of the program,
/// which may contain anything.
fn start_time(stat: &str) -> u64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let fields: Vec<String> = (3..=30).map(|field| field.to_string()).collect();
        assert_eq!(start_time(&format!("7 (a) b (c) {}", fields.join(" "))), 22);
        assert_eq!(start_time(""), 0);
    }
}
