//! Words that show what kind of thing a text names: numbers, dates, money, places. All words are folded.
//!
//! An entry that ends with `*` is a prefix; others are whole words. Short prefixes would match words of the other
//! languages: `sto` (a hundred) begins `stored`, `maj` (May) begins `mají` (they have).

/// Words for places, and for places of files.
pub(super) const PLACES: &str = "\
    mist* miest* adres* address* ulic* street* road roads sidl* hotel* namest* budov* building* sal salu dvor dvore dvora \
    sklad skladu sklade warehouse* yard kancelar* office* room rooms skol* school* hall hala hale urad* mest* town towns \
    court courts soud soudu soude sud sudu sude venue* place places city cities ort orte ortes strasse* gebaude* haus hause \
    stadt stadte amt amtes gericht* \
    director* folder* file files adresar* slozk* soubor* subor* priecin* verzeichnis* ordner* datei* menu url";
/// Words of months and days of the week.
pub(super) const CALENDAR: &str = "\
    leden ledna lednu unor unora unoru brezen brezna breznu duben dubna dubnu kveten kvetna kvetnu cerven cervna cervnu \
    cervenec cervence cervenci srpen srpna srpnu zari rijen rijna rijnu listopad listopadu prosinec prosince prosinci \
    januar* februar* marec marca marci april* maja jun juna jul jula august* septem* oktober* oktobr* october* novem* \
    decem* january february june july marz juni juli dezember* \
    pondel* utery uterni utorok utorka streda stredu stredy ctvrtek ctvrtka stvrtok stvrtka patek patku piatok piatku \
    sobota sobotu soboty nedele nedeli nedela nedelu monday* tuesday* wednesday* thursday* friday* saturday* sunday* \
    montag* dienstag* mittwoch* donnerstag* freitag* samstag* sonntag*";
/// Months whose names are also other words.
pub(super) const MONTHS_BESIDE_NUMBERS: &str = "may march mai maj";
/// Words for hours of the day.
pub(super) const HOURS: &str = "hod hodin* hour* uhr";
/// Words that begin a condition.
pub(super) const CONDITIONS: &str = "\
    pokud jestlize li kdyz pri po az dnem ak ked dnom ihned okamzite if when once upon after before unless until while \
    wenn falls nach sobald bei sofern solange immediately";
/// Words before a number that refers to a part of a document.
pub(super) const REFERRING: &str = "\
    odst odstavec ods odsek pism cl clanek clanok bod bodu bode c abs absatz nr nummer satz art article section sec \
    paragraph para chapter kapitola kap kapitel page strana figure fig table tabulka tabulky";
pub(super) const UNITS: &str = "\
    tag tage tagen tages tagig* werktag* woch* monat* jahr* stunde* quartal* unbefrist* \
    den dne dni dnu dny dnem dnech dnom dnoch day days tyden tydn* tyzd* week* mesic* mesiac* month* rok roku roky rokov \
    rokom rokmi roce rocne rocni let letech letum leta lety year* hodin* hour* minut* sekund* second seconds ctvrtlet* \
    stvrtrok* quarter quarters pololet* polrok* doziv* neurcit*";
pub(super) const NUMERALS: &str = "\
    zwei zweier zweimal zweijahr* zweimonat* zweiwoch* drei* vier* funf* sechs* sechz* sieben* siebz* acht achtzehn achtzig \
    achtund* neun* zehn* elf zwolf* zwanzig* hundert* tausend* halb halbe halben halbes \
    jeden jedna jednu jedno jednoho jednom dva dve dvou dvema dvoch dvom dvoulet* dvouclen* dvojclen* tri trech trem troch trom \
    trilet* triclen* trojclen* ctyr* styr* pet peti petilet* peticlen* pat piati patich piatich sest sesti siest* sedm* sedem \
    siedm* osm osmi osem devet deviti devat deviat* deset deseti desat desiat* jedenact* jedenast* dvanact* dvanast* \
    trinact* trinast* ctrnact* strnast* patnact* patnast* sestnact* sestnast* osmnact* osemnast* devatenact* dvacet* \
    dvadsat* tricet* tridsat* padesat* patdesiat* sedesat* osmdesat* osemdesiat* devadesat* sto sta tisic* polovin* polovic* \
    dvojnas* trojnas* nekolik jednou dvakrat trikrat raz razy \
    one two three four five six seven eight nine ten eleven twelve thirteen* fourteen* fifteen* sixteen* seventeen* \
    eighteen* nineteen* twenty* thirty* forty* fifty* sixty* seventy* eighty* ninety* hundred* thousand* million* dozen* \
    half once twice quarterly monthly daily weekly annually";
/// Currencies and `per cent`.
pub(super) const CURRENCIES: &str = "\
    kc korun* czk eur euro euros eura eury eurov gbp usd dolar* dollar* pound pounds pence cent cents centu centov percent* \
    procent* prozent*";
/// Titles before or after a person's name.
pub(super) const TITLES: &str = "\
    ing mgr judr mudr rndr phdr bc dr mr mrs ms doc prof pani pan ltd sro inc gmbh";

/// Returns true when a list, separated by spaces, contains the word.
pub(super) fn list_contains(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Returns true when a word is in the list, or begins with a prefix of it.
pub(super) fn matches_list(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => word.starts_with(prefix),
        None => word == entry,
    })
}
