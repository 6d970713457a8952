# Texty webovej aplikácie v slovenčine.

# Okolo každej stránky
skip = Prejsť na obsah
menu = Ponuka
account = Účet
new-conversation = Nová konverzácia
conversations = Konverzácie
no-conversations = Zatiaľ tu nič nie je. Položte prvú otázku.
in-progress = Vzniká odpoveď
keys = Kľúče API
machine = Stroj
credits = Kredity
sign-out = Odhlásiť sa

# Prihlásenie
sign-in = Prihlásiť sa
sign-in-lead = Rozhovory s vašimi dokumentmi.
sign-in-hint = Nemáte účet alebo heslo? Obráťte sa na správcu služby.
sign-in-ended = Vaše prihlásenie sa skončilo. Prihláste sa znova.
sign-in-denied = E-mail alebo heslo nie je správne.
sign-in-provider-unavailable = Poskytovateľ identity neodpovedá. Skúste to neskôr.
sign-in-provider-refused = Poskytovateľ identity vás neprihlásil.
sign-in-provider-invalid = Toto prihlásenie už neplatí. Začnite znova.
sign-in-email-not-verified = Poskytovateľ identity váš e-mail neoveril.
sign-in-bound-to-another = K účtu s vaším e-mailom sa prihlasuje niekto iný. Obráťte sa na správcu služby.
sign-in-email-not-confirmed = E-mail účtu s vašou adresou si zvolil jeho vlastník a nikto ho nepotvrdil. Obráťte sa na správcu služby.
sign-in-no-account = Účet s vaším e-mailom neexistuje. Obráťte sa na správcu služby.
sign-in-throttled = { $seconds ->
    [one] Príliš veľa pokusov. Skúste to znova o sekundu.
    [few] Príliš veľa pokusov. Skúste to znova o { $seconds } sekundy.
   *[other] Príliš veľa pokusov. Skúste to znova o { $seconds } sekúnd.
}
email = E-mail
password = Heslo

# Prvý účet
welcome = Vitajte
welcome-lead = Vytvorte prvý účet tejto služby.
welcome-create = Vytvoriť účet
welcome-hint = Budete správcom: uvidíte a môžete meniť všetky účty. Licencia platí rok.
welcome-bad-email = Toto nie je e-mailová adresa.
welcome-bad-password = Heslo má 8 až 1 024 bajtov na jednom riadku.
welcome-not-invited = Odkaz už bol použitý alebo vypršal. Prihláste sa. Ak služba ešte nemá správcu, spustite ju znova a získate nový odkaz.

# Otázky
home-title = Čo by ste chceli vedieť?
home-lead = Pýtajte sa na svoje dokumenty. Odpovede uvádzajú, z čoho vychádzajú.
ask-label = Vaša otázka
ask-placeholder = Položte otázku …
ask-blank = Najprv napíšte otázku.
ask-conversation-gone = Táto konverzácia už neexistuje. Otázkou môžete začať novú.
follow-up-placeholder = Pýtajte sa ďalej …
model = Model
choices = Ďalšie voľby
choices-next = Voľby
choices-agent = Agent
choices-usual-agent = Predvolený
choices-skills = Zručnosti
choices-jurisdictions = Jurisdikcie
choices-more-skills = Ďalšie možno uviesť v rozhraní: { $count }.
model-degraded = často zlyháva
model-down = neodpovedá
web = Hľadať na webe
web-pages = Čítať webové stránky
send = Odoslať
stop = Zastaviť

