//! Identifies this process. A pid is unambiguous only together with the boot of its machine and the process's start time.

use rookery_client::teams::Runner;

/// Identifies this process, which runs on `host` for the checkout `site`.
pub(super) fn this(host: &str, site: Option<&str>) -> Runner {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    Runner {
        host: host.to_owned(),
        boot_id: or_unknown(read("/proc/sys/kernel/random/boot_id").trim()),
        pid: std::process::id(),
        started_at: start_time(&read("/proc/self/stat")),
        site: site.map(str::to_owned),
    }
}

/// Without `/proc`, the other fields have to suffice.
fn or_unknown(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

/// Parses the start time of a process, in ticks since its machine was booted: the 22nd field. The second field is the name of
/// the program, which may contain any character.
fn start_time(stat: &str) -> u64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_parsed_with_any_program_name() {
        let fields: Vec<String> = (3..=30).map(|field| field.to_string()).collect();
        assert_eq!(start_time(&format!("7 (a) b (c) {}", fields.join(" "))), 22);
        assert_eq!(start_time(""), 0);
    }
}
