//! The further choices of a question: its agent, skills and jurisdictions, and the settings of the models.

use control::catalogs::CatalogEntry;
use control::{Catalogs, Principal, QuestionService, UseCaseError};
use domain::catalog::ModelEntry;

use crate::composer::{ModelOption, QuestionForm, model_names, setting_field};
use crate::texts::Texts;

/// The maximum number of skills in the form: the skills that the account uses most often. The API accepts all.
const SKILLS_MAX: usize = 50;

/// Everything that a question can choose.
#[derive(Debug)]
pub(crate) struct OfferedChoices {
    pub(crate) models: Vec<ModelOption>,
    /// The available use of the web, in words; `None` if the web is unavailable.
    pub(crate) web: Option<String>,
    /// True if the web may be used.
    pub(crate) is_web_chosen: bool,
    pub(crate) choices: CatalogChoices,
}

impl OfferedChoices {
    /// Reads the catalogs and keeps the choices of the form.
    pub(crate) async fn load(
        catalogs: &Catalogs,
        questions: &QuestionService,
        principal: &Principal,
        texts: Texts,
        form: &QuestionForm,
    ) -> Result<Self, UseCaseError> {
        let access = questions.web_access();
        let web = if access.can_search() { Some("web") } else { access.is_any().then_some("web-pages") };
        let models = catalogs.list_models(principal)?;
        let chosen = Some(form.model.as_str()).filter(|model| !model.is_empty());
        Ok(Self {
            models: ModelOption::list_usable(texts, &models, |id| catalogs.model_status(id), chosen),
            web: web.map(|key| texts.get(key)),
            is_web_chosen: form.web,
            choices: CatalogChoices::load(catalogs, principal, texts, form).await?,
        })
    }

    /// Offers the chosen model even if the catalog currently lacks it.
    pub(crate) fn keep_model(&mut self, id: &str) {
        if self.models.iter().all(|model| !model.is_chosen) {
            self.models.insert(0, ModelOption { id: id.to_owned(), label: id.to_owned(), is_chosen: true });
        }
    }

    /// Returns the choices in words: the model if there are several, the agent, and all checked boxes.
    pub(crate) fn chosen_text(&self) -> String {
        let is_one = self.models.len() == 1;
        let model = self.models.iter().find(|model| model.is_chosen && !is_one).map(|model| &model.label);
        let web = self.web.as_ref().filter(|_| self.is_web_chosen);
        let named = model.into_iter().chain(web).chain(self.choices.chosen_labels());
        named.map(String::as_str).collect::<Vec<_>>().join(" · ")
    }
}

/// The choices of a question other than the model and web search.
#[derive(Debug)]
pub(crate) struct CatalogChoices {
    pub(crate) agents: Vec<ChoiceOption>,
    pub(crate) skills: Vec<ChoiceOption>,
    /// The number of skills that are left out.
    pub(crate) more_skills: usize,
    pub(crate) jurisdictions: Vec<ChoiceOption>,
    pub(crate) models: Vec<ModelSettings>,
}

/// An option, or a box to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChoiceOption {
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
    pub(crate) options: Vec<ChoiceOption>,
}

impl CatalogChoices {
    /// Reads the catalogs and keeps the choices of the form.
    pub(crate) async fn load(
        catalogs: &Catalogs,
        principal: &Principal,
        texts: Texts,
        form: &QuestionForm,
    ) -> Result<Self, UseCaseError> {
        let agents = catalogs.list_agents(principal)?.into_iter();
        let skills = catalogs.list_skills(principal).await?;
        let more_skills = skills.len().saturating_sub(SKILLS_MAX);
        let named = |entry: CatalogEntry, is_chosen: bool| ChoiceOption {
            value: entry.full_name,
            label: entry.name,
            hint: entry.description,
            is_chosen,
        };
        let jurisdictions = catalogs.list_jurisdictions(principal)?;
        let models = catalogs.list_models(principal)?;
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
                .map(|jurisdiction| ChoiceOption {
                    value: jurisdiction.id.clone(),
                    label: texts.in_language(&jurisdiction.label),
                    hint: String::new(),
                    is_chosen: form.jurisdictions.contains(&jurisdiction.id),
                })
                .collect(),
            models: ModelSettings::list_usable(texts, &models, form),
        })
    }

    /// Returns true if something is chosen, so that the form is shown open.
    pub(crate) fn is_chosen(&self) -> bool {
        self.chosen_labels().next().is_some()
    }

    /// Returns the labels of the agent, the skills and the jurisdictions that are chosen.
    fn chosen_labels(&self) -> impl Iterator<Item = &String> {
        let choices = self.agents.iter().chain(&self.skills).chain(&self.jurisdictions);
        choices.filter(|choice| choice.is_chosen).map(|choice| &choice.label)
    }
}

impl ModelSettings {
    /// Lists the models that have settings and are not deprecated, and the chosen one in any case.
    fn list_usable(texts: Texts, models: &[ModelEntry], form: &QuestionForm) -> Vec<Self> {
        let is_usable = |model: &&ModelEntry| !model.deprecated || model.id == form.model;
        let usable: Vec<_> = models.iter().filter(is_usable).collect();
        let named = usable.iter().zip(model_names(texts, &usable));
        let has_settings = named.filter(|(model, _)| !model.settings.is_empty());
        has_settings.map(|(model, name)| Self::from_model(texts, model, name, form)).collect()
    }

    fn from_model(texts: Texts, model: &ModelEntry, label: String, form: &QuestionForm) -> Self {
        let settings = model.settings.iter().map(|setting| {
            let name = setting_field(&setting.key, &model.id);
            let chosen = form.settings.iter().find(|(field, _)| *field == name);
            let chosen = chosen.map_or(&setting.default_value, |(_, value)| value);
            let options = setting.options.iter().map(|option| ChoiceOption {
                value: option.value.clone(),
                label: texts.in_language(&option.label),
                hint: String::new(),
                is_chosen: option.value == *chosen,
            });
            SettingField { label: texts.in_language(&setting.label), options: options.collect(), name }
        });
        Self { id: model.id.clone(), label, settings: settings.collect() }
    }
}