# Konverzácia
conversation-more = Ďalšie
delete = Zmazať konverzáciu
delete-sure = Zmazať túto konverzáciu so všetkými odpoveďami?
earlier = Staršie správy
later = Novšie správy
you-asked = Opýtali ste sa
edit = Upraviť
retry = Skúsiť znova
retry-elsewhere = Iným modelom
cancel = Zrušiť
version = Verzia
version-previous = Predchádzajúca verzia
version-next = Ďalšia verzia
answer = Odpoveď
working = Pracujem …
connection-lost = Spojenie sa prerušilo. Nadväzuje sa znova …
reasoning = Úvaha
agent = Agent { $name }
sources = Zdroje
source-page = strana { $page }
source-slide = snímka { $slide }
source-sheet = hárok { $sheet }
source-section = oddiel { $section }
source-file = súbor { $file }
source-row = riadok { $row }
source-rows = riadky { $rows }
source-line = riadok { $line }
source-lines = riadky { $lines }
source-unproven = nedoložené
source-proven = Úryvok vetu dokladá.
source-unproven-quote = Nedoložené: v úryvku nie sú citované slová „{ $text }“.
source-unproven-number = Nedoložené: v úryvku nie je číslo { $text }.
source-unproven-date = Nedoložené: v úryvku nie je dátum ({ $text }).
source-unproven-name = Nedoložené: v úryvku nie je meno { $text }.
source-unproven-negation = Nedoložené: úryvok hovorí opak.
source-unproven-quantity = Nedoložené: úryvok uvádza pri „{ $text }“ inú hodnotu, jednotku alebo medzu.
source-unproven-participant = Nedoložené: úryvok to hovorí o niekom inom, než je „{ $text }“.
source-unproven-time-order = Nedoložené: úryvok uvádza iné poradie v čase (pred, po).
source-unproven-obligation = Nedoložené: úryvok uvádza inú povinnosť, dovolenie alebo zákaz.
source-unproven-words = Nedoložené: úryvok má s vetou málo spoločné.
cited-passage = Citovaný úryvok
cited-changed = Súbor sa od odpovede zmenil. Takto úryvok znel.
cited-gone = Súbor už v priečinkoch nie je: bol zmazaný alebo premenovaný. Odpoveď si citovaný úryvok uchovala.
cited-back = Späť k odpovedi
found-more = ďalšie: { $count }
source-open = Otvoriť zdroj
tool-search = Prehľadávanie dokumentov
tool-read = Čítanie dokumentu
tool-view = Prezeranie strán
tool-list = Výpis priečinka
tool-find = Hľadanie súborov
tool-write = Zápis súboru
tool-edit = Úprava súboru
tool-shell = Spustenie príkazu
tool-attached-files = Čítanie priložených súborov
tool-ask-user = Otázka pre vás
tool-web-search = Hľadanie na webe
tool-web-fetch = Čítanie webovej stránky
tool-skill = Otvorenie zručnosti
tool-other = Použitie nástroja { $name }
answer-stopped = Zastavené. Čo je napísané, zostáva.
answer-complete = Odpoveď je hotová.
answer-cost = { $count ->
    [one] Cena: jeden kredit
    [few] Cena: { $count } kredity
   *[other] Cena: { $count } kreditov
}
answer-model-unavailable = Model nie je dostupný. Opýtajte sa znova neskôr.
answer-model-rejected = Model požiadavku odmietol.
answer-model-key-refused = Poskytovateľ modelu neprijíma kľúč tejto služby. Príčinou nie je vaša otázka: dajte, prosím, vedieť správcovi.
answer-model-unpaid = Účet tejto služby u poskytovateľa modelu nemá kredit. Príčinou nie je vaša otázka: dajte, prosím, vedieť správcovi.
answer-agent-unavailable = Zvolený agent už nie je k dispozícii. Opýtajte sa znova s iným.
answer-context-too-long = Konverzácia je pre model príliš dlhá. Začnite novú.
answer-insufficient-credits = Kredity účtu nestačia na zvyšok odpovede.
answer-spending-limit = Kľúč, ktorým bola otázka položená, vyčerpal svoj limit.
answer-machine-failed = Stroj účtu zlyhal. Opýtajte sa znova neskôr.
answer-too-many-steps = Odpoveď mala príliš veľa krokov.
answer-output-exhausted = Odpoveď nie je úplná: model dosiahol limit svojho výstupu.
answer-model-refused = Model odmietol odpovedať.
answer-reply-overdue = Odpoveď bola ukončená, pretože na niečo čakala a včas to nedostala. Ak ju ešte potrebujete, opýtajte sa znova.
answer-interrupted = Odpoveď bola ukončená, pretože služba bola obnovená zo zálohy. Ak ju ešte potrebujete, opýtajte sa znova.
answer-internal = Služba zlyhala. Opýtajte sa znova neskôr.

