//! The form in which questions are written.

use std::collections::HashMap;

use axum::extract::{FromRequest, RawForm, Request};
use axum::response::{IntoResponse, Response};
use control::conversations::{AskedExchange, ConversationSummary};
use control::questions::{AskPlace, AskRequest, Idempotency, QuestionRevision};
use control::{ServiceEnvironment, UseCaseError};
use domain::catalog::{ModelEntry, ModelStatus, ProviderName};
use domain::id::{ConversationId, MessageId};
use domain::limits::ATTACHMENTS_MAX;

use crate::error;
use crate::links::names_of;
use crate::sent_form::SentForm;
use crate::texts::Texts;

/// The prefix of a setting's field name, followed by the setting's key and the model.
const SETTING: &str = "setting/";
/// The maximum number of skills, of jurisdictions and of settings read from a form: more than any catalog's form has.
const CHOICES_MAX: usize = 500;

/// The form of a question. It is shown again with a refused text.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    /// The text so far.
    pub(crate) input: String,
    /// Identifies the form, so that a question that is sent twice is asked once.
    pub(crate) once: String,
    /// The files to attach.
    pub(crate) files: Vec<ComposerFile>,
    /// The submitted form, whose choices the next question keeps.
    pub(crate) sent: Option<QuestionForm>,
    /// The reason why the question was refused.
    pub(crate) error: Option<String>,
}

/// A file that the next question attaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComposerFile {
    pub(crate) name: String,
    pub(crate) path: String,
}

impl ComposerFile {
    /// Returns the files at these paths.
    pub(crate) fn from_paths(paths: &[String]) -> Vec<Self> {
        let trimmed: Vec<&str> = paths.iter().map(|path| path.trim_end_matches('/')).collect();
        let file = |(name, path): (String, &String)| Self {
            name: if name.is_empty() { "/".to_owned() } else { name },
            path: path.clone(),
        };
        names_of(&trimmed).into_iter().zip(paths).map(file).collect()
    }
}

/// A model to choose.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModelOption {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) is_chosen: bool,
}

impl ModelOption {
    /// Lists the models that are not deprecated, and always the chosen one, which is initially the default. A
    /// model with failing calls is marked.
    pub(crate) fn list_usable(
        texts: Texts,
        models: &[ModelEntry],
        status: impl Fn(&str) -> ModelStatus,
        chosen: Option<&str>,
    ) -> Vec<Self> {
        let is_chosen = |model: &ModelEntry| chosen.map_or(model.default, |chosen| model.id == chosen);
        let usable: Vec<_> = models.iter().filter(|model| !model.deprecated || is_chosen(model)).collect();
        let option = |(model, name): (&&ModelEntry, String)| Self {
            id: model.id.clone(),
            label: match status(&model.id) {
                ModelStatus::Up | ModelStatus::Unknown => name,
                ModelStatus::Degraded => format!("{name} ({})", texts.get("model-degraded")),
                ModelStatus::Down => format!("{name} ({})", texts.get("model-down")),
            },
            is_chosen: is_chosen(model),
        };
        usable.iter().zip(model_names(texts, &usable)).map(option).collect()
    }
}

/// Returns distinct names for models shown next to each other: the label, followed by the vendor if labels are
/// equal, and by the id if the vendors are equal too.
pub(crate) fn model_names(texts: Texts, models: &[&ModelEntry]) -> Vec<String> {
    let labels: Vec<_> =
        models.iter().map(|model| (texts.in_language(&model.label), model.provider)).collect();
    let mut by_label = HashMap::<&str, usize>::new();
    let mut by_vendor = HashMap::<&(String, ProviderName), usize>::new();
    for both in &labels {
        *by_label.entry(&both.0).or_default() += 1;
        *by_vendor.entry(both).or_default() += 1;
    }
    let name = |(both, model): (&(String, ProviderName), &&ModelEntry)| {
        let (label, provider) = both;
        match (by_label[label.as_str()], by_vendor[both]) {
            (1, _) => label.clone(),
            (_, 1) => format!("{label} · {}", vendor_name(*provider)),
            _ => format!("{label} · {}", model.id),
        }
    };
    labels.iter().zip(models).map(name).collect()
}

const fn vendor_name(provider: ProviderName) -> &'static str {
    match provider {
        ProviderName::Anthropic => "Anthropic",
        ProviderName::OpenAi => "OpenAI",
        ProviderName::Google => "Google",
    }
}

/// A form of an exchange that is being revised.
pub(crate) struct RevisionForm {
    /// The answer of the exchange.
    pub(crate) of: MessageId,
    /// True if the text is edited as well.
    pub(crate) is_edit: bool,
    pub(crate) composer: Composer,
    pub(crate) models: Vec<ModelOption>,
}

impl Composer {
    /// Creates an empty form.
    pub(crate) fn new(environment: &ServiceEnvironment) -> Self {
        Self { once: domain::hex::encode_hex(&environment.random_bytes::<16>()), ..Self::default() }
    }
}

