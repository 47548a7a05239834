//! The groups that tools are offered in. Few tools at a time leave a model more room for its work.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toolset {
    All,
    /// Agents, workflows, tasks, files.
    Workflow,
    /// Channel, inbox, documents.
    Context,
    /// Acknowledged coordination messages and presence.
    Coord,
    /// What an agent needs in daily work.
    Team,
}

impl Toolset {
    pub const EVERY: [Toolset; 5] = [Toolset::All, Toolset::Workflow, Toolset::Context, Toolset::Coord, Toolset::Team];

    pub fn path(self) -> &'static str {
        match self {
            Toolset::All => "/mcp",
            Toolset::Workflow => "/mcp/workflow",
            Toolset::Context => "/mcp/context",
            Toolset::Coord => "/mcp/coord",
            Toolset::Team => "/mcp/team",
        }
    }

    /// What it is called on the command line.
    pub fn word(self) -> &'static str {
        self.path().rsplit('/').next().filter(|word| *word != "mcp").unwrap_or("all")
    }

    /// What it is for, for people.
    pub fn about(self) -> &'static str {
        match self {
            Toolset::All => "Every tool.",
            Toolset::Workflow => "Agents, workflows, tasks, checkpoints, workspaces, handoffs and files.",
            Toolset::Context => "What a team talks and writes: the channel, each agent's inbox, shared documents.",
            Toolset::Coord => "Coordination messages that each recipient acknowledges, and who is there.",
            Toolset::Team => "The few that an agent needs in daily work, in less than 2,000 tokens.",
        }
    }

    /// What the server calls itself there.
    pub fn server_name(self) -> &'static str {
        match self {
            Toolset::Context => "workflow-context",
            Toolset::All | Toolset::Workflow | Toolset::Coord | Toolset::Team => "rookery",
        }
    }

    /// The set for daily work is kept small: structured results come, and arguments that are seldom needed are taken, all
    /// the same, without having been announced.
    pub fn is_small(self) -> bool {
        self == Toolset::Team
    }

    /// What a model is told before it sees the tools.
    pub fn instructions(self) -> &'static str {
        match self {
            Toolset::All | Toolset::Workflow | Toolset::Team => {
                "You are one of several agents on this project. Call agent_register once; if you are not connected as an \
                 agent, pass the id it returns as agent_id. Claim a task before you work on it (task_claim), claim files \
                 before you change them (resource_claim), and end with task_update_status. A result may say that a task is \
                 given to you: claim it before anything else, for it goes to somebody else if you do not. It may say that you \
                 have unread messages: read them (inbox_check) before you go on."
            }
            Toolset::Context => {
                "You are part of a team that shares a channel, inboxes and documents. Begin with inbox_check (what is for \
                 you), channel_read (what happened) and document_read (goals and notes). Write down what you find with \
                 document_append, and reach others with channel_send and @name. When something is done: channel_send, \
                 then inbox_ack, then inbox_check again, or inbox_wait if nothing is left. High priority first. A task that \
                 is given to you is in the inbox too, with what to do next."
            }
            Toolset::Coord => {
                "You coordinate with other agents by messages that each recipient acknowledges. Call \
                 coord_check_messages at the start and whenever a result says that you have unread messages."
            }
        }
    }
}