# História
history = História
history-all = Všetky konverzácie
history-search = Hľadať v konverzáciách
history-find = Hľadať
history-indexing = Staršie konverzácie sa do hľadania ešte len pridávajú. O chvíľu hľadajte znova.
history-none = Pre „{ $words }“ sa nič nenašlo.
history-pin = Pripnúť
history-unpin = Odopnúť
history-pinned = pripnuté
history-rename = Premenovať
history-title = Názov
history-through = Založená kľúčom
history-more = Ďalšie konverzácie
print = Tlač
print-hint = Stránku vytlačíte alebo uložíte ako PDF príkazom prehliadača na tlač.
print-cut = Staršie správy sú vynechané. Celá konverzácia je v exporte do Markdownu.

# Súbory
files = Súbory
files-home = Súbory
files-path = Cesta
files-choose = Vybrať súbory
files-upload = Nahrať
files-uploaded = Nahrané
files-cancel = Zrušiť nahrávanie
files-cancel-all = Zrušiť všetky nahrávania
files-cancelled = Nahrávanie bolo zrušené.
files-waiting = Čaká
picture-enlarge = Zväčšiť obrázok
picture-close = Zavrieť
picture-full-size = Skutočná veľkosť
files-drop = Pustite súbory a nahrajú sa sem
files-new-folder = Nový priečinok
files-folder-name = Názov priečinka
files-make-folder = Vytvoriť
files-upload-folder = Alebo nahrajte priečinok
files-archive = Stiahnuť ako ZIP
files-download = Stiahnuť
files-delete = Zmazať
files-delete-sure = Zmazať „{ $name }“ natrvalo?
files-delete-folder-sure = Zmazať priečinok „{ $name }“ so všetkým, čo v ňom je?
files-more = Ďalšie možnosti: { $name }
files-choose-one = Vybrať { $name }
files-choose-all = Vybrať všetko
files-chosen = Vybrané: { $count }
files-ask = Opýtať sa
files-ask-chosen = Opýtať sa
files-empty = Zatiaľ tu nič nie je. Nahrajte dokumenty a potom sa na ne pýtajte.
files-count = { $count ->
    [one] Jedna položka
    [few] { $count } položky
   *[other] { $count } položiek
}
files-rename = Premenovať
files-move = Presunúť
files-new-name = Nový názov
files-destination = Presunúť do priečinka
files-destination-note = Cesta k priečinku, napríklad /uploads. Nič sa v ňom neprepíše.
files-delete-chosen-sure = Zmazať to všetko natrvalo? Priečinky sa zmažú so všetkým, čo v nich je.
files-renamed = Premenované.
files-moved = Presunuté: { $count }
files-deleted = Zmazané: { $count }
files-choose-first = Najprv vyberte súbory alebo priečinky.
files-choose-fewer = Naraz možno vybrať najviac { $count } súborov a priečinkov.
files-into-itself = Priečinok nemožno presunúť do seba samého. Vyberte iný priečinok.
files-no-folder = Taký priečinok neexistuje. Vyberte existujúci.
files-search = Hľadať podľa názvu
files-find = Hľadať
files-sort = Poradie
files-sort-name = Názov od A po Z
files-sort-name-down = Názov od Z po A
files-sort-date-down = Od najnovších
files-sort-date = Od najstarších
files-sort-size-down = Od najväčších
files-sort-size = Od najmenších
files-none-found = Žiadny názov tu neobsahuje „{ $words }“.
files-search-cut = Môže ich byť viac ako týchto { $count }. Zadajte viac slov alebo hľadajte v niektorom z vnorených priečinkov.
files-pages = Stránky priečinka
files-previous = Predchádzajúca stránka
files-next = Ďalšia stránka
files-no-preview = Tento súbor sa tu nezobrazuje. Stiahnite si ho.
files-cut = Zobrazená je len časť. Celý súbor si stiahnite.
files-none-chosen = Najprv vyberte súbor.
files-too-many = Naraz možno nahrať najviac { $count } súborov.
files-broken-off = Nahrávanie sa prerušilo. Skúste to znova.
files-proxied = Proxy pred službou odmieta požiadavky tejto veľkosti. Limit môže zvýšiť správca.
files-empty-file = Súbor je prázdny.
files-exists = Súbor alebo priečinok s týmto názvom už existuje.
files-bad-name = Tento názov nemožno použiť: obsahuje lomku alebo spätnú lomku, je to „.“ alebo „..“, alebo je vyhradený.
files-no-name = Tento názov nemožno použiť: je prázdny.
files-long-name = Tento názov nemožno použiť: je dlhší ako 255 bajtov.
files-full = Úložisko je plné. Najprv niečo zmažte.
files-over-quota = Súbor je väčší než povolená veľkosť celého úložiska.
files-disk-full = Disk tejto služby je plný. Obráťte sa na jej správcu.
files-archive-too-large = Tento priečinok je na archív príliš veľký. Stiahnite jeho priečinky po jednom.
indexing-pending = Zatiaľ neprečítané
indexing-progress = Číta sa: { $percent } %
indexing-partial = Prečítané sčasti
indexing-unreadable = Nedá sa prečítať
unread-encrypted = Je zašifrovaný a potrebuje heslo.
unread-no-text = Nemá žiadny text; môže to byť sken, ktorého text sa nerozpoznal.
unread-unknown-form = Tento formát nie je podporovaný.
unread-too-large = Je príliš veľký.
unread-broken = Je poškodený.
unread-too-slow = Čítanie trvá príliš dlho.
unread-too-much-memory = Čítanie potrebuje príliš veľa pamäte.
unread-image = Je to obrázok. Použijú ho len modely, ktoré vidia.
unread-missing = Už neexistuje.
unread-long = Je dlhší než časť, ktorá sa z dokumentu číta.
unread-scanned-pages = Niektoré strany sú skeny, ktorých text sa nerozpoznal.
unread-images = Text niektorých obrázkov v ňom sa neprečítal ({ $causes }).
unread-images-too-large = príliš veľké: { $count }
unread-images-too-slow = trvali príliš dlho: { $count }
unread-images-too-many = nad limit počtu: { $count }
unread-images-failed = nerozpoznateľné: { $count }
unread-inner-files = Niektoré súbory v ňom sa nedajú prečítať.
unread-label-encrypted = Zašifrované
unread-label-no-text = Bez textu
unread-label-unknown-form = Neznámy formát
unread-label-too-large = Príliš veľký
unread-label-broken = Poškodené
unread-label-too-slow = Trvá príliš dlho
unread-label-too-much-memory = Príliš veľa pamäte
unread-label-image = Obrázok
attach = Priložiť súbory
attach-waiting = Otázka sa odošle, keď budú súbory nahrané.
attach-remove = Odobrať

