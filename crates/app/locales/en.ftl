# Texts of the web application in English.

# Around every page
skip = Skip to the content
menu = Menu
account = Account
new-conversation = New conversation
conversations = Conversations
no-conversations = Nothing here yet. Ask your first question.
in-progress = Being answered
keys = API keys
machine = Machine
credits = Credits
sign-out = Sign out

# Signing in
sign-in = Sign in
sign-in-lead = Conversations with your documents.
sign-in-hint = No account or password? Ask the operator of this service.
sign-in-ended = Your session has ended. Sign in again.
sign-in-denied = The email or the password is wrong.
sign-in-provider-unavailable = The identity provider does not answer. Try again later.
sign-in-provider-refused = The identity provider did not sign you in.
sign-in-provider-invalid = This sign-in is not valid any more. Begin again.
sign-in-email-not-verified = The identity provider has not verified your email.
sign-in-bound-to-another = Somebody else signs in to the account with your email. Ask the operator of this service.
sign-in-email-not-confirmed = The owner of the account with your email chose that email here, and nobody has confirmed it. Ask the operator of this service.
sign-in-no-account = There is no account with your email. Ask the operator of this service.
sign-in-throttled = { $seconds ->
    [one] Too many attempts. Try again in one second.
   *[other] Too many attempts. Try again in { $seconds } seconds.
}
email = Email
password = Password

# The first account
welcome = Welcome
welcome-lead = Create the first account of this service.
welcome-create = Create account
welcome-hint = You will be an operator: you see and change all accounts. The licence is valid for a year.
welcome-bad-email = This is not an email address.
welcome-bad-password = A password has 8 to 1,024 bytes on one line.
welcome-not-invited = This link was used or has expired. Sign in, or restart the service for a new one if there is no operator yet.

# Asking
home-title = What would you like to know?
home-lead = Ask about your documents. Answers cite what they rely on.
ask-label = Your question
ask-placeholder = Ask a question …
ask-blank = Write a question first.
ask-conversation-gone = This conversation is gone. The question can begin a new one.
follow-up-placeholder = Ask a follow-up …
model = Model
choices = More choices
choices-next = Choices
choices-agent = Agent
choices-usual-agent = The usual one
choices-skills = Skills
choices-jurisdictions = Jurisdictions
choices-more-skills = { $count } more can be named in the interface.
model-degraded = often fails
model-down = does not answer
web = Search the web
web-pages = Read pages of the web
send = Send
stop = Stop

# A conversation
conversation-more = More
delete = Delete conversation
delete-sure = Delete this conversation with all its answers?
earlier = Earlier messages
later = Later messages
you-asked = You asked
edit = Edit
retry = Try again
retry-elsewhere = With another model
cancel = Cancel
version = Version
version-previous = Previous version
version-next = Next version
answer = Answer
working = Working …
connection-lost = The connection was lost. Trying again …
reasoning = Reasoning
agent = Agent { $name }
sources = Sources
source-page = page { $page }
source-slide = slide { $slide }
source-sheet = sheet { $sheet }
source-section = section { $section }
source-file = file { $file }
source-row = row { $row }
source-rows = rows { $rows }
source-line = line { $line }
source-lines = lines { $lines }
source-unproven = not proven
source-proven = The passage supports the sentence.
source-unproven-quote = Not proven: the passage does not contain the quoted words “{ $text }”.
source-unproven-number = Not proven: the passage does not contain the number { $text }.
source-unproven-date = Not proven: the passage does not contain the date ({ $text }).
source-unproven-name = Not proven: the passage does not contain the name { $text }.
source-unproven-negation = Not proven: the passage says the contrary.
source-unproven-quantity = Not proven: the passage gives another value, unit or limit for “{ $text }”.
source-unproven-participant = Not proven: the passage says this of another than “{ $text }”.
source-unproven-time-order = Not proven: the passage says another order in time (before, after).
source-unproven-obligation = Not proven: the passage says otherwise what must, may or must not be done.
source-unproven-words = Not proven: the passage has little in common with the sentence.
cited-passage = The cited passage
cited-changed = The file has changed since the answer. This is the passage as it was.
cited-gone = The file is not there any more: it was deleted or renamed. The answer keeps the passage that it cites.
cited-back = Back to the answer
found-more = { $count } more
source-open = Open the source
tool-search = Search the documents
tool-read = Read a document
tool-view = Look at pages
tool-list = List a folder
tool-find = Look for files
tool-write = Write a file
tool-edit = Edit a file
tool-shell = Run a command
tool-attached-files = Read the attached files
tool-web-search = Search the web
tool-web-fetch = Read a web page
tool-skill = Open a skill
tool-other = Use { $name }
answer-stopped = Stopped. What was written stands.
answer-complete = The answer is complete.
answer-cost = { $count ->
    [one] Cost: one credit
   *[other] Cost: { $count } credits
}
answer-model-unavailable = The model could not be reached. Ask again later.
answer-model-rejected = The model rejected the request.
answer-model-key-refused = The vendor of the model does not accept the key of this service. Your question is not the cause: please tell the operator.
answer-model-unpaid = The account of this service with the vendor of the model has no credit left. Your question is not the cause: please tell the operator.
answer-agent-unavailable = The agent that was asked is no longer there. Ask again with another one.
answer-context-too-long = The conversation has become too long for the model. Start a new one.
answer-insufficient-credits = The credits of the account do not cover the rest of the answer.
answer-spending-limit = The key with which this was asked has reached its limit.
answer-machine-failed = The machine of the account failed. Ask again later.
answer-too-many-steps = The answer took too many steps.
answer-output-exhausted = The answer is not complete: the model reached the limit of its output.
answer-model-refused = The model declined to answer.
answer-interrupted = The answer was ended because the service was restored from a backup. Ask again if you still need it.
answer-internal = The service failed. Ask again later.

