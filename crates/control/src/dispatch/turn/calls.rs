//! Calls that the service runs itself: what they are for, and who runs them.

use domain::citation::{Cited, Place};
use domain::step::{Call, Outcome, Purpose, StepEvent, USE_AGENT, USE_SKILL, WEB_FETCH, WEB_SEARCH};
use domain::turn::Output;
use domain::turn::host::Event;
use egress::WebUrl;
use tokio::sync::watch;

use super::{Inbox, Shell};
use crate::dispatch::desk::Desk;
use crate::dispatch::orders::Orders;
use crate::dispatch::web::Errand;
use crate::dispatch::{delegate, hosted};

/// The source that a vendor names, if an answer may lead there: what is no page of the public web is none.
fn citable(cited: Cited) -> Option<Cited> {
    let Place::Web { url, title } = cited.place else { return Some(cited) };
    let url = WebUrl::parse(&url).filter(WebUrl::is_public)?.as_str().to_owned();
    Some(Cited { place: Place::Web { url, title }, ..cited })
}

impl Shell {
    /// What the model said, with what a call is for. Nothing is left of a source that no answer may name.
    pub(super) fn named(&self, said: Event) -> Option<Event> {
        Some(match said {
            Event::Said { number, attempt, event: StepEvent::Call(call) } => {
                let purpose = self.briefing.purpose_of(&call);
                Event::Said { number, attempt, event: StepEvent::Call(Call { purpose, ..call }) }
            }
            Event::Said { number, attempt, event: StepEvent::Cited(cited) } => {
                let event = StepEvent::Cited(citable(cited)?);
                Event::Said { number, attempt, event }
            }
            other => other,
        })
    }

    /// Runs a call that is the service's own, and tells what came of it if that is known at once.
    pub(super) fn run(&mut self, call: Call) -> Option<Event> {
        let output = match (call.tool.as_str(), &call.purpose) {
            (USE_SKILL, _) => self.briefing.open(&call),
            (USE_AGENT, Purpose::Agent(agent)) => {
                let task = delegate::Task {
                    desk: Desk { delegation: Some(call.id.as_str().into()), ..self.desk.clone() },
                    agent: agent.clone(),
                    arguments: call.arguments.clone(),
                    model: self.model.clone(),
                    settings: self.settings.clone(),
                    created_at: self.created_at,
                    briefing: self.briefing.for_other(&agent.full_name),
                    reading: self.reading.with(self.turn.log()),
                    caller: self.events.clone(),
                    places: self.others.clone(),
                };
                let (orders, given) = watch::channel(Orders::default());
                self.running.delegate(call.id.clone(), delegate::run(task, given), orders);
                return None;
            }
            (USE_AGENT, _) => hosted::failed(self.briefing.no_such_agent()),
            (WEB_SEARCH | WEB_FETCH, _) => {
                let errand = self.errand();
                let work = |call: Call| async move { errand.run(&call).await };
                self.start(call, work);
                return None;
            }
            _ => {
                let web = self.desk.shared.web.clone();
                self.start(call, |call: Call| async move { web.call(&call.tool, &call.arguments).await });
                return None;
            }
        };
        if let Purpose::Skill(skill) = &call.purpose
            && output.outcome == Outcome::Done
            && self.counted.insert(skill.full_name.clone())
        {
            self.opening.insert(call.id.clone(), skill.full_name.clone());
        }
        Some(Event::Hosted { call: call.id, output })
    }

    /// Runs a call beside the turn.
    fn start<F: Future<Output = Output> + Send>(
        &mut self,
        call: Call,
        work: impl FnOnce(Call) -> F + Send + 'static,
    ) {
        let (events, id) = (self.events.clone(), call.id.clone());
        self.running.start(id.clone(), async move {
            let output = work(call).await;
            // A turn that is gone needs to know nothing.
            let _ = events.send(Inbox::Event(Event::Hosted { call: id, output })).await;
        });
    }

    /// What a call of the web goes out with.
    fn errand(&self) -> Errand {
        let Desk { shared, account, .. } = &self.desk;
        Errand {
            web: shared.web.clone(),
            workspaces: shared.workspaces.clone(),
            account: *account,
            reading: self.reading.clone(),
            log: self.turn.log().to_vec(),
        }
    }
}
