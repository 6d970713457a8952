//! The further choices of a question: its agent, skills and jurisdictions, and the settings of the models.

use control::catalogs::CatalogEntry;
use control::{Catalogs, Principal, UseCaseError};
use domain::catalog::ModelEntry;

use crate::composer::{QuestionForm, model_names, setting_field};
use crate::texts::Texts;

/// The most skills of the form: those that the account uses most. All can be named in the interface.
const SKILLS_MAX: usize = 50;

/// The choices of a new conversation besides the model and web search.
#[derive(Debug)]
pub(crate) struct Choices {
    pub(crate) agents: Vec<Choice>,
    pub(crate) skills: Vec<Choice>,
    /// The number of skills that are left out.
    pub(crate) more_skills: usize,
    pub(crate) jurisdictions: Vec<Choice>,
    pub(crate) models: Vec<ModelSettings>,
}

/// An option, or a box to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) value: String,
    pub(crate) label: String,
    /// Its purpose, which may be empty.
    pub(crate) hint: String,
    pub(crate) is_chosen: bool,
}

/// The settings of a model.
#[derive(Debug)]
pub(crate) struct ModelSettings {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) settings: Vec<SettingField>,
}

#[derive(Debug)]
pub(crate) struct SettingField {
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) options: Vec<Choice>,
}

impl Choices {
    /// Reads the catalogs. What the form has chosen stays chosen.
    pub(crate) async fn load(
        catalogs: &Catalogs,
        principal: &Principal,
        texts: Texts,
        form: &QuestionForm,
    ) -> Result<Self, UseCaseError> {
        let agents = catalogs.agents(principal)?.into_iter();
        let skills = catalogs.skills(principal).await?;
        let more_skills = skills.len().saturating_sub(SKILLS_MAX);
        let named = |entry: CatalogEntry, is_chosen: bool| Choice {
            value: entry.full_name,
            label: entry.name,
            hint: entry.description,
            is_chosen,
        };
        let jurisdictions = catalogs.jurisdictions(principal)?;
        let models = catalogs.models(principal)?;
        Ok(Self {
            agents: agents
                .map(|entry| {
                    let is_chosen = form.agent == entry.full_name;
                    named(entry, is_chosen)
                })
                .collect(),
            skills: skills
                .into_iter()
                .enumerate()
                .map(|(at, entry)| (at, form.skills.contains(&entry.full_name), entry))
                .filter(|(at, is_chosen, _)| *at < SKILLS_MAX || *is_chosen)
                .map(|(_, is_chosen, entry)| named(entry, is_chosen))
                .collect(),
            more_skills,
            jurisdictions: jurisdictions
                .iter()
                .map(|jurisdiction| Choice {
                    value: jurisdiction.id.clone(),
                    label: texts.of(&jurisdiction.label),
                    hint: String::new(),
                    is_chosen: form.jurisdictions.contains(&jurisdiction.id),
                })
                .collect(),
            models: ModelSettings::list(texts, &models, form),
        })
    }

    /// Returns true if something is chosen, so that the form shows it.
    pub(crate) fn is_chosen(&self) -> bool {
        let mut choices = self.agents.iter().chain(&self.skills).chain(&self.jurisdictions);
        choices.any(|choice| choice.is_chosen)
    }
}

impl ModelSettings {
    /// Lists the models that have settings and are not deprecated.
    fn list(texts: Texts, models: &[ModelEntry], form: &QuestionForm) -> Vec<Self> {
        let usable: Vec<_> = models.iter().filter(|model| !model.deprecated).collect();
        let named = usable.iter().zip(model_names(texts, &usable));
        let has_settings = named.filter(|(model, _)| !model.settings.is_empty());
        has_settings.map(|(model, name)| Self::of(texts, model, name, form)).collect()
    }

    fn of(texts: Texts, model: &ModelEntry, label: String, form: &QuestionForm) -> Self {
        let settings = model.settings.iter().map(|setting| {
            let name = setting_field(&setting.key, &model.id);
            let chosen = form.settings.iter().find(|(field, _)| *field == name);
            let chosen = chosen.map_or(&setting.default_value, |(_, value)| value);
            let options = setting.options.iter().map(|option| Choice {
                value: option.value.clone(),
                label: texts.of(&option.label),
                hint: String::new(),
                is_chosen: option.value == *chosen,
            });
            SettingField { label: texts.of(&setting.label), options: options.collect(), name }
        });
        Self { id: model.id.clone(), label, settings: settings.collect() }
    }
}