# History
history = History
history-all = All conversations
history-search = Search titles and texts
history-find = Search
history-indexing = Older conversations are still being added to the search. Search again in a moment to find them, too.
history-none = Nothing was found for “{ $words }”.
history-pin = Pin
history-unpin = Remove pin
history-pinned = pinned
history-rename = Rename
history-title = Title
history-through = Begun with the key
history-more = More conversations
print = Print
print-hint = Use the browser’s print command to print this page or to keep it as a PDF.
print-cut = Earlier messages are left out. The export as Markdown has all.

# Files
files = Files
files-home = Files
files-path = Path
files-choose = Choose files
files-upload = Upload
files-uploaded = Uploaded
files-cancel = Cancel the upload
files-cancel-all = Cancel all uploads
files-cancelled = Upload cancelled.
files-waiting = Waiting
picture-enlarge = Enlarge the picture
picture-close = Close
picture-full-size = Full size
files-drop = Drop files to upload them here
files-new-folder = New folder
files-folder-name = Name of the folder
files-make-folder = Create
files-upload-folder = Or upload a folder
files-archive = Download as ZIP
files-download = Download
files-delete = Delete
files-delete-sure = Delete “{ $name }” for good?
files-delete-folder-sure = Delete the folder “{ $name }” with all that is in it?
files-more = More about { $name }
files-choose-one = Choose { $name }
files-choose-all = Choose all
files-chosen = Chosen: { $count }
files-ask = Ask about it
files-ask-chosen = Ask
files-empty = Nothing here yet. Upload documents, then ask about them.
files-count = { $count ->
    [one] One entry
   *[other] { $count } entries
}
files-rename = Rename
files-move = Move
files-new-name = New name
files-destination = Move to the folder
files-destination-note = The path of a folder, such as /uploads. Nothing in it is replaced.
files-delete-chosen-sure = Delete all of this for good? Folders are deleted with all that is in them.
files-renamed = Renamed.
files-moved = Moved: { $count }
files-deleted = Deleted: { $count }
files-choose-first = Choose files or folders first.
files-choose-fewer = At most { $count } files and folders can be chosen at once.
files-into-itself = A folder cannot be moved into itself. Choose another folder.
files-no-folder = There is no such folder. Choose one that exists.
files-search = Search by name
files-find = Search
files-sort = Order
files-sort-name = Name, A to Z
files-sort-name-down = Name, Z to A
files-sort-date-down = Newest first
files-sort-date = Oldest first
files-sort-size-down = Largest first
files-sort-size = Smallest first
files-none-found = No name here has “{ $words }” in it.
files-search-cut = There may be more than these { $count }. Search for more words, or in a folder further down.
files-pages = Pages of the folder
files-previous = Previous page
files-next = Next page
files-no-preview = This file is not shown here. Download it to read it.
files-cut = Only a part is shown. Download the file to see all of it.
files-none-chosen = Choose a file first.
files-too-many = At most { $count } files can be uploaded at once.
files-broken-off = The upload broke off. Try again.
files-proxied = A proxy before the service refuses requests of this size. The operator can raise its limit.
files-empty-file = The file is empty.
files-exists = A file or folder of this name exists already.
files-bad-name = This name cannot be used: it has a slash or a backslash, is “.” or “..”, or is reserved.
files-no-name = This name cannot be used: it is empty.
files-long-name = This name cannot be used: it is longer than 255 bytes.
files-full = The workspace is full. Delete something first.
files-over-quota = The file is larger than the whole workspace may be.
files-disk-full = The disk of this service is full. Ask its operator.
files-archive-too-large = This folder is too large for an archive. Download its folders one by one.
indexing-pending = Not read yet
indexing-progress = Being read: { $percent } %
indexing-partial = Read in part
indexing-unreadable = Not readable
unread-encrypted = It is encrypted and needs a password.
unread-no-text = It holds no text, such as a scan whose text was not recognized.
unread-unknown-form = Its format is not supported.
unread-too-large = It is too large.
unread-broken = It is damaged.
unread-too-slow = Reading it takes too long.
unread-too-much-memory = Reading it takes too much memory.
unread-image = It is an image. Only models that see can use it.
unread-missing = It is gone.
unread-long = It is longer than what is read of a document.
unread-scanned-pages = Some of its pages are scans whose text was not recognized.
unread-images = The text of some images in it was not read ({ $causes }).
unread-images-too-large = too large: { $count }
unread-images-too-slow = took too long: { $count }
unread-images-too-many = too many: { $count }
unread-images-failed = not recognizable: { $count }
unread-inner-files = Some of the files in it cannot be read.
unread-label-encrypted = Encrypted
unread-label-no-text = No text
unread-label-unknown-form = Unknown format
unread-label-too-large = Too large
unread-label-broken = Damaged
unread-label-too-slow = Takes too long
unread-label-too-much-memory = Takes too much memory
unread-label-image = Image
attach = Attach files
attach-waiting = The question is sent once the files are uploaded.
attach-remove = Remove