# Kľúče API
keys-lead = Pomocou kľúča sa programy pýtajú vo vašom mene.
keys-docs = Ako ich používať
keys-new = Vytvoriť nový kľúč
keys-name = Názov
keys-name-hint = Na čo slúži
keys-may = Oprávnenia
keys-all = všetko
keys-life = Platnosť
keys-life-licence = počas licencie
keys-life-days = { $count ->
    [one] jeden deň
    [few] { $count } dni
   *[other] { $count } dní
}
keys-limit = Limit útraty v kreditoch
keys-limit-hint = žiadny
keys-make = Vytvoriť kľúč
keys-made = Kľúč „{ $name }“ je pripravený
keys-made-note = Skopírujte si ho teraz. Znova sa nezobrazí.
keys-made-before = Kľúč „{ $name }“ už bol vytvorený
keys-made-before-note = Zobrazil sa len raz. Ak ho nemáte, zneplatnite ho a vytvorte iný.
keys-first-question = Položte prvú otázku
keys-example-question = Čo je v mojich dokumentoch?
keys-created = Vytvorený
keys-used = Naposledy použitý
keys-never = nikdy
keys-expires = Platí do
keys-expired = Platnosť sa skončila
keys-spent = Minuté
keys-revoke = Zneplatniť
keys-revoke-named = Zneplatniť { $name }
keys-credits = Kredity, 30 dní
keys-revoke-sure = Programy s týmto kľúčom okamžite prestanú fungovať.
keys-none = Nie sú tu žiadne kľúče.
keys-bad-name = Kľúč musí mať názov s najviac 256 bajtmi a limit útraty aspoň 1.
keys-bad-limit = Limit útraty musí byť celé číslo.
keys-bad-life = Zvoľte, ako dlho kľúč platí.
keys-no-permission = Zvoľte aspoň jedno oprávnenie.
permission-read = čítať konverzácie
permission-ask = klásť otázky
permission-files = používať súbory
permission-machine = spúšťať a zastavovať stroj
copy = Kopírovať
copy-code = Kopírovať kód
copied = Skopírované

