//! The calls of a turn that run on the host.

use domain::citation::{PassagePlace, VendorCitation};
use domain::step::{Purpose, StepCall, StepEvent, StepOutcome, WORKSPACE_INSTRUCTIONS};
use domain::tool::HostTool;
use domain::turn::CallOutput;
use domain::turn::host::TurnEvent;
use egress::WebUrl;
use tokio::sync::watch;

use super::runner::TurnRunner;
use super::subagent;
use crate::control_signal::ControlSignals;
use crate::local_calls;
use crate::outside_calls;
use crate::turn_context::TurnContext;
use crate::turn_input::TurnInput;
use crate::web::WebCall;
use crate::workspace_instructions;

/// Returns the source that a vendor cites, if it is a page of the public web.
fn citable_source(cited: VendorCitation) -> Option<VendorCitation> {
    let PassagePlace::Web { url, title } = cited.place else { return Some(cited) };
    let url = WebUrl::parse(&url).filter(WebUrl::is_public)?.as_str().to_owned();
    Some(VendorCitation { place: PassagePlace::Web { url, title }, ..cited })
}

impl TurnRunner {
    /// Completes a model's event with the purpose of its call, and drops sources that may not be cited.
    pub(super) fn complete_model_event(&self, event: TurnEvent) -> Option<TurnEvent> {
        Some(match event {
            TurnEvent::ModelDelta { number, attempt, event: StepEvent::Call(call) } => {
                let purpose = self.prompt.purpose_of(&call);
                TurnEvent::ModelDelta {
                    number,
                    attempt,
                    event: StepEvent::Call(StepCall { purpose, ..call }),
                }
            }
            TurnEvent::ModelDelta { number, attempt, event: StepEvent::Cited(cited) } => {
                let event = StepEvent::Cited(citable_source(cited)?);
                TurnEvent::ModelDelta { number, attempt, event }
            }
            other => other,
        })
    }

    /// Runs a call on the host and returns its result if that is known at once.
    pub(super) fn run_on_host(&mut self, call: StepCall) -> Option<TurnEvent> {
        let output = match (HostTool::from_name(&call.tool), &call.purpose) {
            (Some(HostTool::Skill), _) => self.prompt.open_skill(&call),
            (Some(HostTool::Agent), Purpose::Agent(agent)) => {
                let task = subagent::SubagentTask {
                    context: self.context.for_subagent(&call.id, self.turn.log()),
                    agent: agent.clone(),
                    arguments: call.arguments.clone(),
                    model: self.model.clone(),
                    prompt: self.prompt.for_other(&agent.full_name),
                    caller: self.inbox.clone(),
                    permits: self.subagent_permits.clone(),
                };
                let (signals, received) = watch::channel(ControlSignals::default());
                self.running.start_subagent(call.id.clone(), subagent::run_subagent(task, received), signals);
                return None;
            }
            (None, _)
                if call.id == WORKSPACE_INSTRUCTIONS
                    && !workspace_instructions::has_begun(self.turn.log()) =>
            {
                workspace_instructions::instructions_output(
                    self.prompt.workspace_instructions().unwrap_or_default(),
                )
            }
            // Valid calls are not run here: they await a reply.
            (Some(HostTool::AskUser), _) if self.prompt.permitted_tools().has_tool(&call.tool) => {
                local_calls::failed_output(outside_calls::invalid_arguments(&call.tool))
            }
            (None, _) if self.prompt.outside_calls().has_function(&call.tool) => {
                local_calls::failed_output(outside_calls::invalid_arguments(&call.tool))
            }
            (Some(HostTool::Agent), _) => local_calls::failed_output(self.prompt.no_such_agent()),
            (Some(HostTool::WebSearch | HostTool::WebFetch), _)
                if self.prompt.permitted_tools().has_tool(&call.tool) =>
            {
                let web_call = self.web_call();
                let work = |call: StepCall| async move { web_call.run_call(&call).await };
                self.start_call(call, work);
                return None;
            }
            // A tool of an MCP server.
            (None, _)
                if self.context.services.web.runs_tool(&call.tool)
                    && self.prompt.permitted_tools().has_tool(&call.tool) =>
            {
                let web = self.context.services.web.clone();
                self.start_call(call, |call: StepCall| async move {
                    web.call_mcp_tool(&call.tool, &call.arguments).await
                });
                return None;
            }
            _ => local_calls::failed_output(self.prompt.no_such_tool(&call.tool, self.model.sees_images())),
        };
        if let Purpose::Skill(skill) = &call.purpose
            && output.outcome == StepOutcome::Done
        {
            self.skill_uses.note_opening(&call.id, &skill.full_name);
        }
        Some(TurnEvent::ToolReturned { call: call.id, output })
    }

    /// Runs a call in a separate task.
    fn start_call<F: Future<Output = CallOutput> + Send>(
        &mut self,
        call: StepCall,
        work: impl FnOnce(StepCall) -> F + Send + 'static,
    ) {
        let (inbox, id) = (self.inbox.clone(), call.id.clone());
        self.running.start_call(id.clone(), async move {
            let output = work(call).await;
            // The turn may have ended.
            let _ = inbox.send(TurnInput::Event(TurnEvent::ToolReturned { call: id, output })).await;
        });
    }

    /// Builds a call of the web tools.
    fn web_call(&self) -> WebCall {
        let TurnContext { services, store, web_policy, .. } = &self.context;
        WebCall {
            web: services.web.clone(),
            workspaces: services.workspaces.clone(),
            account: store.account,
            reading: web_policy.clone(),
            log: self.turn.log().to_vec(),
        }
    }
}