# API keys
keys-lead = Programs use a key to ask questions in your name.
keys-docs = How to use them
keys-new = Make a new key
keys-name = Name
keys-name-hint = What it is for
keys-may = Permissions
keys-all = everything
keys-life = Valid
keys-life-licence = as long as the licence
keys-life-days = { $count ->
    [one] for one day
   *[other] for { $count } days
}
keys-limit = Spending limit in credits
keys-limit-hint = none
keys-make = Make key
keys-made = The key “{ $name }” is ready
keys-made-note = Copy it now. It is not shown again.
keys-made-before = The key “{ $name }” was made already
keys-made-before-note = Its secret was shown once. If you do not have it, revoke the key and make another one.
keys-first-question = Ask the first question
keys-example-question = What is in my documents?
keys-created = Made
keys-used = Last used
keys-never = never
keys-expires = Valid until
keys-expired = Expired on
keys-spent = Spent
keys-revoke = Revoke
keys-revoke-named = Revoke { $name }
keys-credits = Credits, 30 days
keys-revoke-sure = Programs that use this key stop working at once.
keys-none = There are no keys.
keys-bad-name = A key needs a name of at most 256 bytes, and a spending limit of at least 1.
keys-bad-limit = The spending limit is a whole number of credits.
keys-bad-life = Choose how long the key is valid.
keys-no-permission = Choose at least one permission.
permission-read = read conversations
permission-ask = ask questions
permission-files = use files
permission-machine = start and stop the machine
copy = Copy
copy-code = Copy code
copied = Copied

