//! The fuzzer's question about step contracts: `cargo xtask fuzz step_contract` asks it for as long as one likes.

use rookery_surfaces::clutch::{StepContractFormat, read_step_contracts};

/// Panics if a reader does, or if JSON that both readers take means different things to them.
pub fn fuzz_one(data: &[u8]) {
    let json = read_step_contracts(data, StepContractFormat::Json);
    let yaml = read_step_contracts(data, StepContractFormat::Yaml);
    if let (Ok(json), Ok(yaml)) = (&json, &yaml) {
        assert_eq!(json, yaml);
    }
    for read in [json, yaml].into_iter().flatten() {
        let written: Vec<_> = read.rules.iter().map(|rule| (&rule.id, &rule.expects.payload_type)).collect();
        assert!(written.len() <= data.len(), "there are no more steps than bytes");
    }
}