/// A question as a form sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QuestionForm {
    pub(crate) input: String,
    once: String,
    /// The model. If this or one of the next three fields is absent, an existing conversation keeps its value.
    pub(crate) model: String,
    /// The settings of all models, as the names and values of their fields.
    pub(crate) settings: Vec<(String, String)>,
    /// The identifiers of jurisdictions.
    pub(crate) jurisdictions: Vec<String>,
    /// True if web search is permitted.
    pub(crate) web: bool,
    /// The full name of the agent, or empty.
    pub(crate) agent: String,
    /// The full names of skills.
    pub(crate) skills: Vec<String>,
    /// Workspace paths to attach.
    files: Vec<String>,
    /// The last answer of the page, whose branch the question continues.
    after: Option<MessageId>,
    /// The first exchange of the page.
    pub(crate) from: Option<u32>,
}

impl<S: Send + Sync> FromRequest<S> for QuestionForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let RawForm(fields) =
            RawForm::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        Ok(Self::parse(&fields))
    }
}

impl QuestionForm {
    /// Reads the fields of a form, or of the query of a page with a new question. Unknown fields are ignored.
    pub(crate) fn parse(fields: &[u8]) -> Self {
        let mut form = Self::default();
        for (name, value) in form_urlencoded::parse(fields) {
            match &*name {
                "input" => form.input = value.into_owned(),
                "once" => form.once = value.into_owned(),
                "model" => form.model = value.into_owned(),
                "web" => form.web = true,
                "agent" => form.agent = value.into_owned(),
                "skill" if form.skills.len() < CHOICES_MAX => form.skills.push(value.into_owned()),
                "jurisdiction" if form.jurisdictions.len() < CHOICES_MAX => {
                    form.jurisdictions.push(value.into_owned());
                }
                name if name.starts_with(SETTING) && form.settings.len() < CHOICES_MAX => {
                    form.settings.push((name.to_owned(), value.into_owned()));
                }
                "after" => form.after = value.parse().ok(),
                "from" => form.from = value.parse().ok(),
                // One more than permitted, so that the question is refused rather than asked without a file.
                "file" if form.files.len() <= ATTACHMENTS_MAX => form.files.push(value.into_owned()),
                _ => {}
            }
        }
        form
    }

    /// Returns the choices of the last question of a conversation.
    pub(crate) fn of_conversation(summary: &ConversationSummary, asked: AskedExchange) -> Self {
        let field = |(key, value): &(String, String)| (setting_field(key, &summary.model), value.clone());
        Self {
            model: summary.model.clone(),
            settings: summary.settings.iter().map(field).collect(),
            jurisdictions: summary.jurisdictions.clone(),
            web: summary.web_search,
            agent: asked.agent.unwrap_or_default(),
            skills: asked.skills,
            ..Self::default()
        }
    }

    /// Returns the files that the form attaches.
    pub(crate) fn attached_files(&self) -> Vec<ComposerFile> {
        ComposerFile::from_paths(&self.files)
    }

    pub(crate) fn to_ask_request(&self, conversation: Option<ConversationId>) -> AskRequest {
        AskRequest {
            input: self.input_text(),
            conversation,
            place: self.after.map_or(AskPlace::Next, AskPlace::BranchOf),
            attachments: self.files.clone(),
            model: self.chosen_model(),
            settings: settings_of(&self.settings, &self.model),
            jurisdictions: self.jurisdictions.clone(),
            web_search: self.web,
            changes_conversation: conversation.is_some() && !self.model.is_empty(),
            agent: Some(self.agent.clone()).filter(|agent| !agent.is_empty()),
            skills: self.skills.clone(),
            idempotency: self.form_idempotency("ask", conversation.map(|id| id.to_string())),
            ..AskRequest::default()
        }
    }

    /// Returns another version of an answer's question, with a new text if it is edited.
    pub(crate) fn to_revision(&self, of: MessageId, is_edit: bool) -> QuestionRevision {
        let kind = if is_edit { "edit" } else { "retry" };
        QuestionRevision {
            input: is_edit.then(|| self.input_text()),
            attachments: is_edit.then(|| self.files.clone()),
            model: self.chosen_model(),
            idempotency: self.form_idempotency(kind, Some(of.to_string())),
        }
    }

    /// Returns the reason why the question was refused, in the visitor's language.
    pub(crate) fn refusal_reason(&self, texts: Texts, refused: &UseCaseError, has_text: bool) -> String {
        let is_blank = has_text && self.input.trim().is_empty();
        if is_blank { texts.get("ask-blank") } else { error::error_text(texts, refused) }
    }

    /// Returns the text with normalized line ends.
    fn input_text(&self) -> String {
        self.input.replace("\r\n", "\n")
    }

    fn chosen_model(&self) -> Option<String> {
        Some(self.model.clone()).filter(|model| !model.is_empty())
    }