# The machine
machine-lead = Your documents are read and commands are run in a machine of your own, shut off from the network.
machine-running = Running
machine-running-note = It is ready for questions and stops by itself when it is not used.
machine-stopped = Stopped
machine-stopped-note = A question starts it. Your files are kept.
machine-starting = Starting …
machine-stopping = Stopping …
machine-changing-note = This page follows along.
machine-start = Start machine
machine-stop = Stop machine
machine-none = This account has no machine.
machine-driver = Driver
machine-limits = limits: { $limits }
machine-isolation = Isolation
machine-isolation-sandbox = A sandbox on the host’s kernel: namespaces, a private root, an allowlist of system calls, limits
machine-isolation-kernel = A Linux kernel of its own, an unprivileged process inside a sandbox on the host
machine-isolation-vm = A virtual machine, whose process is unprivileged inside a sandbox on the host
machine-disk = Workspace
machine-memory = Memory
machine-files = { $count ->
    [one] one file or folder
   *[other] { $count } files and folders
}
machine-reason = Last change
machine-reason-start = A start was requested
machine-reason-stop = A stop was requested
machine-reason-answer = An answer began or ended
machine-reason-found-running = It was found running
machine-reason-found-stopped = It was not running yet
machine-reason-idle = It was not used
machine-reason-idle-memory = It was not used and held much memory
machine-reason-quota = The disk is nearly full and the files exceed what the account may hold
machine-reason-start-failed = The start failed
machine-reason-lost = It ended by itself or stopped responding
machine-reason-stop-failed = The stop failed

# Credits
credits-available = Available
credits-reserved = { $amount } reserved for answers in progress
credits-spent = Spent
credits-span = { $count ->
    [one] in the last day
   *[other] in the last { $count } days
}
credits-spans = Span
credits-days-count = { $count ->
    [one] One day
   *[other] { $count } days
}
credits-licence = Licence until
credits-by-day = By day
credits-by-model = By model
credits-share = Share
credits-steps-column = Steps
credits-tokens = Tokens
credits-no-model = other
credits-none = Nothing was spent yet.
credits-by-key = By key
credits-days = Every day
credits-no-key = The application
credits-most = at most { $amount } in a day
credits-amount = { $amount } credits
ledger = Ledger
ledger-lead = Every movement of credits, newest first. A step of an answer reserves the most that it can cost, then its price is settled and the rest released.
ledger-csv = Download as CSV
ledger-time = Time
ledger-kind = Movement
ledger-key = Key
ledger-grant = Granted
ledger-reserve = Reserved
ledger-settle = Settled
ledger-release = Released
ledger-revoked-key = revoked key
ledger-pages = Pages of the ledger
ledger-newer = Newer
ledger-older = Older

# Settings
settings = Settings
channels = Communication channels
licence = Licence
licence-until = Valid until { $day }
licence-days = { $count ->
    [one] one day left
   *[other] { $count } days left
}
licence-over = it has ended
licence-ended = The licence of this account has ended. You can still read, export and delete what is in it. Asking needs a licence: ask the operator of this service.
licence-note = When the licence ends, API keys stop working and nothing can be asked. Answers that are being written are finished. You can still sign in to read, export and delete everything.
account-new-email = New email
account-email-note = You sign in with it.
account-change-email = Change email
account-email-changed = The email was changed.
account-bad-email = This is not an email address.
account-email-taken = Another account has this email.
account-present-password = Current password
account-new-password = New password
account-again = New password again
account-password-note = At least 8 characters. Changing it signs you out everywhere else. API keys keep working.
account-change-password = Change password
account-password-changed = The password was changed, and all other sessions were ended.
account-not-the-same = The two new passwords are not the same.
account-wrong-password = The current password is wrong.
account-bad-password = A password has 8 to 1,024 bytes on one line.
account-no-password = You sign in at the identity provider. Ask the operator of this service for a password, or for another email.
account-sessions = Sessions
account-sessions-note = Where you are signed in. Signing out everywhere ends this session, too; API keys keep working.
account-this-session = this one
account-unknown-browser = Unknown browser
account-signed-in = Signed in
account-last-used = last used
account-end-session = Sign out { $browser }
account-session-ended = The session was ended.
account-sign-out-everywhere = Sign out everywhere
account-delete = Delete account
account-delete-note = All that belongs to this account is removed for good.
account-delete-ends = API keys and sessions end at once, answers that are being written stop. Conversations, files, the machine and the credits that are left are gone for good. Only the movements of credits are kept, without your name. Backups of the service may hold your data until they are replaced.
account-delete-sure = I understand that nothing can be restored.
account-delete-unsure = Confirm that nothing can be restored.
account-deleted = The account was deleted.

