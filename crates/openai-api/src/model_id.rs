//! The ids of models here: a model of the catalog, an agent, or a model without the agent.

/// Before the full name of an agent.
const AGENT: &str = "agent/";
/// Before a model that answers without an agent.
const PLAIN: &str = "plain/";

/// The model that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelId {
    /// The default agent answers with this model of the catalog.
    Model(String),
    /// This agent answers with the default model.
    Agent(String),
    /// The model of the catalog answers in one step, without an agent.
    Plain(String),
}

impl ModelId {
    /// Parses an id. Catalogs may have models whose ids begin like the others, so `is_listed` decides first.
    pub(crate) fn parse(text: &str, is_listed: impl Fn(&str) -> bool) -> Self {
        if is_listed(text) {
            return Self::Model(text.to_owned());
        }
        if let Some(agent) = text.strip_prefix(AGENT) {
            return Self::Agent(agent.to_owned());
        }
        match text.strip_prefix(PLAIN) {
            Some(model) => Self::Plain(model.to_owned()),
            None => Self::Model(text.to_owned()),
        }
    }

    /// Returns the id of an agent.
    pub(crate) fn of_agent(full_name: &str) -> String {
        format!("{AGENT}{full_name}")
    }

    /// Returns the id of a model without an agent.
    pub(crate) fn of_plain(model: &str) -> String {
        format!("{PLAIN}{model}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_models_precede_prefixes() {
        let parse = |text| ModelId::parse(text, |id| id == "agent/seven");
        assert_eq!(parse("agent/seven"), ModelId::Model("agent/seven".into()));
        assert_eq!(parse("agent/causerie:lawyer"), ModelId::Agent("causerie:lawyer".into()));
        assert_eq!(parse("plain/org/m"), ModelId::Plain("org/m".into()));
        assert_eq!(parse("gpt"), ModelId::Model("gpt".into()));
    }
}