# Stroj
machine-lead = Vaše dokumenty sa čítajú a príkazy spúšťajú vo vašom vlastnom stroji, oddelenom od siete.
machine-running = Beží
machine-running-note = Je pripravený na otázky. Keď sa nepoužíva, sám sa zastaví.
machine-stopped = Zastavený
machine-stopped-note = Spustí ho otázka. Vaše súbory zostávajú.
machine-starting = Spúšťa sa …
machine-stopping = Zastavuje sa …
machine-changing-note = Stránka sa sama obnovuje.
machine-start = Spustiť stroj
machine-stop = Zastaviť stroj
machine-none = Tento účet nemá stroj.
machine-driver = Ovládač
machine-limits = limity: { $limits }
machine-isolation = Oddelenie
machine-isolation-sandbox = Sandbox na jadre hostiteľa: menné priestory, vlastný koreň, zoznam povolených systémových volaní, limity
machine-isolation-kernel = Vlastné jadro Linuxu, neprivilegovaný proces v sandboxe na hostiteli
machine-isolation-vm = Virtuálny stroj, ktorého proces je neprivilegovaný v sandboxe na hostiteli
machine-disk = Úložisko
machine-memory = Pamäť
machine-files = { $count ->
    [one] jeden súbor alebo priečinok
    [few] { $count } súbory a priečinky
   *[other] { $count } súborov a priečinkov
}
machine-reason = Posledná zmena
machine-reason-start = Bolo vyžiadané spustenie
machine-reason-stop = Bolo vyžiadané zastavenie
machine-reason-answer = Odpoveď sa začala alebo skončila
machine-reason-found-running = Bežal ďalej, keď sa služba znova spustila
machine-reason-found-stopped = Ešte nebežal
machine-reason-idle = Nepoužíval sa
machine-reason-idle-memory = Nepoužíval sa a zaberal veľa pamäte
machine-reason-quota = Disk je takmer plný a súbory presahujú kvótu účtu
machine-reason-start-failed = Spustenie sa nepodarilo
machine-reason-lost = Sám sa skončil alebo prestal odpovedať
machine-reason-stop-failed = Zastavenie sa nepodarilo

# Kredity
credits-available = K dispozícii
credits-reserved = { $amount } rezervované pre vznikajúce odpovede
credits-spent = Minuté
credits-span = { $count ->
    [one] za posledný deň
    [few] za posledné { $count } dni
   *[other] za posledných { $count } dní
}
credits-spans = Obdobie
credits-days-count = { $count ->
    [one] Jeden deň
    [few] { $count } dni
   *[other] { $count } dní
}
credits-licence = Licencia do
credits-by-day = Podľa dňa
credits-by-model = Podľa modelu
credits-share = Podiel
credits-steps-column = Kroky
credits-tokens = Tokeny
credits-no-model = ostatné
credits-none = Zatiaľ sa nič neminulo.
credits-by-key = Podľa kľúča
credits-days = Deň po dni
credits-no-key = Aplikácia
credits-most = najviac { $amount } za deň
credits-amount = kredity: { $amount }
credits-days-utc = Dni sa začínajú o polnoci UTC
ledger = Účtovná kniha
ledger-lead = Každý pohyb kreditov, od najnovšieho. Krok odpovede rezervuje najviac, čo môže stáť. Z toho sa minie jeho cena a zvyšok sa uvoľní.
ledger-csv = Stiahnuť ako CSV
ledger-time = Čas
ledger-kind = Pohyb
ledger-key = Kľúč
ledger-grant = Pripísané
ledger-reserve = Rezervované
ledger-settle = Minuté
ledger-release = Uvoľnené
ledger-revoked-key = zneplatnený kľúč
ledger-pages = Stránky účtovnej knihy
ledger-newer = Novšie
ledger-older = Staršie