# The pages of operators
operator = Operator
operator-accounts = Accounts
operator-find = Email or identifier
operator-open = Open
operator-vendors = Vendors of models
operator-no-vendors = No vendor is configured; the built-in reader answers.
operator-address = Address
operator-state = State
operator-up = answers
operator-down = does not answer
operator-since = Since
operator-models = Models
operator-id = Identifier
operator-role = Role
operator-owner = Owner
operator-last-day = New last day
operator-licence-day = Last day of the licence
operator-set = Set licence
operator-amount = More credits
operator-grant = Grant credits
operator-delete-email = The account’s email, to confirm it
operator-delete-other = The account was not deleted: another email was entered.
operator-delete-own = Delete your own account on its page.
operator-bad-day = The last day of a licence is a date.
operator-bad-amount = Credits are a whole number.
operator-new = New account
operator-credits = Credits
operator-password = Password, unless it is set later
operator-create = Create the account
operator-email-taken = An account with this email exists already.
operator-access = Access
operator-password-ends = A new password ends all sessions of this account.
operator-set-password = Set the password
operator-make-operator = Make an operator
operator-make-owner = Take the role of an operator away
operator-not-own = Change your own password on your account’s page. Your own role is changed by another operator.
operator-audit = Audit log
operator-when = When
operator-who = Who
operator-what = What
operator-subject = Subject
operator-detail = Detail
operator-older = Older entries
audit-create-account = Create account
audit-delete-account = Delete account
audit-set-email = Set email
audit-set-role = Set role
audit-set-licence = Set licence
audit-grant-credits = Grant credits
audit-set-password = Set password
audit-change-password = Change password
audit-change-email = Change email
audit-bind-identity = Bind identity
audit-sign-in = Sign in
audit-sign-out = Sign out
audit-sign-out-everywhere = Sign out everywhere
audit-create-key = Create key
audit-revoke-key = Revoke key
audit-refused-key = Refused key
audit-start-machine = Start machine
audit-stop-machine = Stop machine
audit-reset-machine = Reset machine
audit-run-in-machine = Run in machine
audit-backup = Backup
audit-retry-job = Retry job
operator-plugins = Plugins
operator-plugin = Plugin
operator-skills = Skills
operator-agents = Agents
operator-servers = MCP servers
operator-notices = Problems
operator-no-notices = No problems were found in the plugins.
operator-place = Place
operator-effect = Effect
operator-problem = Problem
operator-skipped = skipped
operator-remark = remark
operator-more-notices = { $count ->
    [one] And one more.
   *[other] And { $count } more.
}
operator-settings = Settings in force
operator-settings-note = Changed in the configuration, effective after a restart. Secrets are not shown.
operator-no-settings = Nothing is configured; all settings have their defaults.
operator-key = Key
operator-value = Value
operator-origin = Origin
operator-defaults = Defaults

# Errors
error-title = That did not work
error-title-not-found = Not found
error-home = Back to the start
error-not-found = This page does not exist, or is not yours.
error-forbidden = This is not permitted.
error-foreign-origin = The request came from another site and was not carried out.
error-conversation-busy = The previous question is still being answered. Wait for its answer or stop it.
error-insufficient-credits = The credits do not cover a question. Ask the operator of this service for more.
error-no-machine = This account has no machine, so questions cannot be answered.
error-machine-not-running = The machine does not run. Start it first.
error-model-unavailable = No model is available right now. Try again later.
error-too-large = That is too large.
error-rate-limited = Too many requests. Try again in a moment.
error-unavailable = The service is not available right now. Try again in a moment.
error-internal = The service failed. Try again later.
error-invalid = The service refused this: { $reason }

# Documents that the machine shows
document-page = Page { $page }
document-slide = Slide { $page }
document-sheet = Sheet { $page }
document-section = Section { $page }
document-file = File { $page }
document-pages = Pages of the document
document-range = Pages { $pages }
document-range-files = Files { $pages }
document-text = Text of the page
document-previous = Back
document-next = Further
document-no-machine = Your machine shows documents, and it does not run. Start it and load this page again, or download the file.
