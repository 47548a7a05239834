//! Git tricks: repositories, filters, hooks and worktrees that make git outside of the sandbox run or write something.
