//! Identity tricks: being another agent, a person or the system through the gate.