# Nastavenia
settings = Nastavenia
channels = Komunikačné kanály
licence = Licencia
licence-until = Platí do { $day }
licence-days = { $count ->
    [one] zostáva jeden deň
    [few] zostávajú { $count } dni
   *[other] zostáva { $count } dní
}
licence-over = skončila sa
licence-ended = Licencia tohto účtu sa skončila. Môžete ďalej čítať, exportovať a mazať, čo v ňom je. Na otázky treba licenciu: obráťte sa na správcu tejto služby.
licence-note = Keď sa licencia skončí, prestanú fungovať kľúče API a nebude možné sa pýtať. Vznikajúce odpovede sa dokončia. Ďalej sa môžete prihlásiť a všetko čítať, exportovať a mazať.
account-new-email = Nový e-mail
account-email-note = Slúži na prihlásenie.
account-change-email = Zmeniť e-mail
account-email-changed = E-mail je zmenený.
account-bad-email = Toto nie je e-mailová adresa.
account-email-taken = Tento e-mail má iný účet.
account-present-password = Súčasné heslo
account-new-password = Nové heslo
account-again = Nové heslo znova
account-password-note = Najmenej 8 znakov. Zmena vás všade inde odhlási. Kľúče API fungujú ďalej.
account-change-password = Zmeniť heslo
account-password-changed = Heslo je zmenené a ostatné prihlásenia sa skončili.
account-not-the-same = Nové heslá sa nezhodujú.
account-wrong-password = Súčasné heslo nie je správne.
account-bad-password = Heslo má 8 až 1 024 bajtov na jednom riadku.
account-no-password = Prihlasujete sa u poskytovateľa identity. O heslo alebo iný e-mail požiadajte správcu služby.
account-sessions = Prihlásenia
account-sessions-note = Kde ste prihlásení. Odhlásenie všade ukončí aj toto prihlásenie; kľúče API fungujú ďalej.
account-this-session = tu
account-unknown-browser = Neznámy prehliadač
account-signed-in = Prihlásené
account-last-used = naposledy použité
account-end-session = Odhlásiť: { $browser }
account-session-ended = Prihlásenie bolo ukončené.
account-sign-out-everywhere = Odhlásiť sa všade
account-delete = Zmazať účet
account-delete-note = Všetko, čo k tomuto účtu patrí, bude nenávratne odstránené.
account-delete-ends = Kľúče API a prihlásenia sa skončia hneď, rozpísané odpovede sa zastavia. Konverzácie, súbory, stroj a zvyšné kredity nenávratne zmiznú. Zostanú len pohyby kreditov, bez mena. Zálohy služby môžu dáta obsahovať, kým ich nenahradia novšie.
account-delete-sure = Rozumiem, že sa nič nebude dať obnoviť.
account-delete-unsure = Potvrďte, že sa nič nebude dať obnoviť.
account-deleted = Účet je zmazaný.

