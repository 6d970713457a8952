//! The calls of a response: assembles the events of each call, tolerating missing ones.

use crate::output::{VendorCall, extend_arguments, is_object};

/// Limits the items of a response.
pub(super) const ITEMS_MAX: usize = 1024;

/// The item of a call, as an event contains it.
#[derive(Debug, Default)]
pub(super) struct CallItem {
    /// The identifier of the item; may be empty, like the following ones.
    pub(super) item_id: String,
    pub(super) call_id: String,
    pub(super) tool: String,
    pub(super) arguments: String,
}

/// The call that an event of arguments names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) item_id: &'a str,
    pub(super) position: Option<u64>,
}

/// A call that is not emitted yet.
#[derive(Debug, Default)]
struct PendingResponsesCall {
    item: CallItem,
    position: Option<u64>,
    /// The other fields of the item, once it is finished.
    rest: Option<String>,
    /// Its arguments are complete and empty.
    is_without_arguments: bool,
    /// The response contains it.
    is_listed: bool,
}

impl PendingResponsesCall {
    fn is_finished(&self) -> bool {
        self.rest.is_some()
    }

    /// Returns true when no later event should change the call. Some servers finish items without their arguments.
    fn is_settled(&self) -> bool {
        let arguments = &self.item.arguments;
        self.is_finished() && (self.is_without_arguments || !is_stub(arguments) && is_object(arguments))
    }

    fn is_of_tool(&self, tool: &str) -> bool {
        self.item.tool.is_empty() || tool.is_empty() || self.item.tool == tool
    }

    fn contradicts(&self, item: &CallItem) -> bool {
        is_other_id(&self.item.item_id, &item.item_id)
            || is_other_id(&self.item.call_id, &item.call_id)
            || !self.is_of_tool(&item.tool)
    }

    fn has_arguments_of(&self, item: &CallItem) -> bool {
        self.item.arguments.trim() == item.arguments.trim()
    }

    /// Takes the fields of an item. Empty fields and placeholder arguments replace nothing.
    fn take_item(&mut self, item: CallItem) {
        for (own, given) in [
            (&mut self.item.item_id, item.item_id),
            (&mut self.item.call_id, item.call_id),
            (&mut self.item.tool, item.tool),
        ] {
            if !given.is_empty() {
                *own = given;
            }
        }
        self.take_arguments(item.arguments);
    }

    fn take_arguments(&mut self, arguments: String) {
        if !is_stub(&arguments) || self.item.arguments.is_empty() {
            self.is_without_arguments &= is_stub(&arguments);
            self.item.arguments = arguments;
        }
    }
}

/// The calls of a response in their order. Those that are emitted come first.
#[derive(Debug, Default)]
pub(super) struct ResponsesCalls {
    calls: Vec<PendingResponsesCall>,
    emitted: usize,
}

impl ResponsesCalls {
    /// Begins a call whose arguments follow. Returns false when there are too many.
    pub(super) fn begin_call(&mut self, position: Option<u64>, item: CallItem) -> bool {
        let known = self.calls.iter().rposition(|call| {
            let is_same = is_same_id(&call.item.item_id, &item.item_id)
                || call.item.tool.is_empty() && position.is_some() && call.position == position;
            is_same && !call.contradicts(&item)
        });
        let Some(at) = known.or_else(|| self.add_call(position)) else { return false };
        self.calls[at].take_item(item);
        true
    }

    /// Adds a piece of arguments.
    pub(super) fn append_arguments(&mut self, named: Named<'_>, piece: &str) {
        if let Some(at) = self.find_or_add(named) {
            let call = &mut self.calls[at];
            call.is_without_arguments = false;
            extend_arguments(&mut call.item.arguments, piece);
        }
    }

    pub(super) fn complete_arguments(&mut self, named: Named<'_>, arguments: String) {
        if !is_object(&arguments) {
            return;
        }
        if let Some(at) = self.find_or_add(named) {
            let call = &mut self.calls[at];
            call.is_without_arguments = is_stub(&arguments) && is_stub(&call.item.arguments);
            call.take_arguments(arguments);
        }
    }

    /// Takes a finished item. `rest` is its other fields.
    pub(super) fn finish_call(&mut self, position: Option<u64>, item: CallItem, rest: String) {
        if let Some(at) = self.of_item(position, &item).or_else(|| self.add_call(position)) {
            self.update_call(at, item, rest);
        }
    }

    /// Takes an item of the whole response, whose positions may differ from the events'.
    pub(super) fn add_listed_call(&mut self, item: CallItem, rest: String) {
        let known = self.by_identifiers(&item, false).or_else(|| {
            self.calls.iter().position(|call| {
                let has_none = is_stub(&call.item.arguments) || is_stub(&item.arguments);
                let is_alike = call.has_arguments_of(&item) || has_none && !call.contradicts(&item);
                !call.is_listed && !item.tool.is_empty() && call.item.tool == item.tool && is_alike
            })
        });
        if let Some(at) = known.or_else(|| self.add_call(None)) {
            self.calls[at].is_listed = true;
            self.update_call(at, item, rest);
        }
    }