    /// Returns the identity of the question: the form, its place and its content, because it may be changed and
    /// sent again.
    fn form_idempotency(&self, kind: &str, place: Option<String>) -> Option<Idempotency> {
        let mut asked = SentForm::from_token(&self.once)?
            .with_field(kind, &place.unwrap_or_default())
            .with_field("input", &self.input)
            .with_field("model", &self.model)
            .with_field("agent", &self.agent)
            .with_field("web", if self.web { "on" } else { "" })
            .with_field("after", &self.after.map(|answer| answer.to_string()).unwrap_or_default())
            .with_fields("file", &self.files)
            .with_fields("skill", &self.skills)
            .with_fields("jurisdiction", &self.jurisdictions);
        for (name, value) in &self.settings {
            asked = asked.with_field(name, value);
        }
        let body_hash = asked.into_digest();
        let key = format!("page-{}-{}", self.once, domain::hex::encode_hex(&body_hash[..16]));
        Some(Idempotency { key, body_hash })
    }
}

/// Returns the name of the field of a model's setting.
pub(crate) fn setting_field(key: &str, model: &str) -> String {
    format!("{SETTING}{key}/{model}")
}

/// Returns the settings of this model, as keys and values, among fields of settings.
pub(crate) fn settings_of(fields: &[(String, String)], model: &str) -> Vec<(String, String)> {
    let of_model = fields.iter().filter_map(|(name, value)| {
        let (key, of) = name.strip_prefix(SETTING)?.split_once('/')?;
        (of == model).then(|| (key.to_owned(), value.clone()))
    });
    of_model.collect()
}

#[cfg(test)]
mod tests {
    use domain::catalog::Localized;
    use domain::credits::Price;

    use super::*;

    #[test]
    fn question_form_attaches_several_files() {
        let form = QuestionForm::parse(b"input=a+b&file=%2Fuploads%2Fx.pdf&file=/&other=1&web=on");
        assert_eq!((form.input.as_str(), form.web), ("a b", true));
        let names: Vec<_> = form.attached_files().into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["x.pdf", "/"]);
        assert_eq!(form.to_ask_request(None).attachments, ["/uploads/x.pdf", "/"]);
        let many = QuestionForm::parse("file=x&".repeat(ATTACHMENTS_MAX + 9).as_bytes());
        assert_eq!(many.files.len(), ATTACHMENTS_MAX + 1);
    }

    #[test]
    fn form_idempotency_differs_by_field() {
        let once = "once=000102030405060708090a0b0c0d0e0f&input=a";
        let key = |more: &str, conversation| {
            let form = QuestionForm::parse(format!("{once}{more}").as_bytes());
            form.to_ask_request(conversation).idempotency.expect("a token").key
        };
        let answer = MessageId::from_random(1);
        let fields = [
            "&model=x",
            "&web=on",
            "&agent=x",
            "&skill=x",
            "&jurisdiction=x",
            "&setting/effort/x=HIGH",
            "&file=x",
            &format!("&after={answer}"),
        ];
        let mut keys: Vec<_> = fields.iter().map(|field| key(field, None)).collect();
        keys.push(key("", None));
        keys.push(key("", Some(ConversationId::from_random(1))));
        assert_eq!(key("&model=x", None), keys[0], "the same form is asked once");
        keys.sort();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn settings_of_accepts_any_model_name() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields =
            [field("setting/effort/a/b", "HIGH"), field("setting/effort/b", "LOW"), field("setting/x", "y")];
        assert_eq!(settings_of(&fields, "a/b"), [field("effort", "HIGH")]);
        assert_eq!(settings_of(&fields, "b"), [field("effort", "LOW")]);
        assert!(settings_of(&fields, "c").is_empty());
    }

    #[test]
    fn model_names_separate_equal_labels() {
        let model = |id: &str, label: &'static str, provider| ModelEntry {
            id: id.to_owned(),
            label: Localized::from_untranslated(label),
            description: Localized::from_untranslated(""),
            provider,
            default: false,
            deprecated: false,
            settings: Vec::new(),
            builtin: false,
            price: Price { base_millis: 0, input_millis: 0, output_millis: 0 },
            context_tokens: 0,
            output_max_tokens: 0,
            vendor_name: id.to_owned(),
            sees_images: false,
            uses_tools: true,
        };
        let models = [
            model("a", "Large", ProviderName::Anthropic),
            model("b", "Large", ProviderName::OpenAi),
            model("c", "Small", ProviderName::OpenAi),
            model("d", "Flash", ProviderName::Google),
            model("e", "Flash", ProviderName::Google),
        ];
        let texts = Texts(crate::language::PageLanguage::English);
        let options = ModelOption::list_usable(texts, &models, |_| ModelStatus::Unknown, None);
        let labels: Vec<_> = options.iter().map(|option| option.label.as_str()).collect();
        assert_eq!(labels, ["Large · Anthropic", "Large · OpenAI", "Small", "Flash · d", "Flash · e"]);
    }
}