# Stránky správcov
operator = Správca
operator-accounts = Účty
operator-find = E-mail alebo identifikátor
operator-open = Otvoriť
operator-vendors = Poskytovatelia modelov
operator-no-vendors = Žiadny poskytovateľ nie je nastavený; odpovedá vstavaná čítačka.
operator-address = Adresa
operator-state = Stav
operator-up = odpovedá
operator-down = neodpovedá
operator-since = Od
operator-models = Modely
operator-id = Identifikátor
operator-role = Rola
operator-owner = Vlastník
operator-last-day = Nový posledný deň
operator-licence-day = Posledný deň licencie
operator-set = Nastaviť licenciu
operator-amount = Ďalšie kredity
operator-grant = Pripísať kredity
operator-delete-email = E-mail účtu na potvrdenie
operator-delete-other = Účet nebol zmazaný: bol zadaný iný e-mail.
operator-delete-own = Vlastný účet zmažte na jeho stránke.
operator-bad-day = Posledný deň licencie musí byť dátum.
operator-bad-amount = Počet kreditov musí byť celé číslo.
operator-new = Nový účet
operator-credits = Kredity
operator-password = Heslo, ak sa nenastaví neskôr
operator-create = Založiť účet
operator-email-taken = Účet s týmto e-mailom už existuje.
operator-access = Prístup
operator-password-ends = Nové heslo ukončí všetky prihlásenia tohto účtu.
operator-set-password = Nastaviť heslo
operator-make-operator = Urobiť správcom
operator-make-owner = Odobrať rolu správcu
operator-not-own = Vlastné heslo zmeňte na stránke svojho účtu. Vlastnú rolu zmení iný správca.
operator-audit = Protokol udalostí
operator-when = Kedy
operator-who = Kto
operator-what = Čo
operator-subject = Predmet
operator-detail = Podrobnosti
operator-older = Staršie záznamy
audit-create-account = Založenie účtu
audit-delete-account = Zmazanie účtu
audit-set-email = Nastavenie e-mailu
audit-set-role = Nastavenie roly
audit-set-licence = Nastavenie licencie
audit-grant-credits = Pripísanie kreditov
audit-set-password = Nastavenie hesla
audit-change-password = Zmena hesla
audit-change-email = Zmena e-mailu
audit-bind-identity = Pripojenie identity
audit-sign-in = Prihlásenie
audit-sign-out = Odhlásenie
audit-sign-out-everywhere = Odhlásenie všade
audit-create-key = Vytvorenie kľúča
audit-revoke-key = Zneplatnenie kľúča
audit-refused-key = Odmietnutie kľúča
audit-start-machine = Spustenie stroja
audit-stop-machine = Zastavenie stroja
audit-reset-machine = Reset stroja
audit-run-in-machine = Príkaz v stroji
audit-backup = Záloha
audit-retry-job = Zopakovanie úlohy
audited-by-password = Heslo
audited-by-provider = Poskytovateľ identity
audited-command-line = príkazový riadok, uid { $uid }
audited-key = kľúč { $key }
operator-plugins = Pluginy
operator-plugin = Plugin
operator-skills = Zručnosti
operator-agents = Agenti
operator-servers = Servery MCP
operator-notices = Problémy
operator-no-notices = V pluginoch sa nenašli žiadne problémy.
operator-place = Miesto
operator-effect = Následok
operator-problem = Problém
operator-skipped = vynechané
operator-remark = poznámka
operator-more-notices = { $count ->
    [one] A ešte jeden.
    [few] A ešte { $count }.
   *[other] A ešte { $count }.
}
operator-settings = Platné nastavenia
operator-settings-note = Menia sa v konfigurácii a platia po reštarte. Tajné hodnoty sa nezobrazujú.
operator-no-settings = Nič nie je nastavené; všade platia predvolené hodnoty.
operator-key = Kľúč
operator-value = Hodnota
operator-origin = Pôvod
operator-defaults = Predvolené hodnoty

# Chyby
error-title = To sa nepodarilo
error-title-not-found = Nenájdené
error-home = Späť na začiatok
error-not-found = Táto stránka neexistuje alebo nie je vaša.
error-forbidden = To nie je dovolené.
error-foreign-origin = Požiadavka prišla z iného webu a nebola vykonaná.
error-conversation-busy = Predchádzajúca otázka sa ešte zodpovedá. Počkajte na odpoveď alebo ju zastavte.
error-insufficient-credits = Kredity na otázku nestačia. O ďalšie požiadajte správcu služby.
error-no-machine = Tento účet nemá stroj, takže na otázky nemožno odpovedať.
error-machine-not-running = Stroj nebeží. Najprv ho spustite.
error-model-unavailable = Práve nie je dostupný žiadny model. Skúste to neskôr.
error-too-large = To je príliš veľké.
error-rate-limited = Príliš veľa požiadaviek. Skúste to o chvíľu.
error-unavailable = Služba práve nie je dostupná. Skúste to o chvíľu.
error-internal = Služba zlyhala. Skúste to neskôr.
error-invalid = Služba to odmietla: { $reason }

# Dokumenty, ktoré ukazuje stroj
document-page = Strana { $page }
document-slide = Snímka { $page }
document-sheet = Hárok { $page }
document-section = Oddiel { $page }
document-file = Súbor { $page }
document-pages = Strany dokumentu
document-range = Strany { $pages }
document-range-files = Súbory { $pages }
document-text = Text strany
document-previous = Späť
document-next = Ďalej
document-no-machine = Dokumenty ukazuje váš stroj, a ten nebeží. Spustite ho a načítajte stránku znova alebo súbor stiahnite.
