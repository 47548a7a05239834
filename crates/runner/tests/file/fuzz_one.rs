//! The fuzz target for workflow files. `cargo xtask fuzz workflow_file` runs it for any time.

use std::path::Path;

use jiff::civil::date;
use jiff::tz::TimeZone;
use rookery_runner::file::{Ready, Refused, Surroundings, WorkflowSource};

/// Panics unless a file is accepted, or rejected with faults at places in it.
pub fn fuzz_one(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A folder that does not exist, so that no file of this machine is read.
    let source =
        WorkflowSource { file: "any.yaml".into(), folder: Path::new("/nonexistent").to_owned(), text: text.to_owned() };
    let now = date(2026, 3, 6).at(12, 0, 0, 0).to_zoned(TimeZone::UTC).expect("a good date");
    let surroundings = Surroundings {
        env: [("HOME".to_owned(), "/home/ada".to_owned())].into(),
        tools: vec!["channel_send".to_owned()],
        now,
        find_program: &|name| Some(Path::new("/usr/bin").join(name)),
        sandbox: rookery_runner::sandbox::SandboxSupport::Missing,
    };
    match Ready::check(&source, "pr-1", &[], &surroundings) {
        Ok(_) => {}
        Err(Refused::File(faults)) => {
            assert!(!faults.is_empty(), "refused without a reason");
            // YAML ends a line with CR LF, with LF, or with a lone CR.
            let lines = text.replace("\r\n", "\n").split(['\n', '\r']).count() as u64;
            for fault in faults.iter().filter(|fault| &*fault.place.file == "any.yaml") {
                assert!((1..=lines + 1).contains(&fault.place.line) && fault.place.column >= 1, "{fault}");
                assert!(!fault.message.is_empty(), "{fault}");
            }
        }
        Err(other) => assert!(!other.to_string().is_empty()),
    }
}