    /// Returns the next call that is complete, with the other fields of its item. A later call waits for an earlier one.
    pub(super) fn next_settled(&mut self) -> Option<(VendorCall, Option<String>)> {
        let call = self.calls.get_mut(self.emitted).filter(|call| call.is_settled())?;
        self.emitted += 1;
        Some(emitted_call(call))
    }

    /// Returns the next call at the end of the response, which may lack its arguments. Those of an incomplete response
    /// that has none of them are left out: they were cut.
    pub(super) fn next_at_end(&mut self, is_incomplete: bool) -> Option<(VendorCall, Option<String>)> {
        while let Some(call) = self.calls.get_mut(self.emitted) {
            self.emitted += 1;
            if !is_incomplete || !call.item.arguments.trim().is_empty() {
                return Some(emitted_call(call));
            }
        }
        None
    }

    fn update_call(&mut self, at: usize, item: CallItem, rest: String) {
        if at >= self.emitted {
            self.calls[at].take_item(item);
            self.calls[at].rest = Some(rest);
        }
    }

    fn add_call(&mut self, position: Option<u64>) -> Option<usize> {
        if self.calls.len() >= ITEMS_MAX {
            return None;
        }
        self.calls.push(PendingResponsesCall { position, ..PendingResponsesCall::default() });
        Some(self.calls.len() - 1)
    }

    /// Finds the call by its identifier, else by its position, else the one that began last.
    fn find_or_add(&mut self, named: Named<'_>) -> Option<usize> {
        let Named { item_id, position } = named;
        let last = |of: &dyn Fn(&PendingResponsesCall) -> bool| self.calls.iter().rposition(of);
        let by_id =
            last(&|call| is_same_id(&call.item.item_id, item_id) || is_same_id(&call.item.call_id, item_id));
        let is_there = |call: &PendingResponsesCall| position.is_some() && call.position == position;
        let by_position =
            || last(&|call| is_there(call) && !call.is_finished()).or_else(|| last(&|call| is_there(call)));
        let by_order = || match (item_id, position) {
            ("", _) | (_, None) => last(&|call| !call.is_finished()),
            _ => None,
        };
        let is_held = |at: &usize| {
            let is_other = is_other_id(&self.calls[*at].item.item_id, item_id);
            *at >= self.emitted && position.is_none() && !is_other
        };
        let found = by_id.or_else(by_position).or_else(by_order);
        found.or_else(|| self.calls.len().checked_sub(1).filter(is_held)).or_else(|| {
            let at = self.add_call(position)?;
            item_id.clone_into(&mut self.calls[at].item.item_id);
            Some(at)
        })
    }

    /// Finds the call of a finished item.
    fn of_item(&self, position: Option<u64>, item: &CallItem) -> Option<usize> {
        let first = |of: &dyn Fn(&PendingResponsesCall) -> bool| self.calls.iter().position(of);
        let is_open = |call: &PendingResponsesCall| !call.is_finished() && !call.contradicts(item);
        let is_there = |call: &PendingResponsesCall| position.is_some() && call.position == position;
        self.by_identifiers(item, true)
            .or_else(|| first(&|call| is_open(call) && is_there(call)))
            .or_else(|| first(&|call| is_open(call) && (position.is_none() || call.position.is_none())))
            .or_else(|| {
                let is_alike =
                    |call: &PendingResponsesCall| call.has_arguments_of(item) || is_stub(&item.arguments);
                first(&|call| is_there(call) && !call.contradicts(item) && is_alike(call))
            })
    }

    /// Finds a call by its identifiers. With `is_event`, a finished item with another call is another one.
    fn by_identifiers(&self, item: &CallItem, is_event: bool) -> Option<usize> {
        let last = |of: &dyn Fn(&PendingResponsesCall) -> bool| self.calls.iter().rposition(of);
        last(&|call| is_same_id(&call.item.call_id, &item.call_id) && call.is_of_tool(&item.tool)).or_else(
            || {
                last(&|call| {
                    let is_other =
                        is_event && call.is_finished() && is_other_id(&call.item.call_id, &item.call_id);
                    is_same_id(&call.item.item_id, &item.item_id) && call.is_of_tool(&item.tool) && !is_other
                })
            },
        )
    }
}

fn emitted_call(call: &mut PendingResponsesCall) -> (VendorCall, Option<String>) {
    let CallItem { call_id, tool, arguments, .. } = &call.item;
    let emitted = VendorCall { id: call_id.clone(), tool: tool.clone(), arguments: arguments.clone() };
    (emitted, call.rest.clone())
}

/// Returns true for placeholder arguments, which servers send if the actual ones come in other events.
fn is_stub(arguments: &str) -> bool {
    matches!(arguments.trim(), "" | "{}")
}

/// Returns true for identifiers that are there and the same.
fn is_same_id(one: &str, other: &str) -> bool {
    !one.is_empty() && one == other
}

/// Returns true for identifiers that are there and not the same.
fn is_other_id(one: &str, other: &str) -> bool {
    !one.is_empty() && !other.is_empty() && one != other
}
