//! One driver per surface: it translates an act into a request of its surface, or says why the surface lacks it.

pub mod cli;
pub mod clutch;
pub mod mcp;
pub mod rest;

use crate::act::Act;
use crate::answer::Answer;
use crate::scene::{Scene, Stage};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surface {
    Rest,
    Mcp,
    Clutch,
    Cli,
}

/// Why a surface has no such act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lacks(pub &'static str);

impl Surface {
    pub const ALL: [Surface; 4] = [Surface::Rest, Surface::Mcp, Surface::Clutch, Surface::Cli];

    pub fn name(self) -> &'static str {
        match self {
            Surface::Rest => "REST",
            Surface::Mcp => "MCP",
            Surface::Clutch => "Clutch",
            Surface::Cli => "CLI",
        }
    }

    /// The reason for which the surface cannot perform the act, if there is one.
    pub fn lacks(self, act: &Act) -> Option<Lacks> {
        let scene = Scene::new(0);
        match self {
            Surface::Rest => rest::request(act, &scene).err(),
            Surface::Mcp => mcp::request(act, &scene).err(),
            Surface::Clutch => clutch::request(act, &scene).err(),
            Surface::Cli => cli::request(act, &scene).err(),
        }
    }

    /// Performs an act that the surface does not lack.
    pub async fn perform(self, act: &Act, stage: &Stage, scene: &Scene) -> Result<Answer, Lacks> {
        Ok(match self {
            Surface::Rest => rest::send(stage, scene, act, rest::request(act, scene)?).await,
            Surface::Mcp => mcp::send(stage, scene, act, mcp::request(act, scene)?).await,
            Surface::Clutch => clutch::send(stage, scene, act, clutch::request(act, scene)?).await,
            Surface::Cli => cli::run(stage, cli::request(act, scene)?),
        })
    }
}

/// How often an act sends its request.
fn times(act: &Act) -> usize {
    use crate::act::{Call, TaskCall};
    if act.call == Call::Task(TaskCall::CompleteTwice) { 2 } else { 1 }
}
